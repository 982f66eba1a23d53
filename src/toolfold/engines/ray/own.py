"""Calls of one program that its node serves itself, seen from the runtime. Not a word of the node is trusted. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from toolfold.engines.base import Called, Served
from toolfold.models import Reply, ReplyMeta
from toolfold.protocol.codec import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolfold.engines.ray.past import Past
    from toolfold.engines.ray.wire import WireServed
    from toolfold.models import Call, Limits

_MOST_ERROR_CHARACTERS: Final = 10_000
"""The router cuts an error's text to a fifth of that."""

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

    def served(self, said: WireServed) -> Served:
        """A reply that the program has.

        Raises:
            Violation: It is a reply to no call of these, or none that a router gives.
        """
        call = self._open.pop(said.call_id, None)
        if call is None:
            raise Violation("a reply to no call of its own")
        if not 0 <= said.place <= len(self._past.replies) and not self._past.why_not:
            raise Violation("a reply out of order")
        is_small = 0 <= said.size_bytes <= self._limits.reply_bytes and len(said.error or "") <= _MOST_ERROR_CHARACTERS
        if not is_small or not 0 <= said.seconds < math.inf or said.attempts < 0 or said.breaker not in _BREAKER:
            raise Violation("a reply that no router gives")
        meta = None
        if said.attempts != 1 or said.breaker:
            meta = ReplyMeta(attempts=said.attempts, breaker=said.breaker)
        reply = Reply(call_id=said.call_id, value=said.value, error=said.error, size_bytes=said.size_bytes, meta=meta)
        self._past.served(said.place, reply, said.size_bytes)
        return Served(call, reply, said.seconds)

    def unanswered(self) -> Iterator[Served]:
        """Those that the program did not wait for: they may have run."""
        for call in self._open.values():
            yield Served(call, Reply(call_id=call.id, error="the program ended before the reply"), 0.0)
        self._open = {}
