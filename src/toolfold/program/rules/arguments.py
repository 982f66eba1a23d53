"""Arguments of a tool call, as far as the text shows them, against the tool's schema."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from toolfold.models import Json, ProblemKind, ToolSpec
from toolfold.prompts.schema_types import resolve, texts_in
from toolfold.prompts.wording import respell

# ----------------------------------------------------------------------------------------------------
# Literals in a program's text against JSON schemas: wrong only when no reading makes them right.

WORDS: Final = {
    "string": "a string", "integer": "an integer", "number": "a number", "boolean": "a boolean", "array": "a list",
    "object": "a dict", "null": "None",
}  # fmt: skip
"""JSON types as error texts name them."""
_BOOLEANS: Final = frozenset({"true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0"})
_DEEPEST: Final = 8
_MOST_STEPS: Final = 2000
_FEW: Final = 8
_LONGEST: Final = 40
_WIDEST_NUMBER: Final = 10**20


class Mismatch(NamedTuple):
    """Where in an argument a literal is wrong, and what would be right."""

    path: str
    expected: str
    actual: str
    node: ast.expr


def shape_of(node: ast.expr) -> str | None:
    """The JSON type that an expression certainly has; `None` if that is not certain."""
    match node:
        case ast.Constant(value=value):
            return _shape_of_value(value)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=value)):
            shape = _shape_of_value(value)
            return shape if shape in {"integer", "number"} else None
        case ast.List() | ast.Tuple() | ast.Set() | ast.ListComp() | ast.SetComp():
            return "array"
        case ast.Dict() | ast.DictComp():
            return "object"
    return "string" if isinstance(node, ast.JoinedStr) else None


def mismatch(node: ast.expr, schema: Json, root: Mapping[str, Json], *, is_lenient: bool = False) -> Mismatch | None:
    """The first literal in `node` that the schema cannot accept, or that a lenient reader of it cannot."""
    return _Judge(root, is_lenient).mismatch(node, schema, "", 0)


def accepts(schema: Json, shape: str, root: Mapping[str, Json]) -> bool:
    """Whether some value of this JSON type may fit the schema."""
    return _Judge(root).fits(shape, schema, 0)


class _Judge:
    """Compares within a budget: schemas come from servers, and a recursive one has no end."""

    def __init__(self, root: Mapping[str, Json], is_lenient: bool = False) -> None:
        self._root = root
        self._is_lenient = is_lenient
        self._steps = _MOST_STEPS

    def mismatch(self, node: ast.expr, schema: Json, path: str, depth: int) -> Mismatch | None:
        schema = resolve(schema, self._root)
        shape = shape_of(node)
        if shape is None or not isinstance(schema, Mapping) or self._is_spent(depth):
            return None
        if not self.fits(shape, schema, depth, node):
            expected = " or ".join(dict.fromkeys(self._choices(schema, depth))) or "something else"
            return Mismatch(path, expected, _describe(node), node)
        for step, inner, inner_schema in _parts(node, schema):
            wrong = self.mismatch(inner, inner_schema, path + step, depth + 1)
            if wrong is not None:
                return wrong
        return None

    def fits(self, shape: str, schema: Json, depth: int, node: ast.expr | None = None) -> bool:
        schema = resolve(schema, self._root)
        if not isinstance(schema, Mapping) or self._is_spent(depth):
            return True
        if shape == "null" and (schema.get("nullable") is True or schema.get("default", "") is None):
            return True
        if self._is_lenient and node is not None and _converts(node, schema.get("type")):
            return True
        if not _type_fits(shape, schema.get("type")) or not _is_listed(shape, schema, node):
            return False
        for word in ("anyOf", "oneOf"):
            choices = schema.get(word) or [True]
            if isinstance(choices, list) and not any(self.fits(shape, choice, depth + 1, node) for choice in choices):
                return False
        every = schema.get("allOf")
        return not isinstance(every, list) or all(self.fits(shape, choice, depth + 1, node) for choice in every)

    def _is_spent(self, depth: int) -> bool:
        self._steps -= 1
        return self._steps < 0 or depth > _DEEPEST

    def _choices(self, schema: Json, depth: int) -> Iterator[str]:
        schema = resolve(schema, self._root)
        if not isinstance(schema, Mapping) or self._is_spent(depth):
            return
        if "const" in schema:
            yield _repr(schema["const"])
        elif isinstance(schema.get("enum"), list):
            texts = [_repr(value) for value in schema["enum"][:_FEW]] + ["..."] * (len(schema["enum"]) > _FEW)
            yield f"one of {', '.join(texts)}"
        elif "type" in schema:
            kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            yield from (WORDS[kind] for kind in kinds if isinstance(kind, str) and kind in WORDS)
        for word in ("anyOf", "oneOf", "allOf"):
            choices = schema.get(word)
            if isinstance(choices, list):
                for choice in choices[:_FEW]:
                    yield from self._choices(choice, depth + 1)


def _parts(node: ast.expr, schema: Mapping[str, Json]) -> Iterator[tuple[str, ast.expr, Json]]:
    """Elements of a literal list or dict, with their step in the path and their schema."""
    if isinstance(node, ast.List | ast.Tuple) and "prefixItems" not in schema and "items" in schema:
        for index, element in enumerate(node.elts):
            if isinstance(element, ast.Starred):
                return
            yield f"[{index}]", element, schema["items"]
    properties = schema.get("properties")
    if isinstance(node, ast.Dict) and isinstance(properties, Mapping):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value in properties:
                yield f".{key.value[:_LONGEST]}", value, properties[key.value]


def _shape_of_value(value: object) -> str | None:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case None:
            return "null"
        case Mapping():
            return "object"
    return "array" if isinstance(value, list | tuple) else None


def _type_fits(shape: str, kinds: Json) -> bool:
    if isinstance(kinds, str):
        kinds = [kinds]
    if not isinstance(kinds, list) or not all(isinstance(kind, str) and kind in WORDS for kind in kinds):
        return True
    return shape in kinds or (shape == "integer" and "number" in kinds)


def _converts(node: ast.expr, kinds: Json) -> bool:
    """Whether pydantic makes of a constant what the schema wants, or may make it of an f-string."""
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if isinstance(node, ast.JoinedStr):
        return any(kind in ("boolean", "integer", "number") for kind in kinds)
    if not isinstance(node, ast.Constant) or isinstance(node.value, bytes | complex):
        return False
    value = node.value
    if "boolean" in kinds and (value in (0, 1) or str(value).lower() in _BOOLEANS):
        return True
    numbers = (kind for kind in ("integer", "number") if kind in kinds)
    return isinstance(value, bool | str) and any(_is_number(value, kind) for kind in numbers)


def _is_number(value: bool | str, kind: str) -> bool:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return False
    return kind == "number" or number.is_integer()


def _is_listed(shape: str, schema: Mapping[str, Json], node: ast.expr | None) -> bool:
    """Whether `enum` and `const` leave room for the literal."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list):
        return True
    shapes = {shape, "number"} if shape == "integer" else {shape}
    same_shape = [value for value in listed if _shape_of_value(value) in shapes]
    return node.value in same_shape if isinstance(node, ast.Constant) else bool(same_shape)


