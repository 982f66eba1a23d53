"""One life of a program: its run, its open calls, its output so far, its clock, its record."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from toolfold.engines.base import Freezable, Order, Printed, Waiting
from toolfold.errors import Fenced, LedgerFull, ToolfoldError, UsageError
from toolfold.execution import eager
from toolfold.execution.accounts import record_of
from toolfold.execution.clock import Clock
from toolfold.execution.lately import Lately
from toolfold.execution.output import Output
from toolfold.execution.replay import pause_of
from toolfold.execution.savings import context_saved
from toolfold.ledger import refusals, snapshots
from toolfold.ledger.record import Given, Handed, Made, Sealed, Tape
from toolfold.ledger.snapshots import Snapshot
from toolfold.models import CallRecord, Outcome, Paused, Problem, Reply, ReplyMeta
from toolfold.tools.context import Spent
from toolfold.tools.outside import OutsideChecks
from toolfold.tools.shape import json_size

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from toolfold.engines.base import Ended, Engine, Event, Run, Taped
    from toolfold.execution.replay import Past, Rerun
    from toolfold.ledger.observe import Observer
    from toolfold.ledger.record import Begun, Ledger
    from toolfold.models import Call, ContextSaved, Limits, ToolSpec
    from toolfold.sessions import Session
    from toolfold.tools.context import CallContext, Decision
    from toolfold.tools.router import Router


LARGE_BYTES = 128 * 1024
"""Packing a larger snapshot could hold up every other execution."""


class Execution:
    """What the runtime holds of a program between its start and its outcome.

    Args:
        past: The execution went on in another process, and this is its record there.
        rerun: Replies of an earlier execution that need not be fetched again.
        epoch: Of the ledger; whoever takes the execution over raises it.
        may_ask: Any tool may ask while it is served; otherwise only those in `asked` do, and before they begin.
        is_durable: The start is safe before the program runs, and the outcome before it is returned.
    """

    def __init__(
        self, begun: Begun, *, tape: Taped | None, can_pause: bool, engine: Engine, router: Router, ledger: Ledger,
        observer: Observer, context: CallContext, asked: frozenset[str] = frozenset(), session: Session | None = None,
        on_call: Callable[[CallRecord], None] | None = None, past: Past | None = None, rerun: Rerun | None = None,
        epoch: int = 0, may_ask: bool = False, is_durable: bool = False,
    ) -> None:  # fmt: skip
        self.id = begun.execution_id
        self.begun = begun
        self.session = session
        self.run: Run
        self.is_paused = False
        self.on_frozen: Callable[[Execution, int], None] | None = None
        """Told how much memory the guest takes that stands still."""
        self._is_spoilt = False
        self._stopped_early: tuple[Literal["timeout", "cancelled", "limit"], Problem | None] | None = None
        self._is_closed = False
        self._order = order = Order(
            program=begun.program,
            tools=begun.tools,
            limits=begun.limits,
            files=begun.files,
            session=session.id if session is not None and session.keeps_names else "",
            seed=begun.seed,
            tape=tape,
            snapshot=past.snapshot.state if past and past.snapshot else b"",
            report_waiting=can_pause,
            on_frozen=self._weighed if can_pause else None,
        )
        self._engine = engine
        self._router = router
        self._ledger = ledger
        self._observer = observer
        self.failure: ToolfoldError | None = None
        """Why the execution could not go on although its program could."""
        self._epoch = epoch
        self._is_durable = is_durable
        self.is_finished = False
        self._is_strict = begun.is_strict or tape is not None
        """A call that is not safe to repeat is on record before it is made."""
        self._not_repeated: list[str] = []
        """Tools of calls that may have run before; whether they did is not on record."""
        self._outside = frozenset(begun.outside)
        self._asked = asked
        self._may_ask = may_ask
        self._of_runtime = context
        self._approve = context.approve
        self._can_ask = bool(asked or may_ask) and (can_pause or context.approve is not None)
        self._undecided: dict[int, tuple[Call, asyncio.Future[Decision]]] = {}
        self._decided: set[int] = set()
        """Calls on record as begun after a yes; their tool may yet leave the answer to the outside."""
        self._last_waiting = -1
        self._on_call = on_call
        self._past = past
        self._rerun = rerun
        self._recorded: dict[int, Reply] = {}
        """Replies of the earlier execution, for calls that are on their way through the router."""
        # What cannot be replayed has names in its guest that no snapshot holds.
        self._snapshot_version = engine.capabilities.snapshot_version if order.tape is not None else ""
        self._rounds = past.rounds if past is not None else 0
        """Pauses of which the ledger has had a snapshot."""
        self._opened: AbstractAsyncContextManager[Run] | None = None
        self._output = {"stdout": Output(order.limits.output_bytes), "stderr": Output(order.limits.output_bytes)}
        self._lately = Lately()
        self._records: list[CallRecord] = []
        self._open: dict[int, tuple[Call, float]] = {}
        self._unnoted: Call | None = None
        """Being served right now, and goes on record with its reply if that comes at once."""
        self._in_flight: set[asyncio.Task[None]] = set()
        self._queued: deque[Call] = deque()
        self._replies_sent = 0
        self._began = time.perf_counter()
        self.clock = Clock(order.limits.wall_seconds, self.time_out)

    @cached_property
    def _context(self) -> CallContext:
        """With the first call: until then it is not needed, and the program need not wait for it."""
        return msgspec.structs.replace(
            self._of_runtime,
            execution_id=self.id,
            tenant=self.begun.tenant,
            approve=self._ask if self._can_ask else None,
            spent=Spent(),
            outside=tuple(spec for spec in self._order.tools if spec.name in self._outside) if self._outside else (),
            limits_left=self._limits_left,
        )

    @cached_property
    def _safe(self) -> frozenset[str]:
        """Tools that may be called again where it is not known whether a call reached them."""
        return frozenset(spec.name for spec in self._order.tools if spec.read_only or spec.idempotent)

    async def open(self) -> None:
        """Give the program to the engine; one with a past also gets the replies it had."""
        opened = self._engine.open(self._order)
        self.run = await opened.__aenter__()
        self._opened = opened
        self._observer.began(self.begun)
        if self._stopped_early is not None:
            self.run.stop(*self._stopped_early)
        if self._past is None:
            self._ledger.begin(self.begun)
            if self._is_durable:
                await self._ledger.flush(self.id)
            return
        for given in self._past.given:
            self.run.answer(given.reply)
        self._replies_sent = len(self._past.given)
        if self._past.snapshot is not None:
            self._take_up(self._past.snapshot)

    def _take_up(self, snapshot: Snapshot) -> None:
        """The program stands where it paused: be where its host was then."""
        self._output["stdout"].add(snapshot.stdout, snapshot.stdout_cut_bytes)
        self._output["stderr"].add(snapshot.stderr, snapshot.stderr_cut_bytes)
        self.clock.put_back(snapshot.seconds_left)
        were_open = {call.id for call in snapshot.open_calls}
        assert self._past is not None
        for given in self._past.given:
            if given.reply.call_id <= snapshot.calls_made and given.reply.call_id not in were_open:
                self._remember(given)
        for call in snapshot.open_calls:
            self.serve(call)

    def _remember(self, given: Given) -> None:
        self._lately.saw(given.record.name, given.reply)
        self._records.append(given.record)
        self._context.spent.calls[given.record.name] += 1

    async def close(self) -> None:
        """End the guest and every call that the program did not wait for."""
        self._is_closed = True
        for task in tuple(self._in_flight):
            task.cancel()
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)

    def time_out(self) -> None:
        """End the program for the clock's sake, with what it has printed."""
        seconds = f"{self._order.limits.wall_seconds:g}"
        self.stop("timeout", Problem(kind="wall_clock", message=f"the program took longer than {seconds} s"))

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        """End the program now, or as soon as it is there: a first guest may take seconds to load its libraries."""
        if hasattr(self, "run"):
            self.run.stop(status, problem)
        else:
            self._stopped_early = status, problem

    def lose(self, reason: Fenced | None = None) -> None:
        """Another process goes on with this execution: stop, and write nothing more."""
        self.failure = reason or refusals.fenced(self.id)
        if hasattr(self, "run"):  # else it is being opened, and hears it from the ledger
            self.run.stop("cancelled")

    def keep(self, event: Printed | Taped) -> None:
        """Output for the outcome, or the tape for a replay."""
        if isinstance(event, Printed):
            self._output[event.stream].add(event.text, event.cut_bytes, is_report=event.is_report)
        else:
            self._is_spoilt = self._is_spoilt or event.is_spoilt
            self._note(Tape(event.wakes, event.clocks, event.is_spoilt))

    def _weighed(self, held_bytes: int) -> None:
        if self.is_paused and self.on_frozen is not None:
            self.on_frozen(self, held_bytes)

    @property
    def can_be_replayed(self) -> bool:
        """Whether the ledger has all that its guest knows."""
        return self._order.tape is not None and not self._is_spoilt

    def _note(self, *entries: Made | Given | Tape | Handed) -> None:
        self._ledger.note(self.id, *entries, epoch=self._epoch)

    @property
    def is_settled(self) -> bool:
        """Its end is on its way to the record, or is not for this process to write."""
        return self.is_finished or isinstance(self.failure, Fenced)

    @property
    def started(self) -> tuple[str, ...]:
        """Tools that were called, for an error after which a retry may not be safe."""
        return (*(record.name for record in self._records), *(call.tool for call, _ in self._open.values()))

    # calls

    def serve(self, call: Call) -> None:
        """Send a call on its way: to the record, to the router, or to the outside with the next pause."""
        if self._past is not None and self._past.knows(call):
            self._repeat(call)
            return
        self._open[call.id] = (call, time.perf_counter())
        self._observer.called(self.id, call)
        if call.tool not in self._asked:  # what waits for a yes has not begun, and is asked for again
            self._unnoted = call
            if self._must_be_known(call):
                self._note_made()  # before the tool is called: a replay must know
        recorded = self._recorded_reply(call, self._rerun) if self._rerun is not None else None
        if call.tool not in self._outside:
            if recorded is not None and recorded.error is not None:
                self._not_repeated.append(call.tool)
                self._answer(call, recorded)
                return
            if recorded is not None:
                self._recorded[call.id] = recorded
            self._dispatch(call)
        elif recorded is not None:
            self._answer(call, recorded)
        else:
            self._refuse_unfit(call)
        if self._unnoted is not None:
            self._note_made()

    def _must_be_known(self, call: Call) -> bool:
        return self._order.tape is not None or (self._is_strict and call.tool not in self._safe)

    def _recorded_reply(self, call: Call, rerun: Rerun) -> Reply | None:
        # Who answers for the outside knows by itself what it did.
        return rerun.reply_to(call, is_safe=call.tool in self._safe or call.tool in self._outside)

    def _note_made(self) -> None:
        assert self._unnoted is not None
        call, self._unnoted = self._unnoted, None
        self._note(Made(call))

    def _repeat(self, call: Call) -> None:
        """A call that the program made before: its reply is on its way, or nobody knows of one."""
        assert self._past is not None
        given = self._past.given_to(call.id)
        if given is not None:
            self._remember(given)
            return
        self._open[call.id] = (call, time.perf_counter())
        if call.tool in self._outside:
            self._refuse_unfit(call)
            return
        if self._past.is_handed_out(call.id):
            self._decided.add(call.id)
            self._dispatch(call)
        elif call.tool in self._safe:
            self._dispatch(call)
        else:
            text = f"{call.tool!r} was called before the host stopped; whether it ran is not known"
            self._not_repeated.append(call.tool)
            self._answer(call, Reply(call_id=call.id, error=text, meta=ReplyMeta(attempts=0, from_record=True)))

    def _refuse_unfit(self, call: Call) -> None:
        """A call that the outside shall answer is not handed out unless its arguments fit."""
        fault = self._outside_checks.fault(call)
        if fault is not None:
            self._answer(call, Reply(call_id=call.id, error=fault))

    @cached_property
    def _outside_checks(self) -> OutsideChecks:
        return OutsideChecks(self._context.outside)

    def _dispatch(self, call: Call) -> None:
        if self._is_closed:
            return
        if len(self._in_flight) - len(self._undecided) >= self._order.limits.calls_in_flight:
            self._queued.append(call)
            return
        task = eager.start(self._serve(call))
        if not task.done():
            self._in_flight.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if self._queued and not task.cancelled():
            self._dispatch(self._queued.popleft())

    async def _serve(self, call: Call) -> None:
        if self._is_strict and call.tool not in self._safe | self._asked:
            try:
                await self._ledger.flush(self.id)  # a replay must know that this was begun
            except ToolfoldError as error:
                # Too much to keep: one that only may pause goes on, and a pause would say it; so would a rerun.
                may_go_on = self._may_ask or self._order.tape is None
                if not (may_go_on and isinstance(error, LedgerFull)):
                    self.failure = error
                    self.run.stop("cancelled")
                    return
        recorded = self._recorded.pop(call.id, None) if self._recorded else None
        reply = await self._router.serve(
            call, max_reply_bytes=self._order.limits.reply_bytes, context=self._context, recorded=recorded
        )
        self._answer(call, reply)

    def _limits_left(self) -> Limits:
        limits = self._order.limits
        seconds = self.clock.seconds_left
        calls = limits.calls - len(self._records) - len(self._open)
        return replace(limits, wall_seconds=max(0.001, seconds), calls=max(1, calls))

    # approvals

    async def _ask(self, call: Call, spec: ToolSpec) -> Decision:
        """A call that needs a yes: from the callback, or from the outside with the next pause."""
        is_begun = call.tool not in self._asked or call.id in self._decided
        if self._unnoted is call:
            self._note_made()
        if self._approve is not None:
            decision = await self._approve(call, spec)
        else:
            if is_begun:
                self._note(Handed(call.id, is_open=True))  # so that a replay asks again
            future: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
            self._undecided[call.id] = (call, future)
            if self._queued:
                self._dispatch(self._queued.popleft())
            self.run.nudge(Waiting(self._last_waiting))
            decision = await future
        self._note(Handed(call.id, is_open=False) if is_begun else Made(call))
        self._decided.add(call.id)
        if self._is_strict:
            try:
                await self._ledger.flush(self.id)
            except ToolfoldError as error:  # not the program's to catch: nothing may go on that is not on record
                self.failure = error
                self.run.stop("cancelled")
                raise
        return decision

    def events(self) -> AsyncIterator[Event]:
        """The run's events; where a local call turns out to need a yes, also our own `Waiting`."""
        return aiter(self.run)

    def _answer(self, call: Call, reply: Reply) -> None:
        if self._is_closed:
            return  # a tool that would not be cancelled: the outcome is out
        began = self._open.pop(call.id)[1]
        ended = time.perf_counter()
        self._replies_sent += 1
        self.run.answer(reply)  # first the answer: the guest goes on while we do the accounts
        record = self._record(call, reply, began, ended)
        if self._unnoted is call:
            self._unnoted = None
            self._note(Made(call), Given(reply, record))
        else:
            self._note(Given(reply, record))
        self._lately.saw(call.tool, reply)
        self._tell(record)

    def _tell(self, record: CallRecord) -> None:
        self._records.append(record)
        self._observer.replied(self.id, record)
        if self._on_call is not None:
            self._on_call(record)

    def _record(self, call: Call, reply: Reply, began: float, ended: float) -> CallRecord:
        return record_of(call, reply, began - self._began, ended - began)

    # pauses

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """Calls that only the outside can answer, in the order in which they were made."""
        return tuple(call for call, _ in self._open.values() if call.tool in self._outside)

    def waits_for_the_outside(self, replies_seen: int) -> bool:
        """The guest has seen every reply and has nothing to run, and no local call is on its way."""
        self._last_waiting = max(
            self._last_waiting, replies_seen
        )  # our own nudge may be older than what waits before it
        # One that has answered counts no more, although its end is told to us only in the next turn of the loop.
        busy = sum(not task.done() for task in self._in_flight)
        if self._last_waiting != self._replies_sent or busy > len(self._undecided) or self._queued:
            return False
        return bool(self._undecided) or bool(self.open_calls)

    async def pause(self) -> Paused | None:
        """Stand still until the outside answers; what happened so far is safe first. `None`: it went on instead."""
        if not self.is_paused:
            self.run.hold()
            frozen: bytes | None = b""
            if self._snapshot_version and isinstance(self.run, Freezable):
                frozen = await self.run.freeze()
            if frozen is None:
                return None  # it says again when it waits; its timers stand still already
            self._stop_clock()
            await self._park(frozen)
            self.is_paused = True
        approvals = tuple(call for call, _ in self._undecided.values())
        return Paused(
            execution_id=self.id, calls=self.open_calls, approvals=approvals, seconds_left=self.clock.seconds_left
        )

    def _stop_clock(self) -> None:
        """On record, so that whoever asks again after a restart is told the same, although a replay is faster."""
        self.clock.stop()
        if self._past is not None and self._past.seconds_left is not None:
            self.clock.put_back(self._past.seconds_left)
            self._past.seconds_left = None
        if self._order.tape is not None:
            self._note(Tape(seconds_left=self.clock.seconds_left))

    async def _park(self, frozen: bytes) -> None:
        seal = self._ledger.snapshot_seal() if frozen else None
        if seal is None:
            await self._ledger.park(self.id, epoch=self._epoch)
            return
        (stdout, stdout_cut_bytes), (stderr, stderr_cut_bytes) = (
            (self._output[stream].whole(), self._output[stream].dropped_bytes) for stream in ("stdout", "stderr")
        )
        snapshot = Snapshot(
            state=frozen,
            calls_made=len(self._records) + len(self._open),
            open_calls=tuple(call for call, _ in self._open.values()),
            stdout=stdout,
            stderr=stderr,
            stdout_cut_bytes=stdout_cut_bytes,
            stderr_cut_bytes=stderr_cut_bytes,
            seconds_left=self.clock.seconds_left,
        )
        pause = pause_of(self.begun, self._rounds + 1, self._snapshot_version)
        if len(frozen) + len(stdout) + len(stderr) < LARGE_BYTES:
            body = snapshots.lock(snapshot, pause, seal)
        else:
            body = await asyncio.to_thread(snapshots.lock, snapshot, pause, seal)
        await self._ledger.park(self.id, epoch=self._epoch, snapshot=Sealed(pause.round, body))
        self._rounds += 1

    async def accept(self, replies: Sequence[Reply], decisions: Mapping[int, Decision]) -> None:
        """Hand over what the outside says; all is checked and written down before any of it is used."""
        if not self.is_paused:
            raise UsageError(f"execution {self.id!r} is running; wait for it to pause")
        open_calls = {call.id: call for call in self.open_calls}
        seen: set[int] = set()
        for reply in replies:
            if reply.call_id not in open_calls or reply.call_id in seen:
                ids = ", ".join(str(call_id) for call_id in open_calls)
                raise UsageError(f"no open call {reply.call_id!r} in execution {self.id!r}; open are {ids}")
            seen.add(reply.call_id)
        for call_id in decisions:
            if call_id not in self._undecided:
                ids = ", ".join(str(call_id) for call_id in self._undecided) or "none"
                raise UsageError(
                    f"call {call_id!r} of execution {self.id!r} waits for no decision; those that do: {ids}"
                )
        self.is_paused = False
        now = time.perf_counter()
        accepted = []
        for reply in replies:
            call, began = self._open[reply.call_id]
            accepted.append(Given(reply, self._record(call, reply, began, now)))
        try:
            await self._ledger.accept(self.id, accepted, epoch=self._epoch)
        except BaseException:
            self.is_paused = True  # as it was: nothing has gone on
            raise
        self.run.release()
        for given in accepted:
            self._deliver(given)
        for call_id, decision in decisions.items():
            self._undecided.pop(call_id)[1].set_result(decision)

    def _deliver(self, given: Given) -> None:
        del self._open[given.reply.call_id]
        self._replies_sent += 1
        self.run.answer(given.reply)
        self._lately.saw(given.record.name, given.reply)
        self._tell(given.record)

    # the end

    async def finish(self, ended: Ended, notes: tuple[str, ...] = (), deleted: tuple[str, ...] = ()) -> Outcome:
        """What became of it all; the ledger keeps more of the output than the caller sees."""
        outcome = whole = self._outcome(replace(ended, notes=ended.notes + notes) if notes else ended)
        if deleted:
            outcome = whole = replace(outcome, deleted_files=deleted)
        if outcome.stdout_cut_bytes or outcome.stderr_cut_bytes:
            stdout, stderr = self._output["stdout"].whole(), self._output["stderr"].whole()
            whole = replace(outcome, stdout=stdout, stderr=stderr, stdout_tail="")
        self._observer.ended(self.id, outcome)
        self.is_finished = True
        await self._ledger.finish(self.id, whole, epoch=self._epoch, wait=self._is_durable)
        if self.failure is not None:
            raise self.failure
        return outcome

    def _outcome(self, ended: Ended) -> Outcome:
        stdout, stdout_cut_bytes = self._output["stdout"].cut()
        stderr, stderr_cut_bytes = self._output["stderr"].cut()
        records = tuple(sorted((*self._records, *self._unanswered()), key=lambda record: record.id))
        hints = (*self.begun.program.notes, *self._engine.notes, *ended.notes)
        if self._not_repeated:
            names = ", ".join(sorted(set(self._not_repeated)))
            hints += (f"not called again, because whether they ran before is not on record: {names}",)
        if len(records) == 1 and ended.status == "finished":
            hints += (f"one call only: a direct call of {records[0].name!r} would do",)
        return Outcome(
            execution_id=self.id,
            status=ended.status,
            value=ended.value,
            stdout=stdout,
            stderr=stderr,
            stdout_cut_bytes=stdout_cut_bytes,
            stderr_cut_bytes=stderr_cut_bytes,
            problem=ended.problem,
            calls=records,
            files=ended.files,
            engine=self._engine.name,
            isolation=self._engine.isolation,
            seconds=time.perf_counter() - self._began,
            context_saved=self._saved(records, ended, stdout + stderr),
            hints=hints,
            stdout_tail=self._output["stdout"].tail(),
            shapes=self._lately.shapes(ended, stdout, self._order.program.text, self._order.tools),
        )

    def _unanswered(self) -> Iterator[CallRecord]:
        """Calls that the program did not wait for: they may have run."""
        now = time.perf_counter()
        for call, began in self._open.values():
            yield self._record(call, Reply(call_id=call.id, error="the program ended before the reply"), began, now)

    def _saved(self, records: Sequence[CallRecord], ended: Ended, shown: str) -> ContextSaved:
        shown_bytes = len(shown.encode()) + (json_size(ended.value) if ended.value is not None else 0)
        is_finished = ended.status == "finished"
        return context_saved(
            records, text=self._order.program.sent_text, shown_bytes=shown_bytes, is_finished=is_finished
        )
