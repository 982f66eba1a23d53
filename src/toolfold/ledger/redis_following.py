"""The stream of changes on a Redis server, read as it grows; a server that goes away is waited for."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from toolfold.ledger.record import Change
from toolfold.ledger.redis_connect import SETTINGS, failed

_AT_ONCE: Final = 1000
_BLOCK_MILLISECONDS: Final = 2000
_AWAY_SECONDS: Final = 0.5
_STREAM_ID: Final = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
_log: Final = logging.getLogger("toolfold.ledger")


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
