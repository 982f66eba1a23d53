"""The calls of one program on Monty, from the call to the moment when Monty takes the result. Knows no thread.

A call has two ids: ours, which count from 1 and are in the record, and Monty's, which name the future that the
program holds. Sleeps, deadlines and the tickets of semaphores are futures, too, with an id of Monty's only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from toolfold.engines.monty.report import TOOL_ERROR
from toolfold.engines.monty.state import State
from toolfold.engines.monty.values import for_guest
from toolfold.models import Call, Media, Reply


class Calls:
    """Which calls wait for a reply, and which results wait for Monty."""

    def __init__(self, wrap: Callable[[Media], object], before: State | None) -> None:
        self._wrap = wrap
        self.made = before.calls if before else 0
        """How many calls the program has made."""
        self.seen = before.seen if before else 0
        """How many replies it has had."""
        self.open = dict(before.open) if before else {}
        """Calls without a reply: our id to Monty's."""
        self._kept = dict(before.kept) if before else {}
        """Calls whose reply came before the snapshot and is still to be taken: our id to Monty's."""
        # Any: what Monty takes as a result is a dict of its own making.
        self._arrived: dict[int, Any] = {}
        """Results that Monty has not been given: its id to the result."""
        self._replied: dict[int, int] = {}
        """Of these, the ones that are replies: Monty's id to ours."""
        self._unsent: list[Call] = []
        """Calls leave when the program waits, as in the process engine; one never awaited never leaves."""
        for call_id, error in before.settled.items() if before else ():
            self.settle(call_id, error)

    def add(self, call: Call, call_id: int) -> None:
        """The program made a call; Monty knows it by `call_id`."""
        self.made = call.id
        self.open[call.id] = call_id
        self._unsent.append(call)

    def take_unsent(self) -> list[Call]:
        """Calls that are not on their way yet, and are now."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def take(self, reply: Reply) -> bool:
        """Keep a reply for Monty; whether it is one that the program has not seen before."""
        call_id = self._kept.pop(reply.call_id, None)
        is_new = call_id is None
        if call_id is None:
            call_id = self.open.pop(reply.call_id, None)
            if call_id is None:
                return False  # answered twice, never called, or taken before the snapshot
            self.seen += 1
        if call_id in self._arrived:
            return is_new  # its deadline came first
        self._replied[call_id] = reply.call_id
        if reply.error is None:
            self._arrived[call_id] = {"return_value": for_guest(reply.value, self._wrap)}
        else:
            self._arrived[call_id] = {"exc_type": TOOL_ERROR, "message": reply.error}
        return is_new

    def settle(self, call_id: int, error: str = "") -> None:
        """A future of the host's own is done, with an exception or with nothing."""
        self._arrived.setdefault(call_id, {"exc_type": error} if error else {"return_value": None})

    def arrived(self, call_ids: Collection[int]) -> set[int]:
        """Those of Monty's ids whose results are here."""
        return self._arrived.keys() & call_ids

    def give(self, call_id: int) -> Any:
        """The result, which Monty takes now."""
        self._replied.pop(call_id, None)
        return self._arrived.pop(call_id)

    @property
    def kept(self) -> dict[int, int]:
        """For a snapshot: calls whose replies are here but not taken. Our id to Monty's; the replies are on record."""
        return {ours: call_id for call_id, ours in self._replied.items()} | self._kept

    @property
    def settled(self) -> dict[int, str]:
        """For a snapshot: what the host settled and Monty has not taken. Monty's id to the exception, if any."""
        return {
            call_id: result.get("exc_type", "")
            for call_id, result in self._arrived.items()
            if call_id not in self._replied
        }
