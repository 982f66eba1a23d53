"""Start, continuation and cancellation of executions, here or at another replica, and idempotency keys.

A request for an execution that another replica holds is forwarded there. If no replica holds it, it is
brought back from its record. If it moves in the meantime, the search begins again.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

import msgspec

from toolfold.errors import Fenced, LedgerFailed, ToolfoldError
from toolfold.execution.recorded_history import RecordedExecution
from toolfold.interfaces.http import outcome_bodies
from toolfold.interfaces.http.access.continuation_tokens import Token, Tokens
from toolfold.interfaces.http.access.rate_limits import while_connected
from toolfold.interfaces.http.file_routes import SessionFiles, file_reference, key_of, recorded_response, session_of
from toolfold.interfaces.http.outcome_bodies import (
    CANCELLED,
    EXPIRED,
    INVALID_TOKEN,
    TIMED_OUT,
    ApiResponse,
    Refusal,
    handover_refusal,
    interruption_refusal,
    retryable_refusal,
    too_many_rounds,
)
from toolfold.interfaces.http.request_models import (
    ApprovalDecision,
    Continuation,
    ForwardedRequest,
    ForwardedResponse,
    StartRequest,
    ToolResult,
    check_calls,
    continuation_of,
    is_new,
    refuse_large,
)
from toolfold.interfaces.http.settings import HttpContext
from toolfold.ledger.base import fenced_error
from toolfold.models import Outcome, Paused
from toolfold.service.answer_memory import AnswerInterrupted, KeyedAnswers, KeyReused, RoundAnswer
from toolfold.service.executions import (
    HOST_FAILURES,
    ExecutionMoved,
    ExecutionObserver,
    ExecutionOver,
    ExecutionService,
    HeldExecution,
    Step,
)
from toolfold.service.owners import Owner

_T = TypeVar("_T")
AnyResponse: TypeAlias = ApiResponse | ForwardedResponse
_TRIES: Final = 10
"""To find the replica that holds an execution while it moves."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_ID_BYTES: Final = 8


