"""What a program has printed so far, for its client: the last line as progress, and each part in one answer only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from toolfold.execution.output import Output
from toolfold.models import Outcome
from toolfold.runtime import Runtime

_SHOWN_LINE_CHARACTERS: Final = 200
_MUCH_CHARACTERS: Final = 4 * 1024
"""A part of so many may have been cut in the middle of a line; a shorter one ends where the program stopped."""


class Heard:
    """The output of one program. Until it listens, it costs nothing.

    Args:
        note: Told of the last line, when there is a new one.
    """

    def __init__(self, runtime: Runtime, execution_id: str, note: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._id = execution_id
        self._note = note
        self._listening: asyncio.Task[None] | None = None
        self._parts: list[str] = []
        self._taken_characters = 0

    @property
    def is_listening(self) -> bool:
        """Whether it reads along."""
        return self._listening is not None

    def listen(self) -> None:
        """From here on, once the program has begun; what was printed before is not lost."""
        if self._listening is None and self._id in self._runtime.executions:
            self._listening = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for part in self._runtime.output(self._id):
            if part.stream != "stdout":
                continue
            self._parts.append(part.text)
            if line := _last_line(part.text):
                self._note(line[:_SHOWN_LINE_CHARACTERS])

    def take(self, most_bytes: int) -> str:
        """What came since this was last called, cut as the output of an outcome is."""
        text = "".join(self._parts)
        self._parts.clear()
        self._taken_characters += len(text)
        output = Output(most_bytes)
        output.add(text)
        shown, cut_bytes = output.cut()
        return f"{shown}\n... ({cut_bytes} bytes left out)\n{output.tail()}" if cut_bytes else shown

    async def rest_of(self, outcome: Outcome) -> Outcome:
        """The outcome with only the output that no answer had."""
        if not self._taken_characters or self._listening is None:
            return outcome
        await asyncio.wait([self._listening])  # it has ended with the program, or is about to
        # The whole output is here, where the outcome has only its start.
        rest = outcome.stdout[self._taken_characters :] if not outcome.stdout_cut_bytes else "".join(self._parts)
        output = Output(max(1, len(outcome.stdout.encode())) if outcome.stdout_cut_bytes else len(rest) * 4 + 1)
        output.add(rest)
        shown, cut_bytes = output.cut()
        return replace(outcome, stdout=shown, stdout_cut_bytes=cut_bytes, stdout_tail=output.tail())


def _last_line(text: str) -> str:
    whole = text.rpartition("\n")[0] if len(text) >= _MUCH_CHARACTERS else ""
    return (whole or text).rstrip().rpartition("\n")[2].strip()
