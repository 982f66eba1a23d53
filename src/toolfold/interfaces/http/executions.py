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
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec

from toolfold.errors import Fenced, LedgerFailed, ToolfoldError
from toolfold.interfaces.http import render
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.execution_state import (
    ApiExecution,
    ExecutionMoved,
    LastAnswer,
    NoPeers,
    Peers,
    StartRequest,
)
from toolfold.interfaces.http.files import SessionFiles, key_of, recorded_response
from toolfold.interfaces.http.metrics import Metrics
from toolfold.interfaces.http.registry import ExecutionRegistry
from toolfold.interfaces.http.render import (
    EXPIRED,
    HOST_FAILURES,
    TIMED_OUT,
    ApiResponse,
    Refusal,
    handover_refusal,
    interruption_refusal,
    retryable_refusal,
)
from toolfold.interfaces.http.requests import (
    ApprovalDecision,
    ForwardedRequest,
    ForwardedResponse,
    ToolResult,
    continuation_of,
    refuse_large,
)
from toolfold.interfaces.http.rounds import Rounds, StepRunner
from toolfold.interfaces.http.settings import Settings
from toolfold.models import Limits
from toolfold.runtime import Runtime

_T = TypeVar("_T")
_TRIES: Final = 10
"""To find the replica that holds an execution while it moves."""


