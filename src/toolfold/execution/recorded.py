"""An execution as its record has it: how far it came, what the outside answered, how it ended.

For doors that must recognise a request that was already answered, perhaps by another process.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from toolfold.errors import Fenced, ToolfoldError, UsageError
from toolfold.execution.accounts import record_of
from toolfold.execution.output import Output
from toolfold.ledger.record import Decided, Given, Made, Moment, Tape
from toolfold.models import Begun, Call, Limits, Outcome, Paused, Problem, Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import TypeIs

    from toolfold.ledger.record import Entry, History, Ledger, State
    from toolfold.models import Reply, Status

_LIMITS: Final = Limits()
_SHOWN_CHARACTERS: Final = 2000
BY_CALLER: Final = "caller "
"""How the name of whoever decides begins, where that is the caller that has the program's pauses."""
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the ledger knows of one execution, whether or not a process holds it."""

    begun: Begun
    state: State
    answered: Mapping[int, Reply]
    """Replies that the outside gave, by call."""
    decided: Mapping[int, tuple[bool, str]] = field(default_factory=dict)
    """What the caller decided on: whether it was approved, and why not."""
    rounds: int = 0
    """Pauses that it has answered."""
    first_pause: Paused | None = None
    """What it asked of the outside first, whether or not it has gone on since."""
    outcome: Outcome | None = None
    """As it was first returned; the ledger keeps more of the output."""

    @property
    def said(self) -> int:
        """How many answers the outside has given: replies and decisions."""
        return len(self.answered) + len(self.decided)

    @property
    def has_ended(self) -> bool:
        """Nothing can go on with it."""
        return self.state == "ended"


def recorded(history: History) -> Recorded:
    """The part of a history that doors need."""
    outside = frozenset(history.begun.outside)
    given = [entry for entry in history.entries if isinstance(entry, Given)]
    return Recorded(
        begun=history.begun,
        state=history.state,
        answered={entry.reply.call_id: entry.reply for entry in given if entry.record.name in outside},
        decided={one.call_id: (one.approved, one.reason) for one in history.entries if _is_decision(one)},
        rounds=_rounds(history, outside),
        first_pause=_first_pause(history, outside),
        outcome=None if history.outcome is None else _as_returned(history.outcome, history.begun.limits.output_bytes),
    )


def _rounds(history: History, outside: frozenset[str]) -> int:
    rounds, is_paused = 0, False
    for entry in history.entries:
        if isinstance(entry, Tape) and entry.seconds_left is not None:
            is_paused = True  # again after a replay, which is the same pause
        elif is_paused and (_is_decision(entry) or (isinstance(entry, Given) and entry.record.name in outside)):
            rounds, is_paused = rounds + 1, False
    return rounds


def _first_pause(history: History, outside: frozenset[str]) -> Paused | None:
    calls: dict[int, Call] = {}
    approvals: dict[int, Call] = {}
    for entry in history.entries:
        match entry:
            case Tape() if entry.seconds_left is not None:
                return _paused(history, calls, approvals) if calls or approvals else None
            case Made() if entry.call.tool in outside:
                calls[entry.call.id] = entry.call
            case Given():
                calls.pop(entry.reply.call_id, None)
            case Moment(kind="asked"):
                facts = entry.facts
                approvals[entry.call_id] = Call(
                    id=entry.call_id, tool=facts["tool"], arguments=facts["arguments"], line=facts["line"]
                )
            case Decided():
                approvals.pop(entry.call_id, None)
            case _:
                pass
    return None


def _paused(history: History, calls: Mapping[int, Call], approvals: Mapping[int, Call]) -> Paused:
    begun = history.begun
    return Paused(
        execution_id=begun.execution_id, calls=tuple(calls.values()), approvals=tuple(approvals.values()),
        seconds_left=begun.limits.wall_seconds,
    )  # fmt: skip


def _is_decision(entry: Entry) -> TypeIs[Decided]:
    """Of the caller, on this very call; others may decide elsewhere, without a pause."""
    return isinstance(entry, Decided) and entry.by.startswith(BY_CALLER) and not entry.under


async def end_recorded(ledger: Ledger, execution_id: str, status: Status) -> bool:
    """End an execution of which only the record is left; false if it has ended, or another process holds it."""
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
    except (Fenced, UsageError):  # another process has it, or it has ended, or is forgotten
        return False
    return True


async def put_on_record(ledger: Ledger, begun: Begun, outcome: Outcome, *entries: Entry) -> None:
    """One that is over already: a rejected program, a direct call. Nobody is told where it cannot be written."""
    try:
        ledger.begin(begun)
        if entries:
            ledger.note(begun.execution_id, *entries)
        await ledger.finish(begun.execution_id, outcome)
    except ToolfoldError as error:
        _log.warning("%s is not on record: %s", begun.execution_id, error)


def direct_call(call: Call, reply: Reply, *, seconds: float, door: str) -> tuple[Begun, Outcome]:
    """What goes on record of a call without a program."""
    execution_id = os.urandom(8).hex()
    record = record_of(call, reply, 0.0, seconds)
    begun = Begun(
        execution_id=execution_id, program=Program(text=_as_program(call)), tools=(), limits=_LIMITS,
        began_at=time.time() - seconds, door=door, is_direct=True, is_strict=True,
    )  # fmt: skip
    outcome = Outcome(
        execution_id=execution_id, status="finished" if reply.error is None else "failed", calls=(record,),
        value=None, seconds=seconds,
        problem=None if reply.error is None else Problem(kind="exception", message=reply.error),
    )  # fmt: skip
    return begun, outcome


def _as_program(call: Call) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    text = f"await {call.tool}({arguments})"
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _as_returned(outcome: Outcome, limit_bytes: int) -> Outcome:
    return replace(outcome, stdout=_cut(outcome.stdout, limit_bytes), stderr=_cut(outcome.stderr, limit_bytes))


def _cut(text: str, limit_bytes: int) -> str:
    output = Output(limit_bytes)
    output.add(text)
    return output.cut()[0]
