"""Lua scripts that a Redis ledger runs on its server, and its search index: each is a step that no process can split.

`HEADER` goes before each. Every key holds `{prefix}`, so that all are in one slot of a cluster. Times are the server's.

* `x:<id>`   hash, one execution: what listings and fences read, its start, snapshot and outcome
* `p:<id>`   list of batches of entries
* `l:<id>`   owner of a lease; it expires by itself. It changes with the epoch, or within a write that has the epoch
* `g:<hex>`  tools that were granted; `grants` counts the executions that share them
* `times`, `ids`, `of:<tenant>`   sorted sets for listings; `by:…` and `indexed`: see `index`
* `open`, `ended`   sorted sets by the last word; `sizes`, `origins`, `total` for what retention needs to know
* `expiring`   sorted set of open executions with a deadline of their own, by when they are forgotten
* `lessons:<tenant>`   hash of what tools were seen to return, written by `RedisLessons`; `lessons` by the last word
* `changes`   stream of ids, one for each write, in their order; what followers read
* `leased`   sorted set of open executions whose writer holds leases, by the last word; `replicas` by when they lapse

`last` is the name of the latest write. A write says which one it follows: one that was sent, given up
and comes through late follows nothing any more, and is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from toolfold.ledger.base import ExecutionSummary, State
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.execution_summaries import Facts, Row, ToolUse, decode_facts, decode_names

# ----------------------------------------------------------------------------------------------------
# Search index of a Redis ledger: sorted sets by start time, first lines of programs, and packed rows.
#
# * `by:state:<state>`, `by:status:<status>`, `by:interface:<interface>`, `by:session:<session>`, `by:tool:<digest>`,
#   `by:label:<digest>`
# * `by:title`  members `<id>`, a zero byte and the first line in lower case; empty where the ledger is sealed
# * `indexed`   hash: the title of an execution and its sets, because its record may expire before they are cleared
#
# They are written in the step that writes the record.

# ----------------------------------------------------------------------------------------------------
# Rows of listings as a Redis server sends them: packed into one text, which is read much faster than its parts.

STATES: Final[dict[bytes, State]] = {b"running": "running", b"paused": "paused", b"ended": "ended"}

_FIELDS: Final = (
    "state", "status", "began_at", "seconds", "calls", "title", "session", "tenant", "interface", "facts",
    "names",
)  # fmt: skip
_NO_FACTS: Final = Facts(failed=0, saved_bytes=0, lanes=(), uses=())
_LENGTHS: Final = struct.Struct(f">{len(_FIELDS) + 1}I")

# A row is the lengths of its values, and then the values. Nothing where the record is not there.
ROWS: Final = f"""
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
    """Unpack what a script made with `packed_row`."""
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
    execution_id, state, status, began_at, seconds, calls, title, session, tenant, interface, sealed, names = values
    name = execution_id.decode()
    facts = decode_facts(seal.open(sealed, f"{name}/facts")) if sealed else _NO_FACTS
    summary = ExecutionSummary(
        execution_id=name, state=STATES[state], status=status.decode(), began_at=float(began_at),
        seconds=float(seconds), calls=int(calls), first_line=seal.open(title, f"{name}/title").decode(),
        session=session.decode(), tenant=tenant.decode(), interface=interface.decode(), failed=facts.failed,
        saved_bytes=facts.saved_bytes, lanes=facts.lanes,
        **decode_names(seal.open(names, f"{name}/names") if names else b""),
    )  # fmt: skip
    return summary, facts.uses


