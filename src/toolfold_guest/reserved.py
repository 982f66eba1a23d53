"""The names with a meaning of their own in every program: one table for naming, check, engines and guest."""

import builtins
from typing import Final

GUEST_NAMES: Final = frozenset({"ToolError", "describe_files", "search_tools", "tools"})
"""What the guest adds to every program."""
ANY_TOOL: Final = "__any__"
"""The tool behind every attribute of `tools` that has none of its own, where the caller alone knows its tools."""

_UNUSED: Final = frozenset({"copyright", "credits", "license"})  # of the interactive prompt; no program calls them
# `search_tools` is a tool itself. `exit`, `help` and `quit` are builtins only where `site` was imported.
_ADDED: Final = (GUEST_NAMES - {"search_tools"}) | {"asyncio", "exit", "help", "json", "quit"}

RESERVED: Final = (frozenset(name for name in dir(builtins) if not name.startswith("_")) | _ADDED) - _UNUSED
"""A tool of such a name is called `<name>_tool`, and also `tools.<name>`, which hides nothing."""
