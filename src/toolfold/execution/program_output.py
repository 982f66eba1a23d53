"""Output of a program: all of it for the ledger, its start for the outcome, and parts for live readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from toolfold.engines.base import Audible, Printed
from toolfold.ledger.base import Ledger, Moment
from toolfold.ledger.execution_summaries import changes_of

if TYPE_CHECKING:
    from toolfold.execution.execution import Life


REPORT_CHARACTERS: Final = 64 * 1024
"""A traceback can hold a message of any length; of a longer one the middle is left out."""
_TAIL_BYTES: Final = 2 * 1024


class Output:
    """Output stream; the part in the outcome is cut on a character boundary."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._parts: list[str] = []
        self.characters = 0
        """How many came, without the report."""
        self._report = ""
        self.dropped_bytes = 0
        """Dropped before they arrived here."""

    def add(self, text: str, dropped_bytes: int = 0, *, is_report: bool = False) -> None:
        """Text that came, and how much was dropped behind it before it came here.

        A report is the traceback at the end: the limit is for what the program prints.
        """
        if is_report:
            self._report += text
        else:
            self._parts.append(text)
            self.characters += len(text)
        self.dropped_bytes += dropped_bytes

    def since(self, place: int) -> str:
        """Text after that many characters, without the report."""
        missing, parts = self.characters - place, []
        for part in reversed(self._parts):
            if missing <= 0:
                break
            parts.append(part[-missing:])
            missing -= len(part)
        return "".join(reversed(parts))

    def whole(self) -> str:
        return "".join(self._parts) + self._report

    def cut(self) -> tuple[str, int]:
        """Text for the outcome, cut at a line, and the number of bytes left out."""
        if not self._parts and not self._report:
            return "", self.dropped_bytes
        text = self.whole()
        if len(text) * 4 <= self._cap_bytes:
            return text, self.dropped_bytes
        data = "".join(self._parts).encode()
        outcome_text = data.decode() if len(data) <= self._cap_bytes else _start(data, self._cap_bytes)
        cut_bytes = len(data) - len(outcome_text.encode())
        between = "\n" if self._report and cut_bytes and outcome_text and not outcome_text.endswith("\n") else ""
        return outcome_text + between + _middle_out(self._report), cut_bytes + self.dropped_bytes

    def tail(self) -> str:
        """The last lines of what was printed, where `cut` leaves something out; without the report."""
        if not self._parts or sum(map(len, self._parts)) * 4 <= self._cap_bytes:
            return ""
        data = "".join(self._parts).encode()
        cut_bytes = len(data) - self._cap_bytes
        return _end(data, min(cut_bytes, self._cap_bytes // 4, _TAIL_BYTES)) if cut_bytes > 0 else ""


class OutputStreams:
    """Both streams of one program."""

    def __init__(self, cap_bytes: int) -> None:
        self.stdout = Output(cap_bytes)
        self.stderr = Output(cap_bytes)

    def add(self, event: Printed) -> None:
        stream = self.stdout if event.stream == "stdout" else self.stderr
        stream.add(event.text, event.cut_bytes, is_report=event.is_report)


def _start(data: bytes, size: int) -> str:
    """Whole lines, unless the last of them is most of it; then whole characters."""
    end = data.rfind(b"\n", 0, size + 1)
    return data[: end if end > size // 2 else size].decode(errors="ignore")


def _end(data: bytes, size: int) -> str:
    start = data.find(b"\n", len(data) - size - 1, len(data) - size // 2)
    return data[start + 1 if start >= 0 else len(data) - size :].decode(errors="ignore")


def _middle_out(report: str) -> str:
    """The frames come first and the type of the error right after them, so both ends of a long one stay."""
    left_out = len(report) - REPORT_CHARACTERS
    if left_out <= 0:
        return report
    half = REPORT_CHARACTERS // 2
    return f"{report[:half]}\n... ({left_out:,} characters left out)\n{report[-half:]}"


# ----------------------------------------------------------------------------------------------------
# What a program prints, while it runs, for whoever reads along. Where nobody does, it costs nothing.
#
# A reader is a place in the output that the execution keeps anyway: a slow one holds no text of its own, and one that
# leaves is forgotten. Nothing is read twice, and nothing is left out that the outcome has.

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
    """Position in each stream, in characters."""

    stdout: int = 0
    stderr: int = 0


class OutputWatch:
    """The readers of one execution; there may be some before it has begun."""

    def __init__(self) -> None:
        self._output: OutputStreams | None = None
        self._life: Life | None = None
        self._readers = 0
        self._is_over = False
        self._changed: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, output: OutputStreams, life: Life) -> None:
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
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def next_part(self, place: Place) -> Part | None:
        """Output available from that position on; `None` if there is none yet."""
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


# ----------------------------------------------------------------------------------------------------
# What an execution of another process prints, read from its record while it runs.


async def output_of(ledger: Ledger, execution_id: str, place: Place) -> AsyncIterator[Part]:
    """Recorded output from a position on, each part once, until the execution pauses or ends.

    The record has the beginning of a long output only, until the program has ended.
    """
    async for story in changes_of(ledger, execution_id):
        for entry in story.entries:
            if not isinstance(entry, Moment) or entry.kind != "printed":
                continue
            # A replay prints again what is on record already.
            stream, begins = entry.facts["stream"], entry.facts.get("place", 0)
            offset = (place.stdout if stream == "stdout" else place.stderr) - begins
            if not 0 <= offset < len(entry.text):
                continue
            ends = begins + len(entry.text)
            place = Place(ends, place.stderr) if stream == "stdout" else Place(place.stdout, ends)
            yield Part(text=entry.text[offset:], stream=stream, place=place)
        if story.state == "paused":
            return