# For scripts in which `at` is the prefix of all keys. The digests of a tool's name and of a label have 32 digits.
INDEXING: Final = """
local function add_to(entry, id, began_at, name, value)
  if value ~= '' then
    local set = 'by:' .. name .. ':' .. value
    redis.call('ZADD', at .. set, began_at, id)
    table.insert(entry, set)
  end
end
local function save_entry(id, entry)
  redis.call('HSET', at .. 'indexed', id, cmsgpack.pack(entry))
end
local function index_start(id, began_at, interface, session, title, labels)
  if string.find(id, '\\0', 1, true) then title = '' end
  if title ~= '' then redis.call('ZADD', at .. 'by:title', began_at, id .. '\\0' .. title) end
  local entry = {title}
  redis.call('ZADD', at .. 'by:state:running', began_at, id)
  add_to(entry, id, began_at, 'interface', interface)
  add_to(entry, id, began_at, 'session', session)
  for first = 1, #labels, 32 do add_to(entry, id, began_at, 'label', string.sub(labels, first, first + 31)) end
  save_entry(id, entry)
end
local function index_end(id, began_at, status, tools)
  local entry = cmsgpack.unpack(redis.call('HGET', at .. 'indexed', id))
  add_to(entry, id, began_at, 'status', status)
  for first = 1, #tools, 32 do add_to(entry, id, began_at, 'tool', string.sub(tools, first, first + 31)) end
  save_entry(id, entry)
end
local function index_step(id, began_at, before, state, status, tools)
  if redis.call('HEXISTS', at .. 'indexed', id) == 0 then return end
  redis.call('ZREM', at .. 'by:state:' .. before, id)
  redis.call('ZADD', at .. 'by:state:' .. state, began_at, id)
  if state == 'ended' then index_end(id, began_at, status, tools) end
end
local function unindex(id)
  local packed = redis.call('HGET', at .. 'indexed', id)
  if not packed then return end
  local entry = cmsgpack.unpack(packed)
  redis.call('ZREM', at .. 'by:title', id .. '\\0' .. entry[1])
  for place = 2, #entry do redis.call('ZREM', at .. entry[place], id) end
  for _, state in ipairs({'running', 'paused', 'ended'}) do redis.call('ZREM', at .. 'by:state:' .. state, id) end
  redis.call('HDEL', at .. 'indexed', id)
end
"""

# From formats 1 and 2, page by page: titles were in blocks, and format 1 called an interface a door. The answer is
# where the next page begins, 0 at the end, and nothing where the index is older. A page may come twice.
MIGRATE: Final = """
if ARGV[1] == '0' and (redis.call('EXISTS', at .. 'titles') == 1
    or redis.call('ZCARD', at .. 'times') ~= redis.call('HLEN', at .. 'indexed')) then return false end
local page = redis.call('HSCAN', at .. 'indexed', ARGV[1], 'COUNT', ARGV[2])
for place = 1, #page[2], 2 do
  local id, entry = page[2][place], cmsgpack.unpack(page[2][place + 1])
  local row = at .. 'x:' .. id
  local interface = redis.call('HGET', row, 'door')
  if interface then
    redis.call('HSET', row, 'interface', interface)
    redis.call('HDEL', row, 'door')
  end
  local block, first, length = string.match(entry[1], '^(%d+) (%d+) (%d+)$')
  if block and not redis.call('ZSCORE', at .. 'by:title', id .. '\\0' .. entry[1]) then
    local line = redis.call('GETRANGE', at .. 'titles:' .. block, first, first + length - 1)
    local title, began_at = string.match(line, '^(%Z*)%z(%S+) ')
    entry[1] = title or ''
    if title then redis.call('ZADD', at .. 'by:title', began_at, id .. '\\0' .. title) end
  end
  for number = 2, #entry do
    local value = string.match(entry[number], '^by:door:(.*)$')
    if value then
      local score = redis.call('ZSCORE', at .. entry[number], id)
      redis.call('ZREM', at .. entry[number], id)
      entry[number] = 'by:interface:' .. value
      if score then redis.call('ZADD', at .. entry[number], score, id) end
    end
  end
  redis.call('HSET', at .. 'indexed', id, cmsgpack.pack(entry))
end
if page[1] == '0' then
  for _, block in ipairs(redis.call('ZRANGE', at .. 'titles:latest', 0, -1)) do
    redis.call('DEL', at .. 'titles:' .. block)
  end
  redis.call('DEL', at .. 'titles:latest', at .. 'titles:earliest', at .. 'titles:left', at .. 'titles:open')
  redis.call('HSET', at .. 'facts', 'format', 3)
end
return page[1]
"""


def searched_title(title: str, seal: Seal | NoSeal) -> str:
    """Title as it is searched; empty where a key hides it."""
    return "" if isinstance(seal, Seal) else title.lower().replace("\0", "")


def label_names(labels: Sequence[str], seal: Seal | NoSeal) -> str:
    """Digests of all labels, joined."""
    return "".join(tool_name(label, seal) for label in labels)


