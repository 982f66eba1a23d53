"""Recorded executions: how far one came, what a replay must do again, and replies that a rerun reuses.

For interfaces that must recognise a request that was already answered, perhaps by another process.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from toolfold.engines.base import Engine, ReplayTape
from toolfold.errors import Fenced, ReplayDiverged, ToolfoldError, UsageError
from toolfold.execution.outcome import record_of
from toolfold.execution.program_output import Output
from toolfold.ledger import encryption
from toolfold.ledger.base import CallEntry, DecisionEntry, HandoverEntry, Moment, PauseEntry, ReplyEntry, TapeEntry
from toolfold.ledger.encryption import Pause, ProgramSnapshot
from toolfold.models import (
    Call,
    Limits,
    Outcome,
    Paused,
    Problem,
    Program,
    Reply,
    ReplyMeta,
    RunNames,
    StartRecord,
    Status,
)
from toolfold.protocol.codec import encode_ordered

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from toolfold.ledger.base import Entry, ExecutionHistory, Ledger, State


_LIMITS: Final = Limits()
_SHOWN_CHARACTERS: Final = 2000
BY_CALLER: Final = "caller "
"""How the name of whoever decides begins, where that is the caller that has the program's pauses."""
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExecution:
    """Recorded state of one execution, whether or not a process runs it."""

    start_record: StartRecord
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
    def answer_count(self) -> int:
        return len(self.answered) + len(self.decided)

    @property
    def has_ended(self) -> bool:
        return self.state == "ended"


def read_recorded(history: ExecutionHistory) -> RecordedExecution:
    """The part of a history that interfaces need."""
    outside, outcome = frozenset(history.start_record.outside), history.outcome
    reply_entries = [entry for entry in history.entries if isinstance(entry, ReplyEntry)]
    if outcome is not None:
        limit_bytes = history.start_record.limits.output_bytes
        outcome = replace(outcome, stdout=_cut(outcome.stdout, limit_bytes), stderr=_cut(outcome.stderr, limit_bytes))
    return RecordedExecution(
        start_record=history.start_record,
        state=history.state,
        answered={entry.reply.call_id: entry.reply for entry in reply_entries if entry.record.name in outside},
        decided={
            decision.call_id: (decision.approved, decision.reason)
            for decision in history.entries
            if _is_decision(decision)
        },
        rounds=_rounds(history, outside),
        first_pause=_first_pause(history, outside),
        outcome=outcome,
    )


def _rounds(history: ExecutionHistory, outside: frozenset[str]) -> int:
    rounds, is_paused = 0, False
    for entry in history.entries:
        if isinstance(entry, TapeEntry) and entry.seconds_left is not None:
            is_paused = True  # again after a replay, which is the same pause
        elif is_paused and (_is_decision(entry) or (isinstance(entry, ReplyEntry) and entry.record.name in outside)):
            rounds, is_paused = rounds + 1, False
    return rounds


def _first_pause(history: ExecutionHistory, outside: frozenset[str]) -> Paused | None:
    calls: dict[int, Call] = {}
    approvals: dict[int, Call] = {}
    for entry in history.entries:
        match entry:
            case TapeEntry() if entry.seconds_left is not None:
                return _paused(history, calls, approvals) if calls or approvals else None
            case CallEntry() if entry.call.tool in outside:
                calls[entry.call.id] = entry.call
            case ReplyEntry():
                calls.pop(entry.reply.call_id, None)
            case Moment(kind="asked"):
                approvals[entry.call_id] = _asked_call(entry)
            case DecisionEntry():
                approvals.pop(entry.call_id, None)
            case _:
                pass
    return None


def _paused(history: ExecutionHistory, calls: Mapping[int, Call], approvals: Mapping[int, Call]) -> Paused:
    start_record = history.start_record
    return Paused(
        execution_id=start_record.execution_id, calls=tuple(calls.values()), approvals=tuple(approvals.values()),
        seconds_left=start_record.limits.wall_seconds,
    )  # fmt: skip


def _asked_call(entry: Moment) -> Call:
    facts = entry.facts
    return Call(
        id=entry.call_id, tool=facts["tool"], arguments=facts["arguments"], line=facts["line"],
        within=facts.get("within", 0),
    )  # fmt: skip


