"""Listings and statistics of a Redis ledger, read from the sets that `redis_index` writes; newest first.

A script looks at a few thousand members and says where it stopped, so that no reader holds up the server.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from toolfold.ledger import redis_index
from toolfold.ledger.record import Filter, State, Summary
from toolfold.ledger.scanning import Row, Saving, decode_facts, is_wanted, with_facts
from toolfold.ledger.seal import NoSeal, Seal
from toolfold.ledger.summing import Use
from toolfold.models import Status

STATES: Final[dict[bytes, State]] = {b"running": "running", b"paused": "paused", b"ended": "ended"}

_PAGE: Final = 250
_LOOKED_AT: Final = 20_000
"""Members that one script looks at: about six milliseconds of the server."""
_INDEXED_AT_ONCE: Final = 250
_COMPARE_SECONDS: Final = 60.0
_FAILED: Final = tuple(status for status in get_args(Status) if status not in ("finished", "cancelled"))

_ROW: Final = """
local at = '{' .. ARGV[1] .. '}:'
local function row_of(id)
  local row = redis.call('HMGET', at .. 'x:' .. id, 'state', 'status', 'began_at', 'seconds', 'calls', 'title',
    'session', 'tenant', 'door', 'facts')
  table.insert(row, 1, id)
  return row[2] and row
end
"""

# Where in a set, from the newest on, whatever comes after an execution begins. Of those that began in the same moment
# the later id comes first.
_PLACE: Final = """
local function id_of(member)
  local zero = string.find(member, '\\0', 1, true)
  return zero and string.sub(member, 1, zero - 1) or member
end
local function place_after(set, id, score)
  local place = redis.call('ZCOUNT', set, '(' .. score, '+inf')
  local same = redis.call('ZREVRANGEBYSCORE', set, score, score)
  for at, member in ipairs(same) do
    if id_of(member) == id then return place + at end
  end
  for _, member in ipairs(same) do
    if id_of(member) > id then place = place + 1 end
  end
  return place
end
"""

_ONE: Final = _ROW + "return row_of(ARGV[2]) or {}\n"

# The smallest set is gone through, and its members are looked for in the others.
_SEARCH: Final = (
    _ROW
    + _PLACE
    + """
local limit, steps, id, score, since, latest, text = tonumber(ARGV[2]), tonumber(ARGV[3]), unpack(ARGV, 4, 8)
local set, others = at .. (text == '' and 'times' or 'titles'), {}
local fewest = text == '' and redis.call('ZCARD', set) or 0
for place = 9, #ARGV do
  local other = at .. ARGV[place]
  local count = redis.call('ZCARD', other)
  if count < fewest then fewest, set, other = count, other, set end
  if other ~= at .. 'times' then table.insert(others, other) end
end
if id ~= '' and score == '' then score = redis.call('ZSCORE', at .. 'times', id) end
if not score then return {{}, '', ''} end
local place = latest == '' and 0 or redis.call('ZCOUNT', set, latest, '+inf')
if id ~= '' then place = math.max(place, place_after(set, id, score)) end
local last = redis.call('ZCOUNT', set, since, '+inf') - 1
local found, looked_at = {}, ''
local function is_in_others(id)
  for _, other in ipairs(others) do
    if not redis.call('ZSCORE', other, id) then return false end
  end
  return true
end
while place <= last and steps > 0 do
  local page = redis.call('ZREVRANGE', set, place, math.min(place + 499, last))
  for _, member in ipairs(page) do
    local zero = text ~= '' and string.find(member, '\\0', 1, true)
    if not zero or string.find(member, text, zero + 1, true) then
      id = zero and string.sub(member, 1, zero - 1) or member
      local row = is_in_others(id) and row_of(id)
      if row then table.insert(found, row) end
      if #found == limit then return {found, '', ''} end
    end
    looked_at = member
  end
  if #page == 0 then break end
  place, steps = place + #page, steps - #page
end
if place > last or looked_at == '' then return {found, '', ''} end
return {found, id_of(looked_at), redis.call('ZSCORE', set, looked_at)}
"""
)

_COUNTS: Final = """
local at = '{' .. ARGV[1] .. '}:'
local since, tenant = ARGV[2], ARGV[3] == '1' and ARGV[4]
local counts = {}
for _, state in ipairs({'running', 'paused'}) do
  local count = 0
  for _, id in ipairs(redis.call('ZRANGE', at .. 'by:state:' .. state, 0, -1)) do
    local row = redis.call('HMGET', at .. 'x:' .. id, 'state', 'tenant')
    if row[1] == state and (not tenant or row[2] == tenant) then count = count + 1 end
  end
  table.insert(counts, count)
end
table.insert(counts, redis.call('ZCOUNT', at .. (tenant and 'of:' .. tenant or 'times'), since, '+inf'))
local failed = 0
for place = 5, #ARGV do
  local set = at .. 'by:status:' .. ARGV[place]
  if not tenant then
    failed = failed + redis.call('ZCOUNT', set, since, '+inf')
  else
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', set, since, '+inf')) do
      if redis.call('ZSCORE', at .. 'of:' .. tenant, id) then failed = failed + 1 end
    end
  end
end
table.insert(counts, failed)
return counts
"""

_SAVINGS: Final = (
    _PLACE
    + """
