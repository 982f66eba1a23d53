"""The arguments of a call, as far as the text shows them, against the tool's schema."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from toolfold.models import Json, ProblemKind, ToolSpec
from toolfold.program.literals import Mismatch, accepts, mismatch, shape_of
from toolfold.program.words import respelt

# Any of these at the top may add or remove properties, so nothing about them is certain.
_UNCERTAIN: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas", "$dynamicRef")
_FEW: Final = 8


IDEMPOTENCY_KEY: Final = "idempotency_key"
"""What any call may have besides its tool's arguments: the same key twice calls the tool once."""
_ANSWERED_OUTSIDE: Final = ("caller", "parent")
"""Sources of tools whose calls leave this process as they are."""


class Fault(NamedTuple):
    """What is wrong, and the node that the caret goes under."""

    kind: ProblemKind
    message: str
    node: ast.AST


class Signature:
    """What a tool's input schema says for certain of its arguments."""

    def __init__(self, tool: ToolSpec) -> None:
        schema = tool.input_schema
        properties = schema.get("properties", {})
        self.root: Mapping[str, Json] = schema
        self.is_certain = (
            isinstance(properties, Mapping)
            and schema.get("type", "object") == "object"
            and not any(word in schema for word in _UNCERTAIN)
        )
        self.properties: Mapping[str, Json] = properties if isinstance(properties, Mapping) else {}
        self.is_lenient = tool.is_lenient
        self.order = tuple(self.properties)
        self._respelt = {respelt(name): name for name in self.order if respelt(name) != name}
        self.required = _required(schema, self.properties)
        self.is_open = _is_open(schema, self.properties)
        self.takes_key = (
            self.is_certain
            and not self.is_open
            and IDEMPOTENCY_KEY not in self.properties
            and tool.source not in _ANSWERED_OUTSIDE
        )
        """Whether `idempotency_key` is no argument of the tool's own, and so can be given for the call."""
        self.first_takes_object = bool(self.order) and accepts(self.properties[self.order[0]], "object", self.root)

    def name_of(self, argument: str) -> str | None:
        """The property that a keyword means; `user_id` may stand for `user-id`, `from_` for `from`."""
        return argument if argument in self.properties else self._respelt.get(argument)


def fault_in(call: ast.Call, name: str, signature: Signature) -> Fault | None:
    """The first thing that is certainly wrong with the arguments of a call."""
    if not signature.is_certain:
        return None
    return next(_faults(call, name, signature), None)


def _faults(call: ast.Call, name: str, signature: Signature) -> Iterator[Fault]:
    positional, has_unpacked = call.args, any(isinstance(argument, ast.Starred) for argument in call.args)
    given: dict[str, ast.expr] = {}
    is_complete = not has_unpacked and all(named.arg is not None for named in call.keywords)
    if len(positional) == 1 and not call.keywords and not has_unpacked:
        whole = positional[0]
        if isinstance(whole, ast.Dict) and _is_arguments(whole, signature):
            yield from _dict_faults(call, whole, name, signature)
            return
        # A name or a call may turn out to be a dict that holds all the arguments.
        is_complete = shape_of(whole) is not None
        if not is_complete:
            return
    if not has_unpacked:
        yield from _too_many(call, name, signature)
        given.update(zip(signature.order, positional, strict=False))
    for named in call.keywords:
        if named.arg is None:
            continue
        if named.arg in given:
            yield Fault("unknown_argument", f"{name!r} got argument {named.arg!r} twice; leave one out", named)
        known = signature.name_of(named.arg)
        if known is not None:
            given[known] = named.value
        elif not signature.is_open and not (signature.takes_key and named.arg == IDEMPOTENCY_KEY):
            yield _unknown(name, named.arg, signature, named)
    yield from _value_faults(call, given, name, signature, is_complete=is_complete)


def _dict_faults(call: ast.Call, whole: ast.Dict, name: str, signature: Signature) -> Iterator[Fault]:
    given: dict[str, ast.expr] = {}
    is_complete = True
    for key, value in zip(whole.keys, whole.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            is_complete = False
            continue
        given[key.value] = value
        if key.value not in signature.properties and not signature.is_open:
            yield _unknown(name, key.value, signature, key)
    yield from _value_faults(call, given, name, signature, is_complete=is_complete)


def _value_faults(
    call: ast.Call, given: Mapping[str, ast.expr], name: str, signature: Signature, *, is_complete: bool
) -> Iterator[Fault]:
    missing = [required for required in signature.required if required not in given] if is_complete else []
    if missing:
        named = _listed(missing)
        plural = "s" if len(missing) > 1 else ""
        yield Fault("missing_argument", f"{name!r} needs the argument{plural} {named}", call)
    for argument, value in given.items():
        wrong = mismatch(
            value, signature.properties.get(argument, True), signature.root, is_lenient=signature.is_lenient
        )
        if wrong is not None:
            yield _wrong_type(name, argument, wrong)


def _is_arguments(whole: ast.Dict, signature: Signature) -> bool:
    """Whether one positional dict is the arguments; the guest decides by the same rule."""
    if not signature.first_takes_object:
        return True
    keys = {key.value for key in whole.keys if isinstance(key, ast.Constant)}
    if len(keys) < len(whole.keys):
        return False
    return keys <= signature.properties.keys() and keys.issuperset(signature.required)


def _too_many(call: ast.Call, name: str, signature: Signature) -> Iterator[Fault]:
    count = len(signature.order)
    if len(call.args) > count:
        takes = f"takes {count} argument{'' if count == 1 else 's'}" if count else "takes no positional arguments"
        listed = f": {_listed(list(signature.order))}" if count else ""
        yield Fault("unknown_argument", f"{name!r} {takes}{listed}; got {len(call.args)}", call.args[count])


def _unknown(name: str, argument: str, signature: Signature, node: ast.AST) -> Fault:
    near = difflib.get_close_matches(argument, signature.order[:200], 1)
    if near:
        rest = f"did you mean {near[0]!r}?"
    elif signature.order:
        rest = f"it takes {_listed(list(signature.order))}"
    else:
        rest = "it takes none"
    return Fault("unknown_argument", f"{name!r} has no argument {argument!r}; {rest}", node)


def _wrong_type(name: str, argument: str, wrong: Mismatch) -> Fault:
    message = f"{name!r} argument '{argument}{wrong.path}' must be {wrong.expected}, got {wrong.got}"
    return Fault("wrong_type", message, wrong.node)


def _listed(names: list[str]) -> str:
    shown = [repr(name) for name in names[:_FEW]] + ["..."] * (len(names) > _FEW)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _required(schema: Mapping[str, Json], properties: Mapping[str, Json]) -> tuple[str, ...]:
    """Names that must be given; one that has a default is filled in by some servers."""
    required = schema.get("required", ())
    if not isinstance(required, list | tuple):
        return ()
    filled = {name for name, one in properties.items() if isinstance(one, Mapping) and "default" in one}
    return tuple(name for name in required if isinstance(name, str) and name not in filled)


def _is_open(schema: Mapping[str, Json], properties: Mapping[str, Json]) -> bool:
    """Whether arguments that are not listed are let through; without a word on it, only if none are listed."""
    if "additionalProperties" in schema:
        return schema["additionalProperties"] is not False
    return not properties or "patternProperties" in schema
