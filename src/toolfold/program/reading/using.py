"""Calls and values, and what is done to them: awaited, dropped, subscripted, added, assigned."""

from __future__ import annotations

import ast
from typing import Any, Final

from toolfold.program.reading.facts import MAYBE, Guard, Use
from toolfold.program.reading.walk import Handler, Walk, last_name
from toolfold.program.scopes import OPAQUE, Kind, Scope

COROUTINE_ATTRIBUTES: Final = frozenset({"close", "send", "throw"})
_DYNAMIC_ATTRIBUTES: Final = frozenset(
    {"__builtins__", "__dict__", "__globals__", "_convert_", "_getframe", "currentframe", "f_globals", "f_locals",
     "global_enum", "modules"}
)  # fmt: skip


def _call(walk: Walk, node: ast.Call, scope: Scope, guard: Guard) -> None:
    walk.calls.append(Use(node, scope, guard))
    push = walk.stack.append
    push((node.func, scope, guard))
    for argument in node.args:
        push((argument, scope, guard))
    for keyword in node.keywords:
        push((keyword.value, scope, guard))


def _await(walk: Walk, node: ast.Await, scope: Scope, guard: Guard) -> None:
    walk.values.awaited.add(node.value)
    walk.stack.append((node.value, scope, guard))


def _attribute(walk: Walk, node: ast.Attribute, scope: Scope, guard: Guard) -> None:
    value = node.value
    (walk.names.attributes if node.ctx.__class__ is ast.Load else walk.names.set_attributes).add(node.attr)
    if value.__class__ is ast.Name and node.ctx.__class__ is ast.Load:
        walk.names.attribute_uses.append(Use(node, scope, guard))
    if node.attr in _DYNAMIC_ATTRIBUTES or (
        node.ctx.__class__ is not ast.Load and value.__class__ is ast.Name and last_name(value) == "tools"
    ):
        walk.names.is_dynamic = True
    if node.attr not in COROUTINE_ATTRIBUTES and not node.attr.startswith(("_", "cr_")):
        walk.values.spoiled.add(value)
    walk.stack.append((value, scope, guard))


def _subscript(walk: Walk, node: ast.Subscript, scope: Scope, guard: Guard) -> None:
    walk.values.spoiled.add(node.value)
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) and isinstance(node.ctx, ast.Load):
        walk.values.keys.append(Use(node, scope, guard))
    walk.children(node, scope, guard)


def _spoil_value(walk: Walk, node: Any, scope: Scope, guard: Guard) -> None:
    """The node's `value` cannot be a coroutine: a dropped one, `x[...]`, `{x}` in text, `*x`."""
    walk.values.spoiled.add(node.value)
    walk.children(node, scope, guard)


def _statement(walk: Walk, node: ast.Expr, scope: Scope, guard: Guard) -> None:
    """An expression whose value nobody takes, unless it is the program's last."""
    value = node.value
    walk.values.spoiled.add(value)
    if value.__class__ is ast.Call:
        walk.values.dropped.append(Use(value, scope, guard))
    walk.stack.append((value, scope, guard))


def _spoil_operands(walk: Walk, node: Any, scope: Scope, guard: Guard) -> None:
    walk.values.spoiled.update((node.left, node.right) if node.__class__ is ast.BinOp else (node.operand,))
    if node.op.__class__ is ast.Sub:
        walk.values.subtractions.append(Use(node, scope, guard))
    walk.children(node, scope, guard)


def _compare(walk: Walk, node: ast.Compare, scope: Scope, guard: Guard) -> None:
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, ast.In | ast.NotIn):
            walk.values.spoiled.add(right)
        elif not isinstance(operator, ast.Is | ast.IsNot):
            walk.values.spoiled.update((left, right))
        left = right
    walk.children(node, scope, guard)


def _test(walk: Walk, node: Any, scope: Scope, guard: Guard) -> None:
    walk.values.spoiled.add(node.test)
    walk.children(node, scope, guard)


def _augment(walk: Walk, node: ast.AugAssign, scope: Scope, guard: Guard) -> None:
    """`x += 1` reads `x` before it binds it."""
    walk.values.spoiled.add(node.value)
    target = node.target
    if isinstance(target, ast.Name):
        scope.bind(target.id, OPAQUE, None)
        walk.names.loads.setdefault(target.id, []).append(Use(target, scope, guard))
    else:
        walk.stack.append((target, scope, guard))
    walk.stack.append((node.value, scope, guard))


def _for(walk: Walk, node: ast.For | ast.AsyncFor, scope: Scope, guard: Guard) -> None:
    walk.values.spoiled.add(node.iter)
    if node.__class__ is ast.For and isinstance(node.target, ast.Name):
        scope.loops[node.target.id] = node.iter
    walk.children(node, scope, guard)


def _assign(walk: Walk, node: Any, scope: Scope, guard: Guard) -> None:
    targets = node.targets if node.__class__ is ast.Assign else [node.target]
    value = node.value
    if len(targets) == 1 and targets[0].__class__ is ast.Name and value is not None:
        scope.values[targets[0].id] = value
    if isinstance(value, ast.Call):
        if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
            walk.values.spoiled.add(value)
        elif len(targets) == 1 and isinstance(targets[0], ast.Name):
            walk.values.assigned.append((value, targets[0].id, scope))
    if node.__class__ is ast.AnnAssign:
        # Python evaluates the annotations of a function's own names never.
        unread = MAYBE if scope.kind is Kind.FUNCTION else walk.annotation
        walk.stack.append((node.annotation, scope, guard | unread))
        walk.push((node.value, node.target), scope, guard)
        return
    walk.children(node, scope, guard)


HANDLERS: Final[dict[type[ast.AST], Handler]] = {
    ast.Call: _call,
    ast.Await: _await,
    ast.Attribute: _attribute,
    ast.Expr: _statement,
    ast.Subscript: _subscript,
    ast.FormattedValue: _spoil_value,
    ast.Starred: _spoil_value,
    ast.AugAssign: _augment,
    ast.BinOp: _spoil_operands,
    ast.UnaryOp: _spoil_operands,
    ast.Compare: _compare,
    ast.IfExp: _test,
    ast.While: _test,
    ast.Assert: _test,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.Assign: _assign,
    ast.AnnAssign: _assign,
}
