"""Parameters of a program: literals of its text that become names, and literals that must not be kept.

Pure text and trees: what a tool was called with is known from its calls in the text and from its schema.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolfold.errors import UsageError
from toolfold.models import Json, ToolSpec, Value
from toolfold.tools.error_text import is_secret, mask_secrets
from toolfold_guest.shared.reserved_names import RESERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A literal that was passed to a tool, or stands for one that was."""

    name: str
    value: Value
    line: int
    schema: Mapping[str, Json]
    node: ast.expr


def propose_parameters(text: str, specs: Iterable[ToolSpec]) -> list[Proposal]:
    """Literals that the program passed to tools, in their order."""
    tree, tools = ast.parse(text), _by_name(specs)
    assigned = _assigned(tree)
    proposals = []
    for call in ast.walk(tree):
        spec = tools.get(_called(call)) if isinstance(call, ast.Call) else None
        if spec is None or not isinstance(call, ast.Call):
            continue
        for argument, given in _arguments(call, spec):
            name, node = (given.id, assigned.get(given.id, given)) if isinstance(given, ast.Name) else (argument, given)
            if (value := _literal(node)) is not _NONE:
                schema = _schema(spec.input_schema.get("properties", {}).get(argument), value)
                proposals.append(Proposal(name=name, value=value, line=node.lineno, schema=schema, node=node))
    return sorted(proposals, key=lambda proposal: (proposal.line, proposal.node.col_offset))


def with_parameters(
    text: str, specs: Iterable[ToolSpec], wanted: Mapping[str, Value] | Sequence[str]
) -> tuple[str, dict[str, Json], dict[str, Value]]:
    """The text with names in place of literals, the schema of each name, and the literals by name.

    `wanted` has names of proposals, or names with the literal that each replaces.

    Raises:
        UsageError: There is no such literal, more than one that may be meant, or the name is taken.
    """
    proposals = propose_parameters(text, specs)
    tree = ast.parse(text)
    schemas: dict[str, Json] = {}
    arguments: dict[str, Value] = {}
    nodes: dict[ast.expr, str] = {}
    for name in wanted:
        if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
            raise UsageError(f"{name!r} cannot be the name of a parameter; choose another")
        by_value = isinstance(wanted, Mapping) and wanted[name] is not None
        found = _chosen(name, wanted[name] if isinstance(wanted, Mapping) else None, by_value, proposals, tree)
        arguments[name], schemas[name] = found[0].value, {**found[0].schema, "examples": [found[0].value]}
        nodes.update({proposal.node: name for proposal in found})
    _check_bindings(tree, arguments, nodes)
    return _replaced(text, nodes), schemas, arguments


def _chosen(name: str, value: Value, by_value: bool, proposals: Sequence[Proposal], tree: ast.Module) -> list[Proposal]:
    if by_value:
        found = [proposal for proposal in proposals if _same(proposal.value, value)]
        if len({proposal.name for proposal in found}) > 1:
            found = [proposal for proposal in found if proposal.name == name]
        if not found:
            found = [
                Proposal(name=name, value=value, line=node.lineno, schema=_schema(None, value), node=node)
                for node in _constants(tree)
                if _same(_literal(node), value)
            ]
            if len(found) > 1:
                lines = ", ".join(str(proposal.line) for proposal in found)
                raise UsageError(f"parameter {name!r} may mean {value!r} on several lines: {lines}; change the program")
        if not found:
            raise UsageError(f"parameter {name!r}: the program has no literal {value!r}{_offer(proposals)}")
        return found
    found = [proposal for proposal in proposals if proposal.name == name]
    if not found:
        raise UsageError(f"no literal that was passed to a tool is called {name!r}{_offer(proposals)}")
    if not all(_same(proposal.value, found[0].value) for proposal in found):
        values = ", ".join(repr(proposal.value) for proposal in found)
        raise UsageError(f"several literals may be {name!r}: {values}; say which, as in {name}={found[0].value!r}")
    return found


def _offer(proposals: Sequence[Proposal]) -> str:
    words = dict.fromkeys(f"{proposal.name}={proposal.value!r}" for proposal in proposals)
    return f"; there are {', '.join(words)}" if words else ""


def _check_bindings(tree: ast.Module, arguments: Mapping[str, Value], nodes: Mapping[ast.expr, str]) -> None:
    """A parameter that the program assigns to would lose its value."""
    own = {(node.lineno, node.col_offset) for node in nodes}
    for statement in ast.walk(tree):
        names: list[tuple[str, int]] = []
        match statement:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names = [(name, statement.lineno)]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [(statement.name, statement.lineno)]
            case ast.Import() | ast.ImportFrom():
                names = [
                    ((alias.asname or alias.name).partition(".")[0], statement.lineno) for alias in statement.names
                ]
        for name, line in names:
            if name in arguments and not _is_own(tree, name, own):
                raise UsageError(f"parameter {name!r} is also set on line {line} of the program; choose another name")


def _is_own(tree: ast.Module, name: str, own: set[tuple[int, int]]) -> bool:
    """Whether the only assignment to the name is that of the literal which it replaces."""
    stores = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    value = _assigned(tree).get(name)
    return len(stores) == 1 and value is not None and (value.lineno, value.col_offset) in own


