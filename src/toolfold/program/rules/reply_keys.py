"""Tools behind a line that failed."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping

from toolfold.models import ToolSpec
from toolfold.program.reader_facts import Function

# ----------------------------------------------------------------------------------------------------
# Which tools' replies a line of a program works on, followed back through its names.
#
# A guess for a message, not a rule: all bindings of a name count, wherever they stand. Must not know what was replied.

_FILLS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
"""Methods after which a name holds what they were given."""


def tools_behind(text: str, line: int, specs: Mapping[str, ToolSpec], *, at: str = "") -> tuple[str, ...]:
    """Names of tools behind a line that failed, the nearest first.

    `specs` has the tools by each name that programs call them by; `at` is the missing key or attribute, where known.
    """
    try:
        tree = ast.parse(text)
        return tuple(dict.fromkeys(_Origins(tree, specs).behind(_suspects(tree, line, at))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _suspects(tree: ast.AST, line: int, at: str) -> list[ast.expr]:
    """Expressions that the line accesses; all of the line if that is unclear."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    expressions = [node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]
    accesses = [node for node in expressions if isinstance(node, ast.Subscript | ast.Attribute)]
    exact = [node.value for node in accesses if at and _access_name(node) == at]
    return exact or [node for node in expressions if node.lineno == line] or expressions


def _access_name(node: ast.Subscript | ast.Attribute) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""


class _Origins:
    """Expressions that each name of a program may come from."""

    def __init__(self, tree: ast.Module, specs: Mapping[str, ToolSpec]) -> None:
        self._specs = specs
        self._sources: dict[str, list[ast.expr]] = {}
        nodes = list(ast.walk(tree))
        self._functions = {node.name: node for node in nodes if isinstance(node, Function)}
        for node in nodes:
            self._read(node)

    def behind(self, expressions: list[ast.expr]) -> Iterator[str]:
        """Tools, breadth first: those in the expressions themselves, then those behind their names."""
        waiting, visited = deque(expressions), set[str]()
        while waiting:
            for node in ast.walk(waiting.popleft()):
                name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
                spec = self._specs.get(name) or self._specs.get(name.removeprefix("async_"))
                if spec is not None:
                    yield spec.name
                elif isinstance(node, ast.Name) and name not in visited:
                    visited.add(name)
                    waiting.extend(self._sources.get(name, ()))

    def _read(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=source):
                for target in targets:
                    self._bind(target, source)
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                self._bind(node.target, node.value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._bind(node.target, node.iter)
            case ast.withitem():
                self._bind(node.optional_vars, node.context_expr)
            case ast.Call():
                self._call(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for inner in ast.walk(node):  # a call of it gives what it returns
                    if isinstance(inner, ast.Return | ast.Yield) and inner.value is not None:
                        self._sources.setdefault(node.name, []).append(inner.value)

    def _bind(self, target: ast.AST | None, source: ast.expr | None) -> None:
        """Every name in the target may hold what is in the source."""
        if target is None or source is None:
            return
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._sources.setdefault(node.id, []).append(source)

    def _call(self, call: ast.Call) -> None:
        """Arguments reach the parameters of the program's own functions and of lambdas beside them."""
        arguments = [*call.args, *(argument.value for argument in call.keywords)]
        function = self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is not None:
            parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            for name, source in zip(parameters, call.args, strict=False):
                self._sources.setdefault(name, []).append(source)
            for keyword in call.keywords:
                self._sources.setdefault(keyword.arg or "", []).append(keyword.value)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS:
            for source in arguments:
                self._bind(owner, source)
        for argument in arguments:
            if isinstance(argument, ast.Lambda):
                for source in (*(other for other in arguments if other is not argument), *([owner] if owner else [])):
                    for parameter in argument.args.args:
                        self._sources.setdefault(parameter.arg, []).append(source)
