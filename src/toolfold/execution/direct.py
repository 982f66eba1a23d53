"""A call without a program of this runtime: through the router, told to whoever listens, put on record."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from toolfold.events import DirectCall
from toolfold.execution.recorded import direct_call, put_on_record
from toolfold.ledger.record import Given, Made

if TYPE_CHECKING:
    from toolfold.execution.plan import Services
    from toolfold.models import Call, Reply
    from toolfold.tools.tool import Spent


async def serve_direct(services: Services, call: Call, *, idempotency_key: str | None, spent: Spent | None) -> Reply:
    """The reply; with `spent` the call is that of a program elsewhere, and counts towards that program's budgets."""
    tell = services.listeners.tell
    context = msgspec.structs.replace(services.context, idempotency_key=idempotency_key, tell=tell)
    began = time.perf_counter()
    if spent is None:
        reply = await services.router.serve(call, caller="direct", context=context)
    else:
        reply = await services.router.serve(call, caller="code", context=msgspec.structs.replace(context, spent=spent))
    seconds = time.perf_counter() - began
    if tell is not None:
        tell(DirectCall(call, reply, seconds))
    if services.ledger.is_lasting:
        begun, outcome = direct_call(call, reply, seconds=seconds, door=services.door)
        await put_on_record(services.ledger, begun, outcome, Made(call), Given(reply, outcome.calls[0]))
    return reply
