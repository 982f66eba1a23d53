"""Asynchronous executions: `Prefer: respond-async`, then `GET /executions/{id}?wait=` and its output.

1. What runs belongs to no request: a client that leaves, or waits in vain, changes nothing about it.
2. Answers are remembered for a while; an execution that is not remembered is on record, and goes on from there.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Coroutine
from typing import Final, TypeAlias

import msgspec
from fastapi import Request, Response

from toolfold.execution.program_output import Part, Place, output_of
from toolfold.execution.recorded_history import RecordedExecution
from toolfold.interfaces.http.executions import AnyResponse, ApiExecutions
from toolfold.interfaces.http.file_routes import recorded_response, session_of
from toolfold.interfaces.http.outcome_bodies import (
    CANCELLED,
    ApiResponse,
    Refusal,
    accepted_response,
    handover_refusal,
    retryable_refusal,
)
from toolfold.interfaces.http.request_models import ForwardedRequest, ForwardedResponse
from toolfold.interfaces.http.responses import Responses, json_response, stream_response
from toolfold.interfaces.http.settings import HttpContext
from toolfold.ledger.base import suspended_error
from toolfold.service.answer_memory import AnswerTask, AnswerTasks

MOST_REMEMBERED: Final = 200
_LOOK_SECONDS: Final = 0.2
_TRIES: Final = 10
_ASYNC: Final = re.compile(r"(^|[,;\s])respond-async($|[,;\s])", re.IGNORECASE)
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,6})($|[,;\s])", re.IGNORECASE)
_ID: Final = re.compile(r"[0-9a-f]{16,64}")
_PLACE: Final = re.compile(r"(\d{1,9}),(\d{1,9})")


_Task: TypeAlias = AnswerTask[AnyResponse | None]


def preferred_wait(request: Request) -> float | None:
    """Seconds after which a request may be answered with 202; `None` if it may not."""
    prefers = request.headers.get("prefer", "")
    if not _ASYNC.search(prefers):
        return None
    match = _WAIT.search(prefers)
    return float(match[1]) if match is not None else 0.0


class AsyncExecutions:
    """The executions of this process that somebody may wait for, with their routes."""

    def __init__(self, context: HttpContext, executions: ApiExecutions, responses: Responses) -> None:
        self._runtime = context.runtime
        self._ledger = context.ledger
        self._executions = executions
        self._responses = responses
        self._most_seconds = context.settings.max_timeout_seconds
        self._received = context.reader.received
        self._tasks: AnswerTasks[AnyResponse | None] = AnswerTasks(MOST_REMEMBERED)
        self._is_closed = False

    async def run(
        self, execution_id: str, tenant: str, session: str, work: Coroutine[object, None, AnyResponse], wait: float
    ) -> AnyResponse:
        """Begin, and wait for the answer for a while."""
        answer = await self._answer(execution_id, self._tasks.begin(execution_id, tenant, session, work), wait)
        assert answer is not None, "a start has an answer"
        return answer

    def forget(self, execution_id: str) -> None:
        """Drop an answer that is about to be out of date; its execution is looked for on record then."""
        self._tasks.forget(execution_id)

    async def close(self) -> None:
        """The server stops; what runs has been suspended."""
        self._is_closed = True
        await self._tasks.close()

    # Routes.

    async def get(self, request: Request, execution_id: str) -> Response:
        """The answer that the execution has by now, or 202 when the time to wait is over."""
        received = await self._received(request)
        wait = self._seconds(request.query_params.get("wait", "0"))
        for _ in range(_TRIES):
            task = self._find(execution_id, received.tenant)
            if task is None:
                result = await self._find_elsewhere(execution_id, received)
                if not isinstance(result, RecordedExecution):
                    return self._responses.respond(request, result)
                work = self._executions.resume_recorded(execution_id)
                task = self._tasks.begin(execution_id, received.tenant, session_of(result), work)
            answer = await self._answer(execution_id, task, wait)
            if answer is not None:
                return self._responses.respond(request, answer)
            self.forget(execution_id)  # another replica was quicker: ask that
        raise handover_refusal()

    async def _find_elsewhere(self, execution_id: str, received: ForwardedRequest) -> AnyResponse | RecordedExecution:
        """The answer of the record, or of the replica that holds it; else what there is to go on with."""
        recorded = await self._recorded(execution_id, received.tenant)
        if recorded is not None and recorded.outcome is not None:
            return recorded_response(recorded.outcome, session_of(recorded))
        response = await self._executions.forward(execution_id, received)  # also where it is not on record yet
        if response is None and recorded is None:
            raise _unknown_execution(execution_id)
        return response or recorded  # type: ignore[return-value]  # one of them is there

    async def output(self, request: Request, execution_id: str) -> Response:
        """What the program prints, as server-sent events, from the beginning or from `Last-Event-ID` on."""
        tenant = (await self._received(request)).tenant
        last_event_id = request.headers.get("last-event-id", "0,0")
        match = _PLACE.fullmatch(last_event_id)
        if match is None:
            raise Refusal(
                400, f"Last-Event-ID is {last_event_id[:40]!r}; send the id of an event, or none", is_contract=False
            )
        task = self._find(execution_id, tenant)
        recorded = await self._recorded(execution_id, tenant) if task is None else None
        if task is None and recorded is None:
            raise _unknown_execution(execution_id)
        events = self._events(execution_id, Place(int(match[1]), int(match[2])), task, recorded)
        return stream_response(events, "text/event-stream")

    async def delete(self, request: Request, execution_id: str) -> Response:
        """End the program; also where it has ended."""
        received = await self._received(request)
        task = self._find(execution_id, received.tenant)
        if task is None:
            result = await self._find_elsewhere(execution_id, received)
            if isinstance(result, ForwardedResponse):
                return self._responses.respond(request, result)
        if execution_id in self._runtime.executions.ids:
            await self._executions.cancel(tenant=received.tenant, execution_id=execution_id)
        elif task is None:
            await self._executions.cancel(received, tenant=received.tenant, execution_id=execution_id)
        elif not task.task.done():
            task.task.cancel()  # it waits for its turn, and nothing of it has run
        return json_response(202, {"status": "cancellation_requested"})

    # Executions that are known.

    def _find(self, execution_id: str, tenant: str) -> _Task | None:
        task = self._tasks.get(execution_id)
        if not _ID.fullmatch(execution_id) or (task is not None and task.tenant != tenant):
            raise _unknown_execution(execution_id)
        if task is not None and _is_pause(task.answer) and execution_id not in self._runtime.executions.ids:
            return None  # it has been ended, or is elsewhere: its record knows
        return task

    async def _recorded(self, execution_id: str, tenant: str) -> RecordedExecution | None:
        """Record of an execution; another tenant's is as unknown as one that never was."""
        recorded = await self._runtime.executions.recorded(execution_id)
        if recorded is not None and recorded.start_record.tenant != tenant:
            raise _unknown_execution(execution_id)
        return recorded

    async def _answer(self, execution_id: str, entry: _Task, wait: float) -> AnyResponse | None:
        await asyncio.wait([entry.task], timeout=min(wait, self._most_seconds))
        if entry.task.cancelled():
            raise retryable_refusal(suspended_error(execution_id)) if self._is_closed else Refusal(400, CANCELLED)
        return entry.task.result() if entry.task.done() else accepted_response(execution_id, session=entry.session)

    def _seconds(self, text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= self._most_seconds:
            message = f"wait is {text[:40]!r}; give 0 to {self._most_seconds:g} seconds"
            raise Refusal(400, message, is_contract=False)
        return seconds

    # Output.

    async def _events(
        self, execution_id: str, place: Place, entry: _Task | None, recorded: RecordedExecution | None
    ) -> AsyncIterator[bytes]:
        while entry is not None:
            async for part in self._runtime.executions.output(execution_id, place):
                place = part.place
                yield _event(part)
            if entry.task.done():
                break
            # It waits for its turn, or goes on in a moment.
            await asyncio.wait([entry.task], timeout=_LOOK_SECONDS)
        if entry is None and recorded is not None and recorded.outcome is None:
            async for part in output_of(self._ledger, execution_id, place):
                place = part.place
                yield _event(part)
            recorded = None
        recorded = recorded or await self._runtime.executions.recorded(execution_id)
        outcome = recorded.outcome if recorded is not None else None
        if outcome is not None:
            for stream, text, at in (
                ("stdout", outcome.stdout, place.stdout), ("stderr", outcome.stderr, place.stderr)
            ):  # fmt: skip
                if rest := text[at:]:
                    yield _format_event(stream, rest, f"{len(outcome.stdout)},{len(outcome.stderr)}")
        status = "" if outcome is None else outcome.status
        yield _format_event("end", status or "paused", f"{place.stdout},{place.stderr}")


def _is_pause(answer: AnyResponse | None) -> bool:
    return isinstance(answer, ApiResponse) and "continuation_token" in answer.body


def _unknown_execution(execution_id: str) -> Refusal:
    return Refusal(404, f"no execution {execution_id[:64]!r}; it may be too old", is_contract=False)


def _event(part: Part) -> bytes:
    return _format_event(part.stream, part.text, f"{part.place.stdout},{part.place.stderr}")


def _format_event(kind: str, text: str, place: str) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (place.encode(), kind.encode(), msgspec.json.encode(text))
