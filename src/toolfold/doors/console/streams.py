"""What happens, as server-sent events: of one execution, and of all. A client that comes back goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import msgspec
from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from toolfold.doors.console import shapes
from toolfold.doors.console.access import Access, Viewer, seen_by
from toolfold.doors.console.watch import Watch
from toolfold.interfaces.http.body import admit_follower
from toolfold.ledger.base import Filter, Ledger

_BEAT_SECONDS: Final = 10.0
_STREAM_GATHER_SECONDS: Final = 0.02
_AGAIN_MILLISECONDS: Final = 500
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_encode: Final = msgspec.json.Encoder().encode


class Streams:
    """The routes that do not end."""

    def __init__(self, ledger: Ledger, watch: Watch, access: Access, *, is_hidden: bool) -> None:
        self._ledger = ledger
        self._watch = watch
        self._access = access
        self._is_hidden = is_hidden

    async def of_execution(
        self, request: Request, execution_id: str, after: Annotated[int, Query(ge=0, lt=10**9)] = 0
    ) -> Response:
        """The events of one execution, as they are written; `Last-Event-ID` or `after` say where to go on.

        Each message has events and the state; the last one has the outcome, and the stream ends.
        """
        viewer = await self._access.viewer(request)
        seen_by(viewer, await self._ledger.load(execution_id), execution_id)
        admit_follower(request)
        shown = request.headers.get("last-event-id", "")
        place = int(shown) if shown.isascii() and shown.isdigit() and len(shown) < 10 else after
        return _streamed(self._events(execution_id, place))

    async def of_all(self, request: Request) -> Response:
        """A message for each execution about which something was written, with its row; no body: read all anew."""
        viewer = await self._access.viewer(request)
        admit_follower(request)
        return _streamed(self._rows(viewer))

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
                    events = shapes.of_entries(story.entries, hidden=self._is_hidden)
                    outcome = (
                        None if story.outcome is None else shapes.of_outcome(story.outcome, hidden=self._is_hidden)
                    )
                    body = {"events": events, "state": story.state, "epoch": story.epoch, "outcome": outcome}
                    yield _message(body, id=str(place))
                if story.state == "ended":
                    return
                async for beat in _until(changes):
                    yield beat
                await asyncio.sleep(_STREAM_GATHER_SECONDS)
                while not changes.empty():
                    changes.get_nowait()

    async def _rows(self, viewer: Viewer) -> AsyncIterator[bytes]:
        async with self._watch.changes() as changes:
            yield _message({"all": True, **self._figures(viewer)})
            while True:
                fresh: set[str] = set()
                try:
                    # Not `wait_for`: in Python 3.11 that goes on after a cancellation that comes together with news.
                    async with asyncio.timeout(_BEAT_SECONDS):
                        fresh.add(await changes.get())
                    while not changes.empty():
                        fresh.add(changes.get_nowait())
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                rows = [row for row in [await self._row(one, viewer) for one in fresh if one] if row is not None]
                yield _message({"rows": rows, "all": "" in fresh, **self._figures(viewer)})

    async def _row(self, execution_id: str, viewer: Viewer) -> dict[str, Any] | None:
        live = self._watch.live.get(execution_id)
        if live is not None:
            row = live.row() if viewer.tenant in (None, live.begun.tenant) else None
        else:
            found = await self._ledger.search(Filter(tenant=viewer.tenant, id=execution_id), limit=1)
            row = shapes.of_summary(found[0]) if found else None
        return None if row is None else shapes.without_arguments(row, hidden=self._is_hidden)

    def _figures(self, viewer: Viewer) -> dict[str, Any]:
        live = [one for one in self._watch.live.values() if viewer.tenant in (None, one.begun.tenant)]
        return {
            "running": sum(one.state == "running" for one in live),
            "paused": sum(one.state == "paused" for one in live),
            "waiting": sum(len(one.asked) for one in live),
        }


async def _until(changes: asyncio.Queue[str]) -> AsyncIterator[bytes]:
    """Wait for news of one execution, with a sign of life now and then."""
    while True:
        try:
            async with asyncio.timeout(_BEAT_SECONDS):
                await changes.get()
            return
        except TimeoutError:
            yield b": still here\n\n"


def _streamed(messages: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(messages, media_type="text/event-stream", headers=_HEADERS)


# Any: JSON values.
def _message(body: dict[str, Any], *, id: str = "") -> bytes:
    head = f"id: {id}\n".encode() if id else b""
    return b"retry: %d\n%sdata: %s\n\n" % (_AGAIN_MILLISECONDS, head, _encode(body))
