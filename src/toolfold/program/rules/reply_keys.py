"""Keys and attributes that replies lack by their output schema, and the tools behind a line that failed."""

from __future__ import annotations

import ast
import difflib
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from toolfold.models import Json, ToolSpec
from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import CATCHES_ATTRIBUTES, CATCHES_KEYS, Function, Kind, NodeUse, Scope, last_name
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.own_functions import in_python
from toolfold.program.rules.reachability import Reachability
from toolfold.prompts.schema_types import resolve

_DEEPEST: Final = 8
_FEW: Final = 8
_COMMON_ATTRIBUTES: Final = frozenset(
    {*dir(dict), *dir(str), *dir(list), "close", "send", "throw", "data", "kind", "mime", "name", "uri"}
)
"""Attributes that some reply may have, even one that is not what its schema says: pictures and files have
the last, calls that nobody awaited those before."""

_ADDING: Final = frozenset({"update", "setdefault", "__setitem__", "__ior__"})
_NEW: Final = frozenset({"dict", "defaultdict", "Counter", "OrderedDict", "list", "DataFrame", "set"})
"""Functions that give a new container."""


class _Shape(NamedTuple):
    schema: Mapping[str, Json]
    tool: ToolSpec


def reply_faults(
    reader: ProgramReader, tools: Mapping[ast.AST, ToolSpec], reachability: Reachability
) -> Iterator[Fault]:
    """Faults in no order; `tools` are those that calls certainly go to."""
    if not any(tool.output_schema for tool in tools.values()):
        return
    changes = _Changes(reader, reachability)
    for use in reader.values.keys:
        shape = _shape(use.node.value, use.scope, tools, 0)
        key = use.node.slice.value
        if (
            shape is not None
            and _lacks(shape.schema, key)
            and not changes.may_add(key)
            and reachability.runs(use, CATCHES_KEYS)
        ):
            yield Fault("reply", _no_key(shape, key), use.node.slice)
    for use in reader.names.attribute_uses:
        shape = _shape(use.node.value, use.scope, tools, 0)
        if shape is not None and use.node.attr not in _COMMON_ATTRIBUTES and reachability.runs(use, CATCHES_ATTRIBUTES):
            message = _no_attribute(use.node, shape)
            if message:
                yield Fault("reply", message, use.node)


class _Changes:
    """Keys that a program may add to a reply, or expects where the schema has none."""

    def __init__(self, reader: ProgramReader, reachability: Reachability) -> None:
        self._reader = reader
        self._reachability = reachability

    def may_add(self, key: str) -> bool:
        return self._adds_any or key in self._reachability.texts

    @cached_property
    def _adds_any(self) -> bool:
        updates = (
            NodeUse(use.node.func.value, use.scope, use.guard)
            for use in self._reader.calls
            if isinstance(use.node.func, ast.Attribute) and use.node.func.attr in _ADDING and not _shows_keys(use.node)
        )
        return any(self._may_be_reply(use) for use in (*self._reader.values.additions, *updates))

    def _may_be_reply(self, use: NodeUse) -> bool:
        """Whether what gets keys that are not in the text is more than a new dict or list of the program's own."""
        node = use.node
        while isinstance(node, ast.Subscript):
            node = node.value
        owner = use.scope.find(node.id) if isinstance(node, ast.Name) else None
        if owner is None or not isinstance(node, ast.Name) or node.id in owner.rebound:
            return True
        match owner.values.get(node.id):
            case ast.Dict(values=values):
                return any(not isinstance(value, ast.Constant | ast.List | ast.Dict) for value in values)
            case ast.List(elts=elements):
                return bool(elements)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name not in _NEW
            case ast.DictComp():
                return False
        return True


def _shows_keys(call: ast.Call) -> bool:
    """Whether the keys that `update` and its like add are in the text."""
    arguments = call.args if last_name(call.func) == "update" else call.args[:1]
    return all(keyword.arg is not None for keyword in call.keywords) and all(
        isinstance(argument, ast.Constant)
        or (isinstance(argument, ast.Dict) and all(isinstance(key, ast.Constant) for key in argument.keys))
        for argument in arguments
    )


