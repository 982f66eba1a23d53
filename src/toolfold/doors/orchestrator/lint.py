"""Code checks, as advice: they refuse what looks dangerous, and stop nobody who means harm.

The engine is the boundary: a program that passes can do no more than one that was never looked at.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable
from typing import Final

from toolfold.errors import UsageError

_NAMES: Final = frozenset({"__import__", "__builtins__", "eval", "exec", "compile"})
_MODULES: Final = frozenset({
    "builtins", "ctypes", "importlib", "multiprocessing", "os", "posix", "pty", "shutil", "signal", "socket",
    "subprocess", "sys",
})  # fmt: skip
_OPENERS: Final = frozenset({"open", "Path", "PurePath", "PosixPath"})
_PATHS_MODULES: Final = frozenset({"codecs", "io", "pathlib"})
_FOLDERS: Final = ("/tmp/", "/mnt/data/")
"""The jail's own; a relative path is in the data folder."""


def validate_code_safety(tree: ast.AST) -> None:
    """Look for `__import__`, `eval`, `exec`, `os` and its like, and files outside of the temporary folders.

    Raises:
        UsageError: naming the line and what stands there.
    """
    for node in ast.walk(tree):
        problem = _problem(node)
        if problem:
            raise UsageError(f"line {getattr(node, 'lineno', 1)}: {problem}")


def _problem(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) if name in _NAMES:
            return f"{name!r} is not allowed in strict mode"
        case ast.Import(names=names):
            return _module_problem(alias.name for alias in names)
        case ast.ImportFrom(module=str(module)):
            return _module_problem([module])
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in _MODULES:
            return f"'{name}.{attribute}' is not allowed in strict mode; use a tool instead"
        case ast.Call(func=function, args=args, keywords=keywords) if _opens(function):
            return _path_problem(args, keywords)
    return None


def _module_problem(names: Iterable[str]) -> str | None:
    for name in names:
        if name.partition(".")[0] in _MODULES:
            return f"module {name!r} is not allowed in strict mode; use a tool instead"
    return None


def _opens(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name in _OPENERS
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return module in _PATHS_MODULES and name in _OPENERS
    return False


def _path_problem(args: list[ast.expr], keywords: list[ast.keyword]) -> str | None:
    named = [keyword.value for keyword in keywords if keyword.arg in ("file", "filename")]
    path = (args or named or [ast.Constant("")])[0]
    match path:
        # Of an f-string, what it begins with.
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            folder = posixpath.normpath(text)
            is_inside = f"{folder}/".startswith(_FOLDERS) if folder.startswith("/") else not folder.startswith("..")
            return None if is_inside else f"file {text!r} is outside of the temporary folders"
    return "a file whose path is not written out cannot be checked; write the path as text"
