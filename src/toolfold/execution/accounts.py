"""What an outcome says of one call: its times, its sizes, and how its reply came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from toolfold.models import CallRecord
from toolfold.tools.shape import json_size

if TYPE_CHECKING:
    from toolfold.models import Call, Reply


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
