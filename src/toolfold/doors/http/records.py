"""Answers of executions that ended before this process, or without it: the record says how."""

from __future__ import annotations

from toolfold.doors.http import answers
from toolfold.doors.http.answers import Answer
from toolfold.doors.http.files import reference_to
from toolfold.doors.http.refusals import EXPIRED
from toolfold.doors.http.tokens import Token
from toolfold.models import Outcome
from toolfold.runtime import Runtime


def ended_before(outcome: Outcome, session: str) -> Answer:
    """The answer that the end of an execution had."""
    files = [reference_to(session, file) for file in outcome.files]
    return answers.ended(outcome, session=session, files=files)


async def expired_before(runtime: Runtime, token: Token, now: float) -> Answer:
    """The answer to a continuation that comes too late, with the output of a program that was paused until then."""
    recorded = await runtime.recorded(token.execution_id)
    outcome = recorded.outcome if recorded is not None else None
    if recorded is not None and outcome is None and recorded.begun.expires_at <= now:
        await runtime.end_recorded(token.execution_id, "timeout")  # nobody else will
    if outcome is None or outcome.status != "timeout":
        return answers.stopped(EXPIRED, None, session="")
    return answers.stopped(EXPIRED, outcome, session=token.session)
