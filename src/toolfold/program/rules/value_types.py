"""Types that values certainly have: of replies by their output schema, of literals, and of what Python makes of them.

`None` stands for a type that nobody knows. Knows types and schemas, not programs.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

from toolfold.models import Json
from toolfold.program.syntax_facts import last_name
from toolfold.prompts.schema_types import resolve

_CHOICES: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "nullable", "$dynamicRef"})
_BYTES: Final = frozenset({"binary", "byte", "base64", "base64url"})
_NAMES: Final = {
    "object": "dict", "array": "list", "string": "str", "integer": "int", "number": "float", "boolean": "bool",
    "null": "None",
}  # fmt: skip
NUMBERS: Final = frozenset({"int", "float", "bool"})
SCALARS: Final = NUMBERS | {"str"}
WORDS: Final = {
    "list": "a list", "dict": "a dict", "str": "text", "set": "a set", "tuple": "a tuple", "int": "a number",
    "float": "a number", "bool": "a bool", "None": "None", "view": "a view of a dict",
}  # fmt: skip
"""Types as error texts name them; others are never judged."""
ATTRIBUTES: Final = {
    "list": frozenset(dir(list)), "dict": frozenset(dir(defaultdict)), "str": frozenset(dir(str)),
    "set": frozenset(dir(set)), "tuple": frozenset(dir(tuple)), "int": frozenset(dir(int)),
    "bool": frozenset(dir(bool)), "float": frozenset({*dir(float), *dir(int)}), "None": frozenset(dir(None)),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ValueType:
    """The type of a value. `call` and `task` are awaited for their `item`; a `call` is also used as it."""

    name: str
    item: ValueType | None = None
    """Of what it has inside; of a dict the values."""
    parts: tuple[ValueType | None, ...] | None = None
    """Of each element of a tuple."""
    fields: Mapping[str, ValueType | None] | None = None
    """Of the values of a dict that stands in the text."""
    schema: Mapping[str, Json] | None = None
    root: Json = None
    tool: str = ""
    """The tool that replied it, or something with it inside."""
    source: str = ""
    """Where a `None` comes from that nobody expects."""

    def element(self) -> ValueType | None:
        """What a loop over it gives."""
        if self.schema is not None and self.name == "list":
            schema = self.schema
            return None if "prefixItems" in schema else from_schema(schema.get("items"), self.root, self.tool)
        if self.name == "tuple" and self.parts is not None:
            return join_all(self.parts)
        if self.name == "str":
            return STR
        if self.name == "dict":
            return STR if self.schema is not None or self.fields is not None else None
        return self.item

    def field(self, key: str) -> ValueType | None:
        """The value of a dict at a key."""
        if self.schema is not None:
            properties = self.schema.get("properties")
            return from_schema(properties.get(key), self.root, self.tool) if isinstance(properties, Mapping) else None
        return self.fields.get(key, self.item) if self.fields is not None else self.item

    @property
    def keys(self) -> list[str] | None:
        """All keys that a reply may have; `None` if it may have others."""
        schema = self.schema
        if schema is None or self.name != "dict" or schema.get("additionalProperties") is not False:
            return None
        properties = schema.get("properties")
        return list(properties) if isinstance(properties, Mapping) and "patternProperties" not in schema else None

    @property
    def choices(self) -> list[str] | None:
        """The only texts that it can be."""
        schema = self.schema
        if schema is None or self.name != "str":
            return None
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None


Type: TypeAlias = ValueType | None
STR: Final = ValueType(name="str")
INT: Final = ValueType(name="int")
FLOAT: Final = ValueType(name="float")
BOOL: Final = ValueType(name="bool")
NONE: Final = ValueType(name="None")
DICT: Final = ValueType(name="dict")
LIST: Final = ValueType(name="list")
SET: Final = ValueType(name="set")
TEXTS: Final = ValueType(name="list", item=STR)


def from_schema(schema: Json, root: Json, tool: str) -> Type:
    """The type that a schema leaves no choice about."""
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping) or not schema.keys().isdisjoint(_CHOICES):
        return None
    kind = schema.get("type")
    name = _NAMES.get(kind) if isinstance(kind, str) else None
    if name is None or (name == "str" and (schema.get("format") in _BYTES or "contentEncoding" in schema)):
        return None
    source = f"the reply of {tool!r}" if name == "None" else ""
    return ValueType(name=name, schema=schema, root=root, tool=tool, source=source)


def list_of(item: Type, name: str = "list") -> ValueType:
    return ValueType(name=name, item=item, tool=item.tool if item is not None else "")


def none_from(source: str) -> ValueType:
    """What a function gives that gives nothing."""
    return ValueType(name="None", source=repr(source))


def used(value: Type) -> Type:
    """The type that a value is used as: a call that was not awaited is its reply."""
    return value.item if value is not None and value.name == "call" else value


def awaited(value: Type) -> Type:
    return value.item if value is not None and value.name in ("call", "task") else None


def join(first: Type, second: Type) -> Type:
    """The type of a value that has one of two types."""
    if first is second or first is None or second is None:
        return first if first is second else None
    if first.name != second.name:
        is_number = first.name in NUMBERS and second.name in NUMBERS
        return (FLOAT if "float" in (first.name, second.name) else INT) if is_number else None
    if first.schema is not None and first.schema is second.schema:
        return first
    tool = first.tool if first.tool == second.tool else ""
    if first.name == "tuple":
        if first.parts is None or second.parts is None or len(first.parts) != len(second.parts):
            return ValueType(name="tuple")
        return ValueType(name="tuple", parts=tuple(map(join, first.parts, second.parts)))
    if first.name in SCALARS:
        return ValueType(name=first.name, tool=tool)
    item = None if first.name == "dict" else join(first.element(), second.element())
    return ValueType(name=first.name, item=item, tool=tool, source=first.source and second.source)


def join_all(types: Iterable[Type]) -> Type:
    members = tuple(types)
    return reduce(join, members) if members else None


def fits(value: Type, item: Type) -> bool:
    """Whether a container of such items stays one when it gets the value."""
    if value is None or item is None:
        return False
    return value is item or (
        value.name == item.name and (item.name in SCALARS or value.schema is item.schema is not None)
    )


# ----------------------------------------------------------------------------------------------------
# What methods give.

_OF_STR: Final[dict[str, ValueType]] = {
    **dict.fromkeys((
        "capitalize", "casefold", "center", "expandtabs", "format", "join", "ljust", "lower", "lstrip",
        "removeprefix", "removesuffix", "replace", "rjust", "rstrip", "strip", "swapcase", "title", "translate",
        "upper", "zfill",
    ), STR),
    **dict.fromkeys(("split", "rsplit", "splitlines"), TEXTS),
    **dict.fromkeys(("count", "find", "index", "rfind", "rindex"), INT),
    **dict.fromkeys(("startswith", "endswith", "isalnum", "isalpha", "isdigit", "islower", "isupper"), BOOL),
    **dict.fromkeys(("partition", "rpartition"), ValueType(name="tuple", parts=(STR, STR, STR))),
}  # fmt: skip
_GIVES_NONE: Final = {
    "list": frozenset({"append", "extend", "insert", "sort", "reverse", "clear", "remove"}),
    "dict": frozenset({"update", "clear"}),
    "set": frozenset({"add", "update", "discard", "remove", "clear"}),
}


def of_method(value: ValueType, method: str) -> Type:
    """The type of what a method without regard to its arguments gives."""
    if method in _GIVES_NONE.get(value.name, ()):
        return none_from(method)
    if value.name == "str":
        return _OF_STR.get(method)
    if method == "copy":
        return value
    if value.name == "list":
        return value.element() if method == "pop" else INT if method in ("index", "count") else None
    if value.name != "dict":
        return None
    if method == "keys":
        return list_of(value.element(), "view")
    values = value.item
    if value.fields is not None or value.schema is not None:
        names = value.fields if value.fields is not None else value.keys
        values = None if names is None else join_all(value.field(name) for name in names)
    if method == "values":
        return list_of(values, "view")
    return list_of(ValueType(name="tuple", parts=(value.element(), values)), "view") if method == "items" else None


# ----------------------------------------------------------------------------------------------------
# What builtins and functions of the standard library give: always the same, or by the types of their arguments.

RESULTS: Final[dict[str, ValueType]] = {
    **dict.fromkeys(("str", "repr", "format", "chr", "json.dumps", "textwrap.dedent", "re.sub", "os.path.join"), STR),
    **dict.fromkeys(("len", "int", "ord", "hash", "id", "math.floor", "math.ceil"), INT),
    **dict.fromkeys(("float", "time.time", "time.perf_counter", "math.sqrt", "statistics.stdev"), FLOAT),
    **dict.fromkeys(("bool", "all", "any"), BOOL), **dict.fromkeys(("re.findall", "re.split"), LIST), "dict": DICT,
    "datetime.timedelta": ValueType(name="timedelta"), "print": none_from("print"),
    "time.sleep": none_from("time.sleep"), "asyncio.sleep": ValueType(name="task", item=NONE),
    "range": ValueType(name="iterator", item=INT),
}  # fmt: skip
ITERATING: Final = frozenset(
    {"all", "any", "enumerate", "filter", "frozenset", "iter", "list", "map", "max", "min", "reversed", "set", "sorted",
     "statistics.mean", "statistics.median", "sum", "tuple", "zip"}
)  # fmt: skip
"""Functions that loop over what they are given."""
_FACTORIES: Final = {"list": LIST, "int": INT, "float": FLOAT}


def _same(_node: ast.Call, types: list[Type], _element: Type, _results: list[Type]) -> Type:
    value = used(types[0]) if types else None
    return value if value is not None and value.name in ("dict", "list") else None


def _number(_node: ast.Call, types: list[Type], element: Type, _results: list[Type]) -> Type:
    value = element if element is not None or not types else used(types[0])
    return value if value is not None and value.name in NUMBERS else None


def _task(_node: ast.Call, types: list[Type], _element: Type, _results: list[Type]) -> Type:
    return ValueType(name="task", item=awaited(types[0] if types else None))


SPECIAL: Final[dict[str, Callable[[ast.Call, list[Type], Type, list[Type]], Type]]] = {
    "enumerate": lambda _n, _t, element, _r: list_of(ValueType(name="tuple", parts=(INT, element)), "iterator"),
    "map": lambda _n, _t, _e, results: list_of(results[0] if results else None, "iterator"),
    **dict.fromkeys(("filter", "reversed", "iter"), lambda _n, _t, element, _r: list_of(element, "iterator")),
    **dict.fromkeys(("list", "sorted"), lambda _n, _t, element, _r: list_of(element)),
    "tuple": lambda _n, _t, element, _r: list_of(element, "tuple"),
    "set": lambda _n, _t, element, _r: list_of(element, "set"),
    **dict.fromkeys(("max", "min"), lambda _n, _t, element, _r: element),
    **dict.fromkeys(("sum", "abs"), _number),
    **dict.fromkeys(("json.loads", "copy.copy", "copy.deepcopy"), _same),
    "collections.defaultdict": lambda node, _t, _e, _r: ValueType(
        name="dict", item=_FACTORIES.get(last_name(node.args[0])) if node.args else None
    ),
    **dict.fromkeys(("asyncio.create_task", "asyncio.ensure_future", "asyncio.shield", "asyncio.wait_for"), _task),
    "asyncio.run": lambda _n, types, _e, _r: awaited(types[0] if types else None),
}  # fmt: skip
