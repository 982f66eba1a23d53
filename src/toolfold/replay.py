"""An execution's past: what it must do again to be where it was, and what need not be done twice."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from toolfold.engines.base import Taped
from toolfold.errors import ToolfoldError, UsageError
from toolfold.ledger import snapshots
from toolfold.ledger.record import Given, Handed, Made, Parked, Tape
from toolfold.ledger.snapshots import Pause
from toolfold.models import Reply, ReplyMeta

if TYPE_CHECKING:
    from toolfold.ledger.record import Begun, History, Ledger
    from toolfold.ledger.snapshots import Snapshot
    from toolfold.models import Call

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class ReplayDiverged(ToolfoldError):
    """The program did not do again what its record says. Nothing was called; a retry will not help."""

    code = "replay_diverged"


class Past:
    """The recorded part of an execution that goes on in another process, from its start or from a snapshot."""

    def __init__(self, history: History, snapshot: Snapshot | None = None) -> None:
        execution_id = history.begun.execution_id
        self.snapshot = snapshot
        self.rounds = _rounds(history)
        begin = 0 if snapshot is None else history.entries.index(Parked(self.rounds))
        tapes = [entry for entry in history.entries[begin:] if isinstance(entry, Tape)]
        if any(tape.is_spoilt for tape in tapes):
            raise UsageError(
                f"execution {execution_id!r} cannot be replayed: it used threads, or read the clock too often"
            )
        self._calls = {entry.call.id: entry.call for entry in history.entries if isinstance(entry, Made)}
        self.given = [entry for entry in history.entries if isinstance(entry, Given)]
        self._given_by_call = {entry.reply.call_id: entry for entry in self.given}
        self._handed = {entry.call_id: entry.is_open for entry in history.entries if isinstance(entry, Handed)}
        self.tape = Taped(
            tuple(wake for tape in tapes for wake in tape.wakes), tuple(read for tape in tapes for read in tape.clocks)
        )

    def knows(self, call: Call) -> bool:
        """Whether this call is on record.

        Raises:
            ReplayDiverged: Another call is, at the same place.
        """
        recorded = self._calls.get(call.id)
        if recorded is None:
            return False
        if call_key(recorded) != call_key(call):
            raise ReplayDiverged(
                f"call {call.id} was {recorded.tool!r} with {_shown(recorded)}, now it is {call.tool!r} with "
                f"{_shown(call)}; the program or its surroundings changed under its record"
            )
        return True

    def is_handed_out(self, call_id: int) -> bool:
        """Whether its tool left the answer to the outside, so that nothing of it has been done yet."""
        return self._handed.get(call_id, False)

    def given_to(self, call_id: int) -> Given | None:
        """The reply on record to that call."""
        return self._given_by_call.get(call_id)


async def snapshot_of(history: History, ledger: Ledger, engine: str) -> Snapshot | None:
    """The program at its last pause; `None` where none was kept, or where it is not for this engine or key.

    Raises:
        SealBroken: What the ledger has is not what was kept at that pause.
    """
    rounds = _rounds(history)
    kept = await ledger.snapshot(history.begun.execution_id) if rounds and engine else None
    seal = ledger.snapshot_seal() if kept is not None else None
    if kept is None or seal is None:
        return None
    return snapshots.unlock(kept, pause_of(history.begun, rounds, engine), seal)


def pause_of(begun: Begun, number: int, engine: str) -> Pause:
    """What the snapshot of one pause is bound to."""
    return Pause(execution_id=begun.execution_id, tenant=begun.tenant, round=number, engine=engine)


def _rounds(history: History) -> int:
    return max((entry.round for entry in history.entries if isinstance(entry, Parked)), default=0)


class Rerun:
    """Replies of an earlier execution, for a corrected program that makes some of the same calls."""

    def __init__(self, history: History) -> None:
        calls = {entry.call.id: entry.call for entry in history.entries if isinstance(entry, Made)}
        self._replies: dict[bytes, deque[Reply]] = {}
        for entry in history.entries:
            # A failure is not a result to keep: the same call may work now.
            if isinstance(entry, Given) and entry.reply.error is None and entry.reply.call_id in calls:
                key = call_key(calls[entry.reply.call_id])
                self._replies.setdefault(key, deque()).append(entry.reply)

    def reply_to(self, call: Call) -> Reply | None:
        """The reply to the same tool with the same arguments, each recorded one once and in order."""
        replies = self._replies.get(call_key(call))
        if not replies:
            return None
        return msgspec.structs.replace(replies.popleft(), call_id=call.id, meta=ReplyMeta(attempts=0, from_record=True))


def call_key(call: Call) -> bytes:
    """Equal for calls of the same tool with equal arguments, whatever the order of the keys."""
    return _encoder.encode((call.tool, call.arguments))


def _shown(call: Call) -> str:
    text = repr(dict(call.arguments))
    return text if len(text) <= 200 else f"{text[:200]}..."
