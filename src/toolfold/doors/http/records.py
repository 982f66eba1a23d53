"""Ends the record of an execution that no process holds any more."""

from __future__ import annotations

import time

from toolfold.errors import UsageError
from toolfold.ledger.record import Fenced, Ledger
from toolfold.models import Outcome, Status


async def end_record(ledger: Ledger, execution_id: str, status: Status) -> bool:
    """Whether it was still open, and nobody else's; its tokens are of no use from then on."""
    try:
        epoch = await ledger.takeover(execution_id)
        history = await ledger.load(execution_id)
        if history is None:
            return False
        begun = history.begun
        outcome = Outcome(
            execution_id=execution_id,
            status=status,
            engine=begun.engine,
            isolation=begun.isolation,
            seconds=max(0.0, time.time() - begun.began_at),
        )
        await ledger.finish(execution_id, outcome, epoch=epoch)
    except (Fenced, UsageError):  # another replica has it, or it has ended, or is forgotten
        return False
    return True
