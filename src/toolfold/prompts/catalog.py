"""Tool catalog as dense text for a prompt: a line for each tool, and under it the words on it. Pure.

    Entity = {name: str, entityType: str, observations: list[str]}
    # files: Every path must be inside an allowed directory.
    move_file(source: str, destination: str) -> {content: str}
      Move or rename a file. destination: must not exist yet

Half as long as the JSON definitions, return shapes included. The Python stubs beside it (`stubs`) are for `help`,
files on disk and type checkers. `dense_fit` leaves out what a reader has no room for.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice, zip_longest
from typing import Final

from toolfold.models import Json, ToolSpec
from toolfold.prompts.python_stubs import function_name
from toolfold.prompts.schema_types import TYPE_NAMES, pascal, properties_of
from toolfold.prompts.signatures import Record, Shape, ToolLine, line_of, record_text
from toolfold.prompts.wording import first_of, largest, shared_sentences, width

HEADER: Final = (
    "Tools, as `name(argument: type, optional?: type) -> reply`; `{key: type}` is a dict. "
    "Call them with `await name(argument=value)`."
)
"""Explains the form to a reader who never saw it."""


class Detail(IntEnum):
    """Levels of detail; each step leaves out more."""

    WHOLE = 0
    WITHOUT_NOTES = 1
    FIRST_SENTENCE = 2
    WITHOUT_REPLY = 3
    SIGNATURE = 4
    NAME = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One tool, in all details: each part is there once."""

    line: ToolLine
    with_reply: str
    without_reply: str
    shared: tuple[str, ...]
    """Sentences of the description that its group's heading says."""

    def text(self, detail: Detail) -> str:
        """The line, and what is said under it; nothing for a bare name."""
        if detail >= Detail.NAME:
            return ""
        head = self.with_reply if detail < Detail.WITHOUT_REPLY else self.without_reply
        words = self._words(detail)
        return f"{head}\n  {words}" if words else head

    def _words(self, detail: Detail) -> str:
        own = [sentence for sentence in self.line.sentences if sentence not in self.shared]
        if detail >= Detail.SIGNATURE:
            return ""
        if detail >= Detail.FIRST_SENTENCE:
            return first_of(own)
        words = " ".join(own)
        notes = "; ".join(self.line.notes) if detail < Detail.WITHOUT_NOTES else ""
        if words and notes and words[-1] not in ".!?:":
            words += "."
        return " ".join(part for part in (words, notes) if part)


@dataclass(frozen=True, slots=True)
class Group:
    """Tools of one server or domain, and the sentences that all their descriptions have."""

    domain: str
    heading: str
    tools: tuple[ToolEntry, ...]


class PromptCatalog:
    """Tools, read once and written in any detail; `learned` has the reply schemas seen so far, by tool name."""

    def __init__(self, specs: Iterable[ToolSpec], *, learned: Mapping[str, Mapping[str, Json]] | None = None) -> None:
        shapes = learned or {}
        lines = [line_of(spec, shapes.get(spec.name)) for spec in specs]
        self._names = name_records(lines)
        self._groups = tuple(_groups(lines, self._names))
        self.names = tuple(tool.line.spec.name for group in self._groups for tool in group.tools)

    def text(self, details: Mapping[str, Detail] | None = None) -> str:
        """Every tool in its detail, by its name, `WHOLE` unless told; bare names are not in it."""
        detail_by_name = details or {}
        blocks: list[str] = []
        has_headings = any(group.heading for group in self._groups)
        for group in self._groups:
            texts = [tool.text(detail_by_name.get(tool.line.spec.name, Detail.WHOLE)) for tool in group.tools]
            tool_texts = [text for text in texts if text]
            if tool_texts and has_headings:
                blocks.append(f"# {': '.join(part for part in (group.domain, group.heading) if part) or 'others'}")
            blocks += tool_texts
        return "\n".join([*self._definitions(blocks), *blocks])

    def _definitions(self, blocks: Sequence[str]) -> list[str]:
        """Definitions of the record names in the text, and of those that these use."""
        text, definitions = "\n".join(blocks), []
        for record, name in reversed(self._names.items()):
            if name in text:
                definitions.append(f"{name} = {record_text(record, self._names)}")
                text += definitions[-1]
        return definitions[::-1]


def dense_text(specs: Iterable[ToolSpec], *, learned: Mapping[str, Mapping[str, Json]] | None = None) -> str:
    return PromptCatalog(specs, learned=learned).text()


