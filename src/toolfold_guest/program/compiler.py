"""Compiler from program text to code objects: the dialect that plain `compile` does not speak.

The text is compiled as it is, never indented: indentation changes multi-line strings and
line numbers. Four rewrites are made on the tree, each only where the text asks for it:
a top-level `return`; `tools.x(...)` where its value is awaited; `from tools import x`; a call of a tool that
nothing awaits.
"""

import ast
import re
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from toolfold_guest.shared.call_flow import CallFlow
from toolfold_guest.shared.call_style import ASYNC_PREFIX, awaited_attributes, is_tools

FILENAME = "<program>"
RETURN_NAME = "__toolfold_return__"
CALL_NAME = "__toolfold_call__"
"""Has the id of the call that runs a saved program."""
VALUE_NAME = "__toolfold_value__"
USE_NAME = "__toolfold_use__"
TOGETHER_NAME = "__toolfold_together__"
ALL_NAME = "__toolfold_all__"
AWAIT_NAME = "__toolfold_await__"
AWAIT_ALL_NAME = "__toolfold_await_all__"
DEEP_NAME = "__toolfold_deep__"
GETATTR_NAME = "__toolfold_getattr__"
PENDING_PREFIX = "__toolfold_pending_"
BLOCKING_PREFIX = "__toolfold_blocking_"

_NEEDS_THE_WHOLE = re.compile(r"(?:elif|else|except|finally|return)\b")
# A line that begins with a quote may close a string, or be an expression of its own.
_MAY_BE_SEVERAL = re.compile(r"[;\r]|^[\"'\f]", re.MULTILINE)
_BEGINS_STATEMENT = re.compile(
    # A keyword that no expression begins with, or a target and what assigns to it.
    r"(?:pass|import|from|def|class|for|while|if|try|with|async|raise|del|assert|global|nonlocal|break|continue)\b"
    r"|(?!lambda\b)[^\W\d][\w.]*(?:\[[^\]\n]*\])?\s*(?::|(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=))"
)


def compile_in_parts(text: str, file: str = FILENAME) -> tuple[types.CodeType, types.CodeType] | None:
    """What `compile_program` gives, at a third of its cost; `None` for a text that needs its rewrites.

    Without a tree: the text is cut where its last line at the margin begins. If what follows is an
    expression and what precedes is complete, that is where the last statement begins.
    """
    at = _last_line_at_margin(text)
    if at < 0 or "tools" in text or "__future__" in text:
        return None
    head, tail = text[:at], text[at:]
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    # Told apart here: the `SyntaxError` of a statement that is taken for an expression costs more than all the rest.
    mode = "exec" if _BEGINS_STATEMENT.match(tail) else "eval"
    if _NEEDS_THE_WHOLE.match(tail) or (mode == "exec" and _MAY_BE_SEVERAL.search(tail)):
        return None
    try:
        # Blank lines in front keep the line numbers.
        last = compile("\n" * head.count("\n") + tail, file, mode, flags, dont_inherit=True)
        body = compile(head, file, "exec", flags, dont_inherit=True) if head else _NO_BODY
    except SyntaxError:
        return None  # the last line at the margin is in the middle of something
    return body, last


def _last_line_at_margin(text: str) -> int:
    """Where it begins; lines that only go on or close what is open do not count. -1 if there is none."""
    end = len(text)
    while end >= 0:
        at = text.rfind("\n", 0, end) + 1
        if text[at : at + 1].strip("#)]}'\" \t\r\n\f"):
            return at
        end = at - 1
    return -1


def compile_program(
    text: str, mixed: Collection[str] = (), reading: Collection[str] = (), file: str = FILENAME
) -> tuple[types.CodeType, types.CodeType | None]:
    """The body, and the last expression if the program ends in one: its value is the outcome's.

    `mixed` are the tools of a program that awaits some of its calls only; `reading` those that change nothing.
    """
    tree = ast.parse(text, file)
    if mixed:
        _rewrite_calls(tree, mixed, reading)
    elif reading:
        _rewrite_lists(tree, reading)
    if "return" in text:
        _rewrite_returns(tree)
    if "tools" in text:
        _rewrite_tools(tree)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    body = compile(tree, file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if last is None:
        return body, None
    assert isinstance(last, ast.Expr)
    expression = ast.Expression(last.value)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    # `from __future__` lines were compiled with the body; the last expression must obey them too.
    return body, compile(expression, file, "eval", flags=flags | _futures(body), dont_inherit=True)


_NO_BODY = compile("", FILENAME, "exec", dont_inherit=True)


def _futures(code: types.CodeType) -> int:
    annotations = 0x1000000  # CO_FUTURE_ANNOTATIONS, the only one left that changes a meaning
    return code.co_flags & annotations


def _rewrite_returns(tree: ast.Module) -> None:
    """A top-level `return x` becomes `raise __toolfold_return__(x)`; functions stay as they are."""
    blocks: list[list[ast.stmt]] = [tree.body]
    while blocks:
        block = blocks.pop()
        for index, statement in enumerate(block):
            if isinstance(statement, ast.Return):
                block[index] = _leaving(statement)
            elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                blocks.extend(_blocks_of(statement))
                if isinstance(statement, ast.Try) and statement.handlers:
                    statement.handlers.insert(0, _passing_on(statement))


def _blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, []):
            yield part.body


