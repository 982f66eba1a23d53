"""Listings, statistics and tool lessons of a Redis ledger, read from the sets that `index` writes.

A script looks at a few thousand members and says where it stopped, so that no reader holds up the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from toolfold.errors import ToolfoldError
from toolfold.ledger.base import ExecutionFilter
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.execution_summaries import Row, Saving, ToolUse, as_text, filter_labels, matches_filter
from toolfold.ledger.redis import lua_scripts
from toolfold.ledger.redis.lua_scripts import ROWS, rows_of, searched_title
from toolfold.ledger.sqlite.listing import decode, encode
from toolfold.models import Status
from toolfold.tools.learned_replies import MOST_TOOLS, Lesson, merge_lessons

_PAGE: Final = 250
_LOOKED_AT: Final = 20_000
"""Members that one script looks at: some ten milliseconds of the server."""
_IN_NO_LINE: Final = frozenset("\0\n")
_FAILED: Final = tuple(status for status in get_args(Status) if status not in ("finished", "cancelled"))

# Where in a set, from the newest on, whatever comes after an execution begins. Of those that began in the same moment
# the later id comes first. A member of `by:title` begins with the id and a zero byte.
_PLACE: Final = """
local function id_of(member) return string.match(member, '^%Z*') end
local function place_after(set, id, score)
  local place = redis.call('ZCOUNT', set, '(' .. score, '+inf')
  for _, member in ipairs(redis.call('ZREVRANGEBYSCORE', set, score, score)) do
    local other = id_of(member)
    if other == id then return place + 1 end
    if other < id then return place end
    place = place + 1
  end
  return place
end
"""

_ROW_BY_ID: Final = ROWS + "return packed_row(ARGV[1])\n"

# The smallest set is gone through, and its members are looked for in the others. For a text it is `by:title`, unless
# another set is so small that a look at one title after the other is faster.
_SEARCH: Final = (
    ROWS
    + _PLACE
    + """
local limit, steps, id, score, since, latest, text = tonumber(ARGV[1]), tonumber(ARGV[2]), unpack(ARGV, 3, 7)
local times, titles = at .. 'times', at .. 'by:title'
local set, others = times, {}
local fewest = redis.call('ZCARD', set)
local function choose(other, count)
  if count < fewest then fewest, set, other = count, other, set end
  if other ~= times and other ~= titles then table.insert(others, other) end