def tool_name(name: str, seal: Seal | NoSeal) -> str:
    return seal.digest(name.encode()).hex()


def tool_names(uses: Sequence[ToolUse], seal: Seal | NoSeal) -> str:
    """Names of all used tools, joined."""
    return "".join(tool_name(use.tool, seal) for use in uses)


# ----------------------------------------------------------------------------------------------------
# Scripts of the records themselves.

HEADER: Final = "local at = KEYS[1] .. ':'\n"
"""`KEYS[1]` is the prefix in braces."""

# Seconds with fractions: `tostring` of Lua would round them.
_BEGINNING: Final = """
local id = ARGV[1]
local row, pieces = at .. 'x:' .. id, at .. 'p:' .. id
local clock = redis.call('TIME')
local now = string.format('%d.%06d', clock[1], clock[2])
local function touch(state, milliseconds)
  redis.call('ZREM', at .. (state == 'ended' and 'open' or 'ended'), id)
  redis.call('ZADD', at .. (state == 'ended' and 'ended' or 'open'), now, id)
  local expires = redis.call('HGET', row, 'expires')
  if expires and state == 'ended' then redis.call('ZREM', at .. 'expiring', id) end
  for _, key in ipairs({row, pieces}) do
    if expires and state ~= 'ended' then redis.call('PEXPIREAT', key, expires)
    elseif milliseconds == '' then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, milliseconds) end
  end
end
local function described(answer)
  local there = redis.call('HMGET', row, 'epoch', 'last', 'bytes', 'is_full')
  return {answer, there[1], there[2], redis.call('LLEN', pieces), there[3], there[4]}
end
local function hold(state, owner, milliseconds)
  if state == 'ended' then
    redis.call('DEL', at .. 'l:' .. id)
    redis.call('ZREM', at .. 'leased', id)
  else
    redis.call('SET', at .. 'l:' .. id, owner, 'PX', milliseconds)
    redis.call('ZADD', at .. 'leased', now, id)
  end
end
"""


def _execution_script(body: str) -> str:
    """A script on the execution whose id is its first argument."""
    return _BEGINNING + body


WRITE: Final = (
    _BEGINNING
    + INDEXING
    + """
local epoch, follows, name, body, calls, bytes, is_full = unpack(ARGV, 2, 8)
local state, status, seconds, outcome, milliseconds, facts, tools, saved, owner, lease = unpack(ARGV, 9, 18)
if #ARGV > 18 then
  local begun, title, session, tenant, began_at, granted, grant, key_id, mark, expires, interface, searched,
    names, labels = unpack(ARGV, 19, 32)
  local there = redis.call('HGET', row, 'mark')
  if there then return there == mark and 'doubt' or 'twice' end
  if (redis.call('HGET', at .. 'facts', 'key_id') or '') ~= key_id then return 'key' end
  if redis.call('EXISTS', at .. 'g:' .. granted) == 0 then
    if grant == '' then return 'grant' end
    redis.call('SET', at .. 'g:' .. granted, grant)
  end
  redis.call('HINCRBY', at .. 'grants', granted, 1)
  redis.call('HSET', row, 'state', 'running', 'status', '', 'epoch', 0, 'began_at', began_at, 'seconds', '0',
    'calls', 0, 'session', session, 'tenant', tenant, 'bytes', 0, 'is_full', 0, 'granted', granted, 'title', title,
    'begun', begun, 'last', follows, 'mark', mark, 'interface', interface, 'names', names)
  redis.call('ZADD', at .. 'times', began_at, id)
  redis.call('ZADD', at .. 'of:' .. tenant, began_at, id)
  redis.call('ZADD', at .. 'ids', 0, id)
  redis.call('HSET', at .. 'origins', id, granted .. tenant)
  if expires ~= '' then
    redis.call('HSET', row, 'expires', expires)
    redis.call('ZADD', at .. 'expiring', expires, id)
  end
  index_start(id, began_at, interface, session, searched, labels)
end
local there = redis.call('HMGET', row, 'epoch', 'state', 'last')
if not there[1] then return 'unknown' end
if there[1] ~= epoch then return 'fenced' end
if there[2] == 'ended' then return 'ended' end
if there[3] ~= follows then return 'fenced' end
if state == '' then state = there[2] end
if body ~= '' then redis.call('RPUSH', pieces, body) end
local grown = bytes
if state == 'ended' or outcome ~= '' then
  grown = bytes - redis.call('HSTRLEN', row, 'snapshot')
  redis.call('HDEL', row, 'snapshot')
end
-- What is no outcome is the snapshot of a pause.
if state ~= 'ended' and outcome ~= '' then
  grown = grown + #outcome
  redis.call('HSET', row, 'snapshot', outcome)
end
redis.call('HSET', row, 'last', name, 'is_full', is_full, 'state', state)
redis.call('HINCRBY', row, 'calls', calls)
redis.call('HINCRBY', row, 'bytes', bytes)
redis.call('HINCRBY', at .. 'sizes', id, grown)
redis.call('INCRBY', at .. 'total', grown)
if state == 'ended' then
  redis.call('HSET', row, 'status', status, 'seconds', seconds, 'outcome', outcome, 'facts', facts, 'saved', saved)
end
if state ~= there[2] then index_step(id, redis.call('HGET', row, 'began_at'), there[2], state, status, tools) end
touch(state, milliseconds)
redis.call('XADD', at .. 'changes', 'MAXLEN', '~', 200000, '*', 'id', id)
if owner ~= '' then hold(state, owner, lease) end
return 'ok'
"""
)

