"""Calls of a program's own functions with wrong arguments, and attributes that built-in types do not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import CATCHES_ATTRIBUTES, CATCHES_TYPES, Function, Kind, NodeUse
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.reachability import Reachability

_PATCHED: Final = frozenset({"__code__", "__defaults__", "__kwdefaults__"})
"""Attributes that change what a function takes."""


def arity_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """Faults in no order."""
    if not reader.names.functions or not _PATCHED.isdisjoint(reader.names.set_attributes):
        return
    for use in reader.calls:
        function = own_function(use, reader)
        fault = function and arity_fault(use.node, function.name, function.args)
        if fault and reachability.runs(use, CATCHES_TYPES):
            yield fault


def own_function(use: NodeUse, reader: ProgramReader) -> Function | None:
    """The function that a call certainly goes to; a decorator or a second definition may make it something else."""
    callee = use.node.func
    if callee.__class__ is not ast.Name or callee.id not in reader.names.functions:
        return None
    owner = use.scope.find(callee.id)
    if owner is None or callee.id in owner.rebound or owner.kind not in (Kind.MODULE, Kind.FUNCTION):
        return None
    function = owner.functions.get(callee.id)
    return function if function is not None and not function.decorator_list else None


def arity_fault(call: ast.Call, name: str, spec: ast.arguments, *, skip: int = 0) -> Fault | None:
    """What is wrong with the arguments of a call, if anything; the first `skip` parameters get theirs from Python."""
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(
        word.arg is None for word in call.keywords
    ):
        return None
    positional = [argument.arg for argument in (*spec.posonlyargs, *spec.args)][skip:]
    only_positional = {argument.arg for argument in spec.posonlyargs}
    keyword_names = {word.arg for word in call.keywords}

    def takes() -> str:
        return f"{name!r} takes {_join_names([*positional, *(argument.arg for argument in spec.kwonlyargs)])}"

    if len(call.args) > len(positional) and spec.vararg is None:
        return Fault("arguments", f"{takes()}; got {len(call.args)} positional arguments", call.args[len(positional)])
    accepted_names = {*positional, *(argument.arg for argument in spec.kwonlyargs)} - only_positional
    for word in call.keywords:
        if word.arg not in accepted_names and spec.kwarg is None:
            return Fault("arguments", f"{takes()}; it has no argument {word.arg!r}", word)
        if word.arg in positional[: len(call.args)] and word.arg not in only_positional:
            return Fault("arguments", f"{takes()}; it got {word.arg!r} twice", word)
    needed = positional[len(call.args) : max(0, len(positional) - len(spec.defaults))]
    needed += [
        argument.arg for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None
    ]
    missing = [needed_name for needed_name in needed if needed_name not in keyword_names]
    return Fault("arguments", f"{takes()}; {_join_names(missing)} is missing", call) if missing else None


def _join_names(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) if names else "no arguments"


# ----------------------------------------------------------------------------------------------------
# Attributes that no list, text or dict has, where a name certainly holds one: mostly those of other languages.

_TYPES: Final[dict[type[ast.expr], type]] = {
    ast.List: list, ast.ListComp: list, ast.Dict: dict, ast.DictComp: dict, ast.JoinedStr: str, ast.Set: set,
    ast.SetComp: set,
}  # fmt: skip
_HAS: Final[dict[type, frozenset[str]]] = {kind: frozenset(dir(kind)) for kind in (list, dict, str, set)}
_WRITE: Final = {
    "length": "len({name})", "size": "len({name})", "count": "len({name})", "push": "{name}.append(...)",
    "add": "{name}.append(...)", "includes": "... in {name}", "contains": "... in {name}",
    "indexOf": "{name}.index(...)", "forEach": "for item in {name}: ...", "map": "[... for item in {name}]",
    "filter": "[item for item in {name} if ...]", "join": "', '.join({name})", "slice": "{name}[start:stop]",
    "concat": "{name} + ...", "toUpperCase": "{name}.upper()", "toLowerCase": "{name}.lower()",
    "trim": "{name}.strip()", "startsWith": "{name}.startswith(...)", "endsWith": "{name}.endswith(...)",
    "substring": "{name}[start:stop]", "toString": "str({name})", "has_key": "... in {name}",
    "hasOwnProperty": "... in {name}", "iteritems": "{name}.items()",
}  # fmt: skip
_WORDS: Final[dict[type, str]] = {list: "a list", dict: "a dict", str: "text", set: "a set"}


def attribute_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """Faults in no order."""
    for use in reader.names.attribute_uses:
        node = use.node
        kind = _type_of(node.value, use)
        if kind is not None and node.attr not in _HAS[kind] and reachability.runs(use, CATCHES_ATTRIBUTES):
            yield Fault("name", _message(node, kind), node)


def _type_of(value: ast.expr, use: NodeUse) -> type | None:
    """The type of a name that is given its one value by one assignment, in a block that runs once and in order."""
    if not isinstance(value, ast.Name):
        return None
    owner = use.scope.find(value.id)
    if owner is None or owner.kind not in (Kind.MODULE, Kind.FUNCTION) or value.id in owner.rebound:
        return None
    assigned = owner.values.get(value.id)
    if isinstance(assigned, ast.Constant):
        return str if isinstance(assigned.value, str) else None
    return _TYPES.get(type(assigned)) if assigned is not None else None


def _message(node: ast.Attribute, kind: type) -> str:
    assert isinstance(node.value, ast.Name)
    statement = f"{node.value.id!r} is {_WORDS[kind]}, which has no {node.attr!r}"
    replacement = in_python(node.attr, node.value.id)
    if replacement is not None:
        return f"{statement}; write {replacement}"
    if kind is dict:
        return f"{statement}; write {node.value.id}[{node.attr!r}]"
    return f"{statement}; see dir({kind.__name__})"


def in_python(attribute: str, name: str) -> str | None:
    """Python's equivalent of another language's attribute of lists, strings and dicts."""
    template = _WRITE.get(attribute)
    return None if template is None else template.format(name=name)
