"""Records of executions that this process does not hold: what they say, and their end."""

from __future__ import annotations

import time
from dataclasses import replace

from toolfold.doors.http import answers
from toolfold.doors.http.answers import Answer
from toolfold.doors.http.files import reference_to
from toolfold.errors import UsageError
from toolfold.ledger.record import Fenced, Given, History, Ledger
from toolfold.models import Outcome, Reply, Status
from toolfold.output import Output


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


def ended_before(history: History, session: str) -> Answer:
    """The answer that the end of an execution had: the ledger keeps more of its output than was shown."""
    assert history.outcome is not None
    limit = history.begun.limits.output_bytes
    stdout, stderr = _cut(history.outcome.stdout, limit), _cut(history.outcome.stderr, limit)
    files = [reference_to(session, file) for file in history.outcome.files]
    return answers.ended(replace(history.outcome, stdout=stdout, stderr=stderr), session=session, files=files)


def replies_from_outside(history: History) -> dict[int, Reply]:
    """What clients answered, by call."""
    outside = frozenset(history.begun.outside)
    given = [entry for entry in history.entries if isinstance(entry, Given)]
    return {entry.reply.call_id: entry.reply for entry in given if entry.record.name in outside}


def _cut(text: str, limit_bytes: int) -> str:
    output = Output(limit_bytes)
    output.add(text)
    return output.cut()[0]
