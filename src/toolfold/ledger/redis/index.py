"""Search index of a Redis ledger: sorted sets by start time, first lines of programs, and packed rows.

* `by:state:<state>`, `by:status:<status>`, `by:interface:<interface>`, `by:session:<session>`, `by:tool:<digest>`
* `indexed`  hash: where an execution's first line is (see `redis_titles`) and in which sets it is, for its record may
             expire before it is taken out

They are written in the step that writes the record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from toolfold.ledger.base import ExecutionSummary, State
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.listing import Row, ToolUse, decode_facts

# ----------------------------------------------------------------------------------------------------
# Rows of listings as a Redis server sends them: packed into one text, which is read much faster than its parts.

STATES: Final[dict[bytes, State]] = {b"running": "running", b"paused": "paused", b"ended": "ended"}

_FIELDS: Final = (
    "state", "status", "began_at", "seconds", "calls", "title", "session", "tenant", "interface", "facts",
)  # fmt: skip
_LENGTHS: Final = struct.Struct(f">{len(_FIELDS) + 1}I")

# A row is the lengths of its values, and then the values. Nothing where the record is not there.
ROWS: Final = f"""
local at = '{{' .. ARGV[1] .. '}}:'
local function packed_row(id)
  local row = redis.call('HMGET', at .. 'x:' .. id, {", ".join(f"'{name}'" for name in _FIELDS)})
  if not row[1] then return '' end
  local lengths = {{#id}}
  for place = 1, {len(_FIELDS)} do
    row[place] = row[place] or ''
    lengths[place + 1] = #row[place]
  end
  return struct.pack('>{"I4" * (len(_FIELDS) + 1)}', unpack(lengths)) .. id .. table.concat(row)
end
"""


def rows_of(packed: bytes, seal: Seal | NoSeal) -> Iterator[Row]:
    """What a script made with `packed_row`, one after the other."""
    at = 0
    while at < len(packed):
        lengths = _LENGTHS.unpack_from(packed, at)
        at += _LENGTHS.size
        values = []
        for length in lengths:
            values.append(packed[at : at + length])
            at += length
        yield _row(values, seal)


def _row(values: list[bytes], seal: Seal | NoSeal) -> Row:
    execution_id, state, status, began_at, seconds, calls, title, session, tenant, interface, sealed = values
    name = execution_id.decode()
    facts = decode_facts(seal.open(sealed, f"{name}/facts")) if sealed else None
    summary = ExecutionSummary(
        execution_id=name,
        state=STATES[state],
        status=status.decode(),
        began_at=float(began_at),
        seconds=float(seconds),
        calls=int(calls),
        first_line=seal.open(title, f"{name}/title").decode(),
        session=session.decode(),
        tenant=tenant.decode(),
        interface=interface.decode(),
        failed=0 if facts is None else facts.failed,
        saved_bytes=0 if facts is None else facts.saved_bytes,
        lanes=() if facts is None else facts.lanes,
    )
    return summary, () if facts is None else facts.uses


# ----------------------------------------------------------------------------------------------------
# First lines of programs on a Redis server, kept so that one look finds a text in many of them.
#
# * `titles:<n>`      a block of first lines in lower case, each with when its execution began and its id:
# `<line>\0<began_at> <id>\n`. One that was removed is zeros up to its `\n`
# * `titles:latest`   sorted set of blocks by the latest start in them; `titles:earliest` hash of the earliest
# * `titles:left`     hash of how many lines of a block were not removed
# * `titles:open`     hash: `now` is the block that is written to, `count` the number of the last one
#
# A search for a rare text reads all blocks, 100,000 lines in about 10 ms; with a set that had an entry for each line it
# took 70 ms. Blocks may overlap in time: the next one is read while it may hold something later than what was found.
# There are none where the ledger is sealed.

_BLOCK_BYTES: Final = 65_536

# For scripts in which `at` is the prefix of all keys. A title's place is written down as `<n> <offset> <length>`.
TITLES: Final = f"""
local function add_title(id, began_at, title)
  if title == '' or string.find(id, '\\n', 1, true) then return '' end
  local block = redis.call('HGET', at .. 'titles:open', 'now')
  if not block or redis.call('EXISTS', at .. 'titles:' .. block) == 0 then
    block = redis.call('HINCRBY', at .. 'titles:open', 'count', 1)
    redis.call('HSET', at .. 'titles:open', 'now', block)
  end
  local entry = title .. '\\0' .. began_at .. ' ' .. id
  local length = redis.call('APPEND', at .. 'titles:' .. block, entry .. '\\n')
  redis.call('ZADD', at .. 'titles:latest', 'GT', began_at, block)
  local earliest = redis.call('HGET', at .. 'titles:earliest', block)
  if not earliest or tonumber(began_at) < tonumber(earliest) then
    redis.call('HSET', at .. 'titles:earliest', block, began_at)
  end
  redis.call('HINCRBY', at .. 'titles:left', block, 1)
  if length > {_BLOCK_BYTES} then redis.call('HDEL', at .. 'titles:open', 'now') end
  return string.format('%s %d %d', block, length - #entry - 1, #entry)
end
local function title_at(place)
  local block, first, length = string.match(place, '^(%d+) (%d+) (%d+)$')
  local entry = block and redis.call('GETRANGE', at .. 'titles:' .. block, first, first + length - 1) or ''
  return string.match(entry, '^(%Z*)%z') or ''
end
local function remove_title(place)
  local block, first, length = string.match(place, '^(%d+) (%d+) (%d+)$')
  if not block then return end
  if redis.call('HINCRBY', at .. 'titles:left', block, -1) > 0 then
    redis.call('SETRANGE', at .. 'titles:' .. block, first, string.rep('\\0', tonumber(length)))
    return
  end
  redis.call('DEL', at .. 'titles:' .. block)
  redis.call('ZREM', at .. 'titles:latest', block)
  redis.call('HDEL', at .. 'titles:earliest', block)
  redis.call('HDEL', at .. 'titles:left', block)
  if redis.call('EXISTS', at .. 'titles:latest') == 0 then redis.call('DEL', at .. 'titles:open') end
end
"""

# The latest executions with a text in their first lines that are in all sets. It ends where no other block can hold a
# later one, or after so many bytes; then it answers with what is surely in order, and with where to go on. There is no
# answer where the text is in many lines and few of their executions are in the sets.
SEARCH_TITLES: Final = (
    ROWS
    + """
local limit, budget, before, bound, since, latest, text = tonumber(ARGV[2]), tonumber(ARGV[3]), unpack(ARGV, 4, 8)
local patience = tonumber(ARGV[9])
if before ~= '' and bound == '' then bound = redis.call('ZSCORE', at .. 'times', before) end
if not bound then return {'', 0, '', ''} end
local infinite = math.huge
local first, last = since == '-inf' and -infinite or tonumber(since), latest == '' and infinite or tonumber(latest)
local start = bound == '' and infinite or tonumber(bound)
local best, floor = {}, first
local function is_later(one, other)
  if one[1] == other[1] then return one[2] > other[2] end
  return one[1] > other[1]
end
local function keep_best()
  table.sort(best, is_later)
  for place = #best, limit + 1, -1 do best[place] = nil end
  if #best == limit then floor = best[limit][1] end
end
local function consider(began_at, id)
  local score = tonumber(began_at)
  if score < floor or score >= last or score > start then return end
  if score == start and before ~= '' and id >= before then return end
  for place = 10, #ARGV do
    if not redis.call('ZSCORE', at .. ARGV[place], id) then
      patience = patience - 1
      return
    end
  end
  table.insert(best, {score, id, began_at})
  if #best > 4 * limit then keep_best() end
end
local function read(block)
  local place = 1
  while true do
    local hit = string.find(block, text, place, true)
    if not hit then return end
    local zero, stop = string.find(block, '\\0', hit, true), string.find(block, '\\n', hit, true)
    -- Else it is in the id of an execution or in its time.
    if zero and zero < stop then consider(string.match(string.sub(block, zero + 1, stop - 1), '^(%S+) (.*)$')) end
    place = stop + 1
  end
end
local blocks = redis.call('ZREVRANGE', at .. 'titles:latest', 0, -1, 'WITHSCORES')
local upcoming
for place = 1, #blocks, 2 do
  upcoming = tonumber(blocks[place + 1])
  if upcoming < first then upcoming = nil break end
  if #best >= limit then
    keep_best()
    if best[limit][1] > upcoming then break end
  end
  if budget <= 0 and upcoming < start then break end
  if tonumber(redis.call('HGET', at .. 'titles:earliest', blocks[place])) <= start then
    local block = redis.call('GET', at .. 'titles:' .. blocks[place]) or ''
    read(block)
    budget = budget - #block
  end
  if patience < 0 then return {} end
  upcoming = nil
end
keep_best()
local rows = {}
for _, one in ipairs(best) do
  if upcoming and one[1] <= upcoming then break end
  table.insert(rows, packed_row(one[2]))
end
if #best == limit and not (upcoming and best[limit][1] <= upcoming) then
  return {table.concat(rows), 1, best[limit][2], best[limit][3]}
end
return {table.concat(rows), upcoming and 1 or 0, '', upcoming and string.format('%.17g', upcoming) or ''}
"""
)


# For scripts in which `at` is the prefix of all keys. The digest of a tool's name has 32 digits.
INDEXING: Final = (
    TITLES
    + """
local function add_to(kept, id, began_at, name, value)
  if value ~= '' then
    local set = 'by:' .. name .. ':' .. value
    redis.call('ZADD', at .. set, began_at, id)
    table.insert(kept, set)
  end
end
local function keep_index(id, kept)
  redis.call('HSET', at .. 'indexed', id, cmsgpack.pack(kept))
end
local function index_start(id, began_at, interface, session, title)
  local kept = {add_title(id, began_at, title)}
  redis.call('ZADD', at .. 'by:state:running', began_at, id)
  add_to(kept, id, began_at, 'interface', interface)
  add_to(kept, id, began_at, 'session', session)
  keep_index(id, kept)
end
local function index_end(id, began_at, status, tools)
  local kept = cmsgpack.unpack(redis.call('HGET', at .. 'indexed', id))
  add_to(kept, id, began_at, 'status', status)
  for first = 1, #tools, 32 do add_to(kept, id, began_at, 'tool', string.sub(tools, first, first + 31)) end
  keep_index(id, kept)
end
local function index_step(id, began_at, before, state, status, tools)
  if redis.call('HEXISTS', at .. 'indexed', id) == 0 then return end
  redis.call('ZREM', at .. 'by:state:' .. before, id)
  redis.call('ZADD', at .. 'by:state:' .. state, began_at, id)
  if state == 'ended' then index_end(id, began_at, status, tools) end
end
local function unindex(id)
  local kept = redis.call('HGET', at .. 'indexed', id)
  if not kept then return end
  for place, set in ipairs(cmsgpack.unpack(kept)) do
    if place > 1 then redis.call('ZREM', at .. set, id) else remove_title(set) end
  end
  for _, state in ipairs({'running', 'paused', 'ended'}) do redis.call('ZREM', at .. 'by:state:' .. state, id) end
  redis.call('HDEL', at .. 'indexed', id)
end
"""
)

# From format 1, page by page: the interface of an execution and its set had another name. The answer is where the next
# page begins, 0 at the end, and nothing where the index is of a form before that of format 1.
MIGRATE: Final = """
local at = '{' .. ARGV[1] .. '}:'
if ARGV[2] == '0' and (redis.call('EXISTS', at .. 'titles') == 1
    or redis.call('ZCARD', at .. 'times') ~= redis.call('HLEN', at .. 'indexed')) then return false end
local page = redis.call('HSCAN', at .. 'indexed', ARGV[2], 'COUNT', ARGV[3])
for place = 1, #page[2], 2 do
  local id, kept = page[2][place], cmsgpack.unpack(page[2][place + 1])
  local row = at .. 'x:' .. id
  local interface = redis.call('HGET', row, 'door')
  if interface then
    redis.call('HSET', row, 'interface', interface)
    redis.call('HDEL', row, 'door')
  end
  for number = 2, #kept do
    local value = string.match(kept[number], '^by:door:(.*)$')
    if value then
      local score = redis.call('ZSCORE', at .. kept[number], id)
      redis.call('ZREM', at .. kept[number], id)
      kept[number] = 'by:interface:' .. value
      if score then redis.call('ZADD', at .. kept[number], score, id) end
      redis.call('HSET', at .. 'indexed', id, cmsgpack.pack(kept))
    end
  end
end
if page[1] == '0' then redis.call('HSET', at .. 'facts', 'format', 2) end
return page[1]
"""


def searched_title(title: str, seal: Seal | NoSeal) -> str:
    """A first line as it is looked through; nothing where a key hides it."""
    return "" if isinstance(seal, Seal) else title.lower().replace("\0", "")


def tool_name(name: str, seal: Seal | NoSeal) -> str:
    """A tool as the sets name it."""
    return seal.digest(name.encode()).hex()


def tool_names(uses: Sequence[ToolUse], seal: Seal | NoSeal) -> str:
    """All tools that were used, one name after the other."""
    return "".join(tool_name(use.tool, seal) for use in uses)
