"""Search index of a Redis ledger: sorted sets by start time, first lines of programs, and packed rows.

* `by:state:<state>`, `by:status:<status>`, `by:interface:<interface>`, `by:session:<session>`, `by:tool:<digest>`,
  `by:label:<digest>`
* `by:title`  members `<id>`, a zero byte and the first line in lower case; empty where the ledger is sealed
* `indexed`   hash: the title of an execution and its sets, because its record may expire before they are cleared

They are written in the step that writes the record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from toolfold.ledger.base import ExecutionSummary, State
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.execution_summaries import Facts, Row, ToolUse, decode_facts, decode_names

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
