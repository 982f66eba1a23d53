"""What an execution of another process prints, read from its record while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolfold.execution.watching import Part, Place
from toolfold.ledger.following import changes_of
from toolfold.ledger.record import Moment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolfold.ledger.record import Ledger


async def output_of(ledger: Ledger, execution_id: str, place: Place) -> AsyncIterator[Part]:
    """What is on record of its output from a place on, each part once, until it pauses or ends.

    The record has the beginning of a long output only, until the program has ended.
    """
    async for story in changes_of(ledger, execution_id):
        for entry in story.entries:
            if not isinstance(entry, Moment) or entry.kind != "printed":
                continue
            # A replay prints again what is on record already.
            stream, begins = entry.facts["stream"], entry.facts.get("place", 0)
            known = (place.stdout if stream == "stdout" else place.stderr) - begins
            if not 0 <= known < len(entry.text):
                continue
            ends = begins + len(entry.text)
            place = Place(ends, place.stderr) if stream == "stdout" else Place(place.stdout, ends)
            yield Part(text=entry.text[known:], stream=stream, place=place)
        if story.state == "paused":
            return
