"""Tools that a program uses as something else than a function, and replies as streams: `tool.invoke`, `await tool`."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from typing import Final

from toolfold.models import ToolSpec
from toolfold.program.known_names import PRESET_NAMES, ToolIndex
from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import CATCHES_ATTRIBUTES, CATCHES_TYPES, NodeUse, last_name
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.reachability import Reachability

_OF_FUNCTIONS: Final = frozenset({*dir(lambda: None), "pages"})
_FEW: Final = 20


def tool_use_faults(
    reader: ProgramReader, index: ToolIndex, known_names: Container[str], reachability: Reachability
) -> Iterator[Fault]:
    """Faults in no order, of tools that the program does not bind itself."""
    for use in _suspects(reader, index):
        node = use.node
        name = last_name(node.value if isinstance(node, ast.Attribute | ast.Subscript) else node)
        if use.scope.find(name) is None and name not in known_names:
            fault = _misuse(use, index, reader, reachability)
            if fault is not None and reachability.runs(use, CATCHES_ATTRIBUTES | CATCHES_TYPES):
                yield fault


def _suspects(reader: ProgramReader, index: ToolIndex) -> Iterator[NodeUse]:
    """Tools that are awaited, looped over or subscripted, `tools` that is subscripted, and attributes of tools."""
    names, values = reader.names, reader.values
    for name in index.names.keys() & names.loads.keys():
        if name not in PRESET_NAMES:
            yield from [use for use in names.loads[name] if use.node in values.awaited or use.node in values.spoiled][
                :_FEW
            ]
    if "tools" in names.loads:
        for use in names.attribute_uses:
            if use.node.value.id == "tools" and (use.node in values.awaited or use.node in values.spoiled):
                yield use
        for use in reader.calls:
            function = use.node.func
            if function.__class__ is ast.Subscript and last_name(function.value) == "tools":
                yield NodeUse(function, use.scope, use.guard)


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
    match use.node:
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
            right = f"tools.{name}({_arguments(index, name) if name in index.names else '...'})"
            return Fault("unknown_tool", f"'tools' is a module, not a dict; write '{right}'", value)
        case ast.Subscript(value=value, slice=key):
            right = f"getattr(tools, {ast.unparse(key)[:40]})(...)"
            return Fault("unknown_tool", f"'tools' is a module, not a dict; write '{right}'", value)
        case ast.Attribute(attr=name):
            name = f"tools.{name}" if name in index.names else ""
        case _:
            name = use.node.id
    parents = reachability.path_in_program(use.node) if name else None
    return _misuse_in(use.node, parents, name, index, reader) if parents else None


def _misuse_in(
    node: ast.expr, parents: list[ast.AST], name: str, index: ToolIndex, reader: ProgramReader
) -> Fault | None:
    call = f"{name}({_arguments(index, name.removeprefix('tools.'))})"
    match parents[-1]:
        case ast.Attribute(attr=attribute, ctx=ast.Load()) as parent:
            if attribute in _OF_FUNCTIONS or attribute in reader.names.set_attributes:
                return None
            text = f"{name!r} is a function, which has no {attribute!r}; call it: await {call}"
            return Fault("unknown_tool", text, parent)
        case ast.Await():
            return Fault("not_awaited", f"{name!r} is not called; write 'await {call}'", node)
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.comprehension(iter=source) if source is node:
            return Fault("not_awaited", f"{name!r} is not called; write 'for ... in await {call}'", node)
        case ast.FormattedValue(conversion=-1):
            return Fault("not_awaited", f"{name!r} is not called; write '{{await {call}}}'", node)
        case ast.Subscript(value=value, ctx=ast.Load()) if value is node:
            return Fault("not_awaited", f"{name!r} is not called; write '(await {call})[...]'", node)
    return None


def _arguments(index: ToolIndex, name: str) -> str:
    signature = index.signature(index.names[name])
    return ", ".join(f"{argument}=..." for argument in signature.required) or "..."