def _is_question(entry: Entry) -> TypeIs[Moment]:
    return isinstance(entry, Moment) and entry.kind == "asked"


def _is_decision(entry: Entry) -> TypeIs[DecisionEntry]:
    """Of the caller, on this very call; others may decide elsewhere, without a pause."""
    return isinstance(entry, DecisionEntry) and entry.by.startswith(BY_CALLER) and not entry.under


async def end_recorded(ledger: Ledger, execution_id: str, status: Status) -> bool:
    """End an execution of which only the record is left; false if it has ended, or another process holds it."""
    try:
        epoch = await ledger.takeover(execution_id)
        history = await ledger.load(execution_id)
        if history is None:
            return False
        start_record = history.start_record
        outcome = Outcome(
            execution_id=execution_id,
            status=status,
            engine=start_record.engine,
            isolation=start_record.isolation,
            seconds=max(0.0, time.time() - start_record.began_at),
        )
        await ledger.finish(execution_id, outcome, epoch=epoch)
    except (Fenced, UsageError):  # another process has it, or it has ended, or is forgotten
        return False
    return True


async def put_on_record(ledger: Ledger, start_record: StartRecord, outcome: Outcome, *entries: Entry) -> None:
    """Record an execution that is already over: a rejected program or a direct call. Errors are only logged."""
    try:
        ledger.begin(start_record)
        if entries:
            ledger.note(start_record.execution_id, *entries)
        await ledger.finish(start_record.execution_id, outcome)
    except ToolfoldError as error:
        _log.warning("%s was not recorded: %s", start_record.execution_id, error)


def direct_call(
    call: Call, reply: Reply, *, seconds: float, interface: str, names: RunNames
) -> tuple[StartRecord, Outcome]:
    """What goes on record of a call without a program."""
    execution_id = os.urandom(8).hex()
    record = record_of(call, reply, 0.0, seconds)
    start_record = StartRecord(
        execution_id=execution_id, program=Program(text=_as_program(call)), tools=(), limits=_LIMITS,
        began_at=time.time() - seconds, interface=interface, is_direct=True, is_strict=True,
        **{name: getattr(names, name) for name in RunNames.__struct_fields__},
    )  # fmt: skip
    outcome = Outcome(
        execution_id=execution_id, status="finished" if reply.error is None else "failed", calls=(record,),
        value=None, seconds=seconds,
        problem=None if reply.error is None else Problem(kind="exception", message=reply.error),
    )  # fmt: skip
    return start_record, outcome


def _as_program(call: Call) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    text = f"await {call.tool}({arguments})"
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _cut(text: str, limit_bytes: int) -> str:
    output = Output(limit_bytes)
    output.add(text)
    return output.cut()[0]


# ----------------------------------------------------------------------------------------------------
# An execution's past: what it must do again to be where it was, and what need not be done twice.


