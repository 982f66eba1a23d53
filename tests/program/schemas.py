"""Random JSON Schemas, of the kind that strangers send: deep, circular, misspelt, hostile."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(
    ["id", "name", "user-id", "class", "from", "None", "str", "list", "Any", "Literal", "__x", "__debug__", "", " ", "1st",
     "日本", "a b", "a-b", "a_b", 'quo"te', "back\\slash", "new\nline", "nul\0", "\ud800", "Record", "self", "TypedDict",
     "items", "x" * 300, "more", "ﬁ", "type", "int", "T2", "True"]
)  # fmt: skip
TEXTS = NAMES | st.sampled_from(
    ['"""', '\\"""', "ends in \\", 'ends in "', "type: ignore", "type: int", "# type: ignore", "a\r\nb\x0cc\u2028d", "'''",
     "{braces}", "w " * 400, "\u202e reversed", "mypy: ignore-errors", "%s {} \\N{BULLET}"]
)  # fmt: skip
POINTERS = st.sampled_from(
    ["#", "#/$defs/A", "#/$defs/B", "#/$defs/a~1b", "#/properties/id", "#/nowhere", "http://example.com/x", "", "#/"]
)
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | TEXTS | st.just(10**30)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))
TYPES = st.sampled_from(
    ["string", "integer", "number", "boolean", "null", "array", "object", "dict", "float", "String", "bogus", 3, None]
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    words: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, max_size=3),
        "description": TEXTS | SCALARS,
        "title": st.sampled_from(["Node", "Item", "a title", "class", "Any", 3]),
        "properties": st.dictionaries(NAMES, inner, max_size=4) | SCALARS,
        "required": st.lists(NAMES | st.integers(), max_size=3) | SCALARS,
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(TEXTS, inner, max_size=2),
        "items": inner | st.lists(inner, max_size=2),
        "prefixItems": st.lists(inner, max_size=3),
        "maxItems": st.integers(0, 3),
        "minimum": SCALARS,
        "format": TEXTS,
        "pattern": TEXTS,
        "enum": st.lists(VALUES, max_size=4) | SCALARS,
        "const": VALUES,
        "default": VALUES,
        "nullable": st.booleans(),
        "$ref": POINTERS | SCALARS,
        "anyOf": st.lists(inner, max_size=3) | SCALARS,
        "oneOf": st.lists(inner, max_size=3),
        "allOf": st.lists(inner, max_size=3),
        "$defs": st.fixed_dictionaries({}, optional={"A": inner, "B": inner, "a/b": inner}) | SCALARS,
    }
    return st.lists(st.sampled_from(sorted(words)), max_size=5, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({word: words[word] for word in chosen})
    )


SCHEMAS = st.recursive(st.booleans() | _objects(st.booleans()), _objects, max_leaves=12)
INPUT_SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(NAMES, SCHEMAS, max_size=4)},
    optional={
        "required": st.lists(NAMES, max_size=3),
        "$defs": st.fixed_dictionaries({"A": SCHEMAS, "B": SCHEMAS}),
        "additionalProperties": SCHEMAS,
    },
) | SCHEMAS.filter(lambda one: isinstance(one, dict))