class ApiExecutions(ExecutionObserver[ApiResponse]):
    """The executions of this process, and the way to those of other replicas."""

    def __init__(self, context: HttpContext) -> None:
        self._runtime = context.runtime
        self._limits = context.limits
        self._gate = context.gate
        self._metrics = context.metrics
        self._clock = context.clock
        self._secret = context.settings.token_key
        self._replicas = context.replicas
        self._owner = Owner() if context.replicas is None else context.replicas.owner
        self._files = SessionFiles(context.runtime.sessions)
        self.service: ExecutionService[ApiResponse] = ExecutionService(
            context.runtime, owner=self._owner, clock=context.clock, observer=self
        )
        self._rounds = Rounds(context, self.service, self._owner)
        self._keyed_answers: KeyedAnswers[tuple[str, str], AnyResponse] = KeyedAnswers(
            _remembered_bytes, most_bytes=context.settings.remembered_bytes
        )

    # Starts. With an `Idempotency-Key`, the same key and body get the same answer, and the program runs once.

    async def start(self, start: StartRequest, key: str | None, request: ForwardedRequest) -> AnyResponse:
        """Start an execution, unless the same request did before, here or at another replica.

        Raises:
            Refusal: 400 for a malformed key, 422 for one that came with another body.
        """
        if key is None:
            return await self._start(start)
        start = self.with_execution_id(start, key, request)
        try:
            return await self._keyed_answers.answer(
                (start.tenant, key), start.execution_id, partial(self._start_once, start, request)
            )
        except KeyReused:
            text = f"Idempotency-Key {key[:80]!r} was sent with another request; take a new key"
            raise Refusal(422, text) from None
        except AnswerInterrupted:
            raise Refusal(503, "the server stops") from None

    def with_execution_id(self, start: StartRequest, key: str, request: ForwardedRequest) -> StartRequest:
        """The same start with an id derived from key and body, so that the ledger can find what memory cannot."""
        if not _KEY.fullmatch(key):
            raise Refusal(400, "Idempotency-Key must be 1 to 255 visible ASCII characters; send such a key, or none")
        # Signed, so that no tenant can name the execution of another.
        whole = msgspec.json.encode([start.tenant, key, request.path, hashlib.sha256(request.body).hexdigest()])
        return replace(start, execution_id=hmac.digest(self._secret, whole, "sha256")[:_ID_BYTES].hex())

    async def _start_once(self, start: StartRequest, request: ForwardedRequest) -> AnyResponse:
        async def attempt() -> AnyResponse:
            if not await self._owner.claim(start.execution_id):
                response = await self.forward(start.execution_id, request)
                if response is None:
                    raise ExecutionMoved  # the other replica gave it up in the meantime
                return response
            return await self._rounds.answer_repeated_start(start) or await self._start(start)

        try:
            return await self._retry_while_moving(attempt)
        finally:
            self._owner.unclaim(start.execution_id)

    async def _start(self, start: StartRequest) -> ApiResponse:
        self._gate.start(start.tenant)
        files = await asyncio.to_thread(self._files.read_references, start.tenant, start.session, start.files)
        execution = ApiExecution(
            execution_id=start.execution_id or secrets.token_hex(8), tenant=start.tenant, session=start.session,
            deadline=self._clock() + self._rounds.longest_seconds(start, start.timeout_seconds),
        )  # fmt: skip
        self.service.requests.add(execution, start.request_id)
        hangup = None if start.execution_id else start.hangup
        wall_seconds = start.timeout_seconds

        def program() -> Step:
            nonlocal wall_seconds
            wall_seconds = min(max(0.1, execution.deadline - self._clock()), start.timeout_seconds)
            return self._runtime.start(
                start.code, language=start.language, tools=start.tools, files=files,
                limits=replace(self._limits, wall_seconds=wall_seconds), session=key_of(start.tenant, start.session),
                tenant=start.tenant, execution_id=execution.execution_id, durable=bool(start.execution_id),
                expires_at=execution.deadline, **msgspec.structs.asdict(start.names),
            )  # fmt: skip

        try:
            step = await self.service.begin(
                execution, program, waiting=partial(while_connected, hangup),
                turn=self._gate.turn(start.tenant, hangup), is_repeatable=bool(start.execution_id),
            )  # fmt: skip
        except ExecutionOver:
            raise Refusal(400, CANCELLED) from None
        except TimeoutError:
            self.service.end(execution, "timeout")
            return outcome_bodies.error_response(
                TIMED_OUT, status=408, session=start.session, known_error="Time limit exceeded"
            )
        except Fenced as error:
            if self.service.is_stopping:
                raise await self._failed_start(execution, start, error) from error
            raise
        except HOST_FAILURES as error:
            self.service.end(execution, "broken")
            raise await self._failed_start(execution, start, error) from error
        if start.execution_id and isinstance(step, Paused):
            # As a replay after a restart would report it: the same start must get the same token.
            step = replace(step, seconds_left=wall_seconds)
        answer = await self._rounds.answer(execution, step)
        if execution.is_paused:
            execution.last = RoundAnswer(0, b"", answer) if start.execution_id else None
            self.service.hold(execution)
        return answer

    async def _failed_start(self, execution: ApiExecution, start: StartRequest, error: Exception) -> Refusal:
        if start.execution_id:
            return retryable_refusal(error)
        with suppress(LedgerFailed):
            await self._runtime.executions.end_recorded(execution.execution_id)  # nobody has a token for it
        called = error.started if isinstance(error, ToolfoldError) else ()
        return interruption_refusal(error, started=not {spec.name for spec in start.tools}.issuperset(called))

    async def claim(self, execution_id: str) -> None:
        """Have other replicas look for an execution here, although it is not on record yet."""
        with suppress(LedgerFailed):  # the start fails by it, too, and answers for it
            await self._owner.claim(execution_id)

    async def start_claimed(self, start: StartRequest, key: str, request: ForwardedRequest) -> AnyResponse:
        try:
            return await self.start(start, key, request)
        finally:
            self._owner.unclaim(start.execution_id)

    # Continuations.

    async def resume_recorded(self, execution_id: str) -> ApiResponse | None:
        """Go on with an execution that is on record, to its next answer; `None` if another replica holds it."""

        async def attempt() -> ApiResponse | None:
            recorded = await self._runtime.executions.recorded(execution_id)
            if recorded is None:
                raise Refusal(400, EXPIRED)
            if recorded.outcome is not None:
                return recorded_response(recorded.outcome, session_of(recorded))
            if not await self._owner.claim(execution_id):
                return None
            return await self._rounds.resume_recorded(execution_id, recorded)

        try:
            return await self._retry_while_moving(attempt)
        finally:
            self._owner.unclaim(execution_id)

    async def continue_execution(
        self, text: str, results: Sequence[ToolResult], *, decisions: Sequence[ApprovalDecision] = (), tenant: str,
        session: str | None = None, request: ForwardedRequest,
    ) -> AnyResponse:  # fmt: skip
        """Answer or decide on calls of a paused execution and run it to its end or its next pause."""
        token = self._rounds.tokens.read_for(text, tenant, session)
        if len(request.body) > self._limits.reply_bytes:
            refuse_large(results, self._limits.reply_bytes)
        continuation = continuation_of(token, results, decisions, request.request_id)

        async def attempt() -> AnyResponse:
            execution = self.service.get(token.execution_id)
            if execution is None or not execution.is_known:
                response = await self.forward(token.execution_id, request)
                if response is not None:
                    self._metrics.add("forwarded")
                    return response
            return await self._rounds.continue_execution(continuation)

        return await self._retry_while_moving(attempt)

    async def forward(self, execution_id: str, request: ForwardedRequest) -> ForwardedResponse | None:
        """Response of the replica that holds an execution; `None` if no other does."""
        return None if self._replicas is None else await self._replicas.forward(execution_id, request)

    async def _retry_while_moving(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Try again while another replica has the execution now, or just had it."""
        for _ in range(_TRIES):
            try:
                return await attempt()
            except ExecutionMoved:
                continue
            except ExecutionOver:
                raise Refusal(400, EXPIRED) from None
            except Fenced as error:
                if self.service.is_stopping:
                    raise retryable_refusal(error) from error
                if not self._owner.is_shared:
                    raise
            except HOST_FAILURES as error:
                raise retryable_refusal(error) from error
        raise handover_refusal()

    # Cancels.

    def id_of(self, token: str, tenant: str) -> str:
        return self._rounds.tokens.read_for(token, tenant).execution_id

    async def cancel(
        self, request: ForwardedRequest | None = None, *, tenant: str, request_id: str = "", token: str = "",
        execution_id: str = "",
    ) -> None:  # fmt: skip
        """End what a request started; unknown ids are ignored, so that a cancel can race the end."""
        if token:
            of_token = self._rounds.tokens.read_for(token, tenant)
            if of_token.expires_at < self._clock():
                raise Refusal(400, EXPIRED)
            execution_id = of_token.execution_id
        for _ in range(_TRIES):
            execution = self.service.requests.find(tenant, request_id) or self.service.get(execution_id)
            if execution is None and execution_id in self._runtime.executions.ids:
                await self._runtime.executions.cancel(execution_id)  # in its first step: whoever waits for that is told
                return
            if execution is None or not (execution.is_known or execution.task):
                await self._cancel_elsewhere(execution.execution_id if execution is not None else execution_id, request)
                return
            if await self.service.cancel(execution):
                return

    async def _cancel_elsewhere(self, execution_id: str, request: ForwardedRequest | None) -> None:
        if request is not None and self._replicas is not None:
            if not execution_id:
                await self._replicas.broadcast(request)
            elif await self._replicas.forward(execution_id, request) is not None:
                return
        if execution_id:
            await self._runtime.executions.end_recorded(execution_id)

    # Counts: pauses for the limit of each tenant, ends for the metrics.

    def pause_changed(self, execution: ApiExecution, change: int) -> None:
        self._gate.paused(execution.tenant, change)

    def ended(self, execution: ApiExecution, status: str) -> None:
        self._metrics.end(status)
        self._metrics.observe("execution_rounds", execution.round)

    def lost(self, execution: ApiExecution) -> None:
        self._metrics.add("lost")


def _remembered_bytes(answer: AnyResponse) -> int | None:
    """Size of an answer in memory; one of another replica is remembered there."""
    return None if isinstance(answer, ForwardedResponse) else len(msgspec.json.encode(answer.body))


# ----------------------------------------------------------------------------------------------------
# Rounds of a continuation.
#
# 1. A token belongs to one pause. The same results sent again get the same answer, other results are
#    refused, and nothing runs twice.
# 2. An execution has a lock, so duplicates that arrive together wait for the first one's answer.
# 3. An execution that is not held is read from its record and replayed. The number of replies in the
#    token tells whether the continuation was taken before.

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
