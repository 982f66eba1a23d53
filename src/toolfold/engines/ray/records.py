"""Calls that a node serves itself, on their way to the runtime: one record has a call and its reply. Pure.

Rules:
1. Calls are told in the order in which the program made them, replies in the order in which it was given them.
2. A record is for a call that was answered before any later one; other calls are told first, and their replies apart.
3. What a tool was given and what it returned is encoded before the tool, or the program, can change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolfold.engines.ray import wire
from toolfold.models import ReplyMeta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import msgspec

    from toolfold.engines.base import Taped
    from toolfold.models import Call, Reply

_PLAIN: Final = ReplyMeta()


class Records:
    """Of one program, since the last time that they were taken.

    Args:
        places: Of the tools in the grant, by name.
    """

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places
        self._wakes: list[int] = []
        self._clocks: list[int | float] = []
        self._is_spoilt = False
        self._answered: list[msgspec.Raw] = []
        self._untold: dict[int, wire.CallOut] = {}
        """Calls without a reply, by id."""
        self.size_bytes = 0
        """Of what is answered."""

    def note_tape(self, event: Taped) -> None:
        """What led to the next calls. It may stand before earlier ones in the same batch, which is heard as a whole."""
        self._wakes += event.wakes
        self._clocks += event.clocks
        self._is_spoilt = self._is_spoilt or event.is_spoilt

    def note_calls(self, calls: Sequence[Call]) -> None:
        """They are about to be served."""
        for call in calls:
            self._untold[call.id] = (call.id, self._places[call.tool], wire.raw(call.arguments), call.line)

    def note_reply(self, reply: Reply, place: int, seconds: float) -> wire.WireServed | None:
        """The program has it, after `place` others. What is returned is in no record: it is to be said after these."""
        meta, size = reply.meta or _PLAIN, reply.size_bytes or 0
        served = (reply.call_id, place, seconds, reply.value, reply.error, size, meta.attempts, meta.breaker)
        if next(iter(self._untold), 0) != reply.call_id:
            return wire.WireServed(*served, reply.traceback)
        _, tool, arguments, line = self._untold.pop(reply.call_id)
        record = wire.raw((*served, tool, arguments, line, reply.traceback))
        self._answered.append(record)
        self.size_bytes += len(memoryview(record))
        return None

    def take(self) -> Iterator[bytes]:
        """All that was noted, as parts to be said in this order; nothing of it is kept."""
        if self._answered or self._wakes or self._clocks or self._is_spoilt:
            yield wire.answered_part(self._wakes, self._clocks, self._is_spoilt, self._answered)
            self._wakes, self._clocks, self._is_spoilt = [], [], False
            self._answered, self.size_bytes = [], 0
        if self._untold:
            yield wire.called_part(list(self._untold.values()))
            self._untold = {}
