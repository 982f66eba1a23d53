"""One tool as a typed Python function: its parameters, its return type and its docstring."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from toolfold.models import Json, ToolSpec
from toolfold.program.records import TYPE_NAMES
from toolfold.program.schema_merge import flattened
from toolfold.program.typing_text import Types, note_on, pascal
from toolfold.program.unions import ANY, NONE, Union, accepts, expression, unite
from toolfold.program.words import cut, docstring, one_line, paragraphs, respelt
from toolfold_guest.rules import is_text

LONGEST_DESCRIPTION: Final = 4000
_LONGEST_LINE: Final = 120
_LONGEST_NOTE: Final = 500
_LONGEST_VALUE: Final = 200
_LONGEST_KEYWORD: Final = 100
_LONGEST_FIRST_LINE: Final = 160
_MOST_PARAMETERS: Final = 200
_MOST_EXAMPLES: Final = 3
_NO_NAME: Final = frozenset({"__debug__"})
"""An identifier to which nothing can be bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument, as the signature has it."""

    name: str
    """As the tool's schema spells it."""
    python_name: str
    """The identifier: `user_id` for `user-id`, `from_` for `from`."""
    annotation: str
    default: str | None = None
    """The source of its default; `...` where the tool does not tell it; `None` if it must be given."""
    note: str = ""

    def source(self, not_given: str = "...") -> str:
        """As it stands in the signature."""
        default = not_given if self.default == "..." else self.default
        return f"{self.python_name}: {self.annotation}" + ("" if default is None else f" = {default}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """A tool, read: all that is needed to write it down."""

    spec: ToolSpec
    name: str
    """The identifier that it is called by."""
    parameters: tuple[Parameter, ...]
    """Those that must be given first."""
    further: str | None
    """The type of arguments that have no name; `None` if there can be none."""
    returns: str

    def arguments(self, not_given: str = "...") -> list[str]:
        """What stands between the brackets of the signature."""
        named = [one.source(not_given) for one in self.parameters]
        star = ["*", *named] if named else []
        return star if self.further is None else [*star, f"**{self._further_name()}: {self.further}"]

    def head(self, not_given: str = "...") -> str:
        """`async def name(*, ...) -> T:`, on several lines if it is long."""
        arguments = self.arguments(not_given)
        head = f"async def {self.name}({', '.join(arguments)}) -> {self.returns}:"
        if len(head) <= _LONGEST_LINE or not self.parameters:
            return head
        return "\n".join([f"async def {self.name}(", *(f"    {one}," for one in arguments), f") -> {self.returns}:"])

    def doc(self) -> str:
        """Description, notes on parameters and reply, examples; empty if there is nothing to say."""
        output = self.spec.output_schema
        returned = note_on(output, _LONGEST_NOTE)
        parts = [
            paragraphs(self.spec.description, LONGEST_DESCRIPTION),
            _block("Parameters:", [f"{one.python_name}: {one.note}" for one in self.parameters if one.note]),
            f"Returns: {returned}" if returned else "",
            _block("Example:", list(self._examples())),
        ]
        return "\n\n".join(part for part in parts if part)

    def source(self) -> str:
        """The function with its docstring for a body."""
        return f"{self.head()}\n{docstring(self.doc()) or '    ...'}"

    def short_source(self) -> str:
        """The same, with no more than the first line of the description."""
        return f"{self.head()}\n{docstring(first_line(self.spec)) or '    ...'}"

    def _examples(self) -> Iterator[str]:
        names = {one.name: one.python_name for one in self.parameters}
        for example in self.spec.examples[:_MOST_EXAMPLES]:
            if example.keys() <= names.keys():
                given = ", ".join(f"{names[name]}={value!r}" for name, value in example.items())
                yield one_line(f"await {self.name}({given})", _LONGEST_NOTE)

    def _further_name(self) -> str:
        name = "more"
        while any(one.python_name == name for one in self.parameters):
            name += "_"
        return name


def stub_of(spec: ToolSpec, types: Types) -> Stub:
    """Read a tool; the records that its types need are added to `types`."""
    name = function_name(spec)
    scope = pascal(spec.python_name) or "Tool"
    types.taken.add(name)
    parameters, further = _parameters(spec, types, scope)
    output = spec.output_schema
    returns = ANY if output is None else types.of(output, output, f"{scope}Reply", scope=scope)
    return Stub(spec=spec, name=name, parameters=parameters, further=further, returns=expression(returns))


def function_name(spec: ToolSpec) -> str:
    """The identifier of the tool, out of the way of the names that types are made of."""
    name = identifier(spec.python_name)
    return f"{name}_tool" if name in TYPE_NAMES else name


def first_line(spec: ToolSpec) -> str:
    """The first sentence of the description, or what fits on a line of it."""
    text = one_line(spec.description.strip().partition("\n\n")[0], _LONGEST_FIRST_LINE)
    sentence = re.match(r".{20,}?[.!?](?= [A-Z])", text)
    return sentence[0] if sentence else text


def identifier(name: str) -> str:
    """The name of a tool or domain as a Python identifier."""
    spelt = respelt(name) or "_"
    if not spelt.isidentifier():
        spelt = f"_{spelt}"
    return f"{spelt}_" if spelt in _NO_NAME else spelt


def _parameters(spec: ToolSpec, types: Types, scope: str) -> tuple[tuple[Parameter, ...], str | None]:
    root = spec.input_schema
    schema = flattened(root, root)
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        properties = {}
    must = {one for one in required if isinstance(one, str)} if isinstance(required, list | tuple) else set()
    keywords = {name: word for word, name in keywords_of(properties).items()}
    in_order = sorted(keywords, key=lambda name: name not in must or _has_default(properties[name]))[:_MOST_PARAMETERS]
    found = []
    for name in in_order:
        union = types.of(properties[name], root, f"{scope}{pascal(name)}", scope=scope)
        found.append(_parameter(name, keywords[name], properties[name], union, is_required=name in must))
    return tuple(found), _further(schema, types, scope, is_all=len(in_order) == len(properties))


def keywords_of(properties: Mapping[str, Json]) -> dict[str, str]:
    """Property by the keyword that a program writes for it; what has none goes into the call as a dict."""
    found: dict[str, str] = {}
    for name in properties:
        if len(name) <= _LONGEST_KEYWORD and is_text(name):
            word = respelt(name)
            if word.isidentifier() and word not in _NO_NAME and (word == name or word not in properties):
                found[word] = name
    return found


def _parameter(name: str, word: str, schema: Json, union: Union, *, is_required: bool) -> Parameter:
    default = None if is_required else "..."
    if _has_default(schema):
        value = schema["default"]
        union = unite(union, NONE) if value is None else union
        default = repr(value) if accepts(union, value) and len(repr(value)) <= _LONGEST_VALUE else "..."
    note = _note(name, word, schema, default)
    return Parameter(name=name, python_name=word, annotation=expression(union), default=default, note=note)


def _further(schema: Mapping[str, Json], types: Types, scope: str, *, is_all: bool) -> str | None:
    others = schema.get("additionalProperties", not schema.get("properties") and "properties" not in schema)
    if not is_all or others is True:
        return "Any"
    if not isinstance(others, Mapping):
        return None
    return expression(types.of(others, schema, f"{scope}More", scope=scope))


def _has_default(schema: Json) -> bool:
    return isinstance(schema, Mapping) and "default" in schema


def _note(name: str, spelt: str, schema: Json, default: str | None) -> str:
    words = [note_on(schema, _LONGEST_NOTE)]
    if isinstance(schema, Mapping):
        words += _limits(schema)
        if default == "..." and "default" in schema:
            words.append(one_line(f"(default {cut(repr(schema['default']), _LONGEST_VALUE)})", _LONGEST_NOTE))
    if spelt != name:
        words.append(f"(the tool's {name!r})")
    return " ".join(word for word in words if word)


def _limits(schema: Mapping[str, Json]) -> Iterator[str]:
    for word, text in _LIMITS.items():
        value = schema.get(word)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            yield f"({text.format(one_line(str(value), _LONGEST_VALUE))})"


_LIMITS: Final = {
    "format": "format {}",
    "pattern": "pattern {}",
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} items",
}


def _block(title: str, lines: list[str]) -> str:
    return "\n".join([title, *(f"    {line}" for line in lines)]) if lines else ""
