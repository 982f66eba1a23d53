"""Names that no tool takes from a program: the one table for naming, check and guest."""

import builtins

_UNUSED = frozenset({"copyright", "credits", "license"})  # of the interactive prompt; no program calls them

RESERVED = (
    frozenset(name for name in dir(builtins) if not name.startswith("_"))
    # `exit`, `help` and `quit` are builtins only where `site` was imported.
    | {"ToolError", "asyncio", "exit", "help", "json", "quit", "tools"}
) - _UNUSED
"""A tool of such a name is called `<name>_tool`, and also `tools.<name>`, which hides nothing."""
