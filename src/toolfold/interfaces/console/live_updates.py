"""Live executions in all processes that share the ledger, and the event streams that report them.

It knows the executions that have not ended, and what waits for a person; the ledger knows the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
from fastapi import Query, Request, Response

from toolfold.errors import ToolfoldError
from toolfold.interfaces.console import json_shapes
from toolfold.interfaces.console.access import Access, Viewer, require_visible
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.body_reader import admit_follower, require_media_type
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.responses import stream_response
from toolfold.ledger.base import (
    CallEntry,
    DecisionEntry,
    ExecutionFilter,
    Ledger,
    LedgerChange,
    Moment,
    ReplyEntry,
    StartRecord,
    Story,
    first_line,
)
from toolfold.ledger.execution_summaries import NAMES
from toolfold.ledger.sqlite.word_index import WordIndex
from toolfold.models import MIB, Json, Prices
from toolfold.runtime import Runtime

_log: Final = logging.getLogger(__name__)
_MOST_OPEN: Final = 2000
_MOST_BARS: Final = 48
_GATHER_SECONDS: Final = 0.03
_AGAIN_SECONDS: Final = 1.0
_CUT_OFF_SECONDS: Final = 3600.0
"""An execution without a word for so long, and without a question, runs in no process any more."""


@dataclass(slots=True)
class LiveExecution:
    """An execution that has not ended."""

    start_record: StartRecord
    state: str = "running"
    epoch: int = 0
    place: int = 0
    calls: int = 0
    failed: int = 0
    open: dict[int, float] = field(default_factory=dict)
    """Calls without a reply, and when they were made."""
    bars: list[tuple[float, float, int]] = field(default_factory=list)
    """Start, seconds, and 1 for a failure, of the last calls."""
    questions: dict[int, Moment] = field(default_factory=dict)

    def take(self, story: Story) -> None:
        self.state, self.epoch, self.place = story.state, story.epoch, story.place
        for entry in story.entries:
            match entry:
                case CallEntry():
                    self.calls = max(self.calls, entry.call.id)
                    self.open[entry.call.id] = entry.at
                case ReplyEntry():
                    record = entry.record
                    self.open.pop(record.id, None)
                    self.questions.pop(record.id, None)
                    self.failed += record.error is not None
                    self.bars.append((record.started_seconds, record.seconds, int(record.error is not None)))
                case DecisionEntry():
                    self.questions.pop(entry.call_id, None)
                case Moment(kind="asked"):
                    self.calls = max(self.calls, entry.call_id)
                    self.questions[entry.call_id] = entry
        del self.bars[:-_MOST_BARS]

    def row(self) -> dict[str, Json]:
        start = self.start_record
        return {
            "execution_id": start.execution_id, "state": self.state, "status": "", "began_at": start.began_at,
            "seconds": time.time() - start.began_at, "calls": self.calls,
            "first_line": first_line(start.program.sent_text),
            "session": start.session, "tenant": start.tenant, "interface": start.interface, "failed": self.failed,
            "saved_bytes": 0, "lanes": [], "bars": self.bars, "open": sorted(self.open.values()),
            **{name: getattr(start, name) for name in NAMES},
            "asking": sorted(question.at for question in self.questions.values()), "waiting": len(self.questions),
        }  # fmt: skip


def word_index_of(ledger: Ledger) -> WordIndex | None:
    """The index of all words in a ledger; only a file that is not sealed has one."""
    open_index = getattr(ledger, "word_index", None)
    return None if open_index is None else open_index()


class LedgerWatcher:
    """Follows a ledger while anyone is watching, and tells the watchers what changed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.live: dict[str, LiveExecution] = {}
        self._readers: dict[asyncio.Queue[str], str] = {}
        """Those who are told, and of which execution; empty: of all."""
        self._task: asyncio.Task[None] | None = None
        self._is_ready = asyncio.Event()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def begin(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._work())
            if (index := word_index_of(self._ledger)) is not None:
                index.begin()

    async def ready(self) -> None:
        """Wait until the executions that are open now are known."""
        self.begin()
        await self._is_ready.wait()

    @asynccontextmanager
    async def changes(self, of: str = "") -> AsyncIterator[asyncio.Queue[str]]:
        """Ids of executions about which something was written; empty: read all anew.

        Who asks for those `of` one execution is told as soon as they are written, the others once `live` has them.
        """
        await self.ready()
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._readers[queue] = of
        try:
            yield queue
        finally:
            del self._readers[queue]

    def waiting(self, tenant: str | None) -> Iterator[tuple[LiveExecution, Moment]]:
        """Calls that wait for a person, the oldest first."""
        pairs = [
            (live, question)
            for live in self.live.values()
            if tenant is None or live.start_record.tenant == tenant
            for question in live.questions.values()
        ]
        return iter(sorted(pairs, key=lambda pair: pair[0].start_record.began_at + pair[1].at))

    async def _work(self) -> None:
        cursor: str | None = None
        while True:
            try:
                async for next_cursor in self._follow(cursor):
                    cursor = next_cursor
                return
            except ToolfoldError as error:
                _log.warning("the console cannot read its ledger and tries again: %s", error)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _follow(self, cursor: str | None) -> AsyncIterator[str]:
        # Any: an async generator, which the contract calls an iterator.
        changes: Any = self._ledger.follow(cursor)
        coming = asyncio.ensure_future(anext(changes))
        try:
            while True:
                fresh = {self._notify_readers(await coming)}
                cursor = coming.result().cursor
                coming = asyncio.ensure_future(anext(changes))
                deadline = time.monotonic() + _GATHER_SECONDS
                while (remaining_seconds := deadline - time.monotonic()) > 0:
                    done, _ = await asyncio.wait([coming], timeout=remaining_seconds)
                    if not done:
                        break
                    fresh.add(self._notify_readers(coming.result()))
                    cursor = coming.result().cursor
                    coming = asyncio.ensure_future(anext(changes))
                if "" in fresh:
                    await self._read_all()
                else:
                    await asyncio.gather(*map(self._read, fresh))
                yield cursor
        except StopAsyncIteration:
            return  # the ledger was closed
        finally:
            coming.cancel()
            with contextlib.suppress(BaseException):
                await coming
            await changes.aclose()

    def _notify_readers(self, change: LedgerChange) -> str:
        for queue, of in self._readers.items():
            if of == change.execution_id and queue.empty():
                queue.put_nowait(of)
        return change.execution_id

    async def _read_all(self) -> None:
        self.live.clear()
        for state in ("running", "paused"):
            for summary in await self._ledger.search(ExecutionFilter(state=state), limit=_MOST_OPEN):
                await self._read(summary.execution_id, is_news=False)
        for execution_id, live in tuple(self.live.items()):
            # One whose process was killed stays open on record; it is not shown as if it ran.
            if (
                not live.questions
                and time.time() - live.start_record.began_at > _CUT_OFF_SECONDS + live.start_record.limits.wall_seconds
            ):
                del self.live[execution_id]
        self._is_ready.set()
        self._tell("")

    async def _read(self, execution_id: str, *, is_news: bool = True) -> None:
        live = self.live.get(execution_id)
        if live is None:
            history = await self._ledger.load(execution_id)
            if history is None:
                return
            live = LiveExecution(history.start_record)
            if history.state != "ended":
                self.live[execution_id] = live
        story = await self._ledger.story(execution_id, after=live.place)
        if story is None or story.state == "ended":
            self.live.pop(execution_id, None)
        else:
            live.take(story)
        if is_news:
            self._tell(execution_id)

    def _tell(self, execution_id: str) -> None:
        for queue, of in self._readers.items():
            if queue.qsize() < _MOST_OPEN and (not of or not execution_id):
                queue.put_nowait(execution_id)