local at = '{' .. ARGV[1] .. '}:'
local steps, id, score, since, bucket = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local set = at .. (ARGV[7] == '1' and 'of:' .. ARGV[8] or 'times')
local place = id == '' and 0 or place_after(set, id, score)
local last = redis.call('ZCOUNT', set, since, '+inf') - 1
local page = place <= last and redis.call('ZREVRANGE', set, place, math.min(place + steps - 1, last)) or {}
local sums, began_at = {}, ''
for _, member in ipairs(page) do
  local row = redis.call('HMGET', at .. 'x:' .. member, 'state', 'began_at', 'door', 'saved')
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
        self._compare_at = 0.0

    async def rows(self, wanted: Filter, limit: int, before: str = "") -> list[Row]:
        """Those that are wanted; `before` is the id of the last one of the page before."""
        await self._index_others()
        if wanted.text and isinstance(self._seal, Seal):
            return []
        if wanted.id is not None:
            found = [self._row(row) for row in [await self._ask(_ONE, wanted.id)] if row and not before]
            return [row for row in found if is_wanted(*row, wanted)]
        rows: list[Row] = []
        async for page in self._pages(wanted, limit, before):
            rows += page
        return rows[:limit]

    async def counts(self, since: float, tenant: str | None) -> dict[str, int]:
        """How many run and wait, and of those that began since then, how many there are and failed."""
        await self._index_others()
        found = await self._ask(_COUNTS, repr(since), int(tenant is not None), tenant or "", *_FAILED)
        return dict(zip(("running", "paused", "recent", "failed"), found, strict=True))

    async def savings(self, since: float, bucket: float, tenant: str | None) -> list[Saving]:
        """By time and door: the start of the bucket, door, executions, bytes saved, bytes lost."""
        await self._index_others()
        sums: dict[tuple[float, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        place: Sequence[Any] = ("", "")
        while True:
            asked = (_LOOKED_AT // 4, *place, repr(since), repr(bucket), int(tenant is not None), tenant or "")
            found, *place = await self._ask(_SAVINGS, *asked)
            for key, *figures in found:
                at, _, door = key.decode().partition(" ")
                of = sums[float(at) * bucket, door]
                of[:] = [total + int(figure) for total, figure in zip(of, figures, strict=True)]
            if not place[0]:
                return [(at, door, *of) for (at, door), of in sorted(sums.items())]  # type: ignore[misc]

    async def uses(self, limit: int, tenant: str | None) -> list[tuple[float, Use]]:
        """Of the newest executions: when each began, and what it did with a tool."""
        await self._index_others()
        found: list[tuple[float, Use]] = []
        async for page in self._pages(Filter(tenant=tenant), limit):
            found.extend((summary.began_at, use) for summary, uses in page for use in uses)
        return found

    async def _pages(self, wanted: Filter, limit: int, before: str = "") -> AsyncIterator[list[Row]]:
        sets, left = self._sets(wanted), limit
        since = "-inf" if wanted.since is None else repr(wanted.since)
        until = "" if wanted.until is None else repr(wanted.until)
        place: Sequence[Any] = (before, "")
        while left > 0:
            most = min(left, _PAGE)
            asked = (most, _LOOKED_AT, *place, since, until, (wanted.text or "").lower(), *sets)
            found, *place = await self._ask(_SEARCH, *asked)
            page = [self._row(row) for row in found]
            # The record is right where an older toolfold wrote it and not the sets.
            yield [row for row in page if is_wanted(*row, replace(wanted, text=None))]
            left -= len(page)
            if not place[0] and len(found) < most:
                return
            if not place[0]:
                place = (page[-1][0].execution_id, repr(page[-1][0].began_at))

    def _sets(self, wanted: Filter) -> list[str]:
        """Those that an execution must be in; where something is empty, it is in none."""
        tool = None if wanted.tool is None else redis_index.tool_name(wanted.tool, self._seal)
        by = {
            "state": wanted.state, "status": wanted.status, "door": wanted.door, "session": wanted.session, "tool": tool
        }  # fmt: skip
        sets = [f"by:{name}:{value}" for name, value in by.items() if value]
        return sets if wanted.tenant is None else [*sets, f"of:{wanted.tenant}"]

    async def _index_others(self) -> None:
        """Executions that a toolfold wrote which knew no index; looked for now and then, since one may still run."""
        if time.monotonic() < self._compare_at:
            return
        self._compare_at = time.monotonic() + _COMPARE_SECONDS
        if not await self._ask(redis_index.COMPARE):
            return
        offset, page = 0, 1
        while page:
            page, missing = await self._ask(redis_index.MISSING, offset, _INDEXED_AT_ONCE)
            offset += page
            if missing:
                await self._ask(redis_index.INDEX, *(word for one in missing for word in self._index_of(*one)))
        cursor = b"0"
        while cursor := await self._ask(redis_index.ORPHANS, cursor, _INDEXED_AT_ONCE):
            if cursor == b"0":
                return

    def _index_of(self, execution_id: bytes, last: bytes, title: bytes, sealed: bytes) -> tuple[Any, ...]:
        name = execution_id.decode()
        facts = decode_facts(self._seal.open(sealed, f"{name}/facts")) if sealed else None
        searched = redis_index.searched_title(title.decode(), self._seal) if isinstance(self._seal, NoSeal) else ""
        tools = "" if facts is None else redis_index.tool_names(facts.uses, self._seal)
        return execution_id, last, searched, tools, 0 if facts is None else facts.saved_bytes

    def _row(self, row: Sequence[bytes]) -> Row:
        execution_id, state, status, began_at, seconds, calls, title, session, tenant, door, facts = row
        name = execution_id.decode()
        summary = Summary(
            execution_id=name,
            state=STATES[state],
            status=status.decode(),
            began_at=float(began_at),
            seconds=float(seconds),
            calls=int(calls),
            first_line=self._seal.open(title, f"{name}/title").decode(),
            session=session.decode(),
            tenant=tenant.decode(),
            door=(door or b"").decode(),
        )
        return with_facts(summary, decode_facts(self._seal.open(facts, f"{name}/facts")) if facts else None)
