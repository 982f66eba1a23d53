"""Words for uses that no value of a type allows: attributes, keys, operators, arguments. Empty for one that may work.

Knows types and the text of an expression, not programs.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from toolfold.models import ToolSpec
from toolfold.program.known_names import FACTS
from toolfold.program.rules.arguments import WORDS as JSON_WORDS
from toolfold.program.rules.arguments import InputSignature, accepts
from toolfold.program.rules.value_types import ATTRIBUTES, NUMBERS, WORDS, Type, ValueType, used

_FEW: Final = 8
_LONGEST: Final = 40
_OF_RESPONSES: Final = frozenset({"json", "text", "content", "data", "body", "result", "value", "results", "response"})
"""What replies of other libraries have, where the program has the value itself."""
_OF_MEDIA: Final = frozenset({"data", "kind", "mime", "name", "text", "uri"})
_OF_COROUTINES: Final = frozenset({"close", "send", "throw"})
_SEQUENCES: Final = frozenset({"list", "tuple", "str"})
_CONTAINERS: Final = frozenset({"list", "tuple", "dict", "set"})
_FLAT: Final = NUMBERS | {"None", "set", "view", "dict"}
_ALONE: Final = "call it on a line of its own"


def _text(node: ast.expr, instead: str = "it") -> str:
    """An expression as the program has it, if that is short."""
    text = ast.unparse(node)
    if len(text) > _LONGEST or "\n" in text:
        return instead
    return f"({text})" if isinstance(node, ast.Await | ast.BinOp | ast.BoolOp | ast.IfExp) else text


def _is(node: ast.expr, value: ValueType) -> str:
    """`'rows' is a list from 'list_users'`."""
    if value.name == "None" and value.source:
        return f"{value.source} gives None" if value.source.startswith("'") else f"{value.source} is None"
    text = _text(node, "")
    return f"{repr(text) if text else 'the value'} is {WORDS[value.name]}{_from(value)}"


def _from(value: ValueType) -> str:
    return f" from {value.tool!r}" if value.tool else ""


def _is_judged(value: Type) -> bool:
    """Whether a mistake with it can be told: a `None` may be there to be tested for."""
    return value is not None and value.name in WORDS and (value.name != "None" or bool(value.source))


def no_attribute(node: ast.Attribute, value: ValueType, *, is_pending: bool) -> str:
    names, attribute = ATTRIBUTES.get(value.name), node.attr
    if names is None or attribute in names or not _is_judged(value) or attribute.startswith("__"):
        return ""
    if is_pending and (attribute in _OF_COROUTINES or attribute.startswith(("cr_", "_"))):
        return ""
    if attribute in _OF_MEDIA and value.name == "dict" and value.schema is not None and value.keys is None:
        return ""  # a picture or a file, whatever the schema says
    return f"{_is(node.value, value)}, which has no attribute {attribute!r}; {_instead(attribute, node.value, value)}"


def _instead(attribute: str, node: ast.expr, value: ValueType) -> str:
    name, kind = _text(node), value.name
    if kind == "None":
        return _ALONE
    if kind == "dict" and attribute in (value.keys or value.fields or ()):
        return f"write {name}[{attribute!r}]"
    if kind == "dict" and attribute in ("append", "push", "add", "extend"):
        return f"assign a key: {name}['key'] = value"
    python = FACTS.other_attributes.get(attribute, "").format(name=name)
    if python and (kind != "dict" or attribute not in ("map", "filter", "join", "slice", "concat")):
        return f"write {python}"
    near = difflib.get_close_matches(attribute, [other for other in ATTRIBUTES[kind] if other[0] != "_"], 1, 0.75)
    if near:
        return f"did you mean {near[0]!r}?"
    if attribute in _OF_RESPONSES and value.tool:
        return f"leave out '.{attribute}': the call gives the value itself"
    element = value.element() if kind == "list" else None
    if element is not None and element.name == "dict":
        inner = f"item[{attribute!r}]" if attribute in (element.keys or ()) else "..."
        return f"write [{inner} for item in {name}]"
    if kind == "list":
        return f"write [item.{attribute} for item in {name}]"
    return f"write {name}[{attribute!r}]" if kind == "dict" else f"see dir({kind})"


def no_key(value: ValueType, key: str | int) -> str:
    keys = value.keys or []
    near = difflib.get_close_matches(str(key), keys[:200], 1)
    rest = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, keys[:_FEW])) or 'none'}"
    return f"the reply of {value.tool!r} has no key {key!r}; {rest}"


def no_item(node: ast.Subscript, value: ValueType, index: Type) -> str:
    """A subscript of what has no such items, whatever is in it."""
    is_odd_index = index is not None and index.name in ("str", "float", "list", "dict", "tuple", "None")
    if not _is_judged(value) or not (is_odd_index or value.name in _FLAT):
        return ""
    if value.name == "dict" and not (isinstance(node.slice, ast.Slice) and value.schema):
        return ""
    name, key, start = _text(node.value), _text(node.slice, "key"), _is(node.value, value)
    if value.name in NUMBERS | {"None"}:
        return f"{start}, which has no items; {_ALONE if value.name == 'None' else f'leave out [{key}]'}"
    if value.name in ("set", "view", "dict"):
        return f"{start}, which has no order; write list({name})[{key}]"
    assert index is not None
    rest = "use an int"
    if index.name == "str" and value.name == "str":
        rest = f"parse it first: json.loads({name})[{key}]"
    elif index.name == "str":
        keys = getattr(value.element(), "keys", None) or ()
        has_key = isinstance(node.slice, ast.Constant) and node.slice.value in keys
        rest = f"write {name}[0][{key}] or loop over it" if has_key else "it has its items itself: loop over it"
    return f"{start}, which takes no {WORDS[index.name].removeprefix('a ')} as an index; {rest}"


def not_stored(node: ast.Subscript, value: ValueType, index: Type) -> str:
    if value.name in ("str", "tuple", *NUMBERS):
        return f"{_is(node.value, value)}, whose items cannot be assigned; make a new value"
    is_keyed = value.name == "list" and index is not None and index.name == "str"
    return no_item(node, value, index) if is_keyed else ""


def not_called(node: ast.Call, value: ValueType) -> str:
    return f"{_is(node.func, value)}, not a function; leave out the parentheses" if _is_judged(value) else ""


def not_awaited(node: ast.expr, value: ValueType) -> str:
    """An `await` of what is a value already."""
    if value.source == "'time.sleep'":
        return "'time.sleep' cannot be awaited; write asyncio.sleep"
    return f"{_is(node, value)} already, not a call; leave out this 'await'" if _is_judged(value) else ""


def not_gathered(node: ast.expr, value: Type) -> str:
    inner = node.value if isinstance(node, ast.Starred) else None
    if isinstance(inner, ast.GeneratorExp) and any(isinstance(part, ast.Await) for part in ast.walk(inner.elt)):
        return "'gather' takes calls, not replies; leave out the 'await' inside it"
    if value is None or not _is_judged(value):
        return ""
    return f"'gather' takes calls, and this is {WORDS[value.name]} already; leave out the 'await' of it"


def early(node: ast.expr, call: ast.Call) -> str:
    """`await f(x)["k"]`."""
    rest = ast.unparse(node)[len(ast.unparse(call)) :]
    text = _text(call, f"{ast.unparse(call.func)}(...)")
    return f"this takes {rest!r} of the call before the reply is there; write (await {text}){rest}"


def not_iterable(node: ast.expr, value: ValueType) -> str:
    if value.name in NUMBERS:
        return f"{_is(node, value)}, which has no items; write range({_text(node)}) to count"
    return f"{_is(node, value)}, which has no items; {_ALONE}" if value.name == "None" and value.source else ""


def not_unpacked(node: ast.expr, value: ValueType, count: int) -> str:
    """`a, b = value`, without a star."""
    if value.name == "dict" and value.keys is not None and count > 1:
        name = _text(node, "reply")
        firsts = ", ".join(f"{name}[{key!r}]" for key in value.keys[:count])
        return f"{_is(node, value)}, of which this takes the keys; write {firsts}"
    if value.name in ("tuple", "list") and value.parts is not None and len(value.parts) != count:
        return f"{_is(node, value)} of {len(value.parts)}, unpacked into {count}; write as many names"
    return not_iterable(node, value)


# ----------------------------------------------------------------------------------------------------
# Operators, between two types that are both known.

_Operand: TypeAlias = tuple[ast.expr, ValueType]
_ORDER: Final[dict[type[ast.AST], str]] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_SIGNS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Pow: "**", ast.Mod: "%", **_ORDER,
}  # fmt: skip


def no_operator(kind: type[ast.AST], first: _Operand, second: _Operand) -> str:
    if kind not in _SIGNS or any(not _is_judged(value) or value.name == "view" for _, value in (first, second)):
        return ""
    families = [("number" if value.name in NUMBERS else value.name) for _, value in (first, second)]
    if families == ["number", "number"] or _is_allowed(kind, families, [first[1].name, second[1].name]):
        return ""
    message = f"{_is(*first)} and {_is(*second)}: '{_SIGNS[kind]}' does not take them together"
    return f"{message}; {_convert(kind, families, [first, second])}"


def _is_allowed(kind: type[ast.AST], families: list[str], names: list[str]) -> bool:
    are_same = families[0] == families[1]
    if kind is ast.Mult:
        return not _SEQUENCES.isdisjoint(names) and not {"int", "bool"}.isdisjoint(names)
    if kind is ast.Mod:
        return names[0] == "str"
    if kind is ast.Add:
        return are_same and names[0] in _SEQUENCES
    return are_same and names[0] in (_SEQUENCES | {"set"} if kind in _ORDER else {"set"})


def _convert(kind: type[ast.AST], families: list[str], operands: list[_Operand]) -> str:
    by_family = {family: _text(node, "...") for family, (node, _) in zip(families, operands, strict=True)}
    if "None" in families:
        return _ALONE
    if kind is ast.Add and "str" in families:
        other = operands[families[0] == "str"][0]
        return f"write str({_text(other, '...')}) or an f-string"
    if set(families) == {"list", "number"} and kind is not ast.Add:
        return f"write len({by_family['list']})"
    if set(families) == {"number", "str"}:
        text = by_family["str"]
        digits = text.strip("'\" ")
        return f"write {digits}" if digits.replace(".", "", 1).isdigit() else f"write float({text})"
    for family, (node, value) in zip(families, operands, strict=True):
        if family == "dict":
            return f"take a value of the dict, such as {_text(node, 'reply')}[{(value.keys or ['key'])[0]!r}]"
    return "convert one of them"


def never_equal(value: Type, constants: list[ast.expr]) -> str:
    """A comparison with a choice that is misspelt, with a number as text, or of text with a number."""
    values = [node.value for node in constants if isinstance(node, ast.Constant)]
    if value is None or not values or len(values) < len(constants):
        return ""
    texts, first, choices = [text for text in values if isinstance(text, str)], values[0], value.choices
    if value.name in ("int", "float") and len(texts) == len(values) and all(map(_is_number, texts)):
        return f"a number{_from(value)} never equals {first!r}; write {texts[0]}"
    if value.name == "str" and all(type(other) in (int, float) for other in values):
        return f"text{_from(value)} never equals {first!r}; write '{first!r}'"
    if choices is None or len(texts) < len(values) or any(text in choices for text in texts):
        return ""
    by_case = {choice.lower(): choice for choice in choices}
    near = [difflib.get_close_matches(text.lower(), list(by_case), 1, 0.75) for text in texts]
    if not all(near):
        return ""
    listed = ", ".join(map(repr, choices[:_FEW]))
    return f"{first!r} is no value{_from(value)}; did you mean {by_case[near[0][0]]!r}? there are {listed}"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


# ----------------------------------------------------------------------------------------------------
# Arguments: of builtins, of a few functions of the standard library, and of tools.

_COMPARING: Final = frozenset({"max", "min", "sorted"})


def bad_argument(name: str, node: ast.Call, value: Type, element: Type) -> str:
    """Arguments of a builtin, or of `sleep`."""
    if name in ("time.sleep", "asyncio.sleep"):
        return _bad_sleep(name, node, value)
    if value is None or not _is_judged(value) or len(node.args) != 1:
        return ""
    argument, kind = node.args[0], value.name
    if name == "len" and kind in NUMBERS | {"None"}:
        return f"{_is(argument, value)}, which has no length; {'use it as it is' if kind in NUMBERS else _ALONE}"
    if name == "range" and kind in ("str", "list", "dict", "float"):
        change = f"range({'int' if kind == 'float' else 'len'}({_text(argument)}))"
        return f"{_is(argument, value)}, and 'range' takes an int; write {change}"
    if kind in _CONTAINERS and name in ("int", "float", "abs", "round"):
        inside = f", such as {_text(argument, 'reply')}[{value.keys[0]!r}]" if value.keys else ""
        return f"{_is(argument, value)}, and {name!r} takes a number; give it one{inside}"
    if element is None or kind == "dict" or not _is_judged(element):
        return ""
    if (name == "sum" and element.name in ("dict", "str", "list")) or (
        name in _COMPARING and element.name == "dict" and not node.keywords
    ):
        text = _text(argument)
        return f"{name!r} cannot take {WORDS[element.name]} for each item of {text!r}; {_each(name, element)}"
    if name in ("set", "frozenset") and element.name in ("dict", "list"):
        return f"a set cannot hold {WORDS[element.name]}; {_each('set', element)}"
    return ""


def _bad_sleep(name: str, node: ast.Call, value: Type) -> str:
    is_blocking = name.startswith("time")
    if (not node.args and (is_blocking or not node.keywords)) or (is_blocking and len(node.args) > 1):
        return f"{name!r} takes the seconds and nothing else; write {name}(1)"
    text = _text(node.args[0], "...") if node.args else ""
    if value is not None and value.name == "timedelta":
        return f"{name!r} takes seconds; write {text}.total_seconds()"
    if value is not None and value.name in ("str", "list", "dict", "tuple", "None"):
        return f"{text!r} is {WORDS[value.name]}, and {name!r} takes seconds; write a number"
    return ""


def bad_join(separator: ast.expr, node: ast.expr, element: Type) -> str:
    if element is None or not _is_judged(element) or element.name == "str":
        return ""
    rest = _each("join", element) if element.name == "dict" else f"write {_text(separator)}.join(str(x) for x in ...)"
    return f"'join' takes text, and each item of {_text(node, 'the list')!r} is {WORDS[element.name]}; {rest}"


def _each(name: str, element: ValueType) -> str:
    if element.name != "dict":
        return "convert each with float(...)" if element.name == "str" else "take them apart"
    keys = element.keys or ["key"]
    names = f" (it has {', '.join(map(repr, keys[:_FEW]))})" if element.keys else ""
    if name in _COMPARING:
        return f"add key=lambda item: item[{keys[0]!r}]{names}"
    return f"take one value of each: item[{keys[0]!r}] for item in ...{names}"


_SHAPES: Final = {
    "dict": "object", "list": "array", "tuple": "array", "set": "array", "str": "string", "int": "integer",
    "float": "number", "bool": "boolean",
}  # fmt: skip


def wrong_arguments(
    node: ast.Call, tool: ToolSpec, signature: InputSignature, types: list[Type], keywords: Mapping[str, Type]
) -> Iterator[tuple[ast.expr, str]]:
    """Arguments of a tool's call that its schema does not accept, whatever their value is."""
    if not signature.is_certain or any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    first = used(types[0]) if types else None
    if len(types) == 1 and not keywords and (first is None or first.name == "dict"):
        message = _not_whole(node.args[0], tool, first, signature)
        if message:
            yield node.args[0], message
        return
    pairs = [*zip(signature.order, node.args, types, strict=False)]
    pairs += [(keyword.arg or "", keyword.value, keywords[keyword.arg or ""]) for keyword in node.keywords]
    for name, argument, pending in pairs:
        value, schema = used(pending), signature.properties.get(signature.name_of(name) or "")
        shape = None if value is None or isinstance(argument, ast.Constant) else _SHAPES.get(value.name)
        if value is None or shape is None or schema is None:
            continue
        shapes = {shape, "integer"} if shape == "number" else {shape}
        if signature.is_lenient and shape in ("string", "boolean", "integer", "number"):
            shapes |= {"integer", "number", "boolean"}
        if not any(accepts(schema, other, signature.root) for other in shapes):
            expected = schema.get("type") if isinstance(schema, Mapping) else None
            word = JSON_WORDS.get(expected, "something else") if isinstance(expected, str) else "something else"
            message = f"{tool.python_name!r} argument {name!r} must be {word}; {_is(argument, value)}"
            yield argument, message + _converted(argument, value, expected)


def _not_whole(node: ast.expr, tool: ToolSpec, value: Type, signature: InputSignature) -> str:
    """One dict is all the arguments, where the first of them is no dict."""
    keys = None if value is None or signature.first_takes_object or signature.is_open else value.keys
    if value is None or keys is None:
        return ""
    if signature.properties.keys() >= set(keys) >= set(signature.required):
        return ""
    near = next((key for key in keys if key in signature.properties), keys[0] if keys else "key")
    start = f"{_is(node, value)}, whose keys are not the arguments of {tool.python_name!r}"
    return f"{start}; write {_text(node, 'reply')}[{near!r}]"


# object: the type that a schema names, if it does.
def _converted(node: ast.expr, value: ValueType, expected: object) -> str:
    name = _text(node, "reply")
    if expected == "array":
        return f"; write [{name}]"
    if expected == "string" and value.name in NUMBERS:
        return f"; write str({name})"
    if value.name == "dict" and value.keys:
        return f"; take one of its values, such as {name}[{value.keys[0]!r}]"
    return f"; take one of its items, such as {name}[0]" if value.name == "list" else ""
