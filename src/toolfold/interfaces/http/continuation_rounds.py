"""Rounds with a client: continuation tokens, and repeated or late continuations.

1. A token belongs to one pause. The same results sent again get the same answer, other results are
   refused, and nothing runs twice.
2. An execution has a lock, so duplicates that arrive together wait for the first one's answer.
3. An execution that is not held is read from its record and replayed. The number of replies in the
   token tells whether the continuation was taken before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

from toolfold.errors import Fenced, LedgerFailed
from toolfold.execution.recorded_history import RecordedExecution
from toolfold.interfaces.http import outcome_bodies
from toolfold.interfaces.http.access.continuation_tokens import Token, Tokens
from toolfold.interfaces.http.file_routes import file_reference, recorded_response, session_of
from toolfold.interfaces.http.outcome_bodies import (
    CANCELLED,
    EXPIRED,
    INVALID_TOKEN,
    ApiResponse,
    Refusal,
    too_many_rounds,
)
from toolfold.interfaces.http.request_models import Continuation, StartRequest, check_calls, is_new
from toolfold.interfaces.http.settings import HttpContext
from toolfold.ledger.base import fenced_error
from toolfold.models import Outcome, Paused
from toolfold.service.answer_memory import RoundAnswer
from toolfold.service.executions import ExecutionMoved, ExecutionService, HeldExecution
from toolfold.service.lease_owners import Owner

ApiExecution: TypeAlias = HeldExecution[ApiResponse]
_ALREADY_CONTINUED: Final = "the execution of this Idempotency-Key has gone on; use its last continuation_token"


class Rounds:
    """Answers continuations, and starts that are sent again, from memory, by a step, or from the record."""

    def __init__(self, context: HttpContext, service: ExecutionService[ApiResponse], owner: Owner) -> None:
        self._runtime = context.runtime
        self._service = service
        self._owner = owner
        self._max_rounds = context.settings.max_rounds
        self._max_seconds = context.settings.max_timeout_seconds
        self.tokens = Tokens(context.settings.token_key)
        self._gate = context.gate
        self._metrics = context.metrics
        self._clock = context.clock

    def longest_seconds(self, start: StartRequest, own_seconds: float) -> float:
        """How long an execution may take in all, if its program may run for `own_seconds`."""
        return own_seconds if start.counts_pauses else max(own_seconds, self._max_seconds)

    async def answer(self, execution: ApiExecution, step: Paused | Outcome | None) -> ApiResponse:
        """Render a step for the client: its calls with a token, or the end; `None` is a cancelled one."""
        if step is None:
            self._service.end(execution, "cancelled")
            await self._runtime.executions.cancel(execution.execution_id)
            return outcome_bodies.error_response(CANCELLED, status=400, session=execution.session)
        if isinstance(step, Outcome):
            self._service.end(execution, step.status)
            if step.problem is not None:
                self._metrics.add("problems", kind=step.problem.kind)
            files = [file_reference(execution.session, file) for file in step.files]
            return outcome_bodies.outcome_response(step, session=execution.session, files=files)
        execution.round += 1
        if execution.round > self._max_rounds:
            self._service.end(execution, "rounds")
            outcome = await self._runtime.executions.cancel(execution.execution_id)
            return outcome_bodies.stopped_response(
                too_many_rounds(self._max_rounds), outcome, session=execution.session
            )
        self._metrics.add("rounds")
        self._service.pause(execution, step)
        token_fields = (execution.execution_id, execution.round, execution.replies, execution.session, execution.tenant)
        token = self.tokens.sign(Token(*token_fields, execution.deadline, step.seconds_left))
        return outcome_bodies.tool_calls(step, session=execution.session, token=token)

    # Continuations.

    async def continue_execution(self, continuation: Continuation) -> ApiResponse:
        """Answer a continuation here, whether or not its execution is held."""
        token = continuation.token
        execution = self._service.get(token.execution_id)
        if token.expires_at < self._clock():
            return await self._expired_response(execution, token)
        if execution is None:
            execution = self._hold_unread(token)
        self._service.requests.add(execution, continuation.request_id)
        async with execution.lock:
            try:
                answer = await self._answer_once(execution, continuation)
            except Fenced:
                await self._service.lose(execution)
                raise
            finally:
                if execution.is_over or not execution.is_known:
                    self._service.requests.forget(execution)
            execution.last = RoundAnswer(token.round, continuation.digest, answer)
            return answer

    def _hold_unread(self, token: Token) -> ApiExecution:
        execution = ApiExecution(
            execution_id=token.execution_id, tenant=token.tenant, session=token.session, deadline=token.expires_at,
            state="unread",
        )  # fmt: skip
        self._service.hold(execution)
        return execution

    async def _answer_once(self, execution: ApiExecution, continuation: Continuation) -> ApiResponse:
        token = continuation.token
        if execution.state == "lost":
            raise ExecutionMoved
        if not execution.is_known:
            recorded = await self._runtime.executions.recorded(token.execution_id)
            recorded_answer = await self._read_record(execution, continuation, recorded)
            if recorded_answer is not None:
                return recorded_answer
        if execution.last is not None and execution.last[:2] == (token.round, continuation.digest):
            return execution.last.answer
        if self._owner.is_shared and token.round > execution.round:
            # A replica that took it over has signed this token, so what is held here is out of date.
            raise fenced_error(execution.execution_id)
        if execution.is_over and token.round == execution.round:
            await self._check_end(execution.execution_id)
            raise Refusal(400, EXPIRED)
        if token.round != execution.round or not execution.is_paused:
            raise Refusal(400, INVALID_TOKEN)
        check_calls((reply.call_id for reply in continuation.replies), execution.open_calls)
        check_calls(continuation.decisions, execution.open_approvals, "approval")
        turn = self._gate.turn(execution.tenant)
        step = await self._service.resume(execution, continuation.replies, continuation.decisions, turn=turn)
        return await self.answer(execution, step)

    async def _check_end(self, execution_id: str) -> None:
        """Refuse to tell of an end that is not on record yet: the next process would go on with the pause."""
        recorded = await self._runtime.executions.recorded(execution_id)
        if recorded is not None and not recorded.has_ended:
            raise LedgerFailed("the end of the execution is not on record yet; send the same request again")

    async def _expired_response(self, execution: ApiExecution | None, token: Token) -> ApiResponse:
        """The answer to a continuation that is too late, with the output of a program that was paused until then."""
        if execution is not None and not execution.is_over:
            if execution.deadline > self._clock():
                raise Refusal(400, EXPIRED)  # only this token has expired; the execution has a newer one
            self._service.expire(execution)  # its timer is late
        await self._service.wait_for_expiry(token.execution_id)
        if token.execution_id in self._runtime.executions.ids:
            raise Refusal(400, EXPIRED)  # it still runs, and whoever resumed it gets the outcome
        recorded = await self._runtime.executions.recorded(token.execution_id)
        outcome = recorded.outcome if recorded is not None else None
        if recorded is not None and outcome is None and recorded.start_record.expires_at <= self._clock():
            await self._runtime.executions.end_recorded(token.execution_id, "timeout")  # nobody else will
        if outcome is None or outcome.status != "timeout":
            return outcome_bodies.stopped_response(EXPIRED, None, session="")
        return outcome_bodies.stopped_response(EXPIRED, outcome, session=token.session)

    # Executions that are on record: starts that are sent again, and those that no process holds.

    async def answer_repeated_start(self, start: StartRequest) -> ApiResponse | None:
        """The answer to a start that was taken before, by its fixed id; `None` if none is on record."""
        recorded = await self._runtime.executions.recorded(start.execution_id)
        if recorded is None:
            return None
        seconds = recorded.start_record.limits.wall_seconds
        deadline = self._deadline(recorded, self.longest_seconds(start, seconds))
        token = Token(start.execution_id, 1, 0, session_of(recorded), start.tenant, deadline, seconds)
        execution = self._service.get(start.execution_id)
        if execution is not None and execution.last is not None and execution.last.round == 0:
            return execution.last.answer
        if recorded.answer_count or recorded.outcome is not None or (execution is not None and execution.is_known):
            if recorded.first_pause is not None:
                text = self.tokens.sign(token)
                return outcome_bodies.tool_calls(recorded.first_pause, session=token.session, token=text)
            if recorded.outcome is None:
                raise Refusal(409, _ALREADY_CONTINUED)
            return recorded_response(recorded.outcome, token.session)
        return await self._answer_unread(token, recorded, is_start=True)

    async def resume_recorded(self, execution_id: str, recorded: RecordedExecution) -> ApiResponse:
        """Go on with an execution that no process holds, from its record; its next answer."""
        start_record = recorded.start_record
        deadline = self._deadline(recorded, max(start_record.limits.wall_seconds, self._max_seconds))
        token_fields = (recorded.rounds + 1, recorded.answer_count, session_of(recorded), start_record.tenant)
        return await self._answer_unread(Token(execution_id, *token_fields, deadline), recorded, is_start=False)

    def _deadline(self, recorded: RecordedExecution, seconds: float) -> float:
        return recorded.start_record.expires_at or recorded.start_record.began_at + seconds

    async def _answer_unread(self, token: Token, recorded: RecordedExecution, *, is_start: bool) -> ApiResponse:
        execution = self._service.get(token.execution_id) or self._hold_unread(token)
        async with execution.lock:
            if execution.is_known:  # another request was faster, or it was lost
                last = execution.last
                if last is None or execution.state == "lost" or (is_start and last.round != 0):
                    raise ExecutionMoved
                return last.answer
            try:
                answer = await self._read_record(execution, Continuation(token=token), recorded)
            except Fenced:
                await self._service.lose(execution)
                raise
            assert answer is not None, "nothing was to be answered but the pause"
            execution.last = RoundAnswer(0, b"", answer)
            return answer

    async def _read_record(
        self, execution: ApiExecution, continuation: Continuation, recorded: RecordedExecution | None
    ) -> ApiResponse | None:
        """Bring back an execution that another process paused; the answer, if that one took this continuation."""
        token = continuation.token
        if recorded is None:
            raise Refusal(400, EXPIRED)
        is_next = is_new(continuation, recorded)
        if recorded.has_ended:
            if recorded.outcome is None or (is_next and not continuation.is_start):
                raise Refusal(400, EXPIRED if is_next else INVALID_TOKEN)
            self._service.move(execution, "end")
            execution.round = token.round
            return recorded_response(recorded.outcome, execution.session)
        turn = self._gate.turn(execution.tenant)
        step: Paused | Outcome | None = await self._service.replay(execution, turn=turn)
        was_doomed = execution.state == "doomed"
        self._service.move(execution, "read")
        execution.replies = recorded.answer_count
        # A new continuation finds the pause that its token names; a taken one finds the pause after it.
        execution.round = token.round - 1 if is_next else token.round
        if isinstance(step, Paused):
            step = None if was_doomed else self._restore_clock(step, token, is_exact=is_next)
        answer = await self.answer(execution, step)
        # An end here means that a cancel or the clock came before the program reached its pause.
        is_answer = not isinstance(step, Paused) or not is_next or continuation.is_start
        return answer if is_answer else None

    def _restore_clock(self, step: Paused, token: Token, *, is_exact: bool) -> Paused:
        """Set the clock to what the token says; a token of the pause before is only an upper limit."""
        if token.seconds_left is None:
            return step
        remaining_seconds = token.seconds_left if is_exact else min(token.seconds_left, step.seconds_left)
        self._runtime.executions.put_clock_back(token.execution_id, remaining_seconds)
        return replace(step, seconds_left=remaining_seconds)
