"""What tools were seen to return, on a Redis server: one hash for each tenant, added to by all replicas.

Shapes cannot be added up by the server. So a lesson is read, added to here, and written only if nobody else
wrote in between; whoever loses that race tries again a few times. A lesson lost in the end is learned anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from toolfold.errors import ToolfoldError
from toolfold.ledger.lessons import decode, encode
from toolfold.ledger.seal import NoSeal, Seal
from toolfold.tools.learning import MOST_TOOLS, Lesson, added

_MOST_TENANTS: Final = 100
_KEPT_SECONDS: Final = 90 * 86_400
_TRIES: Final = 3
_MOST_WAITING: Final = 1_000
_log: Final = logging.getLogger("toolfold.ledger")

_LEARN: Final = """
local at = '{' .. ARGV[1] .. '}:'
local tenant, tool, before, after, most_tools, most_tenants, seconds = unpack(ARGV, 2, 8)
local key, tenants = at .. 'lessons:' .. tenant, at .. 'lessons'
local there = redis.call('HGET', key, tool) or ''
if there ~= before then return there end
if there == '' and redis.call('HLEN', key) >= tonumber(most_tools) then
  redis.call('HDEL', key, redis.call('HKEYS', key)[1])
end
redis.call('HSET', key, tool, after)
redis.call('EXPIRE', key, seconds)
redis.call('ZADD', tenants, redis.call('TIME')[1], tenant)
for _, oldest in ipairs(redis.call('ZRANGE', tenants, 0, -1 - tonumber(most_tenants))) do
  redis.call('DEL', at .. 'lessons:' .. oldest)
  redis.call('ZREM', tenants, oldest)
end
return 1
"""
_LEARNED: Final = "return redis.call('HGETALL', '{' .. ARGV[1] .. '}:lessons:' .. ARGV[2])"


class RedisLessons:
    """Lessons on their way to a server.

    Args:
        ask: Runs a script there.
        seal: Of the ledger.
    """

    # Any: what a script answers is between it and whoever asks.
    def __init__(self, ask: Callable[..., Awaitable[Any]], seal: Seal | NoSeal) -> None:
        self._ask = ask
        self._seal = seal
        self._waiting: list[tuple[str, Lesson]] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, tenant: str, lesson: Lesson) -> None:
        """Gather one; a task of the running loop writes it."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append((tenant, lesson))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def of(self, tenant: str) -> list[Lesson]:
        """All of a tenant, in no order."""
        await self.drain()
        found = await self._ask(_LEARNED, tenant)
        return [self._open(tenant, tool, body) for tool, body in zip(found[::2], found[1::2], strict=True)]

    async def drain(self) -> None:
        """Until what was gathered is written, or given up."""
        if self._writing is not None and self._writing.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                for tenant, lesson in waiting:
                    await self._write_one(tenant, lesson)
            except ToolfoldError as error:
                _log.warning("what tools were seen to return was not written: %s", error)

    async def _write_one(self, tenant: str, lesson: Lesson) -> None:
        tool = self._seal.digest(lesson.tool.encode()).hex().encode()
        before = b""
        for _ in range(_TRIES):
            known = self._open(tenant, tool, before) if before else None
            after = self._seal.seal(encode(added(known, lesson)), _place(tenant, tool))
            answer = await self._ask(_LEARN, tenant, tool, before, after, MOST_TOOLS, _MOST_TENANTS, _KEPT_SECONDS)
            if answer == 1:
                return
            before = answer

    def _open(self, tenant: str, tool: bytes, body: bytes) -> Lesson:
        return decode(self._seal.open(body, _place(tenant, tool)))


def _place(tenant: str, tool: bytes) -> str:
    return f"lesson/{tenant}/{tool.decode()}"
