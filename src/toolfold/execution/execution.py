"""One life of a program, put together from its parts: each has one job, and this is where they meet."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from toolfold.engines.base import Mortal, Printed, Served, Waiting
from toolfold.events import ProgramBegan, ProgramEnded, ProgramPaused, ProgramPrinted, ProgramResumed
from toolfold.execution.accounts import Accounts
from toolfold.execution.calls import Calls
from toolfold.execution.clock import Clock
from toolfold.execution.life import Life
from toolfold.execution.never_seen import never_seen
from toolfold.execution.outcome import outcome_of
from toolfold.execution.output import Streams
from toolfold.execution.pauses import Pauses
from toolfold.execution.record import ExecutionRecord
from toolfold.execution.savings import code_size
from toolfold.models import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from toolfold.engines.base import Ended, Event, Run, Taped
    from toolfold.events import Tell
    from toolfold.execution.plan import Plan, Services
    from toolfold.execution.watching import Watch
    from toolfold.models import Call, Outcome, Paused, Reply
    from toolfold.tools.tool import Decision


class Execution:
    """What the runtime holds of a program between its start and its outcome.

    Args:
        on_frozen: Told how much memory the guest takes that stands still in a pause.
    """

    clock: Clock
    record: ExecutionRecord
    _tell: Tell | None
    _output: Streams

    def __init__(self, plan: Plan, services: Services, on_frozen: Callable[[Execution, int], None]) -> None:
        self.plan = plan
        self._services = services
        self._on_frozen = on_frozen
        self._began = time.perf_counter()
        self.life = Life()
        self._opened: AbstractAsyncContextManager[Run] | None = None
        self._is_equipped = False
        self._calls: Calls | None = None
        self._code_bytes = 0
        self._watch: Watch | None = None

    # Not made with the object, because a guest that waits for its start would wait for them, too: they take a tenth
    # of the time of a short program. Not cached properties: with the first, all attributes become slower to read.
    def _equip(self) -> None:
        """Make the other parts, unless they are there."""
        if self._is_equipped:
            return
        self._is_equipped = True
        plan, services, limits = self.plan, self._services, self.plan.begun.limits
        self._tell = services.listeners.tell
        self.clock = Clock(limits.wall_seconds, services.alarm, self.time_out, self._tick if plan.is_durable else None)
        self.record = ExecutionRecord(services.ledger, plan)
        self._output = Streams(limits.output_bytes)

    @property
    def calls(self) -> Calls:
        """Made with the first, or when somebody asks."""
        calls = self._calls
        if calls is None:
            plan, tell = self.plan, self._tell
            calls = self._calls = Calls(
                plan, self._services, life=self.life, record=self.record, clock=self.clock,
                accounts=Accounts(plan.begun.execution_id, self._began, tell, plan.on_call),
                look_again=self._look_again, tell=tell,
            )  # fmt: skip
        return calls

    @cached_property
    def _pauses(self) -> Pauses:
        """Made with the first: most executions have none."""
        return Pauses(
            self.plan, self._services, life=self.life, record=self.record, calls=self.calls, clock=self.clock,
            output=self._output,
        )  # fmt: skip

    @property
    def id(self) -> str:
        """Of the execution, across processes."""
        return self.plan.begun.execution_id

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """Those without a reply; none while its guest is not there yet."""
        return self.calls.open if self._is_equipped else ()

    async def open(self) -> None:
        """Give the program to the engine; one with a past also gets the replies it had."""
        opened = self._services.engine.open(self.plan.order(self._weighed))
        run = await opened.__aenter__()
        self._equip()
        self._opened = opened
        if self._tell is not None:
            self._tell(ProgramBegan(self.id, self.plan.begun))
        self.life.opened(run)
        past = self.plan.past
        if past is None:
            await self.record.begin()
            # Now, while the program runs, and not when somebody waits for its outcome.
            self._code_bytes = code_size(self.plan.begun.program.sent_text)
            return
        for given in past.given:
            run.answer(given.reply)
        self.calls.replies_sent = len(past.given)
        if past.seconds_left is None and past.last_tick is not None:
            self.clock.put_back(past.last_tick)
        if past.snapshot is not None:
            self._pauses.take_up(past.snapshot)

    def events(self) -> AsyncIterator[Event]:
        """The run's events; where a local call turns out to need a yes, also our own `Waiting`."""
        return aiter(self.life.run)

    def keep(self, event: Printed | Taped | Served) -> None:
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

    def show(self, watch: Watch) -> None:
        """Somebody reads along."""
        self._equip()
        self._watch = watch
        watch.begin(self._output, self.life)

    def is_pause_due(self, replies_seen: int) -> bool:
        """Whether only the outside can get the program further, now that its guest waits."""
        return self._pauses.is_due(replies_seen)

    async def pause(self) -> Paused | None:
        """Stand still until the outside answers. `None`: it went on instead."""
        self._equip()
        was_paused = self.life.is_paused
        paused = await self._pauses.pause()
        if paused is not None and not was_paused and self._tell is not None:
            self._tell(ProgramPaused(self.id, tuple(paused.calls), tuple(paused.approvals)))
        return paused

    async def accept(self, replies: Sequence[Reply], decisions: Mapping[int, Decision]) -> None:
        """Go on with what the outside says; all is checked and written down before any of it is used."""
        self._equip()
        accepted = await self._pauses.accept(replies, decisions)
        self.record.tell("resumed")
        if self._tell is not None:
            self._tell(ProgramResumed(self.id, (*(reply.call_id for reply in replies), *decisions)))
        self._pauses.go_on(accepted, decisions)

    def is_lost(self) -> bool:
        """Whether it is paused and its guest has died, which costs nothing: its record can replay it."""
        if not self.life.is_paused or not self.record.can_be_replayed:
            return False
        run = self.life.run
        return isinstance(run, Mortal) and run.is_gone()

    def time_out(self) -> None:
        """End the program for the clock's sake, with what it has printed."""
        seconds = f"{self.plan.begun.limits.wall_seconds:g}"
        self.life.stop("timeout", Problem(kind="wall_clock", message=f"the program took longer than {seconds} s"))

    async def close(self) -> None:
        """End the guest and every call that the program did not wait for."""
        self.life.move("close")
        if self._calls is not None:
            self._calls.dispatch.close()
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)

    async def finish(self, ended: Ended, notes: tuple[str, ...] = (), deleted: tuple[str, ...] = ()) -> Outcome:
        """What became of it all; the ledger keeps more of the output than the caller sees."""
        if not self._is_equipped:
            self._equip()
        if ended.status == "failed":
            notes += never_seen(self.plan.begun, self._services.learning)
        ended = replace(ended, notes=ended.notes + notes) if notes else ended
        code_bytes = self._code_bytes or code_size(self.plan.begun.program.sent_text)
        outcome = whole = outcome_of(
            ended, self.plan.begun, self._services.engine, began=self._began, code_bytes=code_bytes,
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
        self.life.run.nudge(Waiting(self._pauses.last_waiting))

    def _weighed(self, held_bytes: int) -> None:
        if self.life.is_paused:
            self._on_frozen(self, held_bytes)
