"""Calls of one execution, from program to reply; dispatch in tasks, direct calls, and the tools of nodes."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from toolfold.errors import ToolfoldError, UsageError
from toolfold.events import DirectCall, RuntimeEvent, Tell, ToolCalled, ToolRetried
from toolfold.execution.pauses import Approvals
from toolfold.execution.recorded_history import ReplayHistory, direct_call, put_on_record
from toolfold.ledger.base import CallEntry, ReplyEntry
from toolfold.models import Call, CallRecord, Limits, Reply, ReplyMeta, RunNames, ToolSpec
from toolfold.protocol.codec import decoder
from toolfold.sources.function_tools import FunctionImporter, as_tool
from toolfold.tools.catalog import Catalog
from toolfold.tools.remote_descriptions import Shipment, ShippedTool
from toolfold.tools.router import OutsideChecks, Router
from toolfold.tools.router_steps import wrappers
from toolfold.tools.tool import ApproveByExecution, CallContext, Decision, Spent, Tool, with_name

if TYPE_CHECKING:
    from toolfold.engines.base import Served
    from toolfold.execution.execution import ExecutionRecord, Life
    from toolfold.execution.outcome import Accounts
    from toolfold.execution.request import ExecutionPlan, Services
    from toolfold.execution.wall_clock import WallClock


class ExecutionCalls:
    """The calls that are open, and what becomes of each.

    Args:
        look_again: Has the runtime look whether the program can pause now.
    """

    def __init__(
        self, plan: ExecutionPlan, services: Services, *, life: Life, record: ExecutionRecord, accounts: Accounts,
        clock: WallClock, look_again: Callable[[], None], tell: Tell | None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._services = services
        self._life = life
        self._record = record
        self.accounts = accounts
        self._clock = clock
        self._tell = tell
        self.replies_sent = 0
        self._open: dict[int, tuple[Call, float]] = {}
        self._context: CallContext | None = None
        self._outside_checks: OutsideChecks | None = None
        self._recorded: dict[int, Reply] = {}
        """Replies of the execution that this one reruns, for calls that are on their way through the router."""
        self.dispatch = Dispatch(plan.start_record.limits.calls_in_flight, self._serve)
        self._look_again = look_again

    @cached_property
    def approvals(self) -> Approvals:
        """Made when something asks, or may: most programs have no tool that does."""
        approve = self._services.context.approve
        wait_seconds = getattr(approve, "wait_seconds", None)
        if isinstance(approve, ApproveByExecution):
            approve = approve.of(self._plan.start_record.execution_id, self._plan.epoch, self._clock.standing)
        return Approvals(
            self._plan, approve=approve, record=self._record, life=self._life,
            dispatch=self.dispatch, look_again=self._look_again, tell=self._tell,
            waited=self.accounts.people_seconds, wait_seconds=wait_seconds,
        )  # fmt: skip

    @property
    def context(self) -> CallContext:
        """Made with the first call: until then it is not needed, and the program need not wait for it."""
        if self._context is not None:
            return self._context
        start_record, outside = self._plan.start_record, self._plan.outside
        may_ask = self._plan.approval_tools or self._plan.may_ask
        self._context = msgspec.structs.replace(
            self._services.context, execution_id=start_record.execution_id, tenant=start_record.tenant,
            approve=self.approvals.ask if may_ask and self.approvals.can_ask else None, spent=Spent(),
            outside=tuple(spec for spec in start_record.tools if spec.name in outside) if outside else (),
            limits_left=self._limits_left, tell=self._tell_of_tool,
        )  # fmt: skip
        return self._context

    def _tell_of_tool(self, event: RuntimeEvent) -> None:
        """What the steps around a tool tell, rarely: it goes on record, and to whoever listens."""
        if isinstance(event, ToolRetried):
            self._record.tell("retried", call_id=event.call.id, text=event.error[:2000], attempt=event.attempt)
        if self._tell is not None:
            self._tell(event)

    @property
    def count(self) -> int:
        return len(self.accounts.records) + len(self._open)

    @property
    def open(self) -> tuple[Call, ...]:
        """Calls without a reply, in the order in which they were made."""
        return tuple(call for call, _ in self._open.values())

    @property
    def open_outside(self) -> tuple[Call, ...]:
        return tuple(call for call, _ in self._open.values() if call.tool in self._plan.outside)

    @property
    def started(self) -> tuple[str, ...]:
        """Tools that were called, for an error after which a retry may not be safe."""
        return (*(record.name for record in self.accounts.records), *(call.tool for call in self.open))

    def records(self) -> tuple[CallRecord, ...]:
        """Records of an ended program's calls, by id. Calls that it did not wait for may have run."""
        records = self.accounts.records
        if self._open:
            records = [*records, *self._unanswered()]
        return tuple(sorted(records, key=lambda record: record.id) if len(records) > 1 else records)

    def _unanswered(self) -> Iterator[CallRecord]:
        now = time.perf_counter()
        for call, began in self._open.values():
            reply = Reply(call_id=call.id, error="the program ended before the reply")
            yield self.accounts.record(call, reply, began, now)

    def serve(self, call: Call) -> None:
        """Send a call on its way: to the record, to the router, or to the outside with the next pause."""
        plan = self._plan
        if plan.past is not None and plan.past.knows(call):
            self._repeat(call, plan.past)
            return
        self._open[call.id] = (call, time.perf_counter())
        if self._tell is not None:
            self._tell(ToolCalled(plan.start_record.execution_id, call))
        if call.tool not in plan.approval_tools:  # what waits for a yes has not begun, and a replay asks for it again
            self._record.unnoted = call
            if self._record.is_taped:
                self._record.note_call()
        recorded = None
        if plan.rerun is not None:
            # Who answers for the outside knows by itself what it did.
            recorded = plan.rerun.reply_to(call, is_safe=call.tool in plan.repeatable_tools | plan.outside)
        if call.tool not in plan.outside:
            if recorded is not None and recorded.error is not None:
                self.accounts.not_repeated.append(call.tool)
                self._answer(call, recorded)
                return
            if recorded is not None:
                self._recorded[call.id] = recorded
            self.dispatch.send(call)
        elif recorded is not None:
            self._answer(call, recorded)
        else:
            self._refuse_unfit(call)
        if self._record.unnoted is not None:
            self._record.note_call()

    def _repeat(self, call: Call, past: ReplayHistory) -> None:
        """Serve a call that the program made before it was replayed; a reply on record is on its way already."""
        reply_entry = past.reply_entry_for(call.id)
        if reply_entry is not None:
            self.restore(reply_entry)
            return
        self._open[call.id] = (call, time.perf_counter())
        if call.tool in self._plan.outside:
            self._refuse_unfit(call)
        elif past.is_handed_out(call.id):
            self.approvals.decided.add(call.id)
            self.dispatch.send(call)
        elif call.tool in self._plan.repeatable_tools:
            self.dispatch.send(call)
        else:
            text = f"{call.tool!r} was called before the host stopped; whether it ran is not known"
            self.accounts.not_repeated.append(call.tool)
            self._answer(call, Reply(call_id=call.id, error=text, meta=ReplyMeta(attempts=0, from_record=True)))

    def restore(self, reply_entry: ReplyEntry) -> None:
        """A reply that the program had before it was replayed; the engine gives it to the program again."""
        self.accounts.restore(reply_entry)
        self.context.spent.calls[reply_entry.record.name] += 1

    def _refuse_unfit(self, call: Call) -> None:
        """A call that the outside shall answer is not handed out unless its arguments fit."""
        if self._outside_checks is None:
            self._outside_checks = OutsideChecks(self.context.outside)
        fault = self._outside_checks.fault(call)
        if fault is not None:
            self._answer(call, Reply(call_id=call.id, error=fault))

    async def _serve(self, call: Call) -> None:
        plan, tool = self._plan, call.tool
        if self._record.is_strict and tool not in plan.repeatable_tools and tool not in plan.approval_tools:
            try:
                if (waits := self._record.before_tool(call)) is not None:
                    await waits
            except ToolfoldError as error:
                self._life.fail(error)
                return
        recorded = self._recorded.pop(call.id, None) if self._recorded else None
        reply = await self._services.router.serve(
            call, max_reply_bytes=plan.start_record.limits.reply_bytes, context=self._context or self.context,
            recorded=recorded,
        )  # fmt: skip
        self._answer(call, reply)

    def _answer(self, call: Call, reply: Reply) -> None:
        if self._life.is_over:
            return  # a tool that would not be cancelled: the outcome is out
        began = self._open.pop(call.id)[1]
        ended = time.perf_counter()
        self.replies_sent += 1
        self._life.run.answer(reply)  # first the answer: the guest goes on while we do the accounts
        reply_entry = ReplyEntry(reply, self.accounts.record(call, reply, began, ended))
        self._record.note_reply(call, reply_entry)
        self.accounts.add(reply_entry)

    def note_served(self, served: Served) -> None:
        """Calls that the engine has served: they go on record together, and whoever listens is told of each."""
        accounts, tell = self.accounts, self._tell
        done = []
        for call, reply, seconds in served.calls:
            ended = time.perf_counter()
            done.append((call, ReplyEntry(reply, accounts.record(call, reply, ended - seconds, ended))))
        self._record.note_served(done)
        for call, reply_entry in done:
            if tell is not None:
                tell(ToolCalled(self._plan.start_record.execution_id, call))
            accounts.add(reply_entry)

    @contextmanager
    def person_asked(self, source: str) -> Iterator[None]:
        """A tool of this source asks a person, whose time is neither the program's nor that of the source's calls."""
        sources = {spec.name: spec.source for spec in self._services.router.catalog.specs}
        calls = [call.id for call in self.open if sources.get(call.tool) == source]
        began = time.perf_counter()
        try:
            with self._clock.standing():
                yield
        finally:
            for call_id in calls:
                self.accounts.people_seconds[call_id] += time.perf_counter() - began

    def answered_outside(self, replies: Iterable[Reply]) -> list[ReplyEntry]:
        """Entries to record for replies to open calls, before they are delivered."""
        now, entries = time.perf_counter(), []
        for reply in replies:
            call, began = self._open[reply.call_id]
            entries.append(ReplyEntry(reply, self.accounts.record(call, reply, began, now)))
        return entries

    def deliver(self, reply_entry: ReplyEntry) -> None:
        """Deliver a reply of the caller that is on record already."""
        del self._open[reply_entry.reply.call_id]
        self.replies_sent += 1
        self._life.run.answer(reply_entry.reply)
        self.accounts.add(reply_entry)

    def _limits_left(self) -> Limits:
        limits = self._plan.start_record.limits
        seconds = max(0.001, self._clock.seconds_left)
        return replace(limits, wall_seconds=seconds, calls=max(1, limits.calls - self.count))