def _no_attribute(node: ast.Attribute, shape: _Shape) -> str:
    name = ast.unparse(node.value)
    match shape.schema.get("type"):
        case "object":
            kind, rest = "a dict", f"write {name}[{node.attr!r}]"
        case "array":
            kind, rest = "a list", f"write {in_python(node.attr, name) or f'[item.{node.attr} for item in {name}]'}"
        case _:
            return ""
    return f"{name!r} is {kind} from {shape.tool.python_name!r}, which has no attribute {node.attr!r}; {rest}"


def _lacks(schema: Mapping[str, Json], key: str) -> bool:
    properties = schema.get("properties")
    return (
        schema.get("type") == "object"
        and schema.get("additionalProperties") is False
        and "patternProperties" not in schema
        and isinstance(properties, Mapping)
        and key not in properties
    )


def _no_key(shape: _Shape, key: str) -> str:
    keys = list(shape.schema["properties"])
    near = difflib.get_close_matches(key, keys[:200], 1)
    rest = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, keys[:_FEW])) or 'none'}"
    return f"the reply of {shape.tool.python_name!r} has no key {key!r}; {rest}"


def _shape(value: ast.expr, scope: Scope, tools: Mapping[ast.AST, ToolSpec], depth: int) -> _Shape | None:
    """Certain shape of a value, followed through names that are bound once, loops, items and keys."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Call):
        return _shape_of_call(value, scope, tools, depth)
    if isinstance(value, ast.ListComp):
        return _list_shape(_shape(value.elt, scope, tools, depth + 1))
    if isinstance(value, ast.Name):
        return _shape_of_name(value.id, scope, tools, depth + 1)
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        whole = _shape(value.value, scope, tools, depth + 1)
        return None if whole is None else _at(whole, value.slice.value)
    return None


def _shape_of_call(call: ast.Call, scope: Scope, tools: Mapping[ast.AST, ToolSpec], depth: int) -> _Shape | None:
    tool = tools.get(call)
    if tool is not None:
        return _part(tool.output_schema, tool)
    match call:
        case ast.Call(
            func=ast.Attribute(attr="gather"), args=[ast.Starred(value=ast.ListComp(elt=element))], keywords=[]
        ):
            return _list_shape(_shape(element, scope, tools, depth + 1))
    return None


def _list_shape(element: _Shape | None) -> _Shape | None:
    return None if element is None else _Shape({"type": "array", "items": element.schema}, element.tool)


def _shape_of_name(name: str, scope: Scope, tools: Mapping[ast.AST, ToolSpec], depth: int) -> _Shape | None:
    owner = scope.find(name)
    if owner is None or owner.kind is Kind.CLASS or name in owner.rebound:
        return None
    assigned = owner.values.get(name)
    if assigned is not None:
        return _shape(assigned, owner, tools, depth)
    source = owner.loops.get(name)
    if source is None:
        return None
    whole = _shape(source, owner, tools, depth)
    return None if whole is None else _at(whole, 0)


def _at(whole: _Shape, key: object) -> _Shape | None:
    if isinstance(key, str):
        properties = whole.schema.get("properties")
        return _part(properties.get(key), whole.tool) if isinstance(properties, Mapping) else None
    is_list = whole.schema.get("type") == "array" and "prefixItems" not in whole.schema
    return _part(whole.schema.get("items"), whole.tool) if is_list else None


def _part(schema: Json, tool: ToolSpec) -> _Shape | None:
    """A schema that says one thing for certain; one that leaves a choice does not."""
    schema = resolve(schema, tool.output_schema)
    is_certain = isinstance(schema, Mapping) and schema.keys().isdisjoint({"anyOf", "oneOf", "allOf", "not", "if"})
    return _Shape(schema, tool) if is_certain else None


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
