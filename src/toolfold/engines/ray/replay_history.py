"""History of one program, to replay it on another node when its own is lost. Pure.

The runtime has heard all of it: what a replay repeats is left out.
"""

from __future__ import annotations

import hashlib
from typing import Final

from toolfold.engines.base import Called, Event, Printed, ReplayTape
from toolfold.models import Call, Reply
from toolfold.protocol.codec import Violation, encode

MOST_REPLY_BYTES: Final = 64 * 1024 * 1024
"""Kept of one program; one that got more cannot be replayed."""


class Diverged(Exception):
    """The replay is not what was heard."""


class RunHistory:
    """History of one program."""

    def __init__(self, tape: ReplayTape) -> None:
        self._wakes, self._clocks = list(tape.wakes), list(tape.clocks)
        self.replies: list[Reply] = []
        """In the order in which the program got them."""
        self.settled: list[int] = []
        """Ids of calls that a node served itself."""
        self._reply_bytes = 0
        self._calls: list[Call | bytes] = []
        """Calls to compare a replay with: as a digest, or as they are where no tool here can change them."""
        self._output_characters = {"stdout": 0, "stderr": 0}
        self._replay_characters = {"stdout": 0, "stderr": 0}
        """Characters that a replay has to repeat before it prints anything new."""
        self._calls_again = 0
        self._last_id = 0
        self.lost_node = ""
        """Address of its last node, if that is lost."""
        self.why_not = ""
        """Why it cannot be replayed; empty if it can."""

    @property
    def tape(self) -> ReplayTape:
        return ReplayTape(tuple(self._wakes), tuple(self._clocks))

    def answered(self, reply: Reply) -> None:
        size = reply.size_bytes if reply.size_bytes is not None else len(encode(reply.value))
        self._keep(len(self.replies), reply, size)

    def served(self, place: int, reply: Reply, size: int) -> None:
        """Add a reply of a node, which the program got before those that were on their way then."""
        self.settled.append(reply.call_id)
        self._keep(place, reply, size)

    def _keep(self, place: int, reply: Reply, size: int) -> None:
        self._reply_bytes += size
        if self._reply_bytes > MOST_REPLY_BYTES:
            self.why_not = f"it got more than {MOST_REPLY_BYTES >> 20} MiB of replies"
            self.replies.clear()
        if not self.why_not:
            self.replies.insert(place, reply)

    def begin_again(self) -> None:
        self._replay_characters = dict(self._output_characters)
        self._calls = [call if isinstance(call, bytes) else _key(call) for call in self._calls]
        self._calls_again = len(self._calls)
        self._last_id = 0

    def check_ids(self, ids: list[int]) -> None:
        """Raise `Violation` unless these are the ids of the next calls."""
        first, self._last_id = self._last_id + 1, self._last_id + len(ids)
        if ids != list(range(first, self._last_id + 1)):
            raise Violation("calls out of order")

    def observe(self, event: Event) -> Event | None:
        """The event, or what is new of it; `Diverged` if the program does not repeat what it did."""
        if isinstance(event, Called):
            return self._called(event)
        if isinstance(event, Printed):
            return self._printed(event)
        if isinstance(event, ReplayTape):
            if event.is_spoilt:
                self.why_not = "it used threads, or read the clock too often"
            self._wakes += event.wakes
            self._clocks += event.clocks
        return event

    def _called(self, event: Called) -> Called | None:
        new = []
        for call in event.calls:
            if not self._is_repeated(call):
                self._calls.append(_key(call))
                new.append(call)
        return Called(*new) if new else None

    def observe_served(self, call: Call) -> bool:
        """Add a call that a node has served; whether it is new. Raises as `observe`."""
        if self._is_repeated(call):
            return False
        self._calls.append(call)
        return True

    def _is_repeated(self, call: Call) -> bool:
        if call.id > self._calls_again:
            return False
        if self._calls[call.id - 1] != _key(call):
            raise Diverged(f"call {call.id} of {call.tool!r} is not the one that it made before")
        return True

    def _printed(self, event: Printed) -> Printed | None:
        again = min(self._replay_characters[event.stream], len(event.text))
        self._replay_characters[event.stream] -= again
        self._output_characters[event.stream] += len(event.text) - again
        if not again:
            return event
        rest = event.text[again:]
        return Printed(rest, event.stream, event.cut_bytes, event.is_report) if rest or event.cut_bytes else None


def _key(call: Call) -> bytes:
    return hashlib.blake2b(encode((call.tool, call.arguments)), digest_size=16).digest()
