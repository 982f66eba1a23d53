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
from toolfold.interfaces.http import outcome_bodies
from toolfold.interfaces.http.access.rate_limits import while_connected
from toolfold.interfaces.http.continuation_rounds import ApiExecution, Rounds
from toolfold.interfaces.http.file_routes import SessionFiles, key_of, recorded_response, session_of
from toolfold.interfaces.http.outcome_bodies import (
    CANCELLED,
    EXPIRED,
    TIMED_OUT,
    ApiResponse,
    Refusal,
    handover_refusal,
    interruption_refusal,
    retryable_refusal,
)
from toolfold.interfaces.http.request_models import (
    ApprovalDecision,
    ForwardedRequest,
    ForwardedResponse,
    StartRequest,
    ToolResult,
    continuation_of,
    refuse_large,
)
from toolfold.interfaces.http.settings import HttpContext
from toolfold.models import Paused
from toolfold.service.answer_memory import AnswerInterrupted, KeyedAnswers, KeyReused, RoundAnswer
from toolfold.service.executions import (
    HOST_FAILURES,
    ExecutionMoved,
    ExecutionObserver,
    ExecutionOver,
    ExecutionService,
    Step,
)
from toolfold.service.lease_owners import Owner

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
                expires_at=execution.deadline,
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
