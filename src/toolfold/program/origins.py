"""Which tools' replies a line of a program works on, followed back through its names.

A guess for a message, not a rule: all bindings of a name count, wherever they stand. Must not know what was replied.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from toolfold.models import ToolSpec

_FILLS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
"""Methods after which a name holds what they were given."""


def tools_behind(text: str, line: int, specs: Mapping[str, ToolSpec], *, at: str = "") -> tuple[str, ...]:
    """Names of tools, the nearest first.

    Args:
        text: The program.
        line: Where it failed.
        specs: Tools by each name that programs call them by.
        at: The key or attribute that was missing, where it is known.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    try:
        return tuple(dict.fromkeys(_Origins(tree, specs).behind(_suspects(tree, line, at))))
    except RecursionError:
        return ()


def _suspects(tree: ast.AST, line: int, at: str) -> list[ast.expr]:
    """What was taken apart in that line; all of the line where that cannot be told."""
    here = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and _is_in(node, line)]
    taken = [node for node in here if isinstance(node, ast.Subscript | ast.Attribute)]
    exact = [node.value for node in taken if at and _taken_by(node) == at]
    return exact or [node for node in here if node.lineno == line] or here


def _is_in(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _taken_by(node: ast.Subscript | ast.Attribute) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""


class _Origins:
    """What each name of a program was made from."""

    def __init__(self, tree: ast.Module, specs: Mapping[str, ToolSpec]) -> None:
        self._specs = specs
        self._sources: dict[str, list[ast.expr]] = {}
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions[node.name] = node
        for node in ast.walk(tree):
            reader = _READERS.get(type(node))
            if reader is not None:
                reader(self, node)

    def behind(self, expressions: list[ast.expr]) -> Iterator[str]:
        """Tools, breadth first: those in the expressions themselves, then those behind their names."""
        waiting, seen = deque(expressions), set[str]()
        while waiting:
            for node in ast.walk(waiting.popleft()):
                name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
                spec = self._specs.get(name) or self._specs.get(name.removeprefix("async_"))
                if spec is not None:
                    yield spec.name
                elif isinstance(node, ast.Name) and name not in seen:
                    seen.add(name)
                    waiting.extend(self._sources.get(name, ()))

    def bind(self, target: ast.AST | None, source: ast.expr | None) -> None:
        """Every name in the target may hold what is in the source."""
        if target is None or source is None:
            return
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._sources.setdefault(node.id, []).append(source)

    def call(self, call: ast.Call) -> None:
        """Arguments reach the parameters of the program's own functions and of lambdas beside them."""
        given = [*call.args, *(one.value for one in call.keywords)]
        function = self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is not None:
            parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            for name, source in zip(parameters, call.args, strict=False):
                self._sources.setdefault(name, []).append(source)
            for keyword in call.keywords:
                self._sources.setdefault(keyword.arg or "", []).append(keyword.value)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is not None and isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS:
            for source in given:
                self.bind(owner, source)
        for one in given:
            if isinstance(one, ast.Lambda):
                for source in (*(other for other in given if other is not one), *([owner] if owner else [])):
                    for parameter in one.args.args:
                        self._sources.setdefault(parameter.arg, []).append(source)

    def function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A call of it gives what it returns."""
        for node in ast.walk(function):
            if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                self._sources.setdefault(function.name, []).append(node.value)


def _assign(origins: _Origins, node: ast.Assign) -> None:
    for target in node.targets:
        origins.bind(target, node.value)


# Any node: each reader is picked by the type that it takes.
_READERS: Mapping[type[ast.AST], Callable[..., None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: lambda origins, node: origins.bind(node.target, node.value),
    ast.AugAssign: lambda origins, node: origins.bind(node.target, node.value),
    ast.NamedExpr: lambda origins, node: origins.bind(node.target, node.value),
    ast.For: lambda origins, node: origins.bind(node.target, node.iter),
    ast.AsyncFor: lambda origins, node: origins.bind(node.target, node.iter),
    ast.comprehension: lambda origins, node: origins.bind(node.target, node.iter),
    ast.withitem: lambda origins, node: origins.bind(node.optional_vars, node.context_expr),
    ast.Call: _Origins.call,
    ast.FunctionDef: _Origins.function,
    ast.AsyncFunctionDef: _Origins.function,
}
