"""The Lua with which a Redis ledger forgets executions; the keys are explained in `redis_scripts`."""

from __future__ import annotations

from typing import Final

from toolfold.ledger.redis_index import INDEXING

_FORGET: Final = (
    """
local at = '{' .. ARGV[1] .. '}:'
"""
    + INDEXING
    + """
local function forget(id)
  local origin = redis.call('HGET', at .. 'origins', id) or ''
  local granted, tenant = string.sub(origin, 1, 32), string.sub(origin, 33)
  -- First: a server that is full lets a script go on that began with this, and refuses one that began with a count.
  redis.call('DEL', at .. 'x:' .. id, at .. 'p:' .. id, at .. 'l:' .. id)
  redis.call('DECRBY', at .. 'total', redis.call('HGET', at .. 'sizes', id) or 0)
  redis.call('HDEL', at .. 'sizes', id)
  redis.call('HDEL', at .. 'origins', id)
  for _, set in ipairs({'times', 'ids', 'open', 'ended', 'leased', 'expiring', 'of:' .. tenant}) do
    redis.call('ZREM', at .. set, id)
  end
  unindex(id)
  if origin ~= '' and redis.call('HINCRBY', at .. 'grants', granted, -1) <= 0 then
    redis.call('HDEL', at .. 'grants', granted)
    redis.call('DEL', at .. 'g:' .. granted)
  end
end
"""
)

DELETE: Final = (
    _FORGET
    + """
local is_known = redis.call('EXISTS', at .. 'x:' .. ARGV[2])
forget(ARGV[2])
return is_known
"""
)

SWEEP: Final = (
    _FORGET
    + """
local age, open_age, executions, total_bytes, at_once = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]),
  tonumber(ARGV[5]), tonumber(ARGV[6])
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local gone = 0
local expired = string.format('%.0f', now * 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', at .. 'expiring', '-inf', expired, 'LIMIT', 0, at_once)) do
  forget(id)
  gone = gone + 1
end
for set, limit in pairs({ended = age, open = open_age}) do
  local latest = string.format('%.6f', now - limit)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', at .. set, '-inf', latest, 'LIMIT', 0, at_once)) do
    forget(id)
    gone = gone + 1
  end
end
if gone > 0 then return gone end
-- Whoever has the most makes room: the largest share of a sample. So one tenant's flood leaves the others' records.
local shares, most = {}, nil
local sample = redis.call('HRANDFIELD', at .. 'origins', 64, 'WITHVALUES')
for index = 2, #sample, 2 do
  local tenant = string.sub(sample[index], 33)
  shares[tenant] = (shares[tenant] or 0) + 1
  if most == nil or shares[tenant] > shares[most] then most = tenant end
end
local doomed = {}
for _, id in ipairs(most and redis.call('ZRANGE', at .. 'of:' .. most, 0, at_once - 1) or {}) do
  if redis.call('ZSCORE', at .. 'ended', id) then table.insert(doomed, id) end
end
if #doomed == 0 then doomed = redis.call('ZRANGE', at .. 'ended', 0, at_once - 1) end
for _, id in ipairs(doomed) do
  local size = tonumber(redis.call('GET', at .. 'total') or 0)
  if redis.call('ZCARD', at .. 'times') <= executions and size <= total_bytes then break end
  forget(id)
  gone = gone + 1
end
return gone
"""
)