LOOK: Final = _execution_script("""
local doubted, follows, name = unpack(ARGV, 2, 4)
local last = redis.call('HGET', row, 'last')
if not last then return {'unknown'} end
local answer = 'known'
if doubted ~= '' then
  if last == doubted then answer = 'written'
  elseif last == follows then redis.call('HSET', row, 'last', name)
  else return {'fenced'} end
end
return described(answer)
""")

TAKEOVER: Final = _execution_script("""
local state = redis.call('HGET', row, 'state')
if not state then return {'unknown'} end
if state == 'ended' then return {'ended'} end
local owner = ARGV[4]
if owner ~= '' then
  local there = redis.call('GET', at .. 'l:' .. id)
  if there and there ~= owner then return {'leased'} end
  hold(state, owner, ARGV[5])
end
redis.call('HINCRBY', row, 'epoch', 1)
redis.call('HSET', row, 'last', ARGV[2])
touch(state, ARGV[3])
return described('known')
""")

LOAD: Final = _execution_script("""
local there = redis.call('HMGET', row, 'state', 'epoch', 'begun', 'outcome', 'granted', 'is_full')
if not there[1] then return {} end
local grant = redis.call('GET', at .. 'g:' .. there[5])
return {there[1], there[2], there[3], there[4], there[5], grant, there[6], redis.call('LRANGE', pieces, 0, -1)}
""")

STORY: Final = _execution_script("""
local there = redis.call('HMGET', row, 'state', 'epoch', 'outcome')
if not there[1] then return {} end
return {there[1], there[2], there[3], redis.call('LRANGE', pieces, ARGV[2], -1)}
""")

# The oldest that is there, and the latest; a server that is new has none.
CHANGES: Final = """
local key = at .. 'changes'
local first, last = redis.call('XRANGE', key, '-', '+', 'COUNT', 1), redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)
return {first[1] and first[1][1] or '', last[1] and last[1][1] or '0-0'}
"""

# The first decision on a call, while its execution has not ended.
DECIDE: Final = _execution_script("""
local epoch, call, body = unpack(ARGV, 2, 4)
local there = redis.call('HMGET', row, 'state', 'epoch')
if not there[1] or there[1] == 'ended' or there[2] ~= epoch then return 0 end
local added = redis.call('HSETNX', row, 'decided/' .. epoch .. '/' .. call, body)
redis.call('XADD', at .. 'changes', 'MAXLEN', '~', 200000, '*', 'id', id)
return added
""")

FIELD: Final = "return redis.call('HGET', at .. 'x:' .. ARGV[1], ARGV[2])"

# Goes on where an execution expired and its place in the set is not tidied yet.
FIND: Final = """
local limit, found, offset = tonumber(ARGV[3]), {}, 0
while #found < limit do
  local page = redis.call('ZRANGEBYLEX', at .. 'ids', ARGV[1], ARGV[2], 'LIMIT', offset, limit)
  for _, id in ipairs(page) do
    if #found < limit and redis.call('EXISTS', at .. 'x:' .. id) == 1 then table.insert(found, id) end
  end
  if #page < limit then break end
  offset = offset + limit
end
return found
"""

