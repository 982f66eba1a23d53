"""What a node has to say, until it is asked for. Knows neither programs nor how messages travel.

Rules:
1. What is said of one run leaves in the order in which it was said.
2. What nobody acts on may wait a little, to leave with more: each message wakes the runtime.
3. Beyond some bytes there is no room: whoever says more should wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from toolfold.engines.ray import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.engines.ray.records import Records
    from toolfold.engines.ray.wire import FromNode

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Of what is said and not asked for: programs stand still beyond that."""
MOST_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
MOST_NOTED_BYTES: Final = 64 * 1024
"""Of the records of one run: beyond that they count as said."""
LATER_SECONDS: Final = 0.01
"""How long what nobody acts on may be held back: printed text, tapes, and calls that the node serves itself."""


class Outbox:
    """Messages of a node.

    Args:
        on_due: Told once that something must not wait any longer, until all of it was taken.
    """

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._said: deque[tuple[int, bytes]] = deque()
        self.said_bytes = 0
        self._noted: dict[int, Records] = {}
        """What is still to be said of calls, by the run: after all that was said of it, before all that will be."""
        self.messages = 0
        """How many there were so far."""
        self.is_due = asyncio.Event()
        self.has_room = asyncio.Event()
        self.has_room.set()

    def say(self, key: int, message: FromNode, *, is_urgent: bool = True) -> None:
        """Of a run."""
        if key in self._noted:
            self._say_noted(key)
        if not is_urgent:
            self._be_due_later()
        self._add(key, wire.part(message))
        if is_urgent:
            self._be_due()

    def hold(self, key: int, records: Records) -> None:
        """Something was noted there, and nobody acts on it."""
        if key not in self._noted:
            self._be_due_later()
            self._noted[key] = records
        if records.size_bytes > MOST_NOTED_BYTES:
            self._say_noted(key)

    def _say_noted(self, key: int) -> None:
        for body in self._noted.pop(key).take():
            self._add(key, body)

    def _add(self, key: int, body: bytes) -> None:
        self._said.append((key, body))
        self.said_bytes += len(body)
        if self.said_bytes > MOST_WAITING_BYTES:
            self.has_room.clear()

    def _be_due_later(self) -> None:
        """Asked before there is something: whatever is the first takes the others along."""
        if not self._said and not self._noted:
            asyncio.get_running_loop().call_later(LATER_SECONDS, self._be_due)

    def _be_due(self) -> None:
        if (self._said or self._noted) and not self.is_due.is_set():
            self.is_due.set()
            self._on_due()

    def next_message(self) -> bytes:
        """All that there is, or as much as fits in one."""
        for key in tuple(self._noted):
            self._say_noted(key)
        parts: dict[int, list[bytes]] = {}
        size = 0
        while self._said and size < MOST_AT_ONCE_BYTES:
            key, body = self._said.popleft()
            parts.setdefault(key, []).append(body)
            size += len(body)
        if not self._said:
            self.is_due.clear()
        self.said_bytes -= size
        if self.said_bytes <= MOST_WAITING_BYTES:
            self.has_room.set()
        number, self.messages = self.messages, self.messages + 1
        return wire.join(number, [(key, wire.merged(bodies)) for key, bodies in parts.items()])
