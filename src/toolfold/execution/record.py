"""One execution's record in the ledger: what is noted, and what must be safe there before what.

Rules:
1. A call that is not safe to repeat is on record before its tool is called, if the record must hold after a kill.
2. With a tape, each call is noted before it is made, because a replay compares calls in the order they were made.
3. Otherwise a call whose reply comes at once is noted together with it: one entry for the ledger instead of two.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import LedgerFull
from toolfold.ledger.record import Made, Moment, Tape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from toolfold.engines.base import Taped
    from toolfold.execution.plan import Plan
    from toolfold.ledger.record import Entry, Given, Ledger, MomentKind, Sealed
    from toolfold.models import Call, Outcome

_TOLD_CHARACTERS: Final = 256 * 1024
"""Of output, on record while the program runs."""


class ExecutionRecord:
    """Writes to the ledger for one execution, with its epoch."""

    def __init__(self, ledger: Ledger, plan: Plan) -> None:
        self._ledger = ledger
        self._plan = plan
        self._id = plan.begun.execution_id
        self.is_taped = plan.tape is not None
        self.is_strict = plan.begun.is_strict or self.is_taped
        """Rule 1 holds."""
        self._is_spoilt = False
        self._told = {"stdout": 0, "stderr": 0}
        self._unnoted: Call | None = None
        """Being served right now, and goes on record before its tool (rule 1) or with its reply (rule 3)."""

    @cached_property
    def safe(self) -> frozenset[str]:
        """Tools that may be called again where it is not known whether a call reached them."""
        return frozenset(spec.name for spec in self._plan.begun.tools if spec.read_only or spec.idempotent)

    @property
    def can_be_replayed(self) -> bool:
        """Whether the ledger has all that the guest knows."""
        return self.is_taped and not self._is_spoilt

    async def begin(self) -> None:
        """The first entry."""
        self._ledger.begin(self._plan.begun)
        if self._plan.is_durable:
            await self.flush()

    def note(self, *entries: Entry) -> None:
        """To be written soon, in this order."""
        self._ledger.note(self._id, *entries, epoch=self._plan.epoch)

    @property
    def at(self) -> float:
        """Seconds since the start of the execution, in whichever process that was."""
        return time.time() - self._plan.begun.began_at

    # Any: as in `Moment`.
    def tell(self, kind: MomentKind, *, call_id: int = 0, text: str = "", **facts: Any) -> None:
        """For whoever watches: what a replay does not need is on record only where the record outlives us."""
        if self._ledger.is_lasting:
            self.note(Moment(kind=kind, at=self.at, call_id=call_id, text=text, facts=facts))

    def note_pause(self, seconds_left: float) -> None:
        """It pauses with so much of its time left; a replay is faster, and must tell the same after a restart."""
        entries: list[Entry] = []
        if self._ledger.is_lasting:
            entries.append(Moment(kind="paused", at=self.at, facts={"clock": self._ledger.now()}))
        if self.is_taped:
            entries.append(Tape(seconds_left=seconds_left))
        if entries:
            self.note(*entries)

    def tell_printed(self, text: str, stream: str) -> None:
        """Output as it comes, up to a limit; all of it is in the outcome."""
        if self._ledger.is_lasting and sum(self._told.values()) < _TOLD_CHARACTERS:
            place = self._told[stream]
            self._told[stream] += len(text)
            # With its place: a replay prints all of it again, and nobody should read it twice.
            self.tell("printed", text=text[:_TOLD_CHARACTERS], stream=stream, place=place)

    async def flush(self) -> None:
        """All that was noted is safe when this returns."""
        await self._ledger.flush(self._id)

    def note_tape(self, event: Taped) -> None:
        """What a replay needs besides the replies; it comes before the calls that it led to."""
        self._is_spoilt = self._is_spoilt or event.is_spoilt
        self.note(Tape(event.wakes, event.clocks, event.is_spoilt))

    # calls

    def begin_call(self, call: Call) -> None:
        """The program made a call, which is being served now."""
        if call.tool in self._plan.asked:
            return  # what waits for a yes has not begun, and a replay asks for it again
        self._unnoted = call
        if self.is_taped:
            self.note_call()

    def note_call(self, call: Call | None = None) -> None:
        """Rule 3 does not apply after all: the call that is being served waits; if given, only this one."""
        unnoted = self._unnoted
        if unnoted is not None and (call is None or unnoted is call):
            self._unnoted = None
            self.note(Made(unnoted, self.at))

    def note_reply(self, call: Call, given: Given) -> None:
        """The program has been given the reply."""
        if self._unnoted is call:
            self._unnoted = None
            self.note(Made(call), given)
        else:
            self.note(given)

    def note_served(self, done: Sequence[tuple[Call, Given]]) -> None:
        """Rule 3, for calls that the engine has served: whatever their tools are, they have been called."""
        asked = self._plan.asked
        entries: list[Entry] = []
        for call, given in done:
            if call.tool not in asked:
                entries.append(Made(call))
            entries.append(given)
        self.note(*entries)

    def before_tool(self, call: Call) -> Awaitable[None] | None:
        """Rule 1: what to wait for before the tool is called, if anything."""
        if call.tool in self.safe or call.tool in self._plan.asked:
            return None
        unnoted: tuple[Entry, ...] = ()
        if self._unnoted is call:
            self._unnoted, unnoted = None, (Made(call, self.at),)
        waits = self._ledger.secure(self._id, *unnoted, epoch=self._plan.epoch)
        return None if waits is None else self._unless_full(waits)

    async def _unless_full(self, waits: Awaitable[None]) -> None:
        try:
            await waits
        except LedgerFull:
            # Too much to keep: one that only may pause goes on, and a pause would say it; so would a rerun.
            if self.is_taped and not self._plan.may_ask:
                raise

    # pauses and the end

    async def park(self, snapshot: Sealed | None = None) -> None:
        """The execution is paused, and all of it is safe."""
        await self._ledger.park(self._id, epoch=self._plan.epoch, snapshot=snapshot)

    async def accept(self, given: Sequence[Given]) -> None:
        """Replies of the outside are safe, before the program goes on."""
        await self._ledger.accept(self._id, given, epoch=self._plan.epoch)

    async def finish(self, outcome: Outcome) -> None:
        """The last entry."""
        await self._ledger.finish(self._id, outcome, epoch=self._plan.epoch, wait=self._plan.is_durable)
