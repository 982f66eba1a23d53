"""Reader of a program's tree: names, calls, imports and uses of values, in one walk. Judges nothing."""

from __future__ import annotations

import ast
from typing import Any, Final

from toolfold.program import syntax_facts
from toolfold.program.syntax_facts import (
    GUARDED,
    MAYBE,
    OPAQUE,
    UNGUARDED,
    WITHIN,
    Guard,
    Handler,
    Kind,
    NodeUse,
    Scope,
    Walk,
    caught_by,
    fields_of,
    last_name,
)

# ----------------------------------------------------------------------------------------------------
# What opens a scope or may not run: functions, classes, comprehensions, `try`, `if`, `match`.

_VERSION_TEST_NAMES: Final = frozenset(
    {"TYPE_CHECKING", "PY2", "PY3", "version_info", "version", "platform", "hasattr", "modules", "hexversion"}
)


_LEAVING: Final = (ast.Return, ast.Break, ast.Continue)
"""Statements that end a `finally` without the exception that was raised."""
_CATCHING: Final = frozenset({"suppress", "assertRaises", "assertRaisesRegex", "raises"})
"""Context managers that catch the exceptions that they are given."""


def _function(walk: Walk, node: Any, scope: Scope, guard: Guard) -> None:
    """`def`, `async def` and `lambda`: defaults, decorators and annotations belong outside."""
    arguments = node.args
    outer = scope
    inner = Scope(Kind.FUNCTION, scope, can_await=isinstance(node, ast.AsyncFunctionDef), node=node)
    if isinstance(node, ast.Lambda):
        walk.stack.append((node.body, inner, guard))
    else:
        scope.bind(node.name, OPAQUE, node.lineno)
        scope.functions[node.name] = node
        walk.names.functions.add(node.name)
        if inner.can_await:
            walk.names.coroutines.add(node.name)
        outer = _type_parameters(walk, node, scope, guard)
        inner.parent = outer
        walk.push(node.decorator_list, scope, guard)
        walk.push(node.body, inner, UNGUARDED)
        walk.push((node.returns,), outer, guard | walk.annotation)
    walk.push(arguments.defaults, scope, guard)
    walk.push(arguments.kw_defaults, scope, guard)
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        inner.bind(argument.arg)
        if argument.annotation is not None:
            walk.stack.append((argument.annotation, outer, guard | walk.annotation))
    walk.shape.is_odd = walk.shape.is_odd or bool(inner.rebound)  # a name that is there twice
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None:
            walk.shape.is_odd = walk.shape.is_odd or argument.arg in inner.bound
            inner.bind(argument.arg)
            walk.push((argument.annotation,), outer, guard | walk.annotation)


def _class(walk: Walk, node: ast.ClassDef, scope: Scope, guard: Guard) -> None:
    scope.bind(node.name, OPAQUE, node.lineno)
    walk.push(node.decorator_list, scope, guard)
    outer = _type_parameters(walk, node, scope, guard)
    walk.push(node.bases, outer, guard)
    walk.push([keyword.value for keyword in node.keywords], outer, guard)
    walk.shape.is_odd = walk.shape.is_odd or bool(node.keywords)
    walk.push(node.body, Scope(Kind.CLASS, outer, node=node), guard)


def _type_alias(walk: Walk, node: Any, scope: Scope, guard: Guard) -> None:
    scope.bind(node.name.id, OPAQUE, node.lineno)
    walk.stack.append((node.value, _type_parameters(walk, node, scope, guard), guard))


def _comprehension(walk: Walk, node: Any, scope: Scope, guard: Guard) -> None:
    inner = Scope(Kind.COMPREHENSION, scope, can_await=scope.can_await)
    walk.shape.most_loops = max(walk.shape.most_loops, len(node.generators))
    for index, loop in enumerate(node.generators):
        # Python evaluates the first iterable outside, the others inside.
        walk.stack.append((loop.iter, inner if index else scope, guard))
        walk.stack.append((loop.target, inner, guard))
        walk.push(loop.ifs, inner, guard)
        if loop.is_async:
            walk.values.async_uses.append((NodeUse(loop.iter, scope, guard), "for"))
    if node.__class__ is ast.DictComp:
        walk.push((node.key, node.value), inner, guard)
    else:
        walk.stack.append((node.elt, inner, guard))


def _try(walk: Walk, node: ast.Try, scope: Scope, guard: Guard) -> None:
    inside = guard | caught_by(handler.type for handler in node.handlers if not _raises_again(handler))
    if any(isinstance(inner, _LEAVING) for statement in node.finalbody for inner in ast.walk(statement)):
        inside |= GUARDED
    for handler in node.handlers:
        if handler.name:
            scope.bind(handler.name, OPAQUE, handler.lineno)
        walk.push((handler.type,), scope, guard | MAYBE)
        if handler.type is not None:
            parts = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            walk.values.handled.extend(NodeUse(part, scope, guard) for part in parts)
        walk.push(handler.body, scope, guard | MAYBE)
    walk.push(node.body, scope, inside)
    walk.push(node.orelse, scope, guard)
    walk.push(node.finalbody, scope, guard)
    if node.finalbody:
        walk.shape.tries_with_finally.append(node)
    if len(node.handlers) > 1 and node.__class__ is ast.Try:
        walk.shape.long_tries.append(node)
        walk.shape.is_odd = walk.shape.is_odd or any(handler.type is None for handler in node.handlers[:-1])


