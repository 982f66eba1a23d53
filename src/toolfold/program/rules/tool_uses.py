"""Tools that a program uses as something else than a function, and replies as streams: `tool.invoke`, `await tool`."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from typing import Final

from toolfold.models import ToolSpec
from toolfold.program.known_names import PRESET_NAMES, ToolIndex
from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import CATCHES_ATTRIBUTES, CATCHES_TYPES, NodeUse
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.reachability import Reachability

_OF_FUNCTIONS: Final = frozenset({*dir(lambda: None), "pages"})
_FEW: Final = 20


def tool_use_faults(
    reader: ProgramReader, index: ToolIndex, known_names: Container[str], reachability: Reachability
) -> Iterator[Fault]:
    """Faults in no order, of tools that the program does not bind itself."""
    loads = reader.names.loads
    names = (index.names.keys() & loads.keys()).difference(PRESET_NAMES)
    uses = [use for name in names if name not in known_names for use in loads[name]]
    if not uses and "tools" not in loads:
        return
    called = {use.node.func for use in reader.calls}
    mentions = [use for use in uses if use.node not in called and use.scope.find(use.node.id) is None]
    for use in mentions[:_FEW]:
        fault = _misuse(use, index, reader, reachability)
        if fault is not None and reachability.runs(use, CATCHES_ATTRIBUTES | CATCHES_TYPES):
            yield fault
    for use in loads.get("tools", ())[:_FEW]:
        if use.node not in called and use.scope.find("tools") is None and "tools" not in known_names:
            fault = _module_misuse(use, index, reader, reachability)
            if fault is not None and reachability.runs(use, CATCHES_ATTRIBUTES | CATCHES_TYPES):
                yield fault


def stream_faults(
    reader: ProgramReader, tools: Mapping[ast.AST, ToolSpec], reachability: Reachability
) -> Iterator[Fault]:
    """`async for` over a call of a tool, and `async with` one; `tools` are those that calls certainly go to."""
    for use, word in reader.values.async_uses:
        call = use.node.value if isinstance(use.node, ast.Await) else use.node
        tool = tools.get(call)
        if tool is not None and reachability.runs(use, CATCHES_TYPES):
            name = tool.python_name
            right = f"for item in await {name}(...):" if word == "for" else f"reply = await {name}(...)"
            yield Fault("reply", f"the reply of {name!r} cannot be used in 'async {word}'; write '{right}'", use.node)


def _misuse(use: NodeUse, index: ToolIndex, reader: ProgramReader, reachability: Reachability) -> Fault | None:
    """What is wrong with a tool that stands somewhere without being called."""
    return _misuse_in(use.node, _parents(use, reachability), use.node.id, index, reader)


def _misuse_in(
    node: ast.expr, parents: list[ast.AST], name: str, index: ToolIndex, reader: ProgramReader
) -> Fault | None:
    call = f"{name}({_arguments(index, name.removeprefix('tools.'))})"
    match parents[-1] if parents else None:
        case ast.Attribute(attr=attribute, ctx=ast.Load()) as parent:
            if attribute in _OF_FUNCTIONS or attribute in reader.names.set_attributes:
                return None
            text = f"{name!r} is a function, which has no {attribute!r}; call it: await {call}"
            return Fault("unknown_tool", text, parent)
        case ast.Await():
            return Fault("not_awaited", f"{name!r} is not called; write 'await {call}'", node)
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.comprehension(iter=source) if source is node:
            return Fault("not_awaited", f"{name!r} is not called; write 'for ... in await {call}'", node)
        case ast.Subscript(value=value, ctx=ast.Load()) if value is node:
            return Fault("not_awaited", f"{name!r} is not called; write '(await {call})[...]'", node)
    return None


def _module_misuse(use: NodeUse, index: ToolIndex, reader: ProgramReader, reachability: Reachability) -> Fault | None:
    parents = _parents(use, reachability)
    match parents[-1] if parents else None:
        case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()):
            right = f"tools.{name}({_arguments(index, name)})" if name in index.names else f"tools.{name}(...)"
        case ast.Subscript(ctx=ast.Load(), slice=key):
            right = f"getattr(tools, {ast.unparse(key)[:40]})(...)"
        case ast.Attribute(attr=name) as member if name in index.names:
            is_called = any(call.node.func is member for call in reader.calls)
            return None if is_called else _misuse_in(member, parents[:-1], f"tools.{name}", index, reader)
        case _:
            return None
    return Fault("unknown_tool", f"'tools' is a module, not a dict; write '{right}'", use.node)


def _parents(use: NodeUse, reachability: Reachability) -> list[ast.AST]:
    return reachability.path_in_program(use.node) or []


def _arguments(index: ToolIndex, name: str) -> str:
    signature = index.signature(index.names[name])
    return ", ".join(f"{argument}=..." for argument in signature.required) or "..."