end
for place = 8, #ARGV do choose(at .. ARGV[place], redis.call('ZCARD', at .. ARGV[place])) end
if text ~= '' then choose(titles, redis.call('ZCARD', titles) / 4) end
if id ~= '' and score == '' then score = redis.call('ZSCORE', times, id) end
if not score then return {'', 0, '', ''} end
local place = latest == '' and 0 or redis.call('ZCOUNT', set, latest, '+inf')
if id ~= '' then place = math.max(place, place_after(set, id, score)) end
local last = redis.call('ZCOUNT', set, since, '+inf') - 1
local function has_text(id, member)
  if set == titles then return string.find(member, text, #id + 2, true) end
  local entry = redis.call('HGET', at .. 'indexed', id)
  return entry and string.find(cmsgpack.unpack(entry)[1], text, 1, true)
end
local function matching_row(member)
  local id = id_of(member)
  for _, other in ipairs(others) do
    if not redis.call('ZSCORE', other, id) then return '' end
  end
  return (text == '' or has_text(id, member)) and packed_row(id) or ''
end
local rows, member = {}, ''
while place <= last and steps > 0 and #rows < limit do
  local page = redis.call('ZREVRANGE', set, place, math.min(place + math.min(steps, 500) - 1, last))
  if #page == 0 then break end
  steps = steps - #page
  for number = 1, #page do
    if #rows == limit then break end
    place, member = place + 1, page[number]
    if set ~= titles or string.find(member, text, 1, true) then
      local row = matching_row(member)
      if row ~= '' then table.insert(rows, row) end
    end
  end
end
if place > last or member == '' then return {table.concat(rows), 0, '', ''} end
return {table.concat(rows), 1, id_of(member), redis.call('ZSCORE', set, member)}
"""
)

_COUNTS: Final = """
local since, has_tenant, set = ARGV[1], ARGV[2] ~= 'times', at .. ARGV[2]
local counts = {}
for _, state in ipairs({'running', 'paused'}) do
  local count = 0
  for _, id in ipairs(redis.call('ZRANGE', at .. 'by:state:' .. state, 0, -1)) do
    local is_there = redis.call('HGET', at .. 'x:' .. id, 'state') == state
    if is_there and (not has_tenant or redis.call('ZSCORE', set, id)) then count = count + 1 end
  end
  table.insert(counts, count)
end
table.insert(counts, redis.call('ZCOUNT', set, since, '+inf'))
local failed = 0
for place = 3, #ARGV do
  local failures = at .. 'by:status:' .. ARGV[place]
  if not has_tenant then
    failed = failed + redis.call('ZCOUNT', failures, since, '+inf')
  else
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', failures, since, '+inf')) do
      if redis.call('ZSCORE', set, id) then failed = failed + 1 end
    end
  end
end
table.insert(counts, failed)
return counts
"""

_SAVINGS: Final = (
    _PLACE
    + """
local steps, id, score, since, bucket = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local set = at .. ARGV[6]
local place = id == '' and 0 or place_after(set, id, score)
local last = redis.call('ZCOUNT', set, since, '+inf') - 1
local page = place <= last and redis.call('ZREVRANGE', set, place, math.min(place + steps - 1, last)) or {}
local sums, began_at = {}, ''
for _, member in ipairs(page) do
  local row = redis.call('HMGET', at .. 'x:' .. member, 'state', 'began_at', 'interface', 'saved')
  if row[1] == 'ended' then
    local saved, key = tonumber(row[4] or 0), math.floor(row[2] / bucket) .. ' ' .. (row[3] or '')
    local sum = sums[key] or {0, 0, 0}
    sums[key] = {sum[1] + 1, sum[2] + math.max(saved, 0), sum[3] + math.max(-saved, 0)}
  end
end
local answer = {}
for key, sum in pairs(sums) do
  table.insert(answer, {key, sum[1], string.format('%.0f', sum[2]), string.format('%.0f', sum[3])})
end
if place + #page > last then return {answer, '', ''} end
return {answer, page[#page], redis.call('ZSCORE', set, page[#page])}
"""
)


class RedisListing:
    """What is found on a server.

    Args:
        ask: Runs a script there.
        seal: Of the ledger.
    """

    # Any: what a script answers is between it and whoever asks.
    def __init__(self, ask: Callable[..., Awaitable[Any]], seal: Seal | NoSeal) -> None:
        self._ask = ask
        self._seal = seal

    async def rows(self, query: ExecutionFilter, limit: int, before: str = "") -> list[Row]:
        """Matching rows, newest first; `before` is the last id of the page before."""
        query = as_text(query)
        if query.text and (isinstance(self._seal, Seal) or set(query.text) & _IN_NO_LINE):
            return []
        if query.id is not None:
            matches = rows_of(b"" if before else await self._ask(_ROW_BY_ID, query.id), self._seal)
            return [row for row in matches if matches_filter(*row, query)]
        rows: list[Row] = []
        async for page in self._pages(query, limit, before):
            rows += page
        return rows[:limit]

    async def counts(self, since: float, tenant: str | None) -> dict[str, int]:
        """Number of running and paused executions, and of recent and failed ones since a time."""
        figures = await self._ask(_COUNTS, repr(since), _tenant_set(tenant), *_FAILED)
        return dict(zip(("running", "paused", "recent", "failed"), figures, strict=True))

    async def savings(self, since: float, bucket: float, tenant: str | None) -> list[Saving]:
        """By time and interface: the start of the bucket, interface, executions, bytes saved, bytes lost."""
        sums: dict[tuple[float, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        place: Sequence[Any] = ("", "")
        while True:
            arguments = (_LOOKED_AT // 4, *place, repr(since), repr(bucket), _tenant_set(tenant))
            groups, *place = await self._ask(_SAVINGS, *arguments)
            for key, *figures in groups:
                at, _, interface = key.decode().partition(" ")
                totals = sums[float(at) * bucket, interface]
                totals[:] = [total + int(figure) for total, figure in zip(totals, figures, strict=True)]
            if not place[0]:
                return [(at, interface, *totals) for (at, interface), totals in sorted(sums.items())]  # type: ignore[misc]

    async def uses(self, limit: int, tenant: str | None) -> list[tuple[float, ToolUse]]:
        """Tool uses of the newest executions, each with the start of its execution."""
        tool_uses: list[tuple[float, ToolUse]] = []
        async for page in self._pages(ExecutionFilter(tenant=tenant), limit):
            tool_uses.extend((summary.began_at, use) for summary, uses in page for use in uses)
        return tool_uses

    async def _pages(self, query: ExecutionFilter, limit: int, before: str = "") -> AsyncIterator[list[Row]]:
        sets, text, remaining = self._sets(query), searched_title(query.text or "", self._seal), limit
        since = "-inf" if query.since is None else repr(query.since)
        until = "" if query.until is None else repr(query.until)
        # There are no sets for empty values: those are compared here.
        record_query = replace(query, text=None)
        place: Sequence[Any] = (before, "")
        is_more = True
        while remaining > 0 and is_more:
            page_size = min(remaining, _PAGE)
            arguments = (page_size, _LOOKED_AT, *place, since, until, text, *sets)
            packed, is_more, *place = await self._ask(_SEARCH, *arguments)
            page = [row for row in rows_of(packed, self._seal) if matches_filter(*row, record_query)]
            remaining -= len(page)
            yield page

    def _sets(self, query: ExecutionFilter) -> list[str]:
        """Sets that an execution must be in; there are none for empty values."""
        tool = None if query.tool is None else lua_scripts.tool_name(query.tool, self._seal)
        values_by_name = {
            "state": query.state, "status": query.status, "interface": query.interface, "session": query.session,
            "tool": tool,
        }  # fmt: skip
        sets = [f"by:{name}:{value}" for name, value in values_by_name.items() if value]
        sets += [f"by:label:{lua_scripts.tool_name(label, self._seal)}" for label in filter_labels(query)]
        return sets if query.tenant is None else [*sets, _tenant_set(query.tenant)]


def _tenant_set(tenant: str | None) -> str:
    return "times" if tenant is None else f"of:{tenant}"


# ----------------------------------------------------------------------------------------------------
# What tools were seen to return, on a Redis server: one hash for each tenant, added to by all replicas.
#
# Shapes cannot be added up by the server. So a lesson is read, added to here, and written only if nobody else
# wrote in between; whoever loses that race tries again a few times. A lesson lost in the end is learned anew.

_MOST_TENANTS: Final = 100
_RETENTION_SECONDS: Final = 90 * 86_400
_TRIES: Final = 3
_MOST_WAITING: Final = 1_000
_log: Final = logging.getLogger("toolfold.ledger")

_LEARN: Final = """
local tenant, tool, before, after, most_tools, most_tenants, seconds = unpack(ARGV, 1, 7)
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
_LEARNED: Final = "return redis.call('HGETALL', at .. 'lessons:' .. ARGV[1])"


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
        """Queue a lesson; a task of the running loop writes it."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append((tenant, lesson))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def for_tenant(self, tenant: str) -> list[Lesson]:
        """Lessons of a tenant, in no order."""
        await self.drain()
        fields = await self._ask(_LEARNED, tenant)
        return [self._open(tenant, tool, body) for tool, body in zip(fields[::2], fields[1::2], strict=True)]

    async def drain(self) -> None:
        """Wait until the queue is written, or given up."""
        if self._writing is not None and self._writing.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                for tenant, lesson in waiting:
                    await self._write_lesson(tenant, lesson)
            except ToolfoldError as error:
                _log.warning("learned output schemas were not saved: %s", error)

    async def _write_lesson(self, tenant: str, lesson: Lesson) -> None:
        tool = self._seal.digest(lesson.tool.encode()).hex().encode()
        before = b""
        for _ in range(_TRIES):
            stored_lesson = self._open(tenant, tool, before) if before else None
            after = self._seal.seal(encode(merge_lessons(stored_lesson, lesson)), _place(tenant, tool))
            answer = await self._ask(_LEARN, tenant, tool, before, after, MOST_TOOLS, _MOST_TENANTS, _RETENTION_SECONDS)
            if answer == 1:
                return
            before = answer

    def _open(self, tenant: str, tool: bytes, body: bytes) -> Lesson:
        return decode(self._seal.open(body, _place(tenant, tool)))


def _place(tenant: str, tool: bytes) -> str:
    return f"lesson/{tenant}/{tool.decode()}"
