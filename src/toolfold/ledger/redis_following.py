"""The stream of changes on a Redis server, read as it grows; a server that goes away is waited for."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from toolfold.errors import UsageError
from toolfold.ledger import redis_scripts
from toolfold.ledger.record import Change
from toolfold.ledger.redis_connect import SETTINGS, failed

_AT_ONCE: Final = 1000
_BLOCK_MILLISECONDS: Final = 2000
_AWAY_SECONDS: Final = 0.5
_STREAM_ID: Final = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
_log: Final = logging.getLogger("toolfold.ledger")


class Followed:
    """For the ledger to inherit from: what others write, and what people decide."""

    _url: str
    _prefix: str
    _is_closed: bool

    # Any: what a script answers is between it and whoever asks.
    async def _ask(self, script: str, *arguments: Any) -> Any:
        raise NotImplementedError

    async def follow(self, after: str | None = None) -> AsyncIterator[Change]:
        if after is not None and not is_stream_id(after):
            raise UsageError(f"invalid cursor {after!r}; take the one of the last change")
        cursor = after
        while not self._is_closed:
            first, last = await self._ask(redis_scripts.CHANGES)
            if cursor is None or is_behind(cursor, first.decode()):
                cursor = last.decode()
                yield Change(cursor=cursor, execution_id="")
            async for change in changes_on(self._url, f"{{{self._prefix}}}:changes", cursor):
                yield change
                cursor = change.cursor

    async def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        return bool(await self._ask(redis_scripts.DECIDE, execution_id, epoch, call_id, body))

    async def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        body: bytes | None = await self._ask(redis_scripts.DECISION, execution_id, f"decided/{epoch}/{call_id}")
        return body


async def changes_on(url: str, key: str, cursor: str) -> AsyncIterator[Change]:
    """From the cursor on, until the server was away: then the caller asks where the stream begins now."""
    # Its own connection: it waits on the server, and whoever writes must not wait behind it.
    client = Redis.from_url(url, **{**SETTINGS, "socket_timeout": None})
    try:
        while True:
            # Any: the client types its answers for both of its kinds at once.
            found: Any = await client.xread({key: cursor}, count=_AT_ONCE, block=_BLOCK_MILLISECONDS)
            for stream_id, fields in found[0][1] if found else ():
                cursor = stream_id.decode()
                yield Change(cursor=cursor, execution_id=fields[b"id"].decode())
    except RedisError as error:
        _log.warning("changes are not followed: %s", failed(error))
        await asyncio.sleep(_AWAY_SECONDS)
    finally:
        await client.aclose()


def is_stream_id(text: str) -> bool:
    """Whether it can be the cursor of a change."""
    return _STREAM_ID.fullmatch(text) is not None


def is_behind(cursor: str, first: str) -> bool:
    """Whether changes after the cursor may be gone: the first that is there is a later one, and some were trimmed."""
    return bool(first) and _number(cursor) < _number(first) and cursor != "0-0"


def _number(stream_id: str) -> tuple[int, int]:
    at, _, number = stream_id.partition("-")
    return int(at), int(number)
