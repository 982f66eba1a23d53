"""Pauses of an execution: what is safe before one, how it goes on, and how much memory paused ones hold.

Order matters here. To pause: the program's timers stop, the guest stands still, the clock stops, the record is safe,
and only then is anybody told. To go on: all answers are checked, then written, then the timers run, and only then do
the answers reach the program.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from toolfold.engines.base import Freezable, Timed
from toolfold.errors import ToolfoldError, UsageError
from toolfold.events import ApprovalAsked, ApprovalDecided, Tell
from toolfold.execution.recorded_history import call_key, pause_of
from toolfold.ledger import encryption
from toolfold.ledger.base import CallEntry, DecisionEntry, HandoverEntry, ReplyEntry, SealedSnapshot
from toolfold.ledger.encryption import ProgramSnapshot
from toolfold.models import MIB, Call, Paused, Reply, ToolSpec
from toolfold.tools.tool import Approve, Decision

if TYPE_CHECKING:
    from toolfold.execution.calls import Dispatch, ExecutionCalls
    from toolfold.execution.execution import ExecutionRecord, Life
    from toolfold.execution.program_output import OutputStreams
    from toolfold.execution.request import ExecutionPlan, Services
    from toolfold.execution.wall_clock import WallClock


LARGE_BYTES: Final = 128 * 1024
"""Packing a larger snapshot could hold up every other execution."""


class Pauses:
    """The pauses of one execution."""

    def __init__(
        self, plan: ExecutionPlan, services: Services, *, life: Life, record: ExecutionRecord, calls: ExecutionCalls,
        clock: WallClock, output: OutputStreams,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._ledger = services.ledger
        self._life = life
        self._record = record
        self._calls = calls
        self._clock = clock
        self._output = output
        # What cannot be replayed has names in its guest that no snapshot holds.
        self._snapshot_version = services.engine.capabilities.snapshot_version if plan.order.tape is not None else ""
        self._rounds = plan.past.rounds if plan.past is not None else 0
        """Pauses of which the ledger has had a snapshot."""
        self.last_waiting = -1
        """How many replies the guest had seen when it last said that it waits."""
        self._paused_at = 0.0
        """By the ledger's clock."""
        self._is_timed: bool | None = None
        self._waits_for_person = False
        """Some of the time until it goes on is a person's, which no timer of the program counts."""

    def is_due(self, replies_seen: int) -> bool:
        """The guest has seen every reply and has nothing to run, and no local call is on its way."""
        # A nudge of our own may be older than what the guest has said since.
        self.last_waiting = max(self.last_waiting, replies_seen)
        if self.last_waiting != self._calls.replies_sent or not self._calls.dispatch.is_idle:
            return False
        return bool(self._calls.approvals.open) or bool(self._calls.open_outside)

    async def pause(self) -> Paused | None:
        """Stand still until the outside answers; what happened so far is safe first. `None`: it went on instead."""
        if not self._life.is_paused:
            run = self._life.run
            run.hold()
            frozen: bytes | None = b""
            if self._snapshot_version and isinstance(run, Freezable):
                frozen = await run.freeze()
            if frozen is None:
                return None  # it says again when it waits; its timers stand still already
            self._stop_clock()
            self._record.note_pause(self._clock.seconds_left)
            await self._park(frozen)
            self._life.move("pause")
            self._paused_at = self._began_pausing()
            self._waits_for_person = bool(self._calls.approvals.open)
        return Paused(
            execution_id=self._plan.start_record.execution_id, calls=self._calls.open_outside,
            approvals=self._calls.approvals.open, seconds_left=self._clock.seconds_left,
        )  # fmt: skip

    async def accept(self, replies: Sequence[Reply], decisions: Mapping[int, Decision]) -> list[ReplyEntry]:
        """Check what the outside says and write it down, before any of it is used."""
        if not self._life.is_paused:
            raise UsageError(f"execution {self._plan.start_record.execution_id!r} is running; wait for it to pause")
        self._check(replies)
        self._calls.approvals.check(decisions)
        self._life.move("accept")
        accepted = self._calls.answered_outside(list(replies))
        try:
            await self._record.accept(accepted)
        except BaseException:
            self._life.move("refuse")
            raise
        self._life.move("resume")
        return accepted

    def go_on(self, accepted: Sequence[ReplyEntry], decisions: Mapping[int, Decision]) -> None:
        run = self._life.run
        if self._is_timed is None:  # asked once: to look at a protocol takes long
            self._is_timed = isinstance(run, Timed)
        if self._is_timed and not self._waits_for_person:
            cast("Timed", run).release_after(max(0.0, self._ledger.now() - self._paused_at))
        else:
            run.release()
        for reply_entry in accepted:
            self._calls.deliver(reply_entry)
        if decisions:
            self._calls.approvals.decide(decisions)

    def take_up(self, snapshot: ProgramSnapshot) -> None:
        """Restore the state of the host at the snapshot."""
        self._output.stdout.add(snapshot.stdout, snapshot.stdout_cut_bytes)
        self._output.stderr.add(snapshot.stderr, snapshot.stderr_cut_bytes)
        self._clock.put_back(snapshot.seconds_left)
        were_open = {call.id for call in snapshot.open_calls}
        assert self._plan.past is not None
        for reply_entry in self._plan.past.reply_entries:
            if reply_entry.reply.call_id <= snapshot.calls_made and reply_entry.reply.call_id not in were_open:
                self._calls.restore(reply_entry)
        for call in snapshot.open_calls:
            self._calls.serve(call)

    def _began_pausing(self) -> float:
        """When the pause began, here or in another process."""
        past = self._plan.past
        if past is None or past.paused_at is None:
            return self._ledger.now()
        at, past.paused_at = past.paused_at, None
        return at

    def _check(self, replies: Sequence[Reply]) -> None:
        open_ids = [call.id for call in self._calls.open_outside]
        unanswered = set(open_ids)
        for reply in replies:
            if reply.call_id not in unanswered:
                ids = ", ".join(map(str, open_ids))
                execution_id = self._plan.start_record.execution_id
                raise UsageError(f"no open call {reply.call_id!r} in execution {execution_id!r}; open are {ids}")
            unanswered.discard(reply.call_id)

    def _stop_clock(self) -> None:
        self._clock.stop()
        past = self._plan.past
        if past is not None and past.seconds_left is not None:
            self._clock.put_back(past.seconds_left)
            past.seconds_left = None

    async def _park(self, frozen: bytes) -> None:
        seal = self._ledger.snapshot_seal() if frozen else None
        if seal is None:
            await self._record.park()
            return
        snapshot = self._snapshot(frozen)
        pause = pause_of(self._plan.start_record, self._rounds + 1, self._snapshot_version)
        if len(frozen) + len(snapshot.stdout) + len(snapshot.stderr) < LARGE_BYTES:
            body = encryption.lock(snapshot, pause, seal)
        else:
            body = await asyncio.to_thread(encryption.lock, snapshot, pause, seal)
        await self._record.park(SealedSnapshot(pause.round, body))
        self._rounds += 1

    def _snapshot(self, frozen: bytes) -> ProgramSnapshot:
        stdout, stderr = self._output.stdout, self._output.stderr
        return ProgramSnapshot(
            state=frozen, calls_made=self._calls.count, open_calls=self._calls.open, stdout=stdout.whole(),
            stderr=stderr.whole(), stdout_cut_bytes=stdout.dropped_bytes, stderr_cut_bytes=stderr.dropped_bytes,
            seconds_left=self._clock.seconds_left,
        )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# How much memory paused executions may hold, of one tenant and in all. Decides; acts through whoever asks.


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedLimits:
    """Memory limits for guests of paused executions; beyond them the oldest end and are replayed later."""

    tenant_bytes: int = 512 * MIB
    total_bytes: int = 2048 * MIB