# The first to name a key decides; a ledger with records has decided already.
OPEN: Final = """
redis.call('HSETNX', at .. 'facts', 'format', ARGV[1])
if ARGV[2] ~= '' and redis.call('EXISTS', at .. 'times') == 0 then
  if redis.call('HSETNX', at .. 'facts', 'key_id', ARGV[2]) == 1 then
    redis.call('HSET', at .. 'facts', 'salt', ARGV[3])
  end
end
return redis.call('HMGET', at .. 'facts', 'format', 'key_id', 'salt')
"""

# What is given back is who holds it now, or nothing.
LEASE: Final = """
local key = at .. 'l:' .. ARGV[1]
local owner = redis.call('GET', key)
if owner and owner ~= ARGV[2] then return owner end
redis.call('SET', key, ARGV[2], 'PX', ARGV[3])
return ARGV[2]
"""

RELEASE: Final = """
local key = at .. 'l:' .. ARGV[1]
if redis.call('GET', key) ~= ARGV[2] then return 0 end
return redis.call('DEL', key)
"""

TIME: Final = "return redis.call('TIME')"

OWNER: Final = "return redis.call('GET', at .. 'l:' .. ARGV[1])"

# Who has the right epoch has the lease, even where it lapsed while the server was away: nobody took it over.
BEAT: Final = """
local owner, milliseconds = ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local lost = {}
for place = 3, #ARGV, 2 do
  local row = redis.call('HMGET', at .. 'x:' .. ARGV[place], 'epoch', 'state')
  if row[1] == ARGV[place + 1] and row[2] ~= 'ended' then
    redis.call('SET', at .. 'l:' .. ARGV[place], owner, 'PX', milliseconds)
  else
    table.insert(lost, ARGV[place])
  end
end
redis.call('ZREMRANGEBYSCORE', at .. 'replicas', '-inf', now)
redis.call('ZADD', at .. 'replicas', now + milliseconds, owner)
return lost
"""

# Claims and turns of sessions: whoever has one keeps it, also where it lapsed and nobody else took it.
RENEW: Final = """
for place = 2, #ARGV, 2 do
  local key = at .. 'l:' .. ARGV[place]
  local there = redis.call('GET', key)
  if not there or there == ARGV[place + 1] then redis.call('SET', key, ARGV[place + 1], 'PX', ARGV[1]) end
end
return 1
"""

REPLICAS: Final = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
return redis.call('ZRANGEBYSCORE', at .. 'replicas', now, '+inf')
"""

LEAVE: Final = """
if ARGV[2] == '1' then redis.call('ZREM', at .. 'replicas', ARGV[1]) end
for place = 3, #ARGV do
  local key = at .. 'l:' .. ARGV[place]
  if redis.call('GET', key) == ARGV[1] then redis.call('DEL', key) end
end
return 1
"""

# Those whose owner is gone and whose time must be over: their last word is older than any may wait.
ABANDONED: Final = """
local clock = redis.call('TIME')
local latest = string.format('%.6f', clock[1] + clock[2] / 1000000 - tonumber(ARGV[1]))
local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', at .. 'leased', '-inf', latest, 'LIMIT', 0, ARGV[2])) do
  if redis.call('EXISTS', at .. 'x:' .. id) == 0 then
    redis.call('ZREM', at .. 'leased', id)
  elseif redis.call('EXISTS', at .. 'l:' .. id) == 0 then
    table.insert(found, id)
  end
end
return found
"""

# The first to ask decides.
AGREE: Final = """
local facts = at .. 'facts'
local is_new = ARGV[3] == '1' and redis.call('HSETNX', facts, ARGV[1], ARGV[2]) or 0
return {is_new, redis.call('HGET', facts, ARGV[1]) or ''}
"""

_FORGET: Final = (
    INDEXING
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
local is_known = redis.call('EXISTS', at .. 'x:' .. ARGV[1])
forget(ARGV[1])
return is_known
"""
)

SWEEP: Final = (
    _FORGET
    + """
local age, open_age, executions, total_bytes, at_once = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]),
  tonumber(ARGV[4]), tonumber(ARGV[5])
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
