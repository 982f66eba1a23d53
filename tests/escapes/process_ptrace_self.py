"""Lets itself be traced, or traces: a tracer rewrites system calls after the filter."""

STOPPED_BY = {"seccomp"}

if kernel("ptrace", 0, 0, 0, 0) == 0:
    print("REACHED")
