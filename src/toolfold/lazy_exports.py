"""Lazy exports of a package: names that are imported on their first use, so that the package itself loads fast."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


# Any: the type of each name is known to type checkers from the package's imports under `TYPE_CHECKING`.
def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        package: Its `__name__`.
        modules: The module of each name.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