class ReplayHistory:
    """Recorded part of an execution that continues in another process, from its start or a snapshot."""

    def __init__(self, history: ExecutionHistory, snapshot: ProgramSnapshot | None = None, *, epoch: int = 0) -> None:
        execution_id = history.start_record.execution_id
        self.epoch = epoch
        """Of the ledger since it was taken over."""
        self.snapshot = snapshot
        self.rounds = _replay_rounds(history)
        begin = 0 if snapshot is None else history.entries.index(PauseEntry(self.rounds))
        tapes = [entry for entry in history.entries[begin:] if isinstance(entry, TapeEntry)]
        if any(tape.is_spoilt for tape in tapes):
            raise UsageError(
                f"execution {execution_id!r} cannot be replayed: it used threads, or read the clock too often"
            )
        self._calls = {entry.call.id: entry.call for entry in history.entries if isinstance(entry, CallEntry)}
        self.reply_entries = [entry for entry in history.entries if isinstance(entry, ReplyEntry)]
        self._entries_by_call = {entry.reply.call_id: entry for entry in self.reply_entries}
        # Calls that wait for a yes, or were refused before they asked, have not begun; their ids are taken.
        self._earlier = {
            **{
                number: Call(id=number, tool=entry.record.name, arguments=entry.record.arguments)
                for number, entry in self._entries_by_call.items()
            },
            **{entry.call_id: _asked_call(entry) for entry in history.entries if _is_question(entry)},
            **self._calls,
        }
        self._handed = {entry.call_id: entry.is_open for entry in history.entries if isinstance(entry, HandoverEntry)}
        decided = (entry for entry in history.entries if isinstance(entry, DecisionEntry))
        self.decided = [(self._calls[entry.call_id], entry) for entry in decided if entry.call_id in self._calls]
        """Calls that asked, with the answers on record; what stands of these stands on."""
        self.seconds_left = _seconds_left(history)
        """Of the wall clock, if it paused where its record ends."""
        self.paused_at = _paused_at(history) if self.seconds_left is not None else None
        """When that was, by the ledger's clock; `None` where nobody noted it."""
        self.last_tick = _last_tick(history)
        """The last that is known of its wall clock."""
        self.tape = ReplayTape(
            tuple(wake for tape in tapes for wake in tape.wakes), tuple(read for tape in tapes for read in tape.clocks)
        )

    @property
    def calls(self) -> list[Call]:
        """All that the program has made, also those that have not begun."""
        return [self._earlier[number] for number in sorted(self._earlier)]

    def knows(self, call: Call) -> bool:
        """Whether this call is on record as begun or answered.

        Raises:
            ReplayDiverged: Another call is, at the same place.
        """
        recorded = self._earlier.get(call.id)
        if recorded is None:
            return False
        if call_key(recorded) != call_key(call):
            raise ReplayDiverged(
                f"call {call.id} was {recorded.tool!r} with {_show_arguments(recorded)}, now it is {call.tool!r} with "
                f"{_show_arguments(call)}; the program or its surroundings changed under its record"
            )
        return call.id in self._calls or call.id in self._entries_by_call

    def is_handed_out(self, call_id: int) -> bool:
        """Whether its tool left the answer to the outside, so that nothing of it has been done yet."""
        return self._handed.get(call_id, False)

    def reply_entry_for(self, call_id: int) -> ReplyEntry | None:
        return self._entries_by_call.get(call_id)


async def history_of(ledger: Ledger, execution_id: str) -> ExecutionHistory:
    """All that is on record of an execution.

    Raises:
        UsageError: There is nothing.
    """
    history = await ledger.load(execution_id)
    if history is None:
        raise UsageError(f"no execution {execution_id!r} in the ledger; it was cancelled or never existed")
    return history


async def take_over(execution_id: str, engine: Engine, ledger: Ledger) -> tuple[ExecutionHistory, ReplayHistory]:
    """Fence whichever process paused the execution, and read what it must be replayed from.

    Raises:
        UsageError: It is unknown, has ended, or began on another engine.
    """
    history = await history_of(ledger, execution_id)
    _refuse_ended(history)
    if history.start_record.engine != engine.name:
        raise UsageError(
            f"execution {execution_id!r} began on the {history.start_record.engine!r} engine, this is "
            f"{engine.name!r}; resume it where the same engine runs"
        )
    epoch = await ledger.takeover(execution_id)
    history = await history_of(ledger, execution_id)  # again: the other one may have written until it was fenced
    _refuse_ended(history)
    past = ReplayHistory(history, await snapshot_of(history, ledger, engine.capabilities.snapshot_version), epoch=epoch)
    return history, past


def _refuse_ended(history: ExecutionHistory) -> None:
    if history.state == "ended":
        raise UsageError(f"execution {history.start_record.execution_id!r} has ended; there is nothing to resume")


async def snapshot_of(history: ExecutionHistory, ledger: Ledger, engine: str) -> ProgramSnapshot | None:
    """The program at its last pause; `None` where none was kept, or where it is not for this engine or key.

    Raises:
        SealBroken: What the ledger has is not what was kept at that pause.
    """
    rounds = _replay_rounds(history)
    stored_snapshot = await ledger.snapshot(history.start_record.execution_id) if rounds and engine else None
    seal = ledger.snapshot_seal() if stored_snapshot is not None else None
    if stored_snapshot is None or seal is None:
        return None
    return encryption.unlock(stored_snapshot, pause_of(history.start_record, rounds, engine), seal)


def pause_of(start_record: StartRecord, number: int, engine: str) -> Pause:
    """Identity of a pause that its snapshot is bound to."""
    return Pause(execution_id=start_record.execution_id, tenant=start_record.tenant, round=number, engine=engine)


