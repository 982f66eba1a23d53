"""Names that a program has without binding them."""

from __future__ import annotations

import builtins
from typing import Final

from toolfold_guest import reserved
from toolfold_guest.reserved import NOTEBOOK_NAMES

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

# The guest's, for the doors, which know nothing of the guest.
GUEST_NAMES: Final = reserved.GUEST_NAMES
ANY_TOOL: Final = reserved.ANY_TOOL

READY_NAMES: Final = (
    frozenset(dir(builtins))
    | frozenset({"exit", "quit", "copyright", "credits", "license", "__annotations__", "__builtins__", "__file__"})
    | GUEST_NAMES
    | NOTEBOOK_NAMES
    | frozenset(PRESET_NAMES)
)
"""Every name that is defined before the first line, apart from the tools."""
