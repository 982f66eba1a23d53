"""Python stubs of tools: for a prompt, for `help` in a program, as modules and as a tree of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from toolfold.models import Json, ToolSpec
from toolfold.prompts.schema_types import (
    ANY,
    NONE,
    TYPE_NAMES,
    TYPING_NAMES,
    Types,
    Union,
    accepts,
    expression,
    flatten_schema,
    note_on,
    pascal,
    properties_of,
    texts_in,
    unite,
)
from toolfold.prompts.wording import cut, docstring, largest, one_line, paragraphs, respell
from toolfold_guest.shared.value_rules import is_text

# ----------------------------------------------------------------------------------------------------
# One tool as a typed Python function: its parameters, its return type and its docstring.

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
        default = not_given if self.default == "..." else self.default
        return f"{self.python_name}: {self.annotation}" + ("" if default is None else f" = {default}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """A tool, read: all that is needed to write it down."""

    spec: ToolSpec
    name: str
    """The identifier that it is called by."""
    parameters: tuple[Parameter, ...]
    """Required ones first."""
    further: str | None
    """The type of arguments that have no name; `None` if there can be none."""
    returns: str

    def arguments(self, not_given: str = "...") -> list[str]:
        parameters = [parameter.source(not_given) for parameter in self.parameters]
        star = ["*", *parameters] if parameters else []
        return star if self.further is None else [*star, f"**{self._further_name()}: {self.further}"]

    def head(self, not_given: str = "...") -> str:
        """`async def name(*, ...) -> T:`, on several lines if it is long."""
        arguments = self.arguments(not_given)
        head = f"async def {self.name}({', '.join(arguments)}) -> {self.returns}:"
        if len(head) <= _LONGEST_LINE or not self.parameters:
            return head
        lines = (f"    {argument}," for argument in arguments)
        return "\n".join([f"async def {self.name}(", *lines, f") -> {self.returns}:"])

    def doc(self) -> str:
        """Description, notes on parameters and reply, examples; empty if there is nothing to say."""
        returned = note_on(self.spec.output_schema, _LONGEST_NOTE)
        notes = [f"{parameter.python_name}: {parameter.note}" for parameter in self.parameters if parameter.note]
        parts = [
            paragraphs(self.spec.description, LONGEST_DESCRIPTION), _block("Parameters:", notes),
            f"Returns: {returned}" if returned else "", _block("Example:", list(self._examples())),
        ]  # fmt: skip
        return "\n\n".join(part for part in parts if part)

    def source(self) -> str:
        """The function with its docstring for a body."""
        return f"{self.head()}\n{docstring(self.doc()) or '    ...'}"

    def short_source(self) -> str:
        """The same, with no more than the first line of the description."""
        return f"{self.head()}\n{docstring(first_line(self.spec)) or '    ...'}"

    def _examples(self) -> Iterator[str]:
        names = {parameter.name: parameter.python_name for parameter in self.parameters}
        for example in self.spec.examples[:_MOST_EXAMPLES]:
            if example.keys() <= names.keys():
                arguments = ", ".join(f"{names[name]}={value!r}" for name, value in example.items())
                yield one_line(f"await {self.name}({arguments})", _LONGEST_NOTE)

    def _further_name(self) -> str:
        name = "more"
        while any(parameter.python_name == name for parameter in self.parameters):
            name += "_"
        return name


def stub_of(spec: ToolSpec, types: Types) -> Stub:
    """Read a tool; the records that its types need are added to `types`."""
    name = function_name(spec)
    scope = pascal(spec.python_name) or "Tool"
    types.used_names.add(name)
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
    spelt = respell(name) or "_"
    if not spelt.isidentifier():
        spelt = f"_{spelt}"
    return f"{spelt}_" if spelt in _NO_NAME else spelt


def _parameters(spec: ToolSpec, types: Types, scope: str) -> tuple[tuple[Parameter, ...], str | None]:
    root = spec.input_schema
    schema = flatten_schema(root, root)
    properties, must = properties_of(schema), set(texts_in(schema.get("required")))
    keywords = {name: word for word, name in keywords_of(properties).items()}
    in_order = sorted(keywords, key=lambda name: name not in must or _has_default(properties[name]))[:_MOST_PARAMETERS]
    parameters = []
    for name in in_order:
        union = types.of(properties[name], root, f"{scope}{pascal(name)}", scope=scope)
        parameters.append(_parameter(name, keywords[name], properties[name], union, is_required=name in must))
    return tuple(parameters), _further(schema, types, scope, is_all=len(in_order) == len(properties))


def keywords_of(properties: Mapping[str, Json]) -> dict[str, str]:
    """Property by the keyword that a program writes for it; what has none goes into the call as a dict."""
    names_by_keyword: dict[str, str] = {}
    for name in properties:
        if len(name) <= _LONGEST_KEYWORD and is_text(name):
            word = respell(name)
            if word.isidentifier() and word not in _NO_NAME and (word == name or word not in properties):
                names_by_keyword[word] = name
    return names_by_keyword


def _parameter(name: str, word: str, schema: Json, union: Union, *, is_required: bool) -> Parameter:
    default = None if is_required else "..."
    if _has_default(schema):
        value = schema["default"]
        union = unite(union, NONE) if value is None else union
        default = repr(value) if accepts(union, value) and len(repr(value)) <= _LONGEST_VALUE else "..."
    note = _note(name, word, schema, default)
    return Parameter(name=name, python_name=word, annotation=expression(union), default=default, note=note)


def _further(schema: Mapping[str, Json], types: Types, scope: str, *, is_all: bool) -> str | None:
    extra_schema = schema.get("additionalProperties", not schema.get("properties") and "properties" not in schema)
    if not is_all or extra_schema is True:
        return "Any"
    if not isinstance(extra_schema, Mapping):
        return None
    return expression(types.of(extra_schema, schema, f"{scope}More", scope=scope))


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
    "format": "format {}", "pattern": "pattern {}", "minimum": "at least {}", "exclusiveMinimum": "more than {}",
    "maximum": "at most {}", "exclusiveMaximum": "less than {}", "maxLength": "at most {} characters",
    "maxItems": "at most {} items",
}  # fmt: skip


def _block(title: str, lines: list[str]) -> str:
    return "\n".join([title, *(f"    {line}" for line in lines)]) if lines else ""


Body: TypeAlias = Callable[[Stub], str]
"""The statements of a stub's body, not indented. For arguments left out it gets `NOT_GIVEN`."""

