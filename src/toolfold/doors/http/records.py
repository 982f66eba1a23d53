"""Records of executions that this process does not hold: what they say, and their end."""

from __future__ import annotations

import time
from dataclasses import replace

from toolfold.doors.http import answers
from toolfold.doors.http.answers import Answer
from toolfold.doors.http.files import reference_to
from toolfold.doors.http.refusals import EXPIRED
from toolfold.doors.http.tokens import Token
from toolfold.errors import Fenced, UsageError
from toolfold.execution.output import Output
from toolfold.ledger.record import Given, History, Ledger
from toolfold.models import Outcome, Reply, Status


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
    """The answer that the end of an execution had."""
    assert history.outcome is not None
    files = [reference_to(session, file) for file in history.outcome.files]
    return answers.ended(_shown(history.outcome, history), session=session, files=files)


async def expired_before(ledger: Ledger, token: Token, now: float) -> Answer:
    """The answer to a continuation that comes too late, with the output of a program that was paused until then."""
    history = await ledger.load(token.execution_id)
    if history is not None and history.outcome is None and history.begun.expires_at <= now:
        await end_record(ledger, token.execution_id, "timeout")  # nobody else will
    ran_out = history.outcome if history is not None and history.outcome is not None else None
    if history is None or ran_out is None or ran_out.status != "timeout":
        return answers.stopped(EXPIRED, None, status=400, session="")
    return answers.stopped(EXPIRED, _shown(ran_out, history), status=400, session=token.session)


def _shown(outcome: Outcome, history: History) -> Outcome:
    """The ledger keeps more of the output than the answer has."""
    limit = history.begun.limits.output_bytes
    return replace(outcome, stdout=_cut(outcome.stdout, limit), stderr=_cut(outcome.stderr, limit))


def replies_from_outside(history: History) -> dict[int, Reply]:
    """What clients answered, by call."""
    outside = frozenset(history.begun.outside)
    given = [entry for entry in history.entries if isinstance(entry, Given)]
    return {entry.reply.call_id: entry.reply for entry in given if entry.record.name in outside}


def _cut(text: str, limit_bytes: int) -> str:
    output = Output(limit_bytes)
    output.add(text)
    return output.cut()[0]
