"""One execution, followed from any process: what is on record of it, again whenever something was written."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolfold.ledger.record import Ledger, Story

_LOOK_SECONDS: Final = 1.0


async def changes_of(ledger: Ledger, execution_id: str) -> AsyncIterator[Story]:
    """Its story from the start, then what came since, at least every second; ends with it, or if it is forgotten."""
    # Any: an async generator, which the contract calls an iterator.
    changes: Any = ledger.follow()
    coming = asyncio.ensure_future(anext(changes))
    place = 0
    try:
        while True:
            story = await ledger.story(execution_id, after=place)
            if story is None:
                return
            yield story
            if story.state == "ended":
                return
            place = story.place
            deadline = asyncio.get_running_loop().time() + _LOOK_SECONDS
            while True:
                left = deadline - asyncio.get_running_loop().time()
                done, _ = await asyncio.wait([coming], timeout=max(0.0, left))
                if not done:
                    break  # that it was forgotten is told to nobody
                change = coming.result()
                coming = asyncio.ensure_future(anext(changes))
                if change.execution_id in ("", execution_id):
                    break
    finally:
        coming.cancel()
        with suppress(BaseException):
            await coming
        await changes.aclose()