WRITTEN_BY: Final = "# Written by toolfold; changes are lost when it is written again."
WORDS_ASKED_FOR: Final = ("help", "inspect", "pydoc", "signature", "getdoc", "__doc__")
_ASKS_FOR_WORDS: Final = re.compile(rf"\b(?:{'|'.join(WORDS_ASKED_FOR)}|__signature__)\b")


def signature(spec: ToolSpec) -> str:
    """One `async def` with its docstring; `prompt_text` also has the records that it names."""
    return stub_of(spec, Types()).source()


def prompt_text(specs: Iterable[ToolSpec], *, budget_characters: int | None = None) -> str:
    """All tools as one text for a prompt; records that several tools share stand in it once.

    Over budget, the words on arguments go first, then signatures, the last ones first: what is
    left are names, and a line that tells how to find the others.
    """
    tools = list(specs)
    text = _join_stubs(tools, Stub.source)
    if budget_characters is None or len(text) <= budget_characters:
        return text
    text = _join_stubs(tools, Stub.short_source)
    return text if len(text) <= budget_characters else _within(tools, budget_characters)


def module_text(specs: Sequence[ToolSpec], *, body: Body | None = None, imports: str = "") -> str:
    """One module with these tools as functions.

    `body` writes the body of each, and `imports` has what these need; without it, a call raises `NotImplementedError`.
    """
    types = Types()
    # First all names: no record may be called like a function.
    types.used_names.update(function_name(spec) for spec in specs)
    stubs = [stub_of(spec, types) for spec in specs]
    parts = [*types.declarations.values(), *(_function(stub, body) for stub in stubs)]
    used = {word for part in parts for word in re.findall(r"\w+", part)}
    needed = [name for name in TYPING_NAMES if name in used or (name == "Any" and body is not None)]
    head = [WRITTEN_BY, "from __future__ import annotations"]
    if needed:
        head.append(f"from typing import {', '.join(needed)}")
    head += [imports] if imports else []
    if body is not None:
        head.append("NOT_GIVEN: Any = ...")
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(parts) + "\n"


def tree(specs: Sequence[ToolSpec], *, body: Body | None = None, imports: str = "") -> dict[str, str]:
    """Text by path: `tools/<domain>/<tool>.py`, and an `__init__.py` in each folder that has all names."""
    folders: dict[str, dict[str, str]] = {"tools": {}}
    domains = {identifier(spec.domain) for spec in specs if spec.domain}
    files: dict[str, str] = {}
    shorts: dict[str, dict[str, str]] = {}
    for spec in specs:
        folder = f"tools/{identifier(spec.domain)}" if spec.domain else "tools"
        modules = folders.setdefault(folder, {})
        stem = _free_stem(function_name(spec), modules, domains if folder == "tools" else ())
        modules[stem] = function_name(spec)
        if spec.domain and spec.short_name:
            shorts.setdefault(folder, {}).setdefault(identifier(spec.short_name), stem)
        files[f"{folder}/{stem}.py"] = module_text([spec], body=body, imports=imports)
    for folder, modules in folders.items():
        lines = [f"from .{stem} import {name} as {name}" for stem, name in sorted(modules.items())]
        if folder == "tools":
            lines += _from_domains(folders)
        used_names = {*modules, *modules.values()}
        for short, stem in sorted(shorts.get(folder, {}).items()):
            lines += [f"from .{stem} import {modules[stem]} as {short}"] if short not in used_names else []
        files[f"{folder}/__init__.py"] = "\n".join([WRITTEN_BY, "", *lines, ""])
    return files


