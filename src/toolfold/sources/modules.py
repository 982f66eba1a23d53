"""Python files as modules, and functions by import path: `package.module:name`, `/folder/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import UsageError

if TYPE_CHECKING:
    from toolfold.sources.function_signature import Function

_PREFIX: Final = "toolfold_user_tools_"
_numbers: Final = itertools.count(1)


def import_file(path: str) -> ModuleType:
    """The file as a module of its own; siblings of the file are importable while it is, as in `python FILE`.

    Raises:
        UsageError: Its name is not a Python file's.
    """
    # Its own name per file: two files called tools.py are two modules.
    name = f"{_PREFIX}{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise UsageError(f"tools file {path!r} is not Python; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Annotations are resolved through `sys.modules`.
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def import_path_of(function: Function) -> str:
    """Where another process finds this very function; empty where it does not."""
    name: str = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    # The script itself has a name here only.
    if module is None or module.__name__ == "__main__" or _attribute_of(module, name) is not function:
        return ""
    location = str(module.__file__) if module.__name__.startswith(_PREFIX) else module.__name__
    return f"{location}:{name}"


class FunctionImporter:
    """Finds functions by their places; a file is imported once."""

    def __init__(self) -> None:
        self._files: dict[str, ModuleType] = {}

    # Any: whatever is there.
    def find(self, import_path: str) -> Any:
        """What `place_of` means.

        Raises:
            UsageError: It is not here; the text says why.
        """
        location, _, name = import_path.rpartition(":")
        try:
            function = _attribute_of(self._module(location), name)
        # Whatever the module raises while it is imported.
        except (Exception, SystemExit) as error:
            raise UsageError(f"{location!r} cannot be imported: {type(error).__name__}: {error}") from error
        if function is None:
            raise UsageError(f"{location!r} has no {name!r}")
        return function

    def _module(self, location: str) -> ModuleType:
        if not location.endswith(".py"):
            return importlib.import_module(location)
        if location not in self._files:
            self._files[location] = import_file(location)
        return self._files[location]


# Any: whatever is there.
def _attribute_of(module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return value
