r"""First lines of programs on a Redis server, kept so that one look finds a text in many of them.

* `titles:<n>`      a block of first lines in lower case, each with when its execution began and its id:
                    `<line>\0<began_at> <id>\n`. One that was removed is zeros up to its `\n`
* `titles:latest`   sorted set of blocks by the latest start in them; `titles:earliest` hash of the earliest
* `titles:left`     hash of how many lines of a block were not removed
* `titles:open`     hash: the blocks that are written to, one for what begins now and one for what is indexed later

A search for a rare text reads all blocks, 100,000 lines in about 10 ms; with a set that had an entry for each line it
took 70 ms. Blocks may overlap in time: the next one is read while it may hold something later than what was found.
There are none where the ledger is sealed.
"""

from __future__ import annotations

from typing import Final

from toolfold.ledger.redis_rows import ROWS

_BLOCK_BYTES: Final = 65_536

# For scripts in which `at` is the prefix of all keys. A title's place is written down as `<n> <offset> <length>`.
TITLES: Final = f"""
local function add_title(id, began_at, title, era)
  if title == '' or string.find(id, '\\n', 1, true) then return '' end
  local block = redis.call('HGET', at .. 'titles:open', era)
  if not block or redis.call('EXISTS', at .. 'titles:' .. block) == 0 then
    block = redis.call('HINCRBY', at .. 'titles:open', 'count', 1)
    redis.call('HSET', at .. 'titles:open', era, block)
  end
  local entry = title .. '\\0' .. began_at .. ' ' .. id
  local length = redis.call('APPEND', at .. 'titles:' .. block, entry .. '\\n')
  redis.call('ZADD', at .. 'titles:latest', 'GT', began_at, block)
  local earliest = redis.call('HGET', at .. 'titles:earliest', block)
  if not earliest or tonumber(began_at) < tonumber(earliest) then
    redis.call('HSET', at .. 'titles:earliest', block, began_at)
  end
  redis.call('HINCRBY', at .. 'titles:left', block, 1)
  if length > {_BLOCK_BYTES} then redis.call('HDEL', at .. 'titles:open', era) end
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
