"""All tools as one dense text for a prompt: a line for each, and under it the words on it. Pure.

    Entity = {name: str, entityType: str, observations: list[str]}
    # files: Every path must be inside an allowed directory.
    move_file(source: str, destination: str) -> {content: str}
      Move or rename a file. destination: must not exist yet

Half as long as the JSON definitions, return shapes included. The Python stubs beside it (`stubs`) are for `help`,
files on disk and type checkers. `dense_fit` leaves out what a reader has no room for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from toolfold.models import Json, ToolSpec
from toolfold.program.dense_line import Line, line_of
from toolfold.program.dense_names import named_records
from toolfold.program.sentences import first_of, shared_sentences
from toolfold.program.shapes import Record, record_text

HEADER: Final = (
    "Tools, as `name(argument: type, optional?: type) -> reply`; `{key: type}` is a dict. "
    "Call them with `await name(argument=value)`."
)
"""Explains the form to a reader who never saw it."""


class Detail(IntEnum):
    """How much of a tool is told; each step leaves out more."""

    WHOLE = 0
    WITHOUT_NOTES = 1
    FIRST_SENTENCE = 2
    WITHOUT_REPLY = 3
    SIGNATURE = 4
    NAME = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One tool, in all details: each part is there once."""

    line: Line
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
        own = [one for one in self.line.sentences if one not in self.shared]
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
    tools: tuple[Written, ...]


class Catalog:
    """Tools, read once and written in any detail.

    Args:
        specs: The tools; those of one domain are brought together.
        learned: By the tool's name, the schema of its replies seen so far, for tools that declare none.
    """

    def __init__(self, specs: Iterable[ToolSpec], *, learned: Mapping[str, Mapping[str, Json]] | None = None) -> None:
        shapes = learned or {}
        lines = [line_of(spec, shapes.get(spec.name)) for spec in specs]
        self._names = named_records(lines)
        self._groups = tuple(_groups(lines, self._names))
        self.names = tuple(tool.line.spec.name for group in self._groups for tool in group.tools)
        """Of the tools, as their sources spell them."""

    def text(self, details: Mapping[str, Detail] | None = None) -> str:
        """Every tool in its detail, by its name, `WHOLE` unless told; bare names are not in it."""
        chosen = details or {}
        blocks: list[str] = []
        has_headings = any(group.heading for group in self._groups)
        for group in self._groups:
            texts = [one.text(chosen.get(one.line.spec.name, Detail.WHOLE)) for one in group.tools]
            shown = [text for text in texts if text]
            if shown and has_headings:
                blocks.append(f"# {': '.join(part for part in (group.domain, group.heading) if part) or 'others'}")
            blocks += shown
        return "\n".join([*self._definitions(blocks), *blocks])

    def _definitions(self, blocks: Sequence[str]) -> list[str]:
        """Of the names that the text has, or that one of these has."""
        text, found = "\n".join(blocks), []
        for record, name in reversed(self._names.items()):
            if name in text:
                inner = {one: other for one, other in self._names.items() if one != record}
                found.append(f"{name} = {record_text(record, inner)}")
                text += found[-1]
        return found[::-1]


def dense_text(specs: Iterable[ToolSpec], *, learned: Mapping[str, Mapping[str, Json]] | None = None) -> str:
    """All tools, each with all that is known of it."""
    return Catalog(specs, learned=learned).text()


def _groups(lines: Sequence[Line], names: Mapping[Record, str]) -> Iterable[Group]:
    for together in _by_domain(lines).values():
        starts = Counter(line.sentences[0] for line in together if line.sentences)
        alike: dict[str, list[Line]] = {}
        for line in together:
            start = line.sentences[0] if line.sentences and starts[line.sentences[0]] > 1 else ""
            alike.setdefault(start, []).append(line)
        for some in alike.values():
            shared = shared_sentences([line.sentences for line in some])
            tools = [
                Written(
                    line=line,
                    with_reply=line.signature(names),
                    without_reply=line.signature(names, with_returns=False),
                    shared=shared,
                )
                for line in some
            ]
            yield Group(some[0].spec.domain, " ".join(shared), tuple(tools))


def _by_domain(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line.spec.domain or line.spec.source, []).append(line)
    return found