def _groups(lines: Sequence[ToolLine], names: Mapping[Record, str]) -> Iterable[Group]:
    for domain_lines in _by_domain(lines).values():
        starts = Counter(line.sentences[0] for line in domain_lines if line.sentences)
        lines_by_start: dict[str, list[ToolLine]] = {}
        for line in domain_lines:
            start = line.sentences[0] if line.sentences and starts[line.sentences[0]] > 1 else ""
            lines_by_start.setdefault(start, []).append(line)
        for similar_lines in lines_by_start.values():
            shared = shared_sentences([line.sentences for line in similar_lines])
            tools = [
                ToolEntry(
                    line=line, with_reply=line.signature(names),
                    without_reply=line.signature(names, with_returns=False), shared=shared,
                )
                for line in similar_lines
            ]  # fmt: skip
            yield Group(similar_lines[0].spec.domain, " ".join(shared), tuple(tools))


def _by_domain(lines: Iterable[ToolLine]) -> dict[str, list[ToolLine]]:
    lines_by_domain: dict[str, list[ToolLine]] = {}
    for line in lines:
        lines_by_domain.setdefault(line.spec.domain or line.spec.source, []).append(line)
    return lines_by_domain


# ----------------------------------------------------------------------------------------------------
# The dense text within a number of characters. What is left out is what loses least, and the text says so.
#
# Step by step, and the tools that are used least first: notes on arguments go, then all but the first sentence, then
# what comes back, then the last words. Where not even that fits there is an overview (`dense_overview`).

_STEPS: Final = (Detail.WITHOUT_NOTES, Detail.FIRST_SENTENCE, Detail.WITHOUT_REPLY, Detail.SIGNATURE)


@dataclass(frozen=True, slots=True)
class CatalogText:
    """A text about tools, and what it leaves out."""

    text: str
    is_all: bool
    """Every signature is there, with what is known of the reply."""


def dense_within(
    specs: Iterable[ToolSpec], room: int, *, overview: int | None = None, used: Mapping[str, int] | None = None,
    learned: Mapping[str, Mapping[str, Json]] | None = None,
) -> CatalogText:  # fmt: skip
    """As much of the tools as fits into `room` characters, as `width` counts them.

    `overview` is the room where not every signature fits, so that most tools have to be searched for anyway.
    Tools called most, by `used`, come first and lose last.
    """
    counts = used or {}
    tools = sorted(specs, key=lambda spec: -counts.get(spec.name, 0))
    if sum(map(_least_width, tools)) <= room:  # what certainly does not fit need not be written to be measured
        catalog = PromptCatalog(tools, learned=learned)
        text = catalog.text()
        if width(text) <= room:
            return CatalogText(text, is_all=True)
        for step in _STEPS:
            if width(catalog.text(dict.fromkeys(catalog.names, step))) <= room:
                text = _fit_most(catalog, [spec.name for spec in tools], step, room)
                return CatalogText(text, is_all=step < Detail.WITHOUT_REPLY)
    overview_room = room if overview is None else min(room, overview)
    return CatalogText(overview_text(tools, counts, overview_room, learned=learned), is_all=False)


def _least_width(spec: ToolSpec) -> int:
    """Width of a signature without types: reading schemas takes much longer."""
    return len(function_name(spec)) + len("()\n") + len(properties_of(spec.input_schema)) * len("a: T")


def _fit_most(catalog: PromptCatalog, ranked: Sequence[str], step: Detail, room: int) -> str:
    """All tools as far as this step, but as many of the first ones as fit a step less far."""

    def text(count: int) -> str:
        return catalog.text({name: Detail(step - (rank < count)) for rank, name in enumerate(ranked)})

    return text(largest(len(ranked), lambda count: width(text(count)) <= room))


# ----------------------------------------------------------------------------------------------------
# Which records of many signatures get a name, so that each is written once. Pure.

_MOST_NAMES: Final = 20
_LEAST_SAVED: Final = 20
"""Characters: a name has to be looked up, which must be worth it."""
_SHORTEST_RECORD: Final = 30
_LONGEST_NAME: Final = 40


def name_records(lines: Sequence[ToolLine]) -> dict[Record, str]:
    """The records that are worth a name, those that save most first."""
    names: dict[Record, str] = {}
    used_names = {line.name for line in lines} | TYPE_NAMES
    sizes: dict[Record, int] = {}
    while len(names) < _MOST_NAMES:
        best = _best(_counts(lines, names), sizes)
        if best is None:
            break
        names[best] = _free_name(best.preferred_name, used_names)
        used_names.add(names[best])
    return names