# ----------------------------------------------------------------------------------------------------
# What happens, as server-sent events: of one execution, and of all. A client that comes back goes on where it was.

_BEAT_SECONDS: Final = 10.0
_STREAM_GATHER_SECONDS: Final = 0.02
_AGAIN_MILLISECONDS: Final = 500
_MEDIA_TYPE: Final = "text/event-stream"
_encode: Final = msgspec.json.Encoder().encode


MOST_BODY_BYTES: Final = 2 * MIB


# Any: a body of any shape.
async def read_body(request: Request, shape: type[Any]) -> Any:
    require_media_type(request, "application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise Refusal(413, f"the body is larger than {MOST_BODY_BYTES} bytes")
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(400, f"invalid request body: {error}") from error


@dataclass(eq=False)
class Routes:
    """The data that all routes of the console work on."""

    _ledger: Ledger
    _watch: LedgerWatcher
    _runtime: Runtime
    _access: Access
    _gate: Gate
    _is_hidden: bool
    _price_table: Mapping[str, Prices]

    def _figures(self, viewer: Viewer) -> dict[str, int]:
        live = [
            execution
            for execution in self._watch.live.values()
            if viewer.tenant in (None, execution.start_record.tenant)
        ]
        return {
            "running": sum(execution.state == "running" for execution in live),
            "paused": sum(execution.state == "paused" for execution in live),
            "waiting": sum(len(execution.questions) for execution in live),
        }


class EventStreams(Routes):
    """The routes that do not end."""

    async def of_execution(
        self, request: Request, execution_id: str, after: Annotated[int, Query(ge=0, lt=10**9)] = 0
    ) -> Response:
        """The events of one execution, as they are written; `Last-Event-ID` or `after` say where to go on.

        Each message has events and the state; the last one has the outcome, and the stream ends.
        """
        viewer = await self._access.viewer(request)
        require_visible(viewer, await self._ledger.load(execution_id), execution_id)
        admit_follower(request)
        last_event_id = request.headers.get("last-event-id", "")
        is_place = last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10
        return stream_response(self._events(execution_id, int(last_event_id) if is_place else after), _MEDIA_TYPE)

    async def of_all(self, request: Request) -> Response:
        """A message for each execution about which something was written, with its row; no body: read all anew."""
        viewer = await self._access.viewer(request)
        admit_follower(request)
        return stream_response(self._rows(viewer), _MEDIA_TYPE)

    async def _events(self, execution_id: str, place: int) -> AsyncIterator[bytes]:
        async with self._watch.changes(execution_id) as changes:
            last_state = ""
            while True:
                story = await self._ledger.story(execution_id, after=place)
                if story is None:
                    return
                place = story.place
                if story.entries or story.state != last_state:
                    last_state = story.state
                    events = json_shapes.of_entries(story.entries, hidden=self._is_hidden)
                    outcome = story.outcome and json_shapes.of_outcome(story.outcome, hidden=self._is_hidden)
                    body = {"events": events, "state": story.state, "epoch": story.epoch, "outcome": outcome}
                    yield _message(body, id=str(place))
                if story.state == "ended":
                    return
                async for beat in _wait_with_heartbeats(changes, set()):
                    yield beat
                await asyncio.sleep(_STREAM_GATHER_SECONDS)
                while not changes.empty():
                    changes.get_nowait()

    async def _rows(self, viewer: Viewer) -> AsyncIterator[bytes]:
        async with self._watch.changes() as changes:
            yield _message({"all": True, **self._figures(viewer)})
            while True:
                fresh: set[str] = set()
                async for beat in _wait_with_heartbeats(changes, fresh):
                    yield beat
                rows = [await self._row(execution_id, viewer) for execution_id in fresh if execution_id]
                body = {"rows": [row for row in rows if row is not None], "all": "" in fresh}
                yield _message({**body, **self._figures(viewer)})

    async def _row(self, execution_id: str, viewer: Viewer) -> dict[str, Json] | None:
        live = self._watch.live.get(execution_id)
        if live is not None:
            row = live.row() if viewer.tenant in (None, live.start_record.tenant) else None
        else:
            summaries = await self._ledger.search(ExecutionFilter(tenant=viewer.tenant, id=execution_id), limit=1)
            row = json_shapes.of_summary(summaries[0]) if summaries else None
        return None if row is None else json_shapes.without_arguments(row, hidden=self._is_hidden)


async def _wait_with_heartbeats(changes: asyncio.Queue[str], fresh: set[str]) -> AsyncIterator[bytes]:
    """Wait for changes and take all of them, with a heartbeat now and then."""
    while not fresh:
        try:
            # Not `wait_for`: in Python 3.11 that goes on after a cancellation that comes together with news.
            async with asyncio.timeout(_BEAT_SECONDS):
                fresh.add(await changes.get())
        except TimeoutError:
            yield b": still here\n\n"
    while not changes.empty():
        fresh.add(changes.get_nowait())


def _message(body: dict[str, Json], *, id: str = "") -> bytes:
    head = f"id: {id}\n".encode() if id else b""
    return b"retry: %d\n%sdata: %s\n\n" % (_AGAIN_MILLISECONDS, head, _encode(body))