# ----------------------------------------------------------------------------------------------------
# Calls on their way to tools: how many at once, and which wait for a place.
#
# Must not know what serving a call means.


_CANCEL_SECONDS: Final = 5.0


class Dispatch:
    """Starts a task for each call, at most so many at a time.

    Args:
        most: Calls in flight at once; the next ones wait for a place.
        serve: Serves one call.
    """

    def __init__(self, most: int, serve: Callable[[Call], Coroutine[object, None, None]]) -> None:
        self._most = most
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._queued: deque[Call] = deque()
        self._awaiting_approval: set[int] = set()
        """Calls that wait for a yes or no; they take no place, or a `gather` of approvals could never be asked."""
        self._is_closed = False

    def send(self, call: Call, *, is_next: bool = False) -> None:
        """Serve a call now, or when there is a place; `is_next` if it has waited for one."""
        if not is_next and (self._queued or len(self._tasks) - len(self._awaiting_approval) >= self._most):
            self._queued.append(call)
            return
        if self._is_closed:
            return
        task = start(self._serve(call))
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._landed)

    def step_aside(self, call_id: int) -> None:
        """A call in flight waits for a person: the next one may have its place."""
        self._awaiting_approval.add(call_id)
        self._send_next()

    def step_back(self, call_id: int) -> None:
        self._awaiting_approval.discard(call_id)

    @property
    def is_idle(self) -> bool:
        """Whether every call in flight waits for a person."""
        # One that has answered counts no more, although its end is told to us only in the next turn of the loop.
        return not self._queued and sum(not task.done() for task in self._tasks) <= len(self._awaiting_approval)

    def close(self) -> None:
        """End all that is in flight, and start nothing more."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """Wait for tools that were cancelled; not for long, because one may not let itself be cancelled."""
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._send_next()

    def _send_next(self) -> None:
        # All that have a place, for one that ends at once frees it without a word.
        while self._queued and not self._is_closed and len(self._tasks) - len(self._awaiting_approval) < self._most:
            self.send(self._queued.popleft(), is_next=True)


# ----------------------------------------------------------------------------------------------------
# Tasks that run at once, up to their first wait: a call that needs no wait then needs no turn of the loop.

if sys.version_info >= (3, 12):

    def start(coroutine: Coroutine[object, None, None]) -> asyncio.Task[None]:
        """A task that has begun, and may have ended."""
        return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), eager_start=True)

else:
    from asyncio.tasks import _current_tasks, _enter_task, _leave_task  # type: ignore[attr-defined]  # not in typeshed

    def start(coroutine: Coroutine[object, None, None]) -> asyncio.Task[None]:
        """A task that has begun, and may have ended.

        Python 3.11 has no way to ask for that. A new task gives its first step to `call_soon`: it is taken there.
        """
        loop = asyncio.get_running_loop()
        steps: list[tuple[Callable[[], object], Context]] = []

        def take(step: Callable[[], object], *, context: Context) -> None:
            steps.append((step, context))

        loop.call_soon = take  # type: ignore[assignment, method-assign]  # for the next line only
        try:
            task = asyncio.Task(coroutine, loop=loop)
        finally:
            del loop.call_soon  # the class's own again
        around = _current_tasks.get(loop)  # what `current_task` looks up, and this is on the way of every call
        if around is not None:
            _leave_task(loop, around)
        try:
            (step, context), *_ = steps
            context.run(step)
        finally:
            if around is not None:
                _enter_task(loop, around)
        return task


# ----------------------------------------------------------------------------------------------------
# A call without a program of this runtime: through the router, told to whoever listens, put on record.


async def serve_direct(
    services: Services, call: Call, *, idempotency_key: str | None, spent: Spent | None, names: RunNames
) -> Reply:
    """The reply; with `spent` the call is that of a program elsewhere, and counts towards that program's budgets."""
    tell = services.listeners.tell
    context = msgspec.structs.replace(services.context, idempotency_key=idempotency_key, tell=tell)
    if spent is not None:
        context = msgspec.structs.replace(context, spent=spent)
    waited, approve = [0.0], context.approve

    async def ask(asked: Call, spec: ToolSpec) -> Decision:
        assert approve is not None
        since = time.perf_counter()
        try:
            return await approve(asked, spec)
        finally:
            waited[0] += time.perf_counter() - since

    if approve is not None:
        context = msgspec.structs.replace(context, approve=ask)
    began = time.perf_counter()
    reply = await services.router.serve(call, caller="direct" if spent is None else "code", context=context)
    seconds = time.perf_counter() - began - waited[0]
    if tell is not None:
        tell(DirectCall(call, reply, seconds))
    if services.ledger.is_lasting:
        start_record, outcome = direct_call(call, reply, seconds=seconds, interface=services.interface, names=names)
        await put_on_record(
            services.ledger, start_record, outcome, CallEntry(call), ReplyEntry(reply, outcome.calls[0])
        )
    return reply


