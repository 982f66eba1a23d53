"""Executions that their clients wait for later: `Prefer: respond-async`, and then `GET /executions/{id}?wait=`.

1. What runs belongs to no request: a client that leaves, or waits in vain, changes nothing about it.
2. Answers are remembered for a while; an execution that is not remembered is on record, and goes on from there.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from fastapi import Request, Response
from starlette.responses import StreamingResponse

from toolfold.execution.history import RecordedExecution
from toolfold.execution.output import Part, Place, output_of
from toolfold.interfaces.http.executions import Executions
from toolfold.interfaces.http.files import ended_before, key_of
from toolfold.interfaces.http.render import CANCELLED, Answer, Refusal, accepted, changes_hands, put_off
from toolfold.interfaces.http.requests import ForwardedRequest, Passed
from toolfold.interfaces.http.responses import Responses, json_response
from toolfold.ledger.base import Ledger, suspended_error
from toolfold.runtime import Runtime

MOST_REMEMBERED: Final = 200
_LOOK_SECONDS: Final = 0.2
_TRIES: Final = 10
_ASYNC: Final = re.compile(r"(^|[,;\s])respond-async($|[,;\s])", re.IGNORECASE)
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,6})($|[,;\s])", re.IGNORECASE)
_ID: Final = re.compile(r"[0-9a-f]{16,64}")
_PLACE: Final = re.compile(r"(\d{1,9}),(\d{1,9})")


@dataclass(frozen=True, slots=True)
class _Started:
    tenant: str
    session: str
    answer: asyncio.Task[Answer | Passed | None]

    @property
    def is_paused(self) -> bool:
        """Whether it has answered, and waits for its client."""
        task = self.answer
        if not task.done() or task.cancelled() or task.exception() is not None:
            return False
        answer = task.result()
        return isinstance(answer, Answer) and "continuation_token" in answer.body


def preferred_wait(request: Request) -> float | None:
    """How long a request that may be answered with 202 waits for better; `None` for one that may not."""
    prefers = request.headers.get("prefer", "")
    if not _ASYNC.search(prefers):
        return None
    found = _WAIT.search(prefers)
    return float(found[1]) if found is not None else 0.0


class Waits:
    """The executions of this process that somebody may wait for, with their routes.

    Args:
        most_seconds: That one request may wait.
        received: A request as it can be forwarded, and whose it is.
    """

    def __init__(
        self, runtime: Runtime, ledger: Ledger, executions: Executions, responses: Responses, *, most_seconds: float,
        received: Callable[[Request], Coroutine[Any, Any, ForwardedRequest]],
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._ledger = ledger
        self._executions = executions
        self._responses = responses
        self._most_seconds = most_seconds
        self._received = received
        self._started: dict[str, _Started] = {}
        self._is_closed = False

    async def run(
        self, execution_id: str, tenant: str, session: str, work: Coroutine[Any, Any, Answer | Passed], wait: float
    ) -> Answer | Passed:
        """Begin, and wait for the answer for a while."""
        answer = await self._answer(execution_id, self._add(execution_id, tenant, session, work), wait)
        assert answer is not None, "a start has an answer"
        return answer

    def forget(self, execution_id: str) -> None:
        """Its last answer is about to be out of date; an execution that is not remembered is looked for on record."""
        if (started := self._started.get(execution_id)) is not None and started.answer.done():
            del self._started[execution_id]

    async def close(self) -> None:
        """The server stops; what runs has been suspended."""
        self._is_closed = True
        left = [one.answer for one in self._started.values() if not one.answer.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    # routes

    async def get(self, request: Request, execution_id: str) -> Response:
        """The answer that the execution has by now, or 202 when the time to wait is over."""
        received = await self._received(request)
        wait = self._seconds(request.query_params.get("wait", "0"))
        for _ in range(_TRIES):
            started = self._known(execution_id, received.tenant)
            if started is None:
                found = await self._elsewhere(execution_id, received)
                if not isinstance(found, RecordedExecution):
                    return self._responses.respond(request, found)
                work = self._executions.take_up(execution_id)
                started = self._add(execution_id, received.tenant, _session(found), work)
            answer = await self._answer(execution_id, started, wait)
            if answer is not None:
                return self._responses.respond(request, answer)
            self.forget(execution_id)  # another replica was quicker: ask that
        raise changes_hands()

    async def _elsewhere(self, execution_id: str, received: ForwardedRequest) -> Answer | Passed | RecordedExecution:
        """The answer of the record, or of the replica that holds it; else what there is to go on with."""
        recorded = await self._runtime.recorded(execution_id)
        # Another tenant's is as unknown as one that never was.
        if recorded is not None and recorded.start_record.tenant != received.tenant:
            raise _unknown(execution_id)
        if recorded is not None and recorded.outcome is not None:
            return ended_before(recorded.outcome, _session(recorded))
        passed = await self._executions.pass_on(execution_id, received)  # also where it is not on record yet
        if passed is None and recorded is None:
            raise _unknown(execution_id)
        return passed or recorded  # type: ignore[return-value]  # one of them is there

    async def output(self, request: Request, execution_id: str) -> Response:
        """What the program prints, as server-sent events, from the beginning or from `Last-Event-ID` on."""
        tenant = (await self._received(request)).tenant
        said = request.headers.get("last-event-id", "0,0")
        found = _PLACE.fullmatch(said)
        if found is None:
            raise Refusal(400, f"Last-Event-ID is {said[:40]!r}; send the id of an event, or none", is_contract=False)
        started = self._known(execution_id, tenant)
        recorded = await self._recorded(execution_id, tenant) if started is None else None
        events = self._events(execution_id, Place(int(found[1]), int(found[2])), started, recorded)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def delete(self, request: Request, execution_id: str) -> Response:
        """End the program; also where it has ended."""
        received = await self._received(request)
        started = self._known(execution_id, received.tenant)
        if started is None:
            found = await self._elsewhere(execution_id, received)
            if isinstance(found, Passed):
                return self._responses.respond(request, found)
        if execution_id in self._runtime.executions:
            await self._executions.cancel(received.tenant, execution_id=execution_id)
        elif started is None:
            await self._executions.cancel(received.tenant, execution_id=execution_id, request=received)
        elif not started.answer.done():
            started.answer.cancel()  # it waits for its turn, and nothing of it has run
        return json_response(202, {"status": "cancellation_requested"})

    # what is known

    def _known(self, execution_id: str, tenant: str) -> _Started | None:
        found = self._started.get(execution_id)
        if not _ID.fullmatch(execution_id) or (found is not None and found.tenant != tenant):
            raise _unknown(execution_id)
        if found is not None and found.is_paused and execution_id not in self._runtime.executions:
            return None  # it has been ended, or is elsewhere: its record knows
        return found

    async def _recorded(self, execution_id: str, tenant: str) -> RecordedExecution:
        recorded = await self._runtime.recorded(execution_id)
        # Another tenant's is as unknown as one that never was.
        if recorded is None or recorded.start_record.tenant != tenant:
            raise _unknown(execution_id)
        return recorded

    def _add(
        self, execution_id: str, tenant: str, session: str, work: Coroutine[Any, Any, Answer | Passed | None]
    ) -> _Started:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody has to ask for it
        self._started.pop(execution_id, None)
        started = self._started[execution_id] = _Started(tenant, session, task)
        done = [key for key, one in self._started.items() if one.answer.done()]
        for key in done[: max(0, len(done) - MOST_REMEMBERED)]:
            del self._started[key]
        return started

    async def _answer(self, execution_id: str, started: _Started, wait: float) -> Answer | Passed | None:
        task = started.answer
        await asyncio.wait([task], timeout=min(wait, self._most_seconds))
        if task.cancelled():
            raise put_off(suspended_error(execution_id)) if self._is_closed else Refusal(400, CANCELLED)
        return task.result() if task.done() else accepted(execution_id, session=started.session)

    def _seconds(self, text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= self._most_seconds:
            shown = f"wait is {text[:40]!r}; give 0 to {self._most_seconds:g} seconds"
            raise Refusal(400, shown, is_contract=False)
        return seconds

    # output

    async def _events(
        self, execution_id: str, place: Place, started: _Started | None, recorded: RecordedExecution | None
    ) -> AsyncIterator[bytes]:
        while started is not None:
            async for part in self._runtime.output(execution_id, place):
                place = part.place
                yield _event(part)
            if started.answer.done():
                break
            # It waits for its turn, or goes on in a moment.
            await asyncio.wait([started.answer], timeout=_LOOK_SECONDS)
        if started is None and recorded is not None and recorded.outcome is None:
            async for part in output_of(self._ledger, execution_id, place):
                place = part.place
                yield _event(part)
            recorded = None
        recorded = recorded or await self._runtime.recorded(execution_id)
        outcome = recorded.outcome if recorded is not None else None
        if outcome is not None:
            for stream, text, at in (
                ("stdout", outcome.stdout, place.stdout), ("stderr", outcome.stderr, place.stderr)
            ):  # fmt: skip
                if rest := text[at:]:
                    yield _sent(stream, rest, f"{len(outcome.stdout)},{len(outcome.stderr)}")
        status = "" if outcome is None else outcome.status
        yield _sent("end", status or "paused", f"{place.stdout},{place.stderr}")


def _session(recorded: RecordedExecution) -> str:
    begun = recorded.start_record
    return begun.session.removeprefix(key_of(begun.tenant, ""))


def _unknown(execution_id: str) -> Refusal:
    return Refusal(404, f"no execution {execution_id[:64]!r}; it may be too old", is_contract=False)


def _event(part: Part) -> bytes:
    return _sent(part.stream, part.text, f"{part.place.stdout},{part.place.stderr}")


def _sent(kind: str, text: str, place: str) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (place.encode(), kind.encode(), msgspec.json.encode(text))
