"""Executions as clients see them: start, continue and cancel, here or at the replica that holds them.

A request for an execution that another replica holds is forwarded there. If no replica holds it, it is
brought back from its record. If it moves in the meantime, the search begins again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from toolfold.doors.http import answers
from toolfold.doors.http.answers import Answer
from toolfold.doors.http.continuation import continuation_of
from toolfold.doors.http.files import SessionFiles, key_of
from toolfold.doors.http.forwarded import ForwardedRequest, Passed
from toolfold.doors.http.gate import Gate
from toolfold.doors.http.held import Held, Said, Start
from toolfold.doors.http.holding import Holding
from toolfold.doors.http.metrics import Metrics
from toolfold.doors.http.peers import Alone, Moved, Peers
from toolfold.doors.http.records import ended_before
from toolfold.doors.http.refusals import (
    EXPIRED,
    HOST_FAILURES,
    TIMED_OUT,
    Refusal,
    changes_hands,
    cut_off,
    put_off,
)
from toolfold.doors.http.results import refuse_large
from toolfold.doors.http.rounds import Rounds
from toolfold.doors.http.settings import Settings
from toolfold.doors.http.steps import Steps
from toolfold.doors.http.wire import ApprovalDecision, ToolResult
from toolfold.errors import Fenced, LedgerFailed, ToolfoldError
from toolfold.models import Limits
from toolfold.runtime import Runtime

_T = TypeVar("_T")
_TRIES: Final = 10
"""To find the replica that holds an execution while it moves."""


class Executions:
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
        self._peers: Peers = peers if peers is not None else Alone()
        self._is_stopping = False
        self._files = SessionFiles(runtime.sessions)
        self._holding = Holding(runtime, gate=gate, metrics=metrics, peers=self._peers, clock=clock)
        self._steps = Steps(runtime, self._holding, limits=limits, gate=gate, metrics=metrics, clock=clock)
        self._rounds = Rounds(
            runtime, self._holding, self._steps, settings, metrics=metrics, clock=clock, has_peers=self._peers.are_there
        )

    # starts

    async def start(self, start: Start) -> Answer:
        """Run a program to its end or its first pause."""
        self._gate.start(start.tenant)
        given = await asyncio.to_thread(self._files.given, start.tenant, start.session, start.files)
        held = Held(
            execution_id=start.execution_id or secrets.token_hex(8),
            tenant=start.tenant,
            session=start.session,
            deadline=self._clock() + self._rounds.longest_seconds(start, start.timeout_seconds),
            state="starting",
        )
        self._holding.requests.add(held, start.request_id)
        try:
            step = await self._steps.begin(held, start, given)
        except TimeoutError:
            self._holding.end(held, "timeout")
            return answers.failed(TIMED_OUT, status=408, session=start.session, known_error="Time limit exceeded")
        except Fenced as error:
            if self._is_stopping:
                raise await self._failed_start(held, start, error) from error
            raise
        except HOST_FAILURES as error:
            self._holding.end(held, "broken")
            raise await self._failed_start(held, start, error) from error
        if step is None:
            return await self._rounds.cancelled(held)
        answer = await self._rounds.answer(held, step)
        if held.is_paused:
            held.last = Said(0, b"", answer) if start.execution_id else None
            self._holding.hold(held)
        return answer

    async def _failed_start(self, held: Held, start: Start, error: Exception) -> Refusal:
        if start.execution_id:
            return put_off(error)
        with suppress(LedgerFailed):
            await self._runtime.end_recorded(held.execution_id)  # nobody has a token for it
        called = error.started if isinstance(error, ToolfoldError) else ()
        return cut_off(error, started=not {spec.name for spec in start.tools}.issuperset(called))

    async def start_once(self, start: Start, request: ForwardedRequest) -> Answer | Passed:
        """Start an execution with a fixed id, or return the answer to its earlier start."""

        async def attempt() -> Answer | Passed:
            if not await self._peers.claim(start.execution_id):
                passed = await self._peers.pass_on(start.execution_id, request)
                if passed is None:
                    raise Moved  # the other replica gave it up in the meantime
                return passed
            return await self._rounds.start_again(start) or await self.start(start)

        try:
            return await self._while_it_moves(attempt)
        finally:
            self._peers.unclaim(start.execution_id)

    async def claim(self, execution_id: str) -> None:
        """Have other replicas look for an execution here, although it is not on record yet; until `unclaim`."""
        with suppress(LedgerFailed):  # which its start is told, too, and answers for
            await self._peers.claim(execution_id)

    def unclaim(self, execution_id: str) -> None:
        """It has begun, or never will."""
        self._peers.unclaim(execution_id)

    async def take_up(self, execution_id: str) -> Answer | None:
        """Go on with an execution that is on record, to its next answer; `None` if another replica holds it.

        Raises:
            Refusal: It is on record no more.
        """

        async def attempt() -> Answer | None:
            recorded = await self._runtime.recorded(execution_id)
            if recorded is None:
                raise Refusal(400, EXPIRED)
            if recorded.outcome is not None:
                begun = recorded.begun
                return ended_before(recorded.outcome, begun.session.removeprefix(key_of(begun.tenant, "")))
            if not await self._peers.claim(execution_id):
                return None
            return await self._rounds.take_up(execution_id, recorded)

        try:
            return await self._while_it_moves(attempt)
        finally:
            self._peers.unclaim(execution_id)

    async def pass_on(self, execution_id: str, request: ForwardedRequest) -> Passed | None:
        """What the replica says that holds an execution; `None` if no other does."""
        return await self._peers.pass_on(execution_id, request)

    # continuations

    async def go_on(
        self, text: str, results: Sequence[ToolResult], *, decisions: Sequence[ApprovalDecision] = (), tenant: str,
        session: str | None = None, body_bytes: int = 0, request: ForwardedRequest | None = None,
    ) -> Answer | Passed:  # fmt: skip
        """Answer or decide on calls of a paused execution and run it to its end or its next pause."""
        token = self._rounds.read(text, tenant, session)
        if body_bytes > self._reply_bytes:
            refuse_large(results, self._reply_bytes)
        sent = continuation_of(token, results, decisions, request.request_id if request is not None else "")

        async def attempt() -> Answer | Passed:
            held = self._holding.get(token.execution_id)
            if request is not None and (held is None or not held.is_known):
                passed = await self._peers.pass_on(token.execution_id, request)
                if passed is not None:
                    self._metrics.add("forwarded")
                    return passed
            return await self._rounds.go_on(sent)

        return await self._while_it_moves(attempt)

    async def _while_it_moves(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Try again while another replica has the execution now, or just had it."""
        for _ in range(_TRIES):
            try:
                return await attempt()
            except Moved:
                continue
            except Fenced as error:
                if self._is_stopping:
                    raise put_off(error) from error
                if not self._peers.are_there:
                    raise
            except HOST_FAILURES as error:
                raise put_off(error) from error
        raise changes_hands()

    # cancels

    def id_of(self, token: str, tenant: str) -> str:
        """Of the execution that a token of this tenant continues."""
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
            held = self._holding.requests.find(tenant, request_id) or self._holding.get(execution_id)
            if held is None and execution_id in self._runtime.executions:
                await self._runtime.cancel(execution_id)  # in its first step: whoever waits for that is told
                return
            if held is None or not (held.is_known or held.task):
                await self._cancel_elsewhere(held.execution_id if held is not None else execution_id, request)
                return
            try:
                await self._cancel_here(held)
            except Fenced:
                await self._holding.lose(held)
            else:
                return

    async def _cancel_here(self, held: Held) -> None:
        if not held.is_known:
            self._holding.move(held, "cancel")
        if held.is_paused:
            self._holding.end(held, "cancelled")
        if held.state != "starting":
            await self._runtime.cancel(held.execution_id)
        elif held.task is not None:
            held.task.cancel()
        else:
            self._holding.move(held, "end")  # it waits for its turn, and looks at its state then

    async def _cancel_elsewhere(self, execution_id: str, request: ForwardedRequest | None) -> None:
        if request is not None:
            if not execution_id:
                await self._peers.tell_others(request)
            elif await self._peers.pass_on(execution_id, request) is not None:
                return
        if execution_id:
            await self._runtime.end_recorded(execution_id)

    # the server

    async def lose(self, execution_id: str) -> None:
        """Another replica has this execution: end its guest here."""
        held = self._holding.get(execution_id)
        if held is None or held.lock.locked():
            await self._runtime.abandon(execution_id)  # the request that waits for it gets `Fenced`
        else:
            await self._holding.lose(held)

    async def drain(self) -> None:
        """Hand paused executions over to the other replicas, now and from now on."""
        await self._holding.drain()

    def suspend(self) -> None:
        """Stop what runs, because the server does not wait any longer; others can continue from the ledger."""
        self._is_stopping = True
        self._steps.suspend()

    async def close(self) -> None:
        """Stop the clocks; what is paused stays in the ledger for the next process."""
        await self._holding.close()