def write_tree(specs: Sequence[ToolSpec], folder: Path, *, body: Body | None = None, imports: str = "") -> list[Path]:
    """Write `tree` below `folder`, and remove what an earlier one wrote there of tools that are gone."""
    files = {folder / name: text for name, text in tree(specs, body=body, imports=imports).items()}
    for old in (folder / "tools").rglob("*.py"):
        if old not in files and old.is_file() and old.read_bytes().startswith(WRITTEN_BY.encode()):
            old.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


def words_for(text: str, specs: Iterable[ToolSpec]) -> dict[str, tuple[str, str]]:
    """Signature and docstring by tool name, for a program that looks at them; for any other, nothing.

    Only tools that it names, and only where it mentions `help`, `inspect` or the like: no other
    program can tell the difference, and reading schemas costs more than a run.
    """
    if not asks_for_words(text):
        return {}
    named = (spec for spec in specs if any(name in text for name in (spec.python_name, *spec.aliases)))
    return {spec.name: _words(spec) for spec in named}


def asks_for_words(text: str) -> bool:
    """Whether a program may look at the signature or the docstring of a tool."""
    return any(map(text.__contains__, WORDS_ASKED_FOR)) and _ASKS_FOR_WORDS.search(text) is not None


def _words(spec: ToolSpec) -> tuple[str, str]:
    types = Types()
    stub = stub_of(spec, types)
    # Without a first line of words, `help` would take its indent for the text's.
    doc = stub.doc() if spec.description else f"\n{stub.doc()}"
    parts = [doc, *types.declarations.values()]
    return f"({', '.join(stub.arguments())}) -> {stub.returns}", "\n\n".join(part for part in parts if part)


def _join_stubs(specs: Iterable[ToolSpec], write: Callable[[Stub], str]) -> str:
    types = Types({function_name(spec) for spec in specs})
    parts: list[str] = []
    for spec in specs:
        before = len(types.declarations)
        source = write(stub_of(spec, types))
        parts += [*list(types.declarations.values())[before:], source]
    return "\n\n".join(parts) + "\n" * bool(parts)


def _within(specs: Sequence[ToolSpec], budget: int) -> str:
    """As many signatures as fit beside the lines that tell of the others."""

    def text(count: int) -> str:
        signatures = _join_stubs(specs[:count], Stub.short_source)
        return signatures + _remaining_names(specs[count:], budget - len(signatures))

    return text(largest(len(specs), lambda count: len(text(count)) <= budget))


def _remaining_names(specs: Sequence[ToolSpec], room: int) -> str:
    names: list[str] = []
    find = 'find them with: await search_tools("what you need")'
    for spec in specs:
        if len(", ".join([*names, spec.python_name])) + len(find) + 40 > room:
            break
        names.append(spec.python_name)
    hidden = len(specs) - len(names)
    lines = [f"# also there: {', '.join(names)}"] if names else []
    return "".join(f"{line}\n" for line in [*lines, *([f"# and {hidden} more; {find}"] if hidden else [])])


def _function(stub: Stub, body: Body | None) -> str:
    if body is None:
        head, statements = stub.head(), "raise NotImplementedError"
    else:
        head, statements = stub.head("NOT_GIVEN"), body(stub)
    parts = [head, docstring(stub.doc()), *(f"    {line}" if line else "" for line in statements.splitlines())]
    return "\n".join(part for part in parts if part)


def _free_stem(name: str, modules: Iterable[str], domains: Iterable[str]) -> str:
    # Compared as file systems do that take `Get.py` and `get.py` for one.
    used_stems = {"__init__", *(used_name.casefold() for used_name in (*modules, *domains))}
    stem = name
    while stem.casefold() in used_stems:
        stem += "_"
    return stem


def _from_domains(folders: dict[str, dict[str, str]]) -> list[str]:
    """`from tools import get_users` works too, as it does in a program."""
    lines = []
    for folder, modules in sorted(folders.items()):
        if folder != "tools":
            domain = folder.removeprefix("tools/")
            # To a type checker, `__init__` of a package is its file.
            names = sorted(set(modules.values()) - {"__init__"})
            lines += [f"from .{domain} import {name} as {name}" for name in names]
    return lines
