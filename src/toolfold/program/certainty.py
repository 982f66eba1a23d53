"""Where a type checker's inference about a program can be relied on, although Python holds nobody to types."""

from __future__ import annotations

import ast
from typing import Final

_MUTATORS: Final = frozenset(
    {
        "append",
        "extend",
        "insert",
        "update",
        "setdefault",
        "add",
        "appendleft",
        "extendleft",
        "__setitem__",
        "put",
        "heappush",
        "heapreplace",
        "heappushpop",
        "insort",
        "insort_left",
        "insort_right",
        "setattr",
        "setitem",
    }
)
"""What puts something new into what is already there."""
_DEEPEST: Final = 20


class Certainty:
    """What the program does that a checker cannot follow, and which of its expressions that leaves sure."""

    def __init__(self, tree: ast.Module) -> None:
        self.guarded_lines: set[int] = set()
        """Where an error may be expected: in a `try` with handlers, or in a `with`, which may suppress it."""
        self.asks_for_attributes = False
        """It looks first whether a value has them."""
        self._puts_things_in = False
        """What it reads from a list, a dict or an object may have been put there under another name."""
        self._bindings: dict[str, list[ast.expr | None]] = {}
        """The values of each name; `None` for one that cannot be seen."""
        for node in ast.walk(tree):
            self._look_at(node)

    def is_sure_of(self, value: ast.expr, depth: int = 0) -> bool:
        """Whether the type that was inferred for an expression is the type that it has."""
        if not self._puts_things_in:
            return True
        if depth > _DEEPEST:
            return False
        if isinstance(value, ast.Await):
            return isinstance(value.value, ast.Call) and isinstance(value.value.func, ast.Name)
        for node in ast.walk(value):
            if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred | ast.comprehension | ast.Await):
                return False
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                for bound in self._bindings.get(node.id, ()):
                    if bound is None or not self.is_sure_of(bound, depth + 1):
                        return False
        return True

    def _look_at(self, node: ast.AST) -> None:
        match node:
            case ast.Try(handlers=[_, *_], body=body) | ast.TryStar(body=body):
                self._guard(body)
            case ast.With(body=body) | ast.AsyncWith(body=body):
                self._guard(body)
            case ast.Name(id="hasattr" | "getattr" | "isinstance"):
                self.asks_for_attributes = True
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                self._puts_things_in = True
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _MUTATORS:
                self._puts_things_in = True
            case ast.AugAssign(value=value) if not isinstance(value, ast.Constant):
                self._puts_things_in = True  # `rows += more` changes the list that another name has, too
                self._bind(node)
            case _:
                self._bind(node)

    def _bind(self, node: ast.AST) -> None:
        """The values of names: one that is assigned, one of a `range`, or one that cannot be seen."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._add(target, value if isinstance(target, ast.Name) else None)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                self._add(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._add(target, value)
            case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                self._add(target, source if _is_range(source) else None)
            case ast.AsyncFor(target=target):
                self._add(target, None)
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                self._bindings.setdefault(name, []).append(None)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                self._bindings.setdefault(name, []).append(None)

    def _add(self, target: ast.expr, value: ast.expr | None) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._bindings.setdefault(node.id, []).append(value)

    def _guard(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.guarded_lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))


def _is_range(source: ast.expr) -> bool:
    return isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "range"