def _replaced(text: str, nodes: Mapping[ast.expr, str]) -> str:
    lines = [line.encode() for line in text.split("\n")]
    for node, name in sorted(nodes.items(), key=lambda item: (item[0].lineno, item[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        rest = lines[last][node.end_col_offset :]
        lines[first : last + 1] = [lines[first][: node.col_offset] + name.encode() + rest]
    return b"\n".join(lines).decode()


# --- literals ------------------------------------------------------------------------------------

_NONE: Final = object()


# Any: what a literal stands for.
def _literal(node: ast.expr) -> Any:
    """The JSON value of a literal; `_NONE` if it is none."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NONE
    return value if isinstance(value, str | int | float | list | dict) else _NONE


def _same(first: Value, second: Value) -> bool:
    return type(first) is type(second) and bool(first == second)


def _constants(tree: ast.Module) -> Iterator[ast.expr]:
    """Literals that are no docstring and no part of another text."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in inside:
            yield node


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """The literals that names at the margin are set to, once."""
    values: dict[str, ast.expr] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in values:
                values[name] = value
    stores = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {name: value for name, value in values.items() if stores.count(name) == 1}


def _by_name(specs: Iterable[ToolSpec]) -> dict[str, ToolSpec]:
    return {name: spec for spec in specs for name in (spec.python_name, *spec.aliases, spec.short_name) if name}


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return name.removeprefix("async_")
    return ""


def _arguments(call: ast.Call, spec: ToolSpec) -> Iterator[tuple[str, ast.expr]]:
    if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Dict):
        pairs = zip(call.args[0].keys, call.args[0].values, strict=True)
        yield from (
            (key.value, value) for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)
        )
        return
    yield from zip(spec.parameters, call.args, strict=False)
    yield from ((item.arg, item.value) for item in call.keywords if item.arg is not None)


_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


# Any: a schema may be anything.
def _schema(declared: Any, value: Value) -> dict[str, Json]:
    """The schema that the tool has for the argument, where that stands alone, else the type of the value."""
    if isinstance(declared, Mapping) and declared and "$ref" not in str(declared):
        return {key: item for key, item in declared.items() if key not in ("default", "examples", "title")}
    return {"type": _TYPES[type(value)]}


# --- secrets -------------------------------------------------------------------------------------

KEY_SHAPES: Final = {
    "an API key of OpenAI or Anthropic": r"\bsk-[A-Za-z0-9_-]{20,}",
    "a token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "a token of GitLab": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "a token of Slack": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a key of AWS": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a key of Google": r"\bAIza[A-Za-z0-9_-]{35}",
    "a key of Stripe": r"\b[rs]k_live_[A-Za-z0-9]{20,}",
    "a JSON web token": r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a password in a URL": r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@",
}
"""Texts that look like a secret, by what they are."""
_SHAPES: Final = {kind: re.compile(pattern) for kind, pattern in KEY_SHAPES.items()}


def check_secrets(text: str, specs: Iterable[ToolSpec], values: Mapping[str, Value]) -> None:
    """Refuse a program with a secret in its text, and one whose record has one.

    `values` are texts and arguments of the record, by their place.

    Raises:
        UsageError: There is one; the error says where, and not what it is.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (kind := _secret(node.value)):
            raise _refusal(f"line {node.lineno}", kind)
    for number, line in enumerate(text.split("\n"), 1):
        if kind := _secret(line):
            raise _refusal(f"line {number}", kind)
    marked = {spec.name: _marked(spec) for spec in specs}
    for place, value in values.items():
        if kind := _secret_in(value):
            raise _refusal(place, kind)
        tool = place.rpartition(" of ")[2]
        if isinstance(value, Mapping):
            for name in marked.get(tool, frozenset()) & value.keys():
                raise _refusal(f"{place}, {name}", "an argument that is marked secret")


def _refusal(place: str, kind: str) -> UsageError:
    return UsageError(f"not saved: {place} has {kind}; let the tool or its config hold it, and run the program anew")


def _secret(text: str) -> str:
    shaped = next((kind for kind, shape in _SHAPES.items() if shape.search(text)), "")
    return shaped or ("a secret of the config or environment" if mask_secrets(text) != text else "")


def _secret_in(value: Value) -> str:
    match value:
        case str():
            return _secret(value)
        case Mapping():
            return next(filter(None, map(_secret_in, value.values())), "")
        case list() | tuple():
            return next(filter(None, map(_secret_in, value)), "")
    return ""


def _marked(spec: ToolSpec) -> frozenset[str]:
    """Arguments that their schema marks as secret, or that are called like one."""
    properties = spec.input_schema.get("properties", {})
    return frozenset(
        name
        for name, schema in properties.items()
        if isinstance(schema, Mapping)
        and (
            schema.get("format") == "password"
            or schema.get("writeOnly")
            or schema.get("x-secret")
            or _named(name, schema)
        )
    )


def _named(name: str, schema: Mapping[str, Json]) -> bool:
    return schema.get("type") == "string" and name.lower() not in ("key", "session") and is_secret(name)