def _with(walk: Walk, node: ast.With | ast.AsyncWith, scope: Scope, guard: Guard) -> None:
    inside = guard | WITHIN
    for item in node.items:
        expression = item.context_expr
        if node.__class__ is ast.AsyncWith:
            walk.values.async_uses.append((NodeUse(expression, scope, guard), "with"))
        walk.push((expression, item.optional_vars), scope, guard)
        if isinstance(expression, ast.Call) and last_name(expression.func) in _CATCHING:
            inside |= caught_by(expression.args)
    walk.push(node.body, scope, inside)


def _if(walk: Walk, node: ast.If, scope: Scope, guard: Guard) -> None:
    inside = guard | MAYBE if _is_version_test(node.test) else guard
    walk.stack.append((node.test, scope, guard))
    walk.push(node.body, scope, inside)
    walk.push(node.orelse, scope, inside)


def _capture(walk: Walk, node: ast.MatchAs | ast.MatchStar, scope: Scope, guard: Guard) -> None:
    walk.shape.captures += 1
    if node.name:
        scope.bind(node.name, OPAQUE, node.lineno)
    walk.push((getattr(node, "pattern", None),), scope, guard)


def _mapping(walk: Walk, node: ast.MatchMapping, scope: Scope, guard: Guard) -> None:
    if node.rest:
        walk.shape.captures += 1
        scope.bind(node.rest, OPAQUE, node.lineno)
    walk.children(node, scope, guard)


def _return(walk: Walk, node: ast.Return, scope: Scope, guard: Guard) -> None:
    if scope.kind is Kind.MODULE:
        walk.shape.top_level_returns.append(node)
    elif scope.kind is Kind.CLASS:
        walk.shape.is_odd = True
    scope.returns = scope.returns or node.value is not None
    walk.push((node.value,), scope, guard)


def _raise(walk: Walk, node: ast.Raise, scope: Scope, guard: Guard) -> None:
    walk.shape.raises.append(NodeUse(node, scope, guard))
    walk.push((node.exc, node.cause), scope, guard)


def _yield(walk: Walk, node: ast.Yield | ast.YieldFrom, scope: Scope, guard: Guard) -> None:
    scope.yields = True
    walk.push((node.value,), scope, guard)


