"""What finds executions of a Redis ledger without a look at each: sorted sets by when they began.

* `by:state:<state>`, `by:status:<status>`, `by:door:<door>`, `by:session:<session>`, `by:tool:<digest>`
* `indexed`  hash: where an execution's first line is (see `redis_titles`) and in which sets it is, for its record may
             expire before it is taken out

They are written in the step that writes the record. Executions of a toolfold that knew no such sets are added
by `redis_listing` when somebody looks; until then the steps of a record leave them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolfold.ledger.redis_titles import TITLES
from toolfold.ledger.seal import NoSeal, Seal
from toolfold.ledger.summing import Use

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
local function index_start(id, began_at, state, door, session, title, era)
  local kept = {add_title(id, began_at, title, era)}
  redis.call('ZADD', at .. 'by:state:' .. state, began_at, id)
  add_to(kept, id, began_at, 'door', door)
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

_AT: Final = "local at = '{' .. ARGV[1] .. '}:'\n" + INDEXING

# Whether there seem to be executions that are not indexed; those that an older toolfold ended are taken out first.
COMPARE: Final = (
    _AT
    + """
-- Both are of an earlier form of this index, which is made again.
if redis.call('EXISTS', at .. 'titles') == 1 then redis.call('UNLINK', at .. 'titles', at .. 'indexed') end
local is_stale = false
for _, state in ipairs({'running', 'paused'}) do
  for _, id in ipairs(redis.call('ZRANGE', at .. 'by:state:' .. state, 0, -1)) do
    local there = redis.call('HGET', at .. 'x:' .. id, 'state')
    if there and there ~= state then
      unindex(id)
      is_stale = true
    end
  end
end
return is_stale or redis.call('ZCARD', at .. 'times') ~= redis.call('HLEN', at .. 'indexed')
"""
)

# Of some executions, from the newest on: how many they are, and what is needed to index those that are not.
MISSING: Final = """
local at = '{' .. ARGV[1] .. '}:'
local page, found = redis.call('ZREVRANGE', at .. 'times', ARGV[2], ARGV[2] + ARGV[3] - 1), {}
for _, id in ipairs(page) do
  if redis.call('HEXISTS', at .. 'indexed', id) == 0 then
    local row = redis.call('HMGET', at .. 'x:' .. id, 'last', 'title', 'facts')
    table.insert(found, {id, row[1] or '', row[2] or '', row[3] or ''})
  end
end
return {#page, found}
"""

# One that was written to meanwhile is left for the next look.
INDEX: Final = (
    _AT
    + """
for place = 2, #ARGV, 5 do
  local id, last, title, tools, saved = unpack(ARGV, place, place + 4)
  local row = redis.call('HMGET', at .. 'x:' .. id, 'last', 'state', 'status', 'began_at', 'door', 'session')
  if not row[1] then
    keep_index(id, {''})
  elseif row[1] == last and redis.call('HEXISTS', at .. 'indexed', id) == 0 then
    index_start(id, row[4], row[2], row[5] or '', row[6], title, 'past')
    if row[2] == 'ended' then
      index_end(id, row[4], row[3], tools)
      redis.call('HSET', at .. 'x:' .. id, 'saved', saved)
    end
  end
end
return 1
"""
)

# What an older toolfold forgot is still in the sets; the answer is where the next look goes on, 0 at the end.
ORPHANS: Final = (
    _AT
    + """
local page = redis.call('HSCAN', at .. 'indexed', ARGV[2], 'COUNT', ARGV[3])
for place = 1, #page[2], 2 do
  local id = page[2][place]
  if not redis.call('ZSCORE', at .. 'times', id) then unindex(id) end
end
return page[1]
"""
)


def searched_title(title: str, seal: Seal | NoSeal) -> str:
    """A first line as it is looked through; nothing where a key hides it."""
    return "" if isinstance(seal, Seal) else title.lower().replace("\0", "")


def tool_name(name: str, seal: Seal | NoSeal) -> str:
    """A tool as the sets name it."""
    return seal.digest(name.encode()).hex()


def tool_names(uses: Sequence[Use], seal: Seal | NoSeal) -> str:
    """All tools that were used, one name after the other."""
    return "".join(tool_name(use.tool, seal) for use in uses)
