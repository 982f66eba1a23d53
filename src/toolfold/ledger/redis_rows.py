"""Rows of listings as a Redis server sends them: packed into one text, which is read much faster than its parts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from toolfold.ledger.record import State, Summary
from toolfold.ledger.scanning import Row, decode_facts
from toolfold.ledger.seal import NoSeal, Seal

STATES: Final[dict[bytes, State]] = {b"running": "running", b"paused": "paused", b"ended": "ended"}

_FIELDS: Final = (
    "state", "status", "began_at", "seconds", "calls", "title", "session", "tenant", "door", "facts",
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
    execution_id, state, status, began_at, seconds, calls, title, session, tenant, door, sealed = values
    name = execution_id.decode()
    facts = decode_facts(seal.open(sealed, f"{name}/facts")) if sealed else None
    summary = Summary(
        execution_id=name,
        state=STATES[state],
        status=status.decode(),
        began_at=float(began_at),
        seconds=float(seconds),
        calls=int(calls),
        first_line=seal.open(title, f"{name}/title").decode(),
        session=session.decode(),
        tenant=tenant.decode(),
        door=door.decode(),
        failed=0 if facts is None else facts.failed,
        saved_bytes=0 if facts is None else facts.saved_bytes,
        lanes=() if facts is None else facts.lanes,
    )
    return summary, () if facts is None else facts.uses
