"""What a program prints, while it runs, for whoever reads along. Where nobody does, it costs nothing.

A reader is a place in the output that the execution keeps anyway: a slow one holds no text of its own, and one that
leaves is forgotten. Nothing is read twice, and nothing is left out that the outcome has.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from toolfold.engines.base import Audible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolfold.execution.life import Life
    from toolfold.execution.output import Streams

ASK_EVERY_SECONDS: Final = 0.2
"""How old output may be: a guest gathers it until its next call otherwise."""
MOST_CHARACTERS: Final = 64 * 1024
"""Of one part; a reader that comes late has it in several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the output, in its order."""

    text: str
    stream: Literal["stdout", "stderr"]
    place: Place
    """Where the next part begins: go on from here, also in another process."""


@dataclass(frozen=True, slots=True)
class Place:
    """How much of each stream has been read, in characters."""

    stdout: int = 0
    stderr: int = 0


class Watch:
    """The readers of one execution; there may be some before it has begun."""

    def __init__(self) -> None:
        self._output: Streams | None = None
        self._life: Life | None = None
        self._readers = 0
        self._is_over = False
        self._changed: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, output: Streams, life: Life) -> None:
        """The execution is here."""
        self._output, self._life = output, life
        self.wake()

    def end(self) -> None:
        """It has left this process; readers are given what there is, and no more."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wake()

    def wake(self) -> None:
        """There is something to read."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def next_part(self, place: Place) -> Part | None:
        """What there is to read from that place on, at once; `None` for nothing yet."""
        if self._output is None:
            return None
        if text := self._output.stdout.since(place.stdout)[:MOST_CHARACTERS]:
            return Part(text=text, stream="stdout", place=Place(place.stdout + len(text), place.stderr))
        if text := self._output.stderr.since(place.stderr)[:MOST_CHARACTERS]:
            return Part(text=text, stream="stderr", place=Place(place.stdout, place.stderr + len(text)))
        return None

    async def read(self, place: Place) -> AsyncIterator[Part]:
        """Each part once, until the execution has left this process."""
        self._readers += 1
        try:
            self._ask()
            while True:
                part = self.next_part(place)
                if part is not None:
                    place = part.place
                    yield part
                elif self._is_over:
                    return
                else:
                    await self._news()
        finally:
            self._readers -= 1

    async def _news(self) -> None:
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        # Not the future itself: a reader that leaves would cancel it for the others.
        await asyncio.wait([self._changed])

    def _ask(self) -> None:
        """Have the guest send what it has gathered, and again after a while, as long as somebody reads."""
        self._timer = None
        if self._is_over or not self._readers:
            return
        life = self._life
        if life is not None and life.state == "running" and isinstance(life.run, Audible):
            life.run.ask_for_output()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ASK_EVERY_SECONDS, self._ask)