def _type_parameters(walk: Walk, node: Any, scope: Scope, guard: Guard) -> Scope:
    """A scope for `[T: int]`, which Python has from 3.12 on."""
    parameters = getattr(node, "type_params", None)
    if not parameters:
        return scope
    inner, walk.shape.is_odd = Scope(Kind.FUNCTION, scope), True
    for parameter in parameters:
        inner.bind(parameter.name)
        walk.push((getattr(parameter, "bound", None), getattr(parameter, "default_value", None)), inner, guard)
    return inner


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether what it catches leaves it again, whatever happens."""
    *before, last = handler.body
    return isinstance(last, ast.Raise) and last.exc is None and all(isinstance(node, ast.Expr) for node in before)


def _is_version_test(test: ast.expr) -> bool:
    """A branch for type checkers, or for another version or system than this."""
    if isinstance(test, ast.UnaryOp):
        test = test.operand
    if isinstance(test, ast.Constant):
        return True
    stack: list[ast.AST] = [test]
    while stack:  # `ast.walk` takes four times as long
        node = stack.pop()
        if last_name(node) in _VERSION_TEST_NAMES:
            return True
        for field in fields_of(node.__class__):
            value = getattr(node, field, None)
            if value.__class__ is list:
                stack.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST):
                stack.append(value)
    return False


BLOCK_HANDLERS: Final[dict[type[ast.AST], Handler]] = {
    ast.FunctionDef: _function, ast.AsyncFunctionDef: _function, ast.Lambda: _function, ast.ClassDef: _class,
    ast.ListComp: _comprehension, ast.SetComp: _comprehension, ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension, ast.Try: _try, ast.TryStar: _try, ast.With: _with, ast.AsyncWith: _with,
    ast.If: _if, ast.MatchAs: _capture, ast.MatchStar: _capture, ast.MatchMapping: _mapping, ast.Return: _return,
    ast.Raise: _raise, ast.Yield: _yield, ast.YieldFrom: _yield,
}  # fmt: skip
if hasattr(ast, "TypeAlias"):  # from Python 3.12 on
    BLOCK_HANDLERS[ast.TypeAlias] = _type_alias


# ----------------------------------------------------------------------------------------------------
# Calls, attributes and values.

_DYNAMIC_ATTRIBUTES: Final = frozenset(
    {"FunctionType", "__builtins__", "__dict__", "__globals__", "_convert_", "_getframe", "currentframe", "f_globals",
     "f_locals", "global_enum", "modules"}
)  # fmt: skip


def _call(walk: Walk, node: ast.Call, scope: Scope, guard: Guard) -> None:
    walk.calls.append(NodeUse(node, scope, guard))
    push = walk.stack.append
    push((node.func, scope, guard))
    for argument in node.args:
        push((argument, scope, guard))
    for keyword in node.keywords:
        push((keyword.value, scope, guard))


def _await(walk: Walk, node: ast.Await, scope: Scope, guard: Guard) -> None:
    walk.values.awaited.add(node.value)
    walk.shape.is_odd = walk.shape.is_odd or not scope.can_await
    walk.stack.append((node.value, scope, guard))


def _attribute(walk: Walk, node: ast.Attribute, scope: Scope, guard: Guard) -> None:
    value = node.value
    if node.ctx.__class__ is ast.Load:
        use = NodeUse(node, scope, guard)
        walk.names.attributes.setdefault(node.attr, []).append(use)
        if value.__class__ is ast.Name:
            walk.names.attribute_uses.append(use)
    else:
        walk.names.set_attributes.add(node.attr)
        walk.names.is_dynamic = walk.names.is_dynamic or (isinstance(value, ast.Name) and value.id == "tools")
    if node.attr in _DYNAMIC_ATTRIBUTES:
        walk.names.is_dynamic = True
    walk.stack.append((value, scope, guard))


def _statement(walk: Walk, node: ast.Expr, scope: Scope, guard: Guard) -> None:
    """A docstring is no text with braces."""
    if node.value.__class__ is not ast.Constant:
        walk.stack.append((node.value, scope, guard))


def _joined(walk: Walk, node: ast.JoinedStr, scope: Scope, guard: Guard) -> None:
    walk.push((part for part in node.values if part.__class__ is not ast.Constant), scope, guard)


def _binary(walk: Walk, node: ast.BinOp, scope: Scope, guard: Guard) -> None:
    if node.op.__class__ is ast.Sub:
        walk.values.subtractions.append(NodeUse(node, scope, guard))
    walk.children(node, scope, guard)


def _augment(walk: Walk, node: ast.AugAssign, scope: Scope, guard: Guard) -> None:
    """`x += 1` reads `x` before it binds it."""
    target = node.target
    if isinstance(target, ast.Name):
        scope.bind(target.id, OPAQUE, None)
        walk.names.loads.setdefault(target.id, []).append(NodeUse(target, scope, guard))
    else:
        walk.stack.append((target, scope, guard))
    walk.stack.append((node.value, scope, guard))


def _async_for(walk: Walk, node: ast.AsyncFor, scope: Scope, guard: Guard) -> None:
    walk.values.async_uses.append((NodeUse(node.iter, scope, guard), "for"))
    walk.children(node, scope, guard)


def _assign(walk: Walk, node: ast.Assign, scope: Scope, guard: Guard) -> None:
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        scope.values[node.targets[0].id] = node.value
    walk.children(node, scope, guard)


def _annotated(walk: Walk, node: ast.AnnAssign, scope: Scope, guard: Guard) -> None:
    """Python never evaluates the annotations of a function's own names."""
    if isinstance(node.target, ast.Name) and node.value is not None:
        scope.values[node.target.id] = node.value
    walk.push((node.annotation,), scope, guard | (MAYBE if scope.kind is Kind.FUNCTION else walk.annotation))
    walk.push((node.value, node.target), scope, guard)


USE_HANDLERS: Final[dict[type[ast.AST], Handler]] = {
    ast.Call: _call, ast.Await: _await, ast.Attribute: _attribute, ast.Expr: _statement, ast.JoinedStr: _joined,
    ast.AugAssign: _augment, ast.BinOp: _binary, ast.AsyncFor: _async_for, ast.Assign: _assign,
    ast.AnnAssign: _annotated,
}  # fmt: skip


class ProgramReader(Walk):
    """Facts about a program before it is judged."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__(tree)
        stack, handlers, add_kind = self.stack, _HANDLERS, self.shape.kinds.add
        while stack:
            node, scope, guard = stack.pop()
            kind = node.__class__
            add_kind(kind)
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, node, scope, guard)
            else:
                self.children(node, scope, guard)
        syntax_facts.settle(self)


def _leaf(_walk: Walk, _node: ast.AST, _scope: Scope, _guard: Guard) -> None:
    return


_LEAVES: Final = (ast.MatchSingleton, ast.Pass, ast.Break, ast.Continue)
_HANDLERS: Final[dict[type[ast.AST], Handler]] = {
    **syntax_facts.NAME_HANDLERS, **BLOCK_HANDLERS, **USE_HANDLERS, **dict.fromkeys(_LEAVES, _leaf),
}  # fmt: skip
