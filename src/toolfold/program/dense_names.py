"""Which records of many signatures get a name, so that each is written once. Pure."""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from toolfold.program.dense_line import Line
from toolfold.program.records import TYPE_NAMES
from toolfold.program.shapes import Record, Shape, record_text
from toolfold.program.typing_text import pascal

_MOST_NAMES: Final = 20
_LEAST_SAVED: Final = 20
"""Characters: a name has to be looked up, which must be worth it."""
_SHORTEST_RECORD: Final = 30
_LONGEST_NAME: Final = 40


def named_records(lines: Sequence[Line]) -> dict[Record, str]:
    """The records that are worth a name, those that save most first."""
    names: dict[Record, str] = {}
    taken = {line.name for line in lines} | TYPE_NAMES
    sizes: dict[Record, int] = {}
    while len(names) < _MOST_NAMES:
        best = _best(_counts(lines, names), sizes)
        if best is None:
            break
        names[best] = _free_name(best.wanted, taken)
        taken.add(names[best])
    return names


def _best(counts: Mapping[Record, int], sizes: dict[Record, int]) -> Record | None:
    best, most = None, _LEAST_SAVED
    for record, count in counts.items():
        if count > 1:
            size = sizes.setdefault(record, len(record_text(record, {})))
            saved = (count - 1) * size - (count + 1) * len(record.wanted)
            if size >= _SHORTEST_RECORD and saved > most:
                best, most = record, saved
    return best


def _counts(lines: Iterable[Line], names: Mapping[Record, str]) -> Counter[Record]:
    """How often each record without a name is written."""
    found: Counter[Record] = Counter()
    for line in lines:
        found.update(_unnamed(line.arguments, names))
        found.update(_unnamed(line.returns or (), names))
    for record in names:
        for _, shape in record.fields:
            found.update(_unnamed(shape, names))
    return found


def _unnamed(shape: Shape, names: Mapping[Record, str]) -> Iterator[Record]:
    for piece in shape:
        if isinstance(piece, Record) and piece not in names:
            yield piece
            for _, inner in piece.fields:
                yield from _unnamed(inner, names)


def _free_name(wanted: str, taken: set[str]) -> str:
    stem = _singular(pascal(wanted)[:_LONGEST_NAME])
    stem = stem if stem.isidentifier() and not keyword.iskeyword(stem) else "Record"
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}{number}"
    return name


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word
