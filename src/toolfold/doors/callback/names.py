"""Which of the parent's tools a program is granted.

The child does not know the parent's tools unless the parent lists them. Then the program is granted
those. Else it is granted what its text names, so that this is checked and can be imported, and one tool
that stands for every other name: the parent's executor knows best.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from pydantic import BaseModel, Field

from toolfold.models import Limits, Problem, ToolSpec
from toolfold.program.names import ANY_TOOL, GUEST_NAMES, READY_NAMES
from toolfold.program.parse import parse
from toolfold.program.reader import Reader
from toolfold.tools.expansion import bounded
from toolfold.tools.names import unique_names

CALL_TOOL: Final = "call_tool"
"""`call_tool("any name", **arguments)`: for names that only the running program knows."""
_NAME_ARGUMENT: Final = "tool_name"
_CALL_TOOL: Final = ToolSpec(
    name=CALL_TOOL,
    python_name=CALL_TOOL,
    description="Calls a tool by its name.",
    input_schema={
        "type": "object",
        "properties": {_NAME_ARGUMENT: {"type": "string"}},
        "required": [_NAME_ARGUMENT],
        "additionalProperties": True,
    },
    source="parent",
)
_ANY_TOOL: Final = ToolSpec(
    name=ANY_TOOL,
    python_name=ANY_TOOL,
    description="Stands for every tool that the text of a program does not name.",
    # The arguments lie deeper: a tool may have a parameter of any name.
    input_schema={
        "type": "object",
        "properties": {_NAME_ARGUMENT: {"type": "string"}, "arguments": {"type": "object"}},
        "required": [_NAME_ARGUMENT, "arguments"],
    },
    source="parent",
)
_ASYNC: Final = "async_"
_LIMITS: Final = Limits()
_AWAITERS: Final = frozenset({"gather", "create_task", "ensure_future", "wait_for", "as_completed", "wait", "shield"})


class ListedTool(BaseModel):
    """A tool as gem's `get_available_tools` describes it."""

    name: str
    description: str = ""
    # Any: a JSON schema.
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    output_schema: dict[str, Any] | None = None
    """Of type `string`: the observation is text even where it looks like JSON."""


def granted(
    text: str, listed: Sequence[str | ListedTool] | None, taken: Collection[str], limits: Limits = _LIMITS
) -> tuple[ToolSpec, ...]:
    """The parent's tools that a program may call.

    `listed` is what the parent offers, if it says so; `taken` are identifiers of tools that the
    child has itself, and keeps.
    """
    if listed is None:
        return granted_by_name(mentioned(text, limits), taken)
    tools = {one.name: one for one in (ListedTool(name=one) if isinstance(one, str) else one for one in listed)}
    identifiers = unique_names(tools)
    return tuple(_spec(tool, identifiers[name]) for name, tool in tools.items() if identifiers[name] not in taken)


def granted_by_name(names: Collection[str], taken: Collection[str]) -> tuple[ToolSpec, ...]:
    """The tools that a program's text names, and one for every other name."""
    own = sorted(set(names) - set(taken))
    return (*(_CALL_TOOL if name == CALL_TOOL else _spec(ListedTool(name=name), name) for name in own), _ANY_TOOL)


def _spec(tool: ListedTool, identifier: str) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        python_name=identifier,
        description=tool.description,
        input_schema=bounded(tool.parameters, tool.name),
        output_schema=bounded(tool.output_schema, tool.name) if tool.output_schema is not None else None,
        source="parent",
    )


# Any: arguments are JSON.
def meant(spec: ToolSpec, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool and the arguments that a call is for: two of ours name another."""
    if spec is _ANY_TOOL:
        return str(arguments[_NAME_ARGUMENT]), arguments["arguments"]
    if spec is not _CALL_TOOL:
        return spec.name, arguments
    rest = {key: value for key, value in arguments.items() if key != _NAME_ARGUMENT}
    return str(arguments.get(_NAME_ARGUMENT, "")), rest


def mentioned(text: str, limits: Limits = _LIMITS) -> set[str]:
    """Names that a program takes from `tools`, or awaits without binding them.

    A program that reads an attribute of `tools` by a computed name may mean any identifier that
    stands in it as a string: Monty needs every name before it starts.
    """
    tree = parse(text, limits)
    if isinstance(tree, Problem):
        return set()  # the check says so to the model
    nodes = list(ast.walk(tree))
    modules = {"tools"} | {
        alias.asname
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "tools" and alias.asname
    }
    names = {name.removeprefix(_ASYNC) for node in nodes for name in _taken_from(node, modules)}
    if any(_is_computed(node, modules) for node in nodes):
        names |= {str(node.value) for node in nodes if isinstance(node, ast.Constant) and _is_name(node.value)}
    names |= _awaited(tree, nodes)
    return {name for name in names if not name.startswith("__")} - GUEST_NAMES


def _taken_from(node: ast.AST, modules: set[str]) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
            yield name
        case ast.ImportFrom(module="tools", level=0, names=aliases):
            yield from (alias.name for alias in aliases if alias.name != "*")
        case ast.Call(
            func=ast.Name(id="getattr" | "hasattr"), args=[ast.Name(id=module), ast.Constant(value=name), *_]
        ):
            if module in modules and _is_name(name):
                yield str(name)


def _is_computed(node: ast.AST, modules: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=module), name, *_]):
            return module in modules and not isinstance(name, ast.Constant)
    return False


# object: whatever stands in a program as a constant.
def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _awaited(tree: ast.Module, nodes: list[ast.AST]) -> set[str]:
    """Bare names called under `await` or given to `gather` and its like, which the program never binds."""
    reader = Reader(tree)
    awaited = {id(node) for node in reader.awaited}
    for node in nodes:
        if isinstance(node, ast.Call) and _last_name(node.func) in _AWAITERS:
            awaited |= {id(inner) for argument in node.args for inner in _given(argument)}
    return {
        use.node.func.id
        for use in reader.calls
        if id(use.node) in awaited
        and isinstance(use.node.func, ast.Name)
        and use.node.func.id not in READY_NAMES
        and use.scope.find(use.node.func.id) is None
    }


def _given(argument: ast.expr) -> Iterator[ast.expr]:
    """The values that one argument of `gather` brings."""
    if isinstance(argument, ast.Starred):
        argument = argument.value
    match argument:
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            yield element
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            yield from elements
        case _:
            yield argument


def _last_name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
