"""Events of one program on Monty on their way to its reader. Knows no thread: whoever makes it says how to send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from toolfold.engines.base import Event, Printed, Waiting
from toolfold.engines.monty.tape import MontyTape
from toolfold.models import MIB

KEEP_BYTES: Final = 8 * MIB
"""Of each stream, as in the process engine: what the ledger keeps."""


class Outbox:
    """Sends events, and remembers whether the reader knows that the program waits."""

    def __init__(self, send: Callable[[Event], None], tape: MontyTape, kept_bytes: Mapping[str, int] | None) -> None:
        self._send = send
        self._tape = tape
        self.kept_bytes = {"stdout": 0, "stderr": 0, **(kept_bytes or {})}
        """How much of each stream was sent."""
        self.has_news = False
        """Something was sent since the last `Waiting`, so a snapshot now might hold what is in no record."""

    def post(self, event: Event) -> None:
        """Send one event."""
        self.has_news = True
        self._send(event)

    def post_tape(self) -> None:
        """Send what a replay needs; call it before the calls that it led to."""
        taped = self._tape.new()
        if taped is not None:
            self.post(taped)

    def post_waiting(self, replies_seen: int) -> None:
        """Say that the program waits."""
        self.post_tape()
        self.post(Waiting(replies_seen))
        self.has_news = False

    def print(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """What the program printed, as far as there is room for it; this is Monty's `print_callback`."""
        data = text.encode()
        room = KEEP_BYTES - self.kept_bytes[stream]
        if len(data) > room:
            data = data[:room]
            text, size = data.decode(errors="ignore"), len(text.encode())
            self.post(Printed(text, stream, size - len(text.encode())))
        else:
            self.post(Printed(text, stream))
        self.kept_bytes[stream] += len(data)