def _best(counts: Mapping[Record, int], sizes: dict[Record, int]) -> Record | None:
    best, most = None, _LEAST_SAVED
    for record, count in counts.items():
        if count > 1:
            size = sizes.setdefault(record, len(record_text(record, {})))
            saved = (count - 1) * size - (count + 1) * len(record.preferred_name)
            if size >= _SHORTEST_RECORD and saved > most:
                best, most = record, saved
    return best


def _counts(lines: Iterable[ToolLine], names: Mapping[Record, str]) -> Counter[Record]:
    counts: Counter[Record] = Counter()
    for line in lines:
        counts.update(_unnamed(line.arguments, names))
        counts.update(_unnamed(line.returns or (), names))
    for record in names:
        for _, shape in record.fields:
            counts.update(_unnamed(shape, names))
    return counts


def _unnamed(shape: Shape, names: Mapping[Record, str]) -> Iterator[Record]:
    for piece in shape:
        if isinstance(piece, Record) and piece not in names:
            yield piece
            for _, inner in piece.fields:
                yield from _unnamed(inner, names)


def _free_name(preferred_name: str, used_names: set[str]) -> str:
    stem = _singular(pascal(preferred_name)[:_LONGEST_NAME])
    stem = stem if stem.isidentifier() and not keyword.iskeyword(stem) else "Record"
    name, number = stem, 1
    while name in used_names:
        number += 1
        name = f"{stem}{number}"
    return name


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


# ----------------------------------------------------------------------------------------------------
# Tools that are too many to be told: some signatures, and the names of the others by what they begin with. Pure.

_SHORTEST_SIGNATURE: Final = 12
_HEAD: Final = "Find the signatures of these with `search_tools`, also inside a program:"


def overview_text(
    specs: Sequence[ToolSpec], used: Mapping[str, int], room: int, *,
    learned: Mapping[str, Mapping[str, Json]] | None = None,
) -> str:  # fmt: skip
    """Signatures of the first tools and the names of the others, as many as fit.

    Where all names fit, signatures take what is left; where not, half of the room is for tools that are used.
    """
    has_all_names = width(names_text(specs)) <= room
    most = len(specs) if has_all_names else sum(1 for spec in specs if used.get(spec.name))
    first = specs[: min(most, room // _SHORTEST_SIGNATURE)]
    catalog = PromptCatalog(first, learned=learned)

    def signatures(count: int) -> str:
        details = dict.fromkeys(catalog.names, Detail.NAME)
        return catalog.text(details | dict.fromkeys((spec.name for spec in first[:count]), Detail.FIRST_SENTENCE))

    def fits(count: int) -> bool:
        if not has_all_names:
            return width(signatures(count)) <= room // 2
        return width(_join_parts(signatures(count), names_text(specs[count:]))) <= room

    count = largest(len(first), fits)
    start = signatures(count)
    return _join_parts(start, names_within(specs[count:], room - width(start) - bool(start)))


def names_within(specs: Sequence[ToolSpec], room: int) -> str:
    """As many names as fit, in turn from each server, and how many there are besides; at worst nothing."""
    if width(whole := names_text(specs)) <= room:
        return whole
    text = names_text(specs, largest(len(specs), lambda count: width(names_text(specs, count)) <= room))
    return text if width(text) <= room else ""


def names_text(specs: Sequence[ToolSpec], most: int | None = None) -> str:
    """So many names, all unless told; `mcp__files__{read, write}` stands for two of them."""
    families: dict[str, list[str]] = {}
    for spec in specs:
        families.setdefault(_prefix(spec), []).append(function_name(spec))
    in_turn = (name for together in zip_longest(*families.values()) for name in together if name is not None)
    included_names = set(islice(in_turn, most))
    lines, more = [_HEAD], 0
    for prefix, names in families.items():
        parts = [name.removeprefix(prefix) for name in names if name in included_names]
        left_out = len(names) - len(parts)
        if not parts:
            more += left_out
            continue
        text = ", ".join([*parts, *([f"… {left_out} more"] if left_out else [])])
        lines.append(f"{prefix}{{{text}}}" if prefix and len(names) > 1 else f"{prefix}{text}")
    lines += [f"and {more} more"] if more else []
    return "\n".join(lines) if families else ""


def _prefix(spec: ToolSpec) -> str:
    name = function_name(spec)
    if spec.short_name and name.endswith(spec.short_name):
        return name.removesuffix(spec.short_name)
    start, mark, _ = name.removeprefix("mcp__").partition("__")
    return f"mcp__{start}{mark}" if name.startswith("mcp__") and mark else ""


def _join_parts(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
