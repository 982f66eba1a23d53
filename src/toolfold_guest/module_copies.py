"""Private names of the guest: its own builtins and modules, whatever a program does to those that it shares.

A program may delete `builtins.len` or patch `os.pread`: what it sees then is its own affair, but its calls, its output
and its end still go through code in the same process. So that code has a copy of the builtins, and so have the few
modules of the standard library that it cannot do without; and its modules hold copies of those that they import.
Imported before all others in the zygote, because a function keeps the builtins that it was defined with.
"""

import builtins
import importlib.machinery
import sys
import types
import zipimport

_STDLIB = frozenset(
    {"_weakrefset", "asyncio", "collections", "concurrent", "contextlib", "enum", "functools", "heapq", "json",
     "linecache", "re", "selectors", "threading", "traceback", "types", "weakref"}
)  # fmt: skip
"""None of them calls what programs usually patch, such as `open` and `input`."""
_SHARED = frozenset({"builtins", "sys", "time", "warnings"})
"""Of which the guest reads what the program set, or sets what the program reads."""
_CHANGE_MODULES = frozenset(
    {"toolfold_guest.calls.pending_call", "toolfold_guest.program.replay", "toolfold_guest.stdlib.interpreter_patches"}
)
_builtins = dict(vars(builtins))


_LOADERS: tuple[type, ...] = (importlib.machinery.SourceFileLoader, zipimport.zipimporter)
"""The second of the standard library on WebAssembly."""


def give_builtins() -> None:
    """Until `take_back_builtins`, modules of the guest and those above are loaded with a copy."""
    for loader in _LOADERS:
        setattr(loader, "create_module", _create_module)  # noqa: B010  # mypy knows it as a method


def take_back_builtins() -> None:
    for loader in _LOADERS:
        delattr(loader, "create_module")  # the same


def _create_module(_: object, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
    if spec.name.partition(".")[0] not in _STDLIB | {"toolfold_guest"}:
        return None
    module = types.ModuleType(spec.name)
    # An import adds its own only if there are none.
    vars(module)["__builtins__"] = _builtins
    return module


def copy_modules() -> None:
    """Have the guest's modules call copies of what they imported; after all that is changed in it for programs."""
    copies: dict[str, types.ModuleType] = {}
    for name in [name for name in sys.modules if name.startswith("toolfold_guest.") and name not in _CHANGE_MODULES]:
        names = vars(sys.modules[name])
        for key, module in list(names.items()):
            if type(module) is not types.ModuleType or module.__name__.startswith("toolfold_guest"):
                continue
            if module.__name__ not in _SHARED:
                names[key] = copies.setdefault(module.__name__, _copy(module))


def _copy(module: types.ModuleType) -> types.ModuleType:
    copy = types.ModuleType(module.__name__)
    vars(copy).update(vars(module))
    return copy


give_builtins()
