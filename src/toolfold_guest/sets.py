"""Packages that the operator installed for programs: on the path of the programs that import them, and of no others."""

import importlib
import sys
from collections.abc import Sequence

from toolfold_guest import preload
from toolfold_guest.jail import kernel

_paths: dict[str, str] = {}
_place = [0]
"""After the standard library, which nothing may hide, and before the other packages."""


def prepare(paths: dict[str, str], own: Sequence[str], place: int) -> None:
    """In the zygote, where nothing is imported from any of them unless a set is its `own`: path and modules."""
    _paths.update(paths)
    _place[0] = place
    if own:
        path, *modules = own
        _add(path)
        for name in modules:
            _load(name)
        preload.exercise()


def use(name: str) -> None:
    """Have a program find the packages of a set; one that was installed anew since the program began has its place."""
    path = _paths.get(name)
    # A paused program may go on after the operator has installed the set anew.
    if path is None:
        kind = name.rpartition("-")[0]
        path = next((path for other, path in _paths.items() if other.rpartition("-")[0] == kind), None)
    if path is not None:
        _add(path)


def _load(name: str) -> None:
    try:
        importlib.import_module(name)
    # A package may raise anything; the operator has to know which one it was.
    except BaseException as error:  # noqa: BLE001
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise kernel.JailError(f"{name!r} in libraries.preload cannot be imported ({reason})") from None


def _add(path: str) -> None:
    # Never by `site`: it would run what `.pth` files say, and `sitecustomize`.
    if path not in sys.path:
        sys.path.insert(_place[0], path)