def _describe(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return _repr(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return ("-" if isinstance(node.op, ast.USub) else "+") + _repr(node.operand.value)
    if isinstance(node, ast.JoinedStr):
        return "an f-string"
    return WORDS[shape_of(node) or "object"]


def _repr(value: object) -> str:
    """A short `repr`; Python refuses to print very long integers."""
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "...")
    if isinstance(value, int) and abs(value) > _WIDEST_NUMBER:
        return "a very long integer"
    return repr(value) if isinstance(value, int | float | None) else WORDS[_shape_of_value(value) or "object"]


# Any of these at the top may add or remove properties, so nothing about them is certain.
_UNCERTAIN: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas", "$dynamicRef")
_MAX_SUGGESTIONS: Final = 8


IDEMPOTENCY_KEY: Final = "idempotency_key"
"""Argument that any call may have in addition: the same key twice calls the tool once."""
_ANSWERED_OUTSIDE: Final = ("caller", "parent")
"""Sources of tools whose calls leave this process as they are."""


class Fault(NamedTuple):
    """A mistake, and the node that the caret goes under."""

    kind: ProblemKind
    message: str
    node: ast.AST
    is_certain: bool = True
    """Of one that may be meant so, the outcome has a hint."""


class InputSignature:
    """Certain facts about a tool's arguments, from its input schema."""

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
        self._respelt = {respell(name): name for name in self.order if respell(name) != name}
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

    def keyword_of(self, name: str) -> str:
        """What a program writes for a property, for messages: `filter_name_` for `filter[name]`."""
        return respell(name) if self._respelt.get(respell(name)) == name else name

    def listed(self, names: Iterable[str]) -> str:
        return _join_names([*map(self.keyword_of, names)])

    def name_of(self, argument: str) -> str | None:
        """The property that a keyword means; `user_id` may stand for `user-id`, `from_` for `from`."""
        return argument if argument in self.properties else self._respelt.get(argument)


def fault_in(call: ast.Call, name: str, signature: InputSignature) -> Fault | None:
    """The first thing that is certainly wrong with the arguments of a call."""
    if not signature.is_certain:
        return None
    return next(_faults(call, name, signature), None)


def _faults(call: ast.Call, name: str, signature: InputSignature) -> Iterator[Fault]:
    positional, has_unpacked = call.args, any(isinstance(argument, ast.Starred) for argument in call.args)
    arguments: dict[str, ast.expr] = {}
    is_complete = not has_unpacked and all(keyword.arg is not None for keyword in call.keywords)
    if len(positional) == 1 and not call.keywords and not has_unpacked:
        whole = positional[0]
        if isinstance(whole, ast.Dict) and _is_arguments(whole, signature):
            yield from dict_faults(call, whole, name, signature)
            return
        # A name or a call may turn out to be a dict that holds all the arguments.
        is_complete = shape_of(whole) is not None
        if not is_complete:
            return
    if not has_unpacked:
        yield from _too_many(call, name, signature)
        arguments.update(zip(signature.order, positional, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            continue
        if keyword.arg in arguments:
            yield Fault("unknown_argument", f"{name!r} got argument {keyword.arg!r} twice; leave one out", keyword)
        property_name = signature.name_of(keyword.arg)
        if property_name is not None:
            arguments[property_name] = keyword.value
        elif not signature.is_open and not (signature.takes_key and keyword.arg == IDEMPOTENCY_KEY):
            yield _unknown(name, keyword.arg, signature, keyword)
    yield from _value_faults(call, arguments, name, signature, is_complete=is_complete)


def dict_faults(call: ast.expr, whole: ast.Dict, name: str, signature: InputSignature) -> Iterator[Fault]:
    """What is wrong with arguments that are given as one dict."""
    arguments: dict[str, ast.expr] = {}
    is_complete = True
    for key, value in zip(whole.keys, whole.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            is_complete = False
            continue
        arguments[key.value] = value
        if key.value not in signature.properties and not signature.is_open:
            yield _unknown(name, key.value, signature, key)
    yield from _value_faults(call, arguments, name, signature, is_complete=is_complete)


def _value_faults(
    call: ast.expr, arguments: Mapping[str, ast.expr], name: str, signature: InputSignature, *, is_complete: bool
) -> Iterator[Fault]:
    missing = [required for required in signature.required if required not in arguments] if is_complete else []
    if missing:
        plural = "s" if len(missing) > 1 else ""
        yield Fault("missing_argument", f"{name!r} needs the argument{plural} {signature.listed(missing)}", call)
    for argument, value in arguments.items():
        schema = signature.properties.get(argument, True)
        wrong = mismatch(value, schema, signature.root, is_lenient=signature.is_lenient)
        if wrong is not None:
            label = f"{signature.keyword_of(argument)}{wrong.path}"
            message = f"{name!r} argument '{label}' must be {wrong.expected}, got {wrong.actual}"
            yield Fault("wrong_type", message, wrong.node)


def _is_arguments(whole: ast.Dict, signature: InputSignature) -> bool:
    """Whether one positional dict is the arguments; the guest decides by the same rule."""
    if not signature.first_takes_object:
        return True
    keys = {key.value for key in whole.keys if isinstance(key, ast.Constant)}
    if len(keys) < len(whole.keys):
        return False
    return keys <= signature.properties.keys() and keys.issuperset(signature.required)


def _too_many(call: ast.Call, name: str, signature: InputSignature) -> Iterator[Fault]:
    count = len(signature.order)
    if len(call.args) > count:
        takes = f"takes {count} argument{'' if count == 1 else 's'}" if count else "takes no positional arguments"
        listed = f": {signature.listed(signature.order)}" if count else ""
        yield Fault("unknown_argument", f"{name!r} {takes}{listed}; got {len(call.args)}", call.args[count])


def _unknown(name: str, argument: str, signature: InputSignature, node: ast.AST) -> Fault:
    keywords = [signature.keyword_of(entry) for entry in signature.order[:200]]
    near = difflib.get_close_matches(argument, keywords, 1)
    if near:
        rest = f"did you mean {near[0]!r}?"
    elif signature.order:
        rest = f"it takes {signature.listed(signature.order)}"
    else:
        rest = "it takes none"
    return Fault("unknown_argument", f"{name!r} has no argument {argument!r}; {rest}", node)


def _join_names(names: list[str]) -> str:
    texts = [repr(name) for name in names[:_MAX_SUGGESTIONS]] + ["..."] * (len(names) > _MAX_SUGGESTIONS)
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _required(schema: Mapping[str, Json], properties: Mapping[str, Json]) -> tuple[str, ...]:
    """Names that must be given; one that has a default is filled in by some servers."""
    filled = {name for name, inner in properties.items() if isinstance(inner, Mapping) and "default" in inner}
    return tuple(name for name in texts_in(schema.get("required")) if name not in filled)


def _is_open(schema: Mapping[str, Json], properties: Mapping[str, Json]) -> bool:
    """Whether arguments that are not listed are let through; without a word on it, only if none are listed."""
    if "additionalProperties" in schema:
        return schema["additionalProperties"] is not False
    return not properties or "patternProperties" in schema