class PausedMemory:
    """Memory held by each paused execution."""

    def __init__(self, limits: PausedLimits) -> None:
        self._limits = limits
        self._usage: dict[str, tuple[str, int]] = {}
        """Tenant and bytes by execution, the oldest first."""

    def add(self, execution_id: str, tenant: str, held_bytes: int) -> list[str]:
        """Note a paused execution; those that have to let go of their guests for it."""
        self._usage[execution_id] = (tenant, held_bytes)
        leaving: list[str] = []
        while self._of(tenant) > self._limits.tenant_bytes:
            leaving.append(self._take_oldest(tenant))
        while sum(size for _, size in self._usage.values()) > self._limits.total_bytes:
            largest = max({tenant for tenant, _ in self._usage.values()}, key=self._of)
            leaving.append(self._take_oldest(largest))
        return leaving

    def remove(self, execution_id: str) -> None:
        self._usage.pop(execution_id, None)

    def _of(self, tenant: str) -> int:
        return sum(size for owner, size in self._usage.values() if owner == tenant)

    def _take_oldest(self, tenant: str) -> str:
        oldest = next(execution_id for execution_id, (owner, _) in self._usage.items() if owner == tenant)
        del self._usage[oldest]
        return oldest


# ----------------------------------------------------------------------------------------------------
# Approvals of one execution: who is asked, what is on record while calls wait, and answers that stand.
#
# Answers that stand for further calls of the same program: what each covers, and how often it still does.
#
# They come from whoever approves, or from the record of a program that goes on; never from a program.


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to one call, and the call it was given to: 0 for this one itself."""

    decision: Decision
    under: int = 0


class StandingAnswers:
    """Standing answers of one execution.

    Args:
        decided: Calls that asked earlier in the life of this execution, with their answers, in order.
    """

    def __init__(self, decided: Iterable[tuple[Call, DecisionEntry]] = ()) -> None:
        self._answers: dict[bytes | str, ApprovalAnswer] = {}
        self._calls_left: dict[bytes | str, float] = {}
        for call, entry in decided:
            if entry.under:
                self.answer_to(call)  # has used one up
                continue
            decision = Decision(
                approved=entry.approved, reason=entry.reason, covers=entry.covers, calls=entry.calls, by=entry.by
            )
            self.add(call, decision)

    def add(self, call: Call, decision: Decision) -> None:
        """Keep an answer, if it is for more than its own call."""
        if decision.covers != "call":
            key = call.tool if decision.covers == "tool" else call_key(call)
            self._answers[key] = ApprovalAnswer(decision, call.id)
            self._calls_left[key] = math.inf if decision.calls is None else decision.calls - 1

    def answer_to(self, call: Call) -> ApprovalAnswer | None:
        """The answer that stands for this call, which counts as one use of it."""
        for key in (call_key(call), call.tool) if self._answers else ():
            if self._calls_left.get(key, 0) > 0:
                self._calls_left[key] -= 1
                return self._answers[key]
        return None


class Approvals:
    """The approvals of one execution.

    Args:
        approve: The runtime's own way to ask; without it the outside is asked with the next pause.
        look_again: Has the runtime look whether the program can pause now.
        waited: Gets the seconds that each call waits for its answer.
        wait_seconds: How long `approve` waits before it refuses a call, if it says that.
    """

    def __init__(
        self, plan: ExecutionPlan, *, approve: Approve | None, record: ExecutionRecord, life: Life, dispatch: Dispatch,
        look_again: Callable[[], None], tell: Tell | None, waited: defaultdict[int, float],
        wait_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._approve = approve
        # Any: as in `Moment`.
        self._deadline_facts: dict[str, Any] = {} if wait_seconds is None else {"wait_seconds": wait_seconds}
        self._record = record
        self._life = life
        self._dispatch = dispatch
        self._look_again = look_again
        self._tell = tell
        self._waited = waited
        self._standing = StandingAnswers(plan.past.decided if plan.past is not None else ())
        self._undecided: dict[int, tuple[Call, asyncio.Future[ApprovalAnswer]]] = {}
        self.decided: set[int] = set()
        """Calls on record as begun after a yes; their tool may yet leave the answer to the outside."""

    @property
    def can_ask(self) -> bool:
        """Whether there are tools that ask, and somebody who answers."""
        plan = self._plan
        return bool(plan.approval_tools or plan.may_ask) and (plan.can_pause or self._approve is not None)

    @property
    def open(self) -> tuple[Call, ...]:
        """Calls that wait for the outside to decide."""
        return tuple(call for call, _ in self._undecided.values()) if self._approve is None else ()

    async def ask(self, call: Call, spec: ToolSpec) -> Decision:
        """A call that needs a yes: one that stands, the callback's, or the outside's with the next pause."""
        is_begun = call.tool not in self._plan.approval_tools or call.id in self.decided
        self._record.note_call(call)
        began = time.perf_counter()
        try:
            answered = self._standing.answer_to(call) or await self._request_answer(call, spec, is_begun=is_begun)
        finally:
            self._waited[call.id] += time.perf_counter() - began
        decision = answered.decision
        facts = (
            decision.approved, decision.reason, decision.by, decision.covers, decision.calls, answered.under,
        )  # fmt: skip
        if self._tell is not None:
            self._tell(ApprovalDecided(self._plan.start_record.execution_id, call, *facts))
        self._record.note(
            DecisionEntry(call.id, *facts),
            HandoverEntry(call.id, is_open=False) if is_begun else CallEntry(call, self._record.at),
        )
        self.decided.add(call.id)
        if self._record.is_strict:
            try:
                await self._record.flush()
            except ToolfoldError as error:  # not the program's to catch: nothing may go on that is not on record
                self._life.fail(error)
                raise
        return decision

    async def _request_answer(self, call: Call, spec: ToolSpec, *, is_begun: bool) -> ApprovalAnswer:
        self._record.tell(
            "asked", call_id=call.id, tool=call.tool, arguments=dict(call.arguments), line=call.line,
            within=call.within, **self._deadline_facts,
        )  # fmt: skip
        if self._tell is not None:
            self._tell(ApprovalAsked(self._plan.start_record.execution_id, call))
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._undecided[call.id] = (call, answer)
        if self._approve is not None:
            return await self._ask_here(self._approve, call, spec, answer)
        if is_begun:
            self._record.note(HandoverEntry(call.id, is_open=True))  # so that a replay asks again
        self._dispatch.step_aside(call.id)
        self._look_again()
        return await answer

    async def _ask_here(
        self, approve: Approve, call: Call, spec: ToolSpec, answer: asyncio.Future[ApprovalAnswer]
    ) -> ApprovalAnswer:
        """Of the callback, which need not answer if an answer to another call stands for this one meanwhile."""
        asking = asyncio.ensure_future(approve(call, spec))
        # Any: whichever of the two is first.
        either: list[asyncio.Future[Any]] = [asking, answer]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            del self._undecided[call.id]
            decision = asking.result()
            self._standing.add(call, decision)
            if decision.covers != "call":
                self._answer_covered()
            return ApprovalAnswer(decision)
        finally:
            asking.cancel()
            self._undecided.pop(call.id, None)

    def check(self, call_ids: Iterable[int]) -> None:
        """Raises `UsageError` where one of these does not wait for a decision."""
        for call_id in call_ids:
            if call_id not in self._undecided:
                ids = ", ".join(str(open_id) for open_id in self._undecided) or "none"
                raise UsageError(
                    f"call {call_id!r} of execution {self._plan.start_record.execution_id!r} waits for no decision; "
                    f"those that do: {ids}"
                )

    def decide(self, decisions: Mapping[int, Decision]) -> None:
        """Let these calls continue, and those that one of the answers covers."""
        decided = [(self._undecided.pop(call_id), decision) for call_id, decision in decisions.items()]
        for (call, answer), decision in decided:
            self._dispatch.step_back(call.id)
            answer.set_result(ApprovalAnswer(decision))
            self._standing.add(call, decision)
        self._answer_covered()

    def _answer_covered(self) -> None:
        for call, answer in tuple(self._undecided.values()):
            answered = None if answer.done() else self._standing.answer_to(call)
            if answered is not None:
                del self._undecided[call.id]
                self._dispatch.step_back(call.id)
                answer.set_result(answered)
