"""What an outcome says of its calls: their times, their sizes, and how each reply came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from toolfold.events import ToolReplied
from toolfold.execution.lately import Lately
from toolfold.models import CallRecord
from toolfold.tools.values import json_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.events import Tell
    from toolfold.ledger.record import Given
    from toolfold.models import Call, Reply


class Accounts:
    """The calls that were answered, and what may be said of them at the end.

    Args:
        began: When the execution did, by `time.perf_counter`.
        tell: Tells whoever listens; `on_call` is the caller's own.
    """

    def __init__(
        self, execution_id: str, began: float, tell: Tell | None, on_call: Callable[[CallRecord], None] | None
    ) -> None:
        self.began = began
        self.records: list[CallRecord] = []
        self.not_repeated: list[str] = []
        """Tools of calls that may have run before; whether they did is not on record."""
        self.lately = Lately()
        self._id = execution_id
        self._tell = tell
        self._on_call = on_call

    def record(self, call: Call, reply: Reply, began: float, ended: float) -> CallRecord:
        """The line of one call; nothing is kept yet."""
        return record_of(call, reply, began - self.began, ended - began)

    def add(self, given: Given) -> None:
        """The program has this reply."""
        record = given.record
        self.lately.saw(record.name, given.reply)
        self.records.append(record)
        if self._tell is not None:
            self._tell(ToolReplied(self._id, record))
        if self._on_call is not None:
            self._on_call(record)

    def restore(self, given: Given) -> None:
        """The program had this reply before it was replayed; whoever listens was told then."""
        self.lately.saw(given.record.name, given.reply)
        self.records.append(given.record)


def record_of(call: Call, reply: Reply, started_seconds: float, seconds: float) -> CallRecord:
    """One line of `Outcome.calls`."""
    record = CallRecord(
        id=call.id,
        name=call.tool,
        arguments=call.arguments,
        started_seconds=started_seconds,
        seconds=seconds,
        error=reply.error,
        bytes_in=json_size(call.arguments),
        bytes_out=_size(reply),
        line=call.line,
        traceback=reply.traceback,
    )
    meta = reply.meta
    if meta is None:
        return record
    return msgspec.structs.replace(
        record,
        attempts=meta.attempts,
        cached=meta.cached,
        breaker=meta.breaker,
        from_record=meta.from_record,
        used_arguments=meta.arguments,
    )


def _size(reply: Reply) -> int:
    if reply.size_bytes is not None:
        return reply.size_bytes
    return json_size(reply.value if reply.error is None else reply.error)