class ApiExecutions:
    """The executions of this process, and the way to those of other replicas."""

    def __init__(
        self, runtime: Runtime, settings: Settings, *, limits: Limits, gate: Gate, metrics: Metrics,
        clock: Callable[[], float] = time.time, peers: Peers | None = None,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._reply_bytes = limits.reply_bytes
        self._gate = gate
        self._metrics = metrics
        self._clock = clock
        self._peers: Peers = peers if peers is not None else NoPeers()
        self._is_stopping = False
        self._files = SessionFiles(runtime.sessions)
        self._registry = ExecutionRegistry(runtime, gate=gate, metrics=metrics, peers=self._peers, clock=clock)
        self._steps = StepRunner(runtime, self._registry, limits=limits, gate=gate, metrics=metrics, clock=clock)
        self._rounds = Rounds(
            runtime,
            self._registry,
            self._steps,
            settings,
            metrics=metrics,
            clock=clock,
            has_peers=self._peers.are_there,
        )

    # starts

    async def start(self, start: StartRequest) -> ApiResponse:
        """Run a program to its end or its first pause."""
        self._gate.start(start.tenant)
        files = await asyncio.to_thread(self._files.read_references, start.tenant, start.session, start.files)
        execution = ApiExecution(
            execution_id=start.execution_id or secrets.token_hex(8),
            tenant=start.tenant,
            session=start.session,
            deadline=self._clock() + self._rounds.longest_seconds(start, start.timeout_seconds),
            state="starting",
        )
        self._registry.requests.add(execution, start.request_id)
        try:
            step = await self._steps.begin(execution, start, files)
        except TimeoutError:
            self._registry.end(execution, "timeout")
            return render.error_response(
                TIMED_OUT, status=408, session=start.session, known_error="Time limit exceeded"
            )
        except Fenced as error:
            if self._is_stopping:
                raise await self._failed_start(execution, start, error) from error
            raise
        except HOST_FAILURES as error:
            self._registry.end(execution, "broken")
            raise await self._failed_start(execution, start, error) from error
        if step is None:
            return await self._rounds.cancelled(execution)
        answer = await self._rounds.answer(execution, step)
        if execution.is_paused:
            execution.last = LastAnswer(0, b"", answer) if start.execution_id else None
            self._registry.hold(execution)
        return answer

    async def _failed_start(self, execution: ApiExecution, start: StartRequest, error: Exception) -> Refusal:
        if start.execution_id:
            return retryable_refusal(error)
        with suppress(LedgerFailed):
            await self._runtime.executions.end_recorded(execution.execution_id)  # nobody has a token for it
        called = error.started if isinstance(error, ToolfoldError) else ()
        return interruption_refusal(error, started=not {spec.name for spec in start.tools}.issuperset(called))

    async def start_once(self, start: StartRequest, request: ForwardedRequest) -> ApiResponse | ForwardedResponse:
        """Start an execution with a fixed id, or return the answer to its earlier start."""

        async def attempt() -> ApiResponse | ForwardedResponse:
            if not await self._peers.claim(start.execution_id):
                response = await self._peers.forward(start.execution_id, request)
                if response is None:
                    raise ExecutionMoved  # the other replica gave it up in the meantime
                return response
            return await self._rounds.answer_repeated_start(start) or await self.start(start)

        try:
            return await self._retry_while_moving(attempt)
        finally:
            self._peers.unclaim(start.execution_id)

    async def claim(self, execution_id: str) -> None:
        """Have other replicas look for an execution here, although it is not on record yet; until `unclaim`."""
        with suppress(LedgerFailed):  # which its start is told, too, and answers for
            await self._peers.claim(execution_id)

    def unclaim(self, execution_id: str) -> None:
        """It has begun, or never will."""
        self._peers.unclaim(execution_id)

    async def resume_recorded(self, execution_id: str) -> ApiResponse | None:
        """Go on with an execution that is on record, to its next answer; `None` if another replica holds it.

        Raises:
            Refusal: It is on record no more.
        """

        async def attempt() -> ApiResponse | None:
            recorded = await self._runtime.executions.recorded(execution_id)
            if recorded is None:
                raise Refusal(400, EXPIRED)
            if recorded.outcome is not None:
                start_record = recorded.start_record
                return recorded_response(
                    recorded.outcome, start_record.session.removeprefix(key_of(start_record.tenant, ""))
                )
            if not await self._peers.claim(execution_id):
                return None
            return await self._rounds.resume_recorded(execution_id, recorded)

        try:
            return await self._retry_while_moving(attempt)
        finally:
            self._peers.unclaim(execution_id)

    async def forward(self, execution_id: str, request: ForwardedRequest) -> ForwardedResponse | None:
        """What the replica says that holds an execution; `None` if no other does."""
        return await self._peers.forward(execution_id, request)

    # continuations

    async def continue_execution(
        self, text: str, results: Sequence[ToolResult], *, decisions: Sequence[ApprovalDecision] = (), tenant: str,
        session: str | None = None, body_bytes: int = 0, request: ForwardedRequest | None = None,
    ) -> ApiResponse | ForwardedResponse:  # fmt: skip
        """Answer or decide on calls of a paused execution and run it to its end or its next pause."""
        token = self._rounds.read(text, tenant, session)
        if body_bytes > self._reply_bytes:
            refuse_large(results, self._reply_bytes)
        continuation = continuation_of(token, results, decisions, request.request_id if request is not None else "")

        async def attempt() -> ApiResponse | ForwardedResponse:
            execution = self._registry.get(token.execution_id)
            if request is not None and (execution is None or not execution.is_known):
                response = await self._peers.forward(token.execution_id, request)
                if response is not None:
                    self._metrics.add("forwarded")
                    return response
            return await self._rounds.continue_execution(continuation)

        return await self._retry_while_moving(attempt)

    async def _retry_while_moving(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Try again while another replica has the execution now, or just had it."""
        for _ in range(_TRIES):
            try:
                return await attempt()
            except ExecutionMoved:
                continue
            except Fenced as error:
                if self._is_stopping:
                    raise retryable_refusal(error) from error
                if not self._peers.are_there:
                    raise
            except HOST_FAILURES as error:
                raise retryable_refusal(error) from error
        raise handover_refusal()

    # cancels

    def id_of(self, token: str, tenant: str) -> str:
        """Id of the execution that a token of this tenant continues."""
        return self._rounds.read(token, tenant).execution_id

    async def cancel(
        self, tenant: str, *, request_id: str = "", token: str = "", execution_id: str = "",
        request: ForwardedRequest | None = None,
    ) -> None:  # fmt: skip
        """End what a request started; unknown ids are ignored, so that a cancel can race the end."""
        if token:
            of_token = self._rounds.read(token, tenant)
            if of_token.expires_at < self._clock():
                raise Refusal(400, EXPIRED)
            execution_id = of_token.execution_id
        for _ in range(_TRIES):
            execution = self._registry.requests.find(tenant, request_id) or self._registry.get(execution_id)
            if execution is None and execution_id in self._runtime.executions.ids:
                await self._runtime.executions.cancel(execution_id)  # in its first step: whoever waits for that is told
                return
            if execution is None or not (execution.is_known or execution.task):
                await self._cancel_elsewhere(execution.execution_id if execution is not None else execution_id, request)
                return
            try:
                await self._cancel_here(execution)
            except Fenced:
                await self._registry.lose(execution)
            else:
                return

    async def _cancel_here(self, execution: ApiExecution) -> None:
        if not execution.is_known:
            self._registry.move(execution, "cancel")
        if execution.is_paused:
            self._registry.end(execution, "cancelled")
        if execution.state != "starting":
            await self._runtime.executions.cancel(execution.execution_id)
        elif execution.task is not None:
            execution.task.cancel()
        else:
            self._registry.move(execution, "end")  # it waits for its turn, and looks at its state then

    async def _cancel_elsewhere(self, execution_id: str, request: ForwardedRequest | None) -> None:
        if request is not None:
            if not execution_id:
                await self._peers.broadcast(request)
            elif await self._peers.forward(execution_id, request) is not None:
                return
        if execution_id:
            await self._runtime.executions.end_recorded(execution_id)

    # the server

    async def lose(self, execution_id: str) -> None:
        """Another replica has this execution: end its guest here."""
        execution = self._registry.get(execution_id)
        if execution is None or execution.lock.locked():
            await self._runtime.executions.abandon(execution_id)  # the request that waits for it gets `Fenced`
        else:
            await self._registry.lose(execution)

    async def drain(self) -> None:
        """Hand paused executions over to the other replicas, now and from now on."""
        await self._registry.drain()

    def suspend(self) -> None:
        """Stop what runs, because the server does not wait any longer; others can continue from the ledger."""
        self._is_stopping = True
        self._steps.suspend()

    async def close(self) -> None:
        """Stop the clocks; what is paused stays in the ledger for the next process."""
        await self._registry.close()


# ----------------------------------------------------------------------------------------------------
# The header `Idempotency-Key`: a start that is sent twice gets one answer.
#
# The same key and body get the same answer, and the program runs once. Answers are kept in memory. The
# execution's id is derived from key and body, so the ledger can find it when this process cannot.

MAX_REMEMBERED: Final = 2000
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_ID_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _KeyedStart:
    """A start that was sent with a key."""

    execution_id: str
    answer: asyncio.Future[ApiResponse | ForwardedResponse]


class IdempotentStarts:
    """The starts of all tenants that had a key; the oldest answers make room, and are in the ledger then."""

    def __init__(self, executions: ApiExecutions, settings: Settings) -> None:
        self._executions = executions
        self._secret = settings.token_key
        self._max_bytes = settings.remembered_bytes
        self._starts: dict[tuple[str, str], _KeyedStart] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        """Bytes of those that are answered, the oldest first."""
        self._bytes = 0

    async def start(
        self, start: StartRequest, key: str | None, request: ForwardedRequest
    ) -> ApiResponse | ForwardedResponse:
        """Start an execution, unless the same request did before, here or at another replica.

        Raises:
            Refusal: 400 for a key that is none, 422 for one that came with another body.
        """
        if key is None:
            return await self._executions.start(start)
        start = self.with_execution_id(start, key, request)
        keyed_start = self._starts.get((start.tenant, key))
        if keyed_start is None:
            return await self._start_first(start, key, request)
        if not hmac.compare_digest(keyed_start.execution_id, start.execution_id):
            raise Refusal(422, f"Idempotency-Key {key[:80]!r} was sent with another request; take a new key")
        return await asyncio.shield(keyed_start.answer)

    def with_execution_id(self, start: StartRequest, key: str, request: ForwardedRequest) -> StartRequest:
        """The same start with the id that the execution of this key has, whoever takes it.

        Raises:
            Refusal: 400 for a key that is none.
        """
        if not _KEY.fullmatch(key):
            raise Refusal(400, "Idempotency-Key must be 1 to 255 visible ASCII characters; send such a key, or none")
        # Signed, so that no tenant can name the execution of another.
        whole = msgspec.json.encode([start.tenant, key, request.path, hashlib.sha256(request.body).hexdigest()])
        return replace(start, execution_id=hmac.digest(self._secret, whole, "sha256")[:_ID_BYTES].hex())

    async def _start_first(
        self, start: StartRequest, key: str, request: ForwardedRequest
    ) -> ApiResponse | ForwardedResponse:
        keyed_start = _KeyedStart(start.execution_id, asyncio.get_running_loop().create_future())
        self._starts[start.tenant, key] = keyed_start
        try:
            answer = await self._executions.start_once(start, request)
        except BaseException as error:
            # Turned away, so nothing is to be remembered: the key may be sent again.
            self._starts.pop((start.tenant, key), None)
            keyed_start.answer.set_exception(
                error if isinstance(error, Exception) else Refusal(503, "the server stops")
            )
            keyed_start.answer.exception()  # nobody has to ask for it
            raise
        keyed_start.answer.set_result(answer)
        if isinstance(answer, ForwardedResponse):
            self._starts.pop((start.tenant, key), None)  # it is remembered where it was made
        else:
            self._remember((start.tenant, key), answer)
        return answer

    def _remember(self, key: tuple[str, str], answer: ApiResponse) -> None:
        self._sizes[key] = len(msgspec.json.encode(answer.body))
        self._bytes += self._sizes[key]
        while len(self._sizes) > MAX_REMEMBERED or self._bytes > self._max_bytes:
            oldest = next(iter(self._sizes))
            self._bytes -= self._sizes.pop(oldest)
            del self._starts[oldest]
