"""The dense text within a number of characters. What is left out is what loses least, and the text says so.

Step by step, and the tools that are used least first: notes on arguments go, then all but the first sentence, then
what comes back, then the last words. Where not even that fits there is an overview (`dense_overview`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolfold.models import Json, ToolSpec
from toolfold.program.dense import Catalog, Detail
from toolfold.program.dense_overview import overview_text
from toolfold.program.stub import function_name
from toolfold.program.words import largest, width

_STEPS: Final = (Detail.WITHOUT_NOTES, Detail.FIRST_SENTENCE, Detail.WITHOUT_REPLY, Detail.SIGNATURE)


@dataclass(frozen=True, slots=True)
class Told:
    """A text about tools, and what it leaves out."""

    text: str
    is_all: bool
    """Every signature is there, with what is known of the reply."""


def dense_within(
    specs: Iterable[ToolSpec], room: int, *, overview: int | None = None, used: Mapping[str, int] | None = None,
    learned: Mapping[str, Mapping[str, Json]] | None = None,
) -> Told:  # fmt: skip
    """As much of the tools as fits.

    Args:
        specs: The tools.
        room: Characters, as `width` counts them.
        overview: The room where not every signature fits, so that most tools have to be searched for anyway.
        used: By the tool's name, how often it was called; those called most come first and lose last.
        learned: As `Catalog` takes it.
    """
    counts = used or {}
    tools = sorted(specs, key=lambda spec: -counts.get(spec.name, 0))
    if sum(map(_least_width, tools)) <= room:  # what certainly does not fit need not be written to be measured
        catalog = Catalog(tools, learned=learned)
        text = catalog.text()
        if width(text) <= room:
            return Told(text, is_all=True)
        for step in _STEPS:
            if width(catalog.text(dict.fromkeys(catalog.names, step))) <= room:
                text = _as_much(catalog, [spec.name for spec in tools], step, room)
                return Told(text, is_all=step < Detail.WITHOUT_REPLY)
    some = room if overview is None else min(room, overview)
    return Told(overview_text(tools, counts, some, learned=learned), is_all=False)


def _least_width(spec: ToolSpec) -> int:
    """Of a signature without any type: reading schemas takes much longer."""
    properties = spec.input_schema.get("properties")
    arguments = len(properties) if isinstance(properties, Mapping) else 0
    return len(function_name(spec)) + len("()\n") + arguments * len("a: T")


def _as_much(catalog: Catalog, ranked: Sequence[str], step: Detail, room: int) -> str:
    """All tools as far as this step, but as many of the first ones as fit a step less far."""

    def text(kept: int) -> str:
        return catalog.text({name: Detail(step - (rank < kept)) for rank, name in enumerate(ranked)})

    fits: Callable[[int], bool] = lambda kept: width(text(kept)) <= room  # noqa: E731
    return text(largest(len(ranked), fits))
