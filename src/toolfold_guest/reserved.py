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

_TYPING: Final = frozenset(
    {"Any", "Callable", "Dict", "FrozenSet", "Generator", "Iterable", "Iterator", "List", "Literal", "Mapping",
     "NamedTuple", "Optional", "Sequence", "Set", "Tuple", "TypedDict", "Union"}
)  # fmt: skip
NOTEBOOK_NAMES: Final = _TYPING | {"describe_files", "display", "final_answer"}
"""Names that programs use as if an earlier cell had imported them."""
NOTEBOOK_MODULES: Final = frozenset({"IPython", "nest_asyncio"})
"""Modules that programs can import although they are not installed."""

DATA_LIBRARIES: Final = (
    "numpy", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.font_manager", "matplotlib.backends.backend_agg",
)  # fmt: skip
SCIENCE_LIBRARIES: Final = ("scipy", "scipy.stats", "scipy.optimize", "sklearn", "sklearn.linear_model")
"""A set of their own: twice the memory of `data`, and few programs need them."""