# ----------------------------------------------------------------------------------------------------
# What a node does of `tools_on_nodes`: makes the tools that a runtime described, and serves their calls.

_shipment: Final = decoder(Shipment)


class OwnTools:
    """Serves calls with a router of its own: arguments, timeouts, retries and the breaker are as in the runtime."""

    def __init__(self, described: bytes) -> None:
        """Make the tools.

        Raises:
            UsageError: One is not here, or is another one here; the text says which.
        """
        shipped, places = _shipment.decode(described), FunctionImporter()
        tools = [_load_tool(shipped_tool, places) for shipped_tool in shipped.tools]
        steps = wrappers(breaker=shipped.breaker, retry=shipped.retry, error_details=shipped.error_details)
        self._router = Router(Catalog(tools), wrappers=steps)
        self._numbers = itertools.count(1)

    def open(self, limits: Limits, done: Callable[[Call, Reply, float], None]) -> Dispatch:
        """For the calls of one program; `done` is told of each reply and of how many seconds it took."""
        # A tenant of its own: nothing is remembered for another program.
        context = CallContext(tenant=str(next(self._numbers)))
        serve, most = self._router.serve, limits.reply_bytes

        async def serve_one(call: Call) -> None:
            began = time.perf_counter()
            reply = await serve(call, max_reply_bytes=most, context=context)
            done(call, reply, time.perf_counter() - began)

        return Dispatch(limits.calls_in_flight, serve_one)


def _load_tool(shipped: ShippedTool, places: FunctionImporter) -> Tool:
    spec = shipped.spec
    try:
        tool = with_name(as_tool(places.find(shipped.origin)), spec.name)
    except UsageError as error:
        raise UsageError(f"tool {spec.name!r} of tools_on_nodes was not found there: {error}") from error
    if tool.spec.input_schema != spec.input_schema:
        raise UsageError(f"tool {spec.name!r} of tools_on_nodes takes other arguments there; install the same version")
    return replace(tool, spec=spec, retry=shipped.retry)
