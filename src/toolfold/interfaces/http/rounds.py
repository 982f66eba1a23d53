"""Rounds with a client: execution steps, continuation tokens, and repeated or late continuations.

1. A token belongs to one pause. The same results sent again get the same answer, other results are
   refused, and nothing runs twice.
2. An execution has a lock, so duplicates that arrive together wait for the first one's answer.
3. An execution that is not held is read from its record and replayed. The number of replies in the
   token tells whether the continuation was taken before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolfold.errors import Fenced, LedgerFailed, UsageError
from toolfold.execution.history import RecordedExecution
from toolfold.interfaces.http import render
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.access.tokens import Token, Tokens
from toolfold.interfaces.http.execution_state import ApiExecution, ExecutionMoved, LastAnswer, StartRequest
from toolfold.interfaces.http.files import expired_response, file_reference, key_of, recorded_response
from toolfold.interfaces.http.metrics import Metrics
from toolfold.interfaces.http.registry import GRACE_SECONDS, ExecutionRegistry
from toolfold.interfaces.http.render import (
    CANCELLED,
    EXPIRED,
    HOST_FAILURES,
    INVALID_TOKEN,
    ApiResponse,
    Refusal,
    too_many_rounds,
)
from toolfold.interfaces.http.requests import Continuation, ContinuationStatus, check_calls, continuation_status
from toolfold.interfaces.http.settings import Settings
from toolfold.ledger.base import fenced_error, suspended_error
from toolfold.models import File, Limits, Outcome, Paused, Reply
from toolfold.runtime import Runtime
from toolfold.tools.tool import Decision

# ----------------------------------------------------------------------------------------------------
# Steps of the runtime: each runs a program to its next pause or its end, in a turn of its tenant.
#
# It knows sessions, turns and deadlines, but neither tokens nor responses.


class StepRunner:
    """The steps that run now. A step returns `None` if it was cancelled."""

    def __init__(
        self, runtime: Runtime, registry: ExecutionRegistry, *, limits: Limits, gate: Gate, metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._registry = registry
        self._limits = limits
        self._gate = gate
        self._metrics = metrics
        self._clock = clock
        self._running: list[ApiExecution] = []
        self._is_stopping = False

    async def begin(
        self, execution: ApiExecution, start: StartRequest, files: Sequence[File]
    ) -> Paused | Outcome | None:
        """Run the first step of a new execution.

        Raises:
            TimeoutError: Its time ran out, and the runtime did not end it.
            Moved: Another process began it meanwhile.
        """
        hangup = None if start.execution_id else start.hangup
        step: Paused | Outcome | None = None
        try:
            async with asyncio.timeout(execution.deadline - self._clock() + GRACE_SECONDS):
                await self._registry.enter_session(execution, hangup)
                async with self._gate.turn(start.tenant, hangup) as queue_seconds:
                    self._metrics.observe("queue_seconds", queue_seconds)
                    if execution.is_over:  # cancelled while it waited
                        raise Refusal(400, CANCELLED)
                    remaining_seconds = max(0.1, execution.deadline - self._clock())
                    limits = replace(self._limits, wall_seconds=min(remaining_seconds, start.timeout_seconds))
                    step = await self._step(execution, self._program(execution, start, files, limits))
        except Fenced:
            self._registry.move(
                execution, "lose"
            )  # before `leave_session`: the session's turn belongs to the other process
            raise
        except UsageError as error:
            if start.execution_id and await self._runtime.executions.recorded(execution.execution_id) is not None:
                self._registry.move(execution, "lose")
                raise ExecutionMoved from error
            raise
        finally:
            if step is None:
                self._registry.leave_session(execution)
        if step is not None:
            self._registry.move(execution, "begin")
        if start.execution_id and isinstance(step, Paused):
            # As a replay after a restart would report it: the same start must get the same token.
            step = replace(step, seconds_left=limits.wall_seconds)
        return step

    def _program(
        self, execution: ApiExecution, start: StartRequest, files: Sequence[File], limits: Limits
    ) -> Coroutine[Any, Any, Paused | Outcome]:
        return self._runtime.start(
            start.code, options=start.options, tools=start.tools, files=files, limits=limits,
            session=key_of(start.tenant, start.session), tenant=start.tenant, execution_id=execution.execution_id,
            durable=bool(start.execution_id), expires_at=execution.deadline,
        )  # fmt: skip

    async def resume(
        self, execution: ApiExecution, replies: Sequence[Reply], decisions: Mapping[int, Decision]
    ) -> Paused | Outcome | None:
        """Run the next step of an execution that is paused here."""
        async with self._gate.turn(execution.tenant) as queue_seconds:
            self._metrics.observe("queue_seconds", queue_seconds)
            if not execution.is_paused:  # the deadline, or a cancel, was first
                raise Refusal(400, EXPIRED)
            self._registry.move(execution, "resume")
            reply_count = len(replies) + len(decisions)
            execution.replies += reply_count
            try:
                return await self._step(
                    execution, self._runtime.resume(execution.execution_id, replies, decisions=decisions)
                )
            except HOST_FAILURES:
                # The client may send the same continuation again; the ledger does not write it twice.
                execution.replies -= reply_count
                self._registry.move(execution, "pause")
                if execution.execution_id not in self._runtime.executions.ids:
                    await self._registry.lose(execution)  # it was cut off, and only the ledger knows how far it came
                raise
            except Fenced:
                raise
            except BaseException:
                self._registry.end(execution, "broken")
                raise

    async def replay_to_pause(self, execution: ApiExecution) -> Paused | Outcome:
        """Replay an execution that another process paused, up to where it waits.

        Raises:
            Refusal: Its time is over, or it was cancelled.
            Moved: Another process has ended it meanwhile.
        """
        step: Paused | Outcome | None = None
        try:
            async with asyncio.timeout(max(0.0, execution.deadline - self._clock())):
                await self._registry.enter_session(execution)
                async with self._gate.turn(execution.tenant):
                    step = await self._step(execution, self._runtime.resume(execution.execution_id))
        except TimeoutError as error:
            raise Refusal(400, EXPIRED) from error
        except Fenced:
            self._registry.move(execution, "lose")
            raise
        except UsageError as error:
            recorded = await self._runtime.executions.recorded(execution.execution_id)
            if recorded is not None and recorded.has_ended:
                raise ExecutionMoved from error
            raise
        finally:
            if step is None:
                self._registry.leave_session(execution)
        if step is None:
            raise Refusal(400, EXPIRED)
        return step

    def suspend(self) -> None:
        """Stop what runs, and begin nothing more; other processes can continue from the ledger."""
        self._is_stopping = True
        for execution in self._running:
            self._runtime.executions.suspend(execution.execution_id)

    async def _step(
        self, execution: ApiExecution, work: Coroutine[Any, Any, Paused | Outcome]
    ) -> Paused | Outcome | None:
        if self._is_stopping:
            # It waited for a turn that a stopped one has left. Whatever ran from here on would be cut off for good.
            work.close()
            raise suspended_error(execution.execution_id)
        task = execution.task = asyncio.ensure_future(work)
        self._metrics.running += 1
        self._running.append(execution)
        try:
            await _wait_until_done(task)
            return None if task.cancelled() else task.result()
        except asyncio.CancelledError:
            # The server is shutting down and will not wait. Other processes can continue from the ledger.
            self._runtime.executions.suspend(execution.execution_id)
            await asyncio.wait([task], timeout=GRACE_SECONDS)
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            self._metrics.running -= 1
            self._running.remove(execution)
            execution.task = None


async def _wait_until_done(task: asyncio.Future[Any]) -> None:
    """Wait for its end, whatever that is; to be cancelled meanwhile leaves it alone. As `asyncio.wait`, for one."""
    if task.done():
        return
    waiter = task.get_loop().create_future()

    def tell(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(tell)
    try:
        await waiter
    finally:
        task.remove_done_callback(tell)


_ALREADY_CONTINUED = "the execution of this Idempotency-Key has gone on; use its last continuation_token"


class Rounds:
    """Answers continuations, and starts that are sent again, from memory, by a step, or from the record."""

    def __init__(
        self, runtime: Runtime, registry: ExecutionRegistry, steps: StepRunner, settings: Settings, *, metrics: Metrics,
        clock: Callable[[], float], has_peers: bool,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._registry = registry
        self._steps = steps
        self._max_rounds = settings.max_rounds
        self._max_seconds = settings.max_timeout_seconds
        self._tokens = Tokens(settings.token_key)
        self._metrics = metrics
        self._clock = clock
        self._has_peers = has_peers

    def read(self, text: str, tenant: str, session: str | None = None) -> Token:
        """A token that belongs to the tenant, and to the session if one is given."""
        return self._tokens.read_for(text, tenant, session)

    def longest_seconds(self, start: StartRequest, own_seconds: float) -> float:
        """How long an execution may take in all, if its program may run for `own_seconds`."""
        return own_seconds if start.counts_pauses else max(own_seconds, self._max_seconds)

    async def answer(self, execution: ApiExecution, step: Paused | Outcome) -> ApiResponse:
        """Render a step of the runtime for the client: its calls with a token, or the end."""
        if isinstance(step, Outcome):
            self._registry.end(execution, step.status)
            if step.problem is not None:
                self._metrics.add("problems", kind=step.problem.kind)
            files = [file_reference(execution.session, file) for file in step.files]
            return render.outcome_response(step, session=execution.session, files=files)
        execution.round += 1
        if execution.round > self._max_rounds:
            self._registry.end(execution, "rounds")
            text, outcome = (
                too_many_rounds(self._max_rounds),
                await self._runtime.executions.cancel(execution.execution_id),
            )
            return render.stopped_response(text, outcome, session=execution.session)
        self._metrics.add("rounds")
        execution.open_calls = frozenset(call.id for call in step.calls)
        execution.open_approvals = frozenset(call.id for call in step.approvals)
        self._registry.move(execution, "pause")
        if self._registry.is_draining:
            self._registry.hand_over_soon(execution)
        token_fields = (execution.execution_id, execution.round, execution.replies, execution.session, execution.tenant)
        token = self._tokens.sign(Token(*token_fields, execution.deadline, step.seconds_left))
        return render.tool_calls(step, session=execution.session, token=token)

    async def cancelled(self, execution: ApiExecution) -> ApiResponse:
        """The answer to whoever waited for an execution that was cancelled."""
        self._registry.end(execution, "cancelled")
        await self._runtime.executions.cancel(execution.execution_id)
        return render.error_response(CANCELLED, status=400, session=execution.session)

    # continuations

    async def continue_execution(self, continuation: Continuation) -> ApiResponse:
        """Answer a continuation here, whether or not its execution is held."""
        token = continuation.token
        execution = self._registry.get(token.execution_id)
        if token.expires_at < self._clock():
            return await self._expired_response(execution, token)
        if execution is None:
            execution = self._hold_unread(token)
        self._registry.requests.add(execution, continuation.request_id)
        async with execution.lock:
            try:
                answer = await self._answer_once(execution, continuation)
            except Fenced:
                await self._registry.lose(execution)
                raise
            finally:
                if execution.is_over or not execution.is_known:
                    self._registry.requests.forget(execution)
            execution.last = LastAnswer(token.round, continuation.digest, answer)
            return answer

    def _hold_unread(self, token: Token) -> ApiExecution:
        execution = ApiExecution(
            execution_id=token.execution_id, tenant=token.tenant, session=token.session, deadline=token.expires_at,
            state="unread",
        )  # fmt: skip
        self._registry.hold(execution)
        return execution

    async def _answer_once(self, execution: ApiExecution, continuation: Continuation) -> ApiResponse:
        token = continuation.token
        if execution.state == "lost":
            raise ExecutionMoved
        if not execution.is_known:
            recorded_answer = await self._read_record(execution, continuation)
            if recorded_answer is not None:
                return recorded_answer
        if execution.last is not None and execution.last[:2] == (token.round, continuation.digest):
            return execution.last.answer
        if self._has_peers and token.round > execution.round:
            # A replica that took it over has signed this token, so what is held here is out of date.
            raise fenced_error(execution.execution_id)
        if execution.is_over and token.round == execution.round:
            await self._check_end(execution)
            raise Refusal(400, EXPIRED)
        if token.round != execution.round or not execution.is_paused:
            raise Refusal(400, INVALID_TOKEN)
        check_calls((reply.call_id for reply in continuation.replies), execution.open_calls)
        check_calls(continuation.decisions, execution.open_approvals, "approval")
        step = await self._steps.resume(execution, continuation.replies, continuation.decisions)
        return await self.cancelled(execution) if step is None else await self.answer(execution, step)

    async def _check_end(self, execution: ApiExecution) -> None:
        """Refuse to tell of an end that is not on record yet: the next process would go on with the pause."""
        recorded = await self._runtime.executions.recorded(execution.execution_id)
        if recorded is not None and not recorded.has_ended:
            raise LedgerFailed("the end of the execution is not on record yet; send the same request again")

    async def _expired_response(self, execution: ApiExecution | None, token: Token) -> ApiResponse:
        if execution is not None and not execution.is_over:
            if execution.deadline > self._clock():
                raise Refusal(400, EXPIRED)  # only this token has expired; the execution has a newer one
            self._registry.expire(execution)  # its timer is late
        await self._registry.wait_for_end(token.execution_id)
        if token.execution_id in self._runtime.executions.ids:
            raise Refusal(400, EXPIRED)  # it still runs, and whoever resumed it gets the outcome
        return await expired_response(self._runtime, token, self._clock())

    # starts that are sent again

    async def answer_repeated_start(self, start: StartRequest) -> ApiResponse | None:
        """The answer to a start that was taken before, by its fixed id; `None` if none is on record."""
        recorded = await self._runtime.executions.recorded(start.execution_id)
        if recorded is None:
            return None
        token = self._first_token(start, recorded)
        execution = self._registry.get(start.execution_id)
        if execution is not None and execution.last is not None and execution.last.round == 0:
            return execution.last.answer
        if recorded.answer_count or recorded.outcome is not None or (execution is not None and execution.is_known):
            if recorded.first_pause is not None:
                text = self._tokens.sign(token)
                return render.tool_calls(recorded.first_pause, session=token.session, token=text)
            if recorded.outcome is None:
                raise Refusal(409, _ALREADY_CONTINUED)
            return recorded_response(recorded.outcome, token.session)
        if execution is None:
            execution = self._hold_unread(token)
        async with execution.lock:
            if execution.is_known:  # another request was faster, or it was lost
                raise ExecutionMoved
            try:
                answer = await self._read_record(execution, Continuation(token=token))
            except Fenced:
                await self._registry.lose(execution)
                raise
            execution.last = None if answer is None else LastAnswer(0, b"", answer)
            return answer

    async def resume_recorded(self, execution_id: str, recorded: RecordedExecution) -> ApiResponse:
        """Go on with an execution that no process holds, from its record; its next answer."""
        start_record = recorded.start_record
        session = start_record.session.removeprefix(key_of(start_record.tenant, ""))
        deadline = start_record.expires_at or start_record.began_at + max(
            start_record.limits.wall_seconds, self._max_seconds
        )
        token_fields = (recorded.rounds + 1, recorded.answer_count, session, start_record.tenant)
        execution = self._registry.get(execution_id) or self._hold_unread(Token(execution_id, *token_fields, deadline))
        async with execution.lock:
            if execution.is_known:
                if execution.last is None or execution.state == "lost":
                    raise ExecutionMoved
                return execution.last.answer  # of the request that had it meanwhile
            try:
                step = await self._steps.replay_to_pause(execution)
            except Fenced:
                await self._registry.lose(execution)
                raise
            was_doomed = execution.state == "doomed"
            self._registry.move(execution, "read")
            execution.round, execution.replies = recorded.rounds, recorded.answer_count
            answer = await (self.cancelled(execution) if was_doomed else self.answer(execution, step))
            execution.last = LastAnswer(0, b"", answer)
            return answer

    def _first_token(self, start: StartRequest, recorded: RecordedExecution) -> Token:
        """The token of its first pause."""
        start_record = recorded.start_record
        seconds = start_record.limits.wall_seconds
        session = start_record.session.removeprefix(key_of(start.tenant, ""))
        deadline = start_record.expires_at or start_record.began_at + self.longest_seconds(start, seconds)
        return Token(start.execution_id, 1, 0, session, start.tenant, deadline, seconds)

    # what is on record

    async def _read_record(self, execution: ApiExecution, continuation: Continuation) -> ApiResponse | None:
        """Bring back an execution that another process paused; the answer, if that one took this continuation."""
        token = continuation.token
        recorded = await self._runtime.executions.recorded(token.execution_id)
        if recorded is None:
            raise Refusal(400, EXPIRED)
        status = continuation_status(continuation, recorded)
        if recorded.has_ended:
            return self._recorded_end(execution, continuation, status, recorded.outcome)
        step = await self._steps.replay_to_pause(execution)
        was_doomed = execution.state == "doomed"
        self._registry.move(execution, "read")
        execution.replies = recorded.answer_count
        # A new continuation finds the pause that its token names; a taken one finds the pause after it.
        execution.round = token.round - 1 if status == "new" else token.round
        if isinstance(step, Paused):
            if was_doomed:
                return await self.cancelled(execution)
            step = self._restore_clock(step, token, status)
        answer = await self.answer(execution, step)
        # An outcome here means that a cancel or the clock ended it before it reached its pause.
        is_answer = isinstance(step, Outcome) or status == "taken" or continuation.is_start
        return answer if is_answer else None

    def _recorded_end(
        self, execution: ApiExecution, continuation: Continuation, status: ContinuationStatus, outcome: Outcome | None
    ) -> ApiResponse:
        if outcome is not None and (status == "taken" or continuation.is_start):
            self._registry.move(execution, "end")
            execution.round = continuation.token.round
            return recorded_response(outcome, execution.session)
        raise Refusal(400, EXPIRED if status == "new" else INVALID_TOKEN)

    def _restore_clock(self, step: Paused, token: Token, status: ContinuationStatus) -> Paused:
        """Set the clock to what the token says; a token of the pause before is only an upper limit."""
        if token.seconds_left is None:
            return step
        remaining_seconds = token.seconds_left if status == "new" else min(token.seconds_left, step.seconds_left)
        self._runtime.executions.put_clock_back(token.execution_id, remaining_seconds)
        return replace(step, seconds_left=remaining_seconds)
