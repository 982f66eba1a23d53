"""Calls of one program that its node serves itself, seen from the runtime. Not a word of the node is trusted. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from msgspec import structs

from toolfold.engines.base import Called, Served, ServedCall, Taped
from toolfold.models import Call, Reply, ReplyMeta
from toolfold.protocol.codec import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolfold.engines.ray.past import Past
    from toolfold.engines.ray.wire import WireAnswered, WireRecord, WireServed
    from toolfold.models import Limits, ToolSpec

_MOST_ERROR_CHARACTERS: Final = 10_000
"""The router cuts an error's text to a fifth of that, and its traceback to less than half."""

_BREAKER: Final = ("", "opened", "closed", "open")


class OwnCalls:
    """Those that have no reply yet, and what becomes of them.

    Args:
        past: Keeps the replies, for a replay.
        limits: Of the program.
    """

    def __init__(self, past: Past, limits: Limits) -> None:
        self.names: frozenset[str] = frozenset()
        """Of the tools that the node may call."""
        self._past = past
        self._limits = limits
        self._open: dict[int, Call] = {}

    def without(self, called: Called) -> Called | None:
        """The calls that the runtime has to serve; the others are kept."""
        rest = []
        for call in called.calls:
            if call.tool in self.names:
                self._open[call.id] = call
            else:
                rest.append(call)
        return Called(*rest) if rest else None

    def answered(self, said: WireAnswered, tools: Sequence[ToolSpec]) -> Served | None:
        """Calls that were made and answered since the last ones; `None` if there was only a tape.

        Raises:
            Violation: No node that calls these tools says that.
            Diverged: The program does not do again what it did.
        """
        if not self.names:
            raise Violation("a reply to no call of its own")
        past, records = self._past, said.records
        past.heard(Taped(tuple(said.wakes), tuple(said.clocks), said.is_spoilt))
        if [record.call_id for record in records] != past.next_ids(len(records)):
            raise Violation("calls out of order")
        served = []
        for record in records:
            name = tools[record.tool].name if 0 <= record.tool < len(tools) else ""
            if name not in self.names:
                raise Violation("a reply to no call of its own")
            call = Call(id=record.call_id, tool=name, arguments=record.arguments, line=record.line)
            # One that was in flight on a lost node was told of before.
            if not past.heard_served(call) and self._open.pop(call.id, None) is None:
                raise Violation("a reply to no call of its own")
            served.append(ServedCall(call, self._reply(record), record.seconds))
        return Served(served) if served else None

    def served(self, said: WireServed) -> Served:
        """A reply that the program has.

        Raises:
            Violation: It is a reply to no call of these, or none that a router gives.
        """
        call = self._open.pop(said.call_id, None)
        if call is None:
            raise Violation("a reply to no call of its own")
        return Served((ServedCall(call, self._reply(said), said.seconds),))

    def _reply(self, said: WireServed | WireRecord) -> Reply:
        past, size, error = self._past, said.size_bytes, said.error
        if not 0 <= said.place <= len(past.replies) and not past.why_not:
            raise Violation("a reply out of order")
        is_small = 0 <= size <= self._limits.reply_bytes and (error is None or len(error) <= _MOST_ERROR_CHARACTERS)
        if said.traceback and (error is None or len(said.traceback) > _MOST_ERROR_CHARACTERS):
            raise Violation("a traceback that no router gives")
        if not is_small or not 0 <= said.seconds < math.inf or said.attempts < 0 or said.breaker not in _BREAKER:
            raise Violation("a reply that no router gives")
        meta = None
        if said.attempts != 1 or said.breaker:
            meta = ReplyMeta(attempts=said.attempts, breaker=said.breaker)
        # A router measures values only; of an error, the record has the size of its text.
        measured = size if error is None else None
        reply = Reply(call_id=said.call_id, value=said.value, error=error, size_bytes=measured, meta=meta)
        past.served(said.place, reply, size)
        # Not for the past: it is for people here, and another node that the program moves to has no use for it.
        return structs.replace(reply, traceback=said.traceback) if said.traceback else reply

    def unanswered(self) -> Served | None:
        """Those that the program did not wait for: they may have run. `None` if there are none."""
        left, self._open = self._open, {}
        if not left:
            return None
        error = "the program ended before the reply"
        return Served([ServedCall(call, Reply(call_id=call.id, error=error), 0.0) for call in left.values()])
