"""Execution of one program: its lifecycle, its record in the ledger, and the parts that meet in it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from toolfold.engines.base import Ended, Mortal, Printed, ReplayTape, Run, Served, Waiting
from toolfold.errors import Fenced, LedgerFull, ToolfoldError
from toolfold.events import ProgramBegan, ProgramEnded, ProgramPaused, ProgramPrinted, ProgramResumed, Tell
from toolfold.execution.calls import ExecutionCalls
from toolfold.execution.outcome import Accounts, code_size, isolation_of, outcome_of, unseen_key_hints
from toolfold.execution.pauses import Pauses
from toolfold.execution.program_output import OutputStreams, OutputWatch
from toolfold.execution.wall_clock import WallClock
from toolfold.ledger.base import CallEntry, Entry, Ledger, Moment, MomentKind, ReplyEntry, SealedSnapshot, TapeEntry
from toolfold.models import Call, Outcome, Paused, Problem, Reply

if TYPE_CHECKING:
    from toolfold.execution.request import ExecutionPlan, Services
    from toolfold.tools.tool import Decision


# ----------------------------------------------------------------------------------------------------
# Where an execution is in its life, as a table, and the two ways to end its program from outside.
#
# `stop` ends the program and leaves an outcome; `fail` ends it and leaves the record open, because another process
# has the execution or because what happened could not be written down.

State: TypeAlias = Literal["opening", "running", "paused", "accepting", "closed", "ended"]
Change: TypeAlias = Literal["open", "pause", "accept", "resume", "refuse", "close", "finish"]
EarlyEnd: TypeAlias = Literal["timeout", "cancelled", "limit"]

TRANSITIONS: Final[dict[tuple[State, Change], State]] = {
    ("opening", "open"): "running",
    ("running", "pause"): "paused",
    # Two callers that ask at once where it stands may both have it parked.
    ("paused", "pause"): "paused",
    # While the answers are being written, nobody else can hand in any.
    ("paused", "accept"): "accepting",
    ("accepting", "resume"): "running",
    # They could not be written: it stands where it stood, and nothing has gone on.
    ("accepting", "refuse"): "paused",
    ("accepting", "pause"): "accepting",
    ("opening", "close"): "closed",
    ("running", "close"): "closed",
    ("paused", "close"): "closed",
    ("accepting", "close"): "closed",
    # Its runtime was left while it waited for the engine or the ledger: what it waited for changes nothing any more.
    ("closed", "open"): "closed",
    ("closed", "pause"): "closed",
    ("closed", "resume"): "closed",
    ("closed", "refuse"): "closed",
    ("closed", "finish"): "ended",
}


class Life:
    """State of one execution, its run, and the reason if it cannot continue."""

    run: Run
    """Set by `attach`; until then there is nothing to stop or to answer."""

    def __init__(self) -> None:
        self.state: State = "opening"
        self.is_over = False
        """Whether its guest is gone, so that no reply can reach the program any more."""
        self.failure: ToolfoldError | None = None
        """Why the execution could not go on although its program could."""
        self._stop: tuple[EarlyEnd, Problem | None] | None = None

    def move(self, change: Change) -> None:
        """Change to the next state; a change that is not in the table is a bug."""
        self.state = state = TRANSITIONS[self.state, change]
        self.is_over = state == "closed" or state == "ended"

    @property
    def is_paused(self) -> bool:
        """Whether it waits for the outside, and its record is safe."""
        return self.state == "paused"

    @property
    def is_settled(self) -> bool:
        """Whether its end is on its way to the record, or is not for this process to write."""
        return self.state == "ended" or isinstance(self.failure, Fenced)

    def attach(self, run: Run) -> None:
        self.run = run
        self.move("open")
        if self._stop is not None:
            run.stop(*self._stop)
        elif self.failure is not None:
            run.stop("cancelled")

    def stop(self, status: EarlyEnd, problem: Problem | None = None) -> None:
        """End the program now, or as soon as it is there: a first guest may take seconds to load its libraries."""
        if hasattr(self, "run"):
            self.run.stop(status, problem)
        else:
            self._stop = status, problem

    def fail(self, reason: ToolfoldError) -> None:
        """End the program; whoever waits for its outcome gets `reason`, and nothing more is written of it."""
        self.failure = reason
        if hasattr(self, "run"):  # else it is being opened, and ends as soon as it is there
            self.run.stop("cancelled")


# ----------------------------------------------------------------------------------------------------
# One execution's record in the ledger: what is noted, and what must be safe there before what.
#
# Rules:
# 1. A call that is not safe to repeat is on record before its tool is called, if the record must hold after a kill.
# 2. With a tape, each call is noted before it is made, because a replay compares calls in the order they were made.
# 3. Otherwise a call whose reply comes at once is noted together with it: one entry for the ledger instead of two.

_TOLD_CHARACTERS: Final = 256 * 1024
"""Of output, on record while the program runs."""


class ExecutionRecord:
    """Writes to the ledger for one execution, with its epoch."""

    def __init__(self, ledger: Ledger, plan: ExecutionPlan) -> None:
        self._ledger = ledger
        self._plan = plan
        self._id = plan.start_record.execution_id
        self.is_taped = plan.order.tape is not None
        self.is_strict = plan.start_record.is_strict or self.is_taped
        """Rule 1 holds."""
        self._is_spoilt = False
        self._recorded_characters = {"stdout": 0, "stderr": 0}
        self.unnoted: Call | None = None
        """Being served right now, and goes on record before its tool (rule 1) or with its reply (rule 3)."""

    @property
    def can_be_replayed(self) -> bool:
        """Whether the ledger has all that the guest knows."""
        return self.is_taped and not self._is_spoilt

    async def begin(self) -> None:
        self._ledger.begin(self._plan.start_record)
        if self._plan.is_durable:
            await self.flush()

    def note(self, *entries: Entry) -> None:
        self._ledger.note(self._id, *entries, epoch=self._plan.epoch)

    @property
    def at(self) -> float:
        """Seconds since the start of the execution, in whichever process that was."""
        return time.time() - self._plan.start_record.began_at

    # Any: as in `Moment`.
    def tell(self, kind: MomentKind, *, call_id: int = 0, text: str = "", **facts: Any) -> None:
        """Note a moment for observers; what a replay does not need, only in a ledger that lasts."""
        if self._ledger.is_lasting or kind == "asked":
            self.note(Moment(kind=kind, at=self.at, call_id=call_id, text=text, facts=facts))

    def note_pause(self, seconds_left: float) -> None:
        """It pauses with so much of its time left; a replay is faster, and must tell the same after a restart."""
        entries: list[Entry] = []
        if self._ledger.is_lasting:
            entries.append(Moment(kind="paused", at=self.at, facts={"clock": self._ledger.now()}))
        if self.is_taped:
            entries.append(TapeEntry(seconds_left=seconds_left))
        if entries:
            self.note(*entries)

    def tell_printed(self, text: str, stream: str) -> None:
        """Output as it comes, up to a limit; all of it is in the outcome."""
        if self._ledger.is_lasting and sum(self._recorded_characters.values()) < _TOLD_CHARACTERS:
            place = self._recorded_characters[stream]
            self._recorded_characters[stream] += len(text)
            # With its place: a replay prints all of it again, and nobody should read it twice.
            self.tell("printed", text=text[:_TOLD_CHARACTERS], stream=stream, place=place)

    async def flush(self) -> None:
        await self._ledger.flush(self._id)

    def note_tape(self, event: ReplayTape) -> None:
        """Record tape entries, which come before the calls that follow from them."""
        self._is_spoilt = self._is_spoilt or event.is_spoilt
        self.note(TapeEntry(event.wakes, event.clocks, event.is_spoilt))

    # calls

    def note_call(self, call: Call | None = None) -> None:
        """Rule 3 does not apply after all: the call that is being served waits; if given, only this one."""
        unnoted = self.unnoted
        if unnoted is not None and (call is None or unnoted is call):
            self.unnoted = None
            self.note(CallEntry(unnoted, self.at))

    def note_reply(self, call: Call, reply_entry: ReplyEntry) -> None:
        if self.unnoted is call:
            self.unnoted = None
            self.note(CallEntry(call), reply_entry)
        else:
            self.note(reply_entry)

    def note_served(self, done: Sequence[tuple[Call, ReplyEntry]]) -> None:
        """Rule 3, for calls that the engine has served: whatever their tools are, they have been called."""
        approval_tools = self._plan.approval_tools
        entries: list[Entry] = []
        for call, reply_entry in done:
            if call.tool not in approval_tools:
                entries.append(CallEntry(call))
            entries.append(reply_entry)
        self.note(*entries)

    def before_tool(self, call: Call) -> Awaitable[None] | None:
        """Rule 1: what to wait for before a tool is called that must not be called again, if anything."""
        unnoted: tuple[Entry, ...] = ()
        if self.unnoted is call:
            self.unnoted, unnoted = None, (CallEntry(call, self.at),)
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

    async def park(self, snapshot: SealedSnapshot | None = None) -> None:
        await self._ledger.park(self._id, epoch=self._plan.epoch, snapshot=snapshot)

    async def accept(self, reply_entries: Sequence[ReplyEntry]) -> None:
        await self._ledger.accept(self._id, reply_entries, epoch=self._plan.epoch)

    async def finish(self, outcome: Outcome) -> None:
        # Whoever could go on with it from the record must not find it open once its end was told.
        wait = self._plan.is_durable or self._plan.can_pause
        await self._ledger.finish(self._id, outcome, epoch=self._plan.epoch, wait=wait)


class Execution:
    """Execution of a program between its start and its outcome.

    Args:
        on_frozen: Told how much memory the guest takes that stands still in a pause.
    """

    clock: WallClock
    record: ExecutionRecord
    _tell: Tell | None
    _output: OutputStreams

    def __init__(self, plan: ExecutionPlan, services: Services, on_frozen: Callable[[Execution, int], None]) -> None:
        self.plan = plan
        self.id = plan.start_record.execution_id
        """The same in all processes."""
        self._services = services
        self._on_frozen = on_frozen
        self._began = time.perf_counter()
        self.life = Life()
        self._run_context: AbstractAsyncContextManager[Run] | None = None
        self._is_equipped = False
        self._calls: ExecutionCalls | None = None
        self._code_bytes = 0
        self._watch: OutputWatch | None = None

    # Not made with the object, because a guest that waits for its start would wait for them, too: they take a tenth
    # of the time of a short program. Not cached properties: with the first, all attributes become slower to read.
    def _equip(self) -> None:
        if self._is_equipped:
            return
        self._is_equipped = True
        plan, services, limits = self.plan, self._services, self.plan.start_record.limits
        self.record = ExecutionRecord(services.ledger, plan)
        self._tell = services.listeners.tell
        self.clock = WallClock(
            limits.wall_seconds, services.alarm, self.time_out, self._tick if plan.is_durable else None
        )
        self._output = OutputStreams(limits.output_bytes)

    @property
    def calls(self) -> ExecutionCalls:
        """Made with the first, or when somebody asks."""
        calls = self._calls
        if calls is None:
            plan, tell = self.plan, self._tell
            calls = self._calls = ExecutionCalls(
                plan, self._services, life=self.life, record=self.record, clock=self.clock,
                accounts=Accounts(self.id, self._began, tell, plan.options.on_call),
                look_again=self._look_again, tell=tell,
            )  # fmt: skip
        return calls

    @cached_property
    def pauses(self) -> Pauses:
        """Made with the first: most executions have none."""
        return Pauses(
            self.plan, self._services, life=self.life, record=self.record, calls=self.calls, clock=self.clock,
            output=self._output,
        )  # fmt: skip

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """Calls without a reply; empty while the guest has not started."""
        return self.calls.open if self._is_equipped else ()

    async def open(self) -> None:
        """Give the program to the engine; one with a past also gets the replies it had."""
        order = self.plan.order
        if self.plan.can_pause:
            order = msgspec.structs.replace(order, on_frozen=self._weighed)
        run_context = self._services.engine.open(order)
        run = await run_context.__aenter__()
        self._equip()
        self._run_context = run_context
        if self._tell is not None:
            self._tell(ProgramBegan(self.id, self.plan.start_record))
        self.life.attach(run)
        past = self.plan.past
        if past is None:
            await self.record.begin()
            # Now, while the program runs, and not when somebody waits for its outcome.
            self._code_bytes = code_size(self.plan.start_record.program.sent_text)
            return
        for reply_entry in past.reply_entries:
            run.answer(reply_entry.reply)
        self.calls.replies_sent = len(past.reply_entries)
        if past.seconds_left is None and past.last_tick is not None:
            self.clock.put_back(past.last_tick)
        if past.snapshot is not None:
            self.pauses.take_up(past.snapshot)

    def keep(self, event: Printed | ReplayTape | Served) -> None:
        """Output for the outcome, the tape for a replay, or a call that the engine has served."""
        if isinstance(event, Served):
            self.calls.note_served(event)
            return
        if not isinstance(event, Printed):
            self.record.note_tape(event)
            return
        self._output.add(event)
        self.record.tell_printed(event.text, event.stream)
        if self._watch is not None:
            self._watch.wake()
        if self._tell is not None:
            self._tell(ProgramPrinted(self.id, event.text, event.stream))

    def show(self, watch: OutputWatch) -> None:
        self._equip()
        self._watch = watch
        watch.begin(self._output, self.life)

    async def pause(self) -> Paused | None:
        """Stand still until the outside answers. `None`: it went on instead."""
        self._equip()
        was_paused = self.life.is_paused
        paused = await self.pauses.pause()
        if paused is not None and not was_paused and self._tell is not None:
            self._tell(ProgramPaused(self.id, tuple(paused.calls), tuple(paused.approvals)))
        return paused

    async def accept(self, replies: Sequence[Reply], decisions: Mapping[int, Decision]) -> None:
        """Go on with what the outside says; all is checked and written down before any of it is used."""
        self._equip()
        accepted = await self.pauses.accept(replies, decisions)
        self.record.tell("resumed")
        if self._tell is not None:
            self._tell(ProgramResumed(self.id, (*(reply.call_id for reply in replies), *decisions)))
        self.pauses.go_on(accepted, decisions)

    def is_lost(self) -> bool:
        """Whether it is paused and its guest has died, which costs nothing: its record can replay it."""
        if not self.life.is_paused or not self.record.can_be_replayed:
            return False
        run = self.life.run
        return isinstance(run, Mortal) and run.is_gone()

    def time_out(self) -> None:
        """End the program because its time is up."""
        seconds = f"{self.plan.start_record.limits.wall_seconds:g}"
        self.life.stop("timeout", Problem(kind="wall_clock", message=f"the program took longer than {seconds} s"))

    async def close(self) -> None:
        """End the guest and every call that the program did not wait for."""
        self.life.move("close")
        if self._calls is not None:
            self._calls.dispatch.close()
        run_context, self._run_context = self._run_context, None
        if run_context is not None:
            await run_context.__aexit__(None, None, None)
        if self._calls is not None:
            await self._calls.dispatch.ended()

    async def finish(self, ended: Ended, notes: tuple[str, ...] = (), deleted: tuple[str, ...] = ()) -> Outcome:
        """Build and record the outcome; the ledger stores more of the output than the caller sees."""
        if not self._is_equipped:
            self._equip()
        if ended.status == "failed":
            notes += unseen_key_hints(self.plan.start_record, self._services.learning)
        ended = replace(ended, notes=ended.notes + notes) if notes else ended
        code_bytes = self._code_bytes or code_size(self.plan.start_record.program.sent_text)
        engine, start_record = self._services.engine, self.plan.start_record
        isolation = start_record.isolation
        if self.plan.past is not None:
            isolation = isolation_of(start_record.program.language, engine.isolation)
        outcome = whole = outcome_of(
            ended, start_record, isolation=isolation, notes=engine.notes, began=self._began, code_bytes=code_bytes,
            output=self._output, calls=self._calls,
        )  # fmt: skip
        if deleted:
            outcome = whole = replace(outcome, deleted_files=deleted)
        if outcome.stdout_cut_bytes or outcome.stderr_cut_bytes:
            stdout, stderr = self._output.stdout.whole(), self._output.stderr.whole()
            whole = replace(outcome, stdout=stdout, stderr=stderr, stdout_tail="")
        self._services.listeners.tell_end(ProgramEnded(self.id, outcome))
        # Before the write: from here on the end is on its way to the record, whoever cancels this.
        self.life.move("finish")
        await self.record.finish(whole)
        if self.life.failure is not None:
            raise self.life.failure
        return outcome

    def _tick(self) -> None:
        """Whoever goes on with it after a kill gives it no more time than it had."""
        self.record.tell("ticked", seconds_left=round(self.clock.seconds_left, 3))

    def _look_again(self) -> None:
        self.life.run.nudge(Waiting(self.pauses.last_waiting))

    def _weighed(self, held_bytes: int) -> None:
        if self.life.is_paused:
            self._on_frozen(self, held_bytes)