def _leaving(statement: ast.Return) -> ast.stmt:
    value = [statement.value] if statement.value is not None else []
    name = ast.copy_location(ast.Name(RETURN_NAME, ast.Load()), statement)
    raised = ast.copy_location(ast.Call(name, value, []), statement)
    return ast.copy_location(ast.Raise(raised, None), statement)


def _passing_on(statement: ast.Try) -> ast.ExceptHandler:
    """A handler before the program's own: no `except` stops a `return`."""
    name = ast.copy_location(ast.Name(RETURN_NAME, ast.Load()), statement)
    leave = ast.copy_location(ast.Raise(None, None), statement)
    return ast.copy_location(ast.ExceptHandler(name, None, [leave]), statement)


def _rewrite_calls(tree: ast.Module, tools: Collection[str], reading: Collection[str]) -> None:
    """Calls that nothing can await are made where they stand; those that something may await, when it needs them."""
    try:
        flow = CallFlow(tree, tools)
    except RecursionError:
        return  # an expression too deep to follow: each call is made when it is needed
    wrapped: dict[ast.AST, str] = {
        node: AWAIT_NAME if is_async else VALUE_NAME for node, is_async in flow.sites_in_place()
    }
    for comprehension, is_awaited in flow.lists(reading):
        if is_awaited:
            wrapped[comprehension] = TOGETHER_NAME
        else:
            is_async = wrapped.pop(comprehension.elt) == AWAIT_NAME
            wrapped[comprehension] = AWAIT_ALL_NAME if is_async else ALL_NAME
    last = tree.body[-1] if tree.body else None
    wrapped.update({node.value: USE_NAME for node in flow.dropped() if node is not last})
    wrapped.update(dict.fromkeys(flow.value_uses(), DEEP_NAME))
    for name in flow.synchronous_names():
        name.id = BLOCKING_PREFIX + name.id
    for node in flow.awaitable_references():
        if isinstance(node, ast.Attribute):
            node.attr = f"{ASYNC_PREFIX}{node.attr.removeprefix(ASYNC_PREFIX)}"
        else:
            node.func = ast.copy_location(ast.Name(GETATTR_NAME, ast.Load()), node)
    _wrap(tree, wrapped)


def _rewrite_lists(tree: ast.Module, reading: Collection[str]) -> None:
    """In a program that awaits nothing, the calls of a list comprehension that only read are made at once."""
    lists = [node for node, _ in CallFlow(tree, reading).lists(reading)]
    for node in lists:
        node.elt.func.id = PENDING_PREFIX + node.elt.func.id  # type: ignore[attr-defined]  # it is a call of a name
    _wrap(tree, dict.fromkeys(lists, ALL_NAME))


def _wrap(tree: ast.Module, wrapped: Mapping[ast.AST, str]) -> None:
    for node in list(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                value[:] = [_call_of(wrapped[item], item) if item in wrapped else item for item in value]
            elif isinstance(value, ast.expr) and value in wrapped:
                setattr(node, field, _call_of(wrapped[value], value))


def _call_of(name: str, value: Any) -> ast.expr:
    function = ast.copy_location(ast.Name(name, ast.Load()), value)
    call = ast.copy_location(ast.Call(function, [value], []), value)
    return ast.copy_location(ast.Await(call), value) if name in (AWAIT_NAME, AWAIT_ALL_NAME) else call


def _rewrite_tools(tree: ast.Module) -> None:
    nodes = list(ast.walk(tree))
    for attribute in list(awaited_attributes(nodes)):
        attribute.attr = f"{ASYNC_PREFIX}{attribute.attr}"
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and is_tools(node.module or ""):
            _import_awaitable(node)


def _import_awaitable(node: ast.ImportFrom) -> None:
    """`from tools import x` gives the awaitable `x`, as the bare name is; attributes are synchronous."""
    for alias in node.names:
        if alias.name != "*" and not alias.name.startswith(ASYNC_PREFIX):
            alias.asname = alias.asname or alias.name
            alias.name = f"{ASYNC_PREFIX}{alias.name}"
