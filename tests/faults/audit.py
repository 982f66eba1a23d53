"""The ledger as the judge reads it: every execution with its calls, replies and end."""

from __future__ import annotations

import msgspec

from tests.faults.judge import Recorded
from toolfold.ledger.base import CallEntry, ExecutionHistory, ReplyEntry
from toolfold.ledger.ledger_factory import open_ledger

_MOST = 1_000_000


async def records_of(where: str) -> list[Recorded]:
    """All of them, the oldest first."""
    ledger = open_ledger(where)
    try:
        rows = await ledger.list(limit=_MOST)
        histories = [await ledger.load(row.execution_id) for row in reversed(rows)]
    finally:
        await ledger.close()
    return [_recorded(history) for history in histories if history is not None]


def _recorded(history: ExecutionHistory) -> Recorded:
    made = [entry.call for entry in history.entries if isinstance(entry, CallEntry)]
    given = [entry.reply for entry in history.entries if isinstance(entry, ReplyEntry)]
    outcome = history.outcome
    return Recorded(
        execution_id=history.start_record.execution_id,
        name=history.start_record.program.sent_text.partition("\n")[0].removeprefix("# "),
        state=history.state,
        status="" if outcome is None else outcome.status,
        stdout="" if outcome is None else outcome.stdout,
        calls=tuple((call.id, str(call.arguments.get("name", call.arguments.get("city", "")))) for call in made),
        replies=tuple((reply.call_id, None if reply.error is not None else _plain(reply.value)) for reply in given),
    )


# Any JSON value, without the types of the codec.
def _plain(value: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(value))
