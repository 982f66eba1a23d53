"""Names that a program has without binding them."""

from __future__ import annotations

import builtins
from typing import Final

from toolfold_guest.notebook import READY as NOTEBOOK_NAMES

PRESET_NAMES: Final = (
    "json", "re", "datetime", "asyncio", "math", "random", "time", "collections", "itertools", "functools",
    "statistics", "os", "sys", "base64", "hashlib", "uuid", "textwrap", "string", "decimal", "csv", "io", "pathlib",
    "typing", "dataclasses", "np", "pd", "plt", "numpy", "pandas", "matplotlib", "scipy", "sklearn",
)  # fmt: skip
"""Modules that the guest has ready without an import."""

DATA_NAMES: Final = frozenset({"np", "pd", "plt", "numpy", "pandas", "matplotlib"})
"""Presets that only the library set `data` has loaded."""

SCIENCE_NAMES: Final = frozenset({"scipy", "sklearn"})
"""Presets that only the library set `science` has loaded, on top of those of `data`."""

DATA_MODULES: Final = frozenset({"numpy", "pandas", "matplotlib", "plotly"})
"""Importing one of these is quick where the library set `data` is loaded."""

SCIENCE_MODULES: Final = frozenset({"scipy", "sklearn", "seaborn", "statsmodels"})
"""Importing one of these is quick in the library set `science` only."""

GUEST_NAMES: Final = frozenset({"ToolError", "search_tools", "tools"})
"""What the guest adds to every program."""

ANY_TOOL: Final = "__any__"
"""A tool of this name stands behind every attribute of `tools` that has none of its own; the guest knows it, too."""

READY_NAMES: Final = (
    frozenset(dir(builtins))
    | frozenset({"exit", "quit", "copyright", "credits", "license", "__annotations__", "__builtins__", "__file__"})
    | GUEST_NAMES
    | NOTEBOOK_NAMES
    | frozenset(PRESET_NAMES)
)
"""Every name that is defined before the first line, apart from the tools."""