def _replay_rounds(history: ExecutionHistory) -> int:
    return max((entry.round for entry in history.entries if isinstance(entry, PauseEntry)), default=0)


def _seconds_left(history: ExecutionHistory) -> float | None:
    for entry in reversed(history.entries):
        if isinstance(entry, TapeEntry) and entry.seconds_left is not None:
            return entry.seconds_left
        if isinstance(entry, Moment) and entry.kind != "resumed":
            continue
        if not isinstance(entry, TapeEntry | PauseEntry):
            break  # it has gone on since
    return None


def _paused_at(history: ExecutionHistory) -> float | None:
    """At the first of the pauses that stand at the end of the record: a replay that paused again is the same pause."""
    paused_at = None
    for entry in reversed(history.entries):
        if isinstance(entry, Moment) and entry.kind == "paused":
            # Older versions noted the time of day alone.
            paused_at = float(entry.facts.get("clock", history.start_record.began_at + entry.at))
        elif isinstance(entry, ReplyEntry) or (isinstance(entry, Moment) and entry.kind == "resumed"):
            break
    return paused_at


def _last_tick(history: ExecutionHistory) -> float | None:
    for entry in reversed(history.entries):
        if isinstance(entry, Moment) and entry.kind == "ticked":
            return float(entry.facts["seconds_left"])
        if isinstance(entry, TapeEntry) and entry.seconds_left is not None:
            return entry.seconds_left
    return None


class Rerun:
    """Replies of an earlier execution, for a corrected program that makes some of the same calls.

    Args:
        repeat: Tools that may be called again although the record does not say whether they were called before.

    Raises:
        UsageError: Calls may be missing from the record, and it was not said which tools may be called again.
    """

    def __init__(self, history: ExecutionHistory, repeat: Collection[str] | None = None) -> None:
        self._id = history.start_record.execution_id
        self._repeat = frozenset(repeat or ())
        self._is_whole = history.is_whole
        if not self._is_whole and repeat is None:
            raise UsageError(
                f"calls may be missing from the record of execution {self._id!r}: it was cut off, or is too large; "
                "name the tools that may be called again with `repeat`"
            )
        self._replies: dict[bytes, deque[Reply]] = {}
        self._unanswered: Counter[bytes] = Counter()
        reply_entries = {entry.reply.call_id: entry for entry in history.entries if isinstance(entry, ReplyEntry)}
        for entry in history.entries:
            if isinstance(entry, CallEntry):
                self._add(entry.call, reply_entries.get(entry.call.id))

    def _add(self, call: Call, reply_entry: ReplyEntry | None) -> None:
        if reply_entry is None or (reply_entry.reply.error is not None and reply_entry.record.from_record):
            self._unanswered[call_key(call)] += 1  # also where an earlier rerun could not know either
        elif reply_entry.reply.error is None:  # a failure is not a result to keep: the same call may work now
            self._replies.setdefault(call_key(call), deque()).append(reply_entry.reply)

    def reply_to(self, call: Call, *, is_safe: bool) -> Reply | None:
        """The reply to the same tool with the same arguments, each recorded one once and in order.

        One that was begun there without a reply may have run: it is made again only where that is safe or allowed.
        """
        key = call_key(call)
        meta = ReplyMeta(attempts=0, from_record=True)
        if replies := self._replies.get(key):
            return msgspec.structs.replace(replies.popleft(), call_id=call.id, meta=meta)
        may_have_run = self._unanswered[key] > 0 or not self._is_whole
        self._unanswered[key] -= self._unanswered[key] > 0
        if not may_have_run or is_safe or call.tool in self._repeat:
            return None
        text = (
            f"{call.tool!r} may have been called with these arguments in execution {self._id!r}, which has no reply on "
            "record; whether it ran is not known, so it was not called again"
        )
        return Reply(call_id=call.id, error=text, meta=meta)


def call_key(call: Call) -> bytes:
    """Equal for calls of the same tool with equal arguments, whatever the order of the keys."""
    return encode_ordered((call.tool, call.arguments))


def _show_arguments(call: Call) -> str:
    text = repr(dict(call.arguments))
    return text if len(text) <= 200 else f"{text[:200]}..."
