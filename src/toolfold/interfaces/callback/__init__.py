"""Calls from a program in the child back to its parent process, as an MCP extension on their one connection.

The child answers `tools/call` with the calls that the program has open; the parent answers each
batch with one `toolfold/resume`, whose result is the next batch or the end:

    parent                              child
    tools/call programmatic_tool_calling  →  Runtime.start
           ←  toolfold/calls [a, b]          the program waits
    toolfold/resume [reply a]             →  Runtime.resume
           ←  calls [c]                      b is still open
    toolfold/resume [reply b, reply c]    →
           ←  final                          the outcome as JSON
"""
