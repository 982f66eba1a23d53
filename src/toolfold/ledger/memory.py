"""A ledger that ends with its process: for tests, and for runtimes that need no record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from toolfold.errors import UsageError
from toolfold.ledger.record import Begun, Entry, Fenced, Given, History, State, Summary
from toolfold.models import Outcome

KEPT_EXECUTIONS: Final = 200


@dataclass(slots=True)
class _Kept:
    begun: Begun
    entries: list[Entry] = field(default_factory=list)
    state: State = "running"
    epoch: int = 0
    outcome: Outcome | None = None


class MemoryLedger:
    """Keeps the newest executions; the oldest ended ones make room."""

    def __init__(self, *, keep: int = KEPT_EXECUTIONS) -> None:
        self._keep = keep
        self._executions: dict[str, _Kept] = {}

    def begin(self, begun: Begun) -> None:
        self._executions[begun.execution_id] = _Kept(begun)
        if len(self._executions) > self._keep:
            ended = next((key for key, kept in self._executions.items() if kept.state == "ended"), None)
            if ended is not None:
                del self._executions[ended]

    def note(self, execution_id: str, *entries: Entry, epoch: int = 0) -> None:
        self._held(execution_id, epoch).entries.extend(entries)

    async def flush(self, execution_id: str) -> None:
        return

    async def park(self, execution_id: str, *, epoch: int = 0) -> None:
        self._held(execution_id, epoch).state = "paused"

    async def accept(self, execution_id: str, entries: Sequence[Given], *, epoch: int = 0) -> None:
        kept = self._held(execution_id, epoch)
        kept.entries.extend(entries)
        kept.state = "running"

    async def takeover(self, execution_id: str) -> int:
        kept = self._executions[execution_id]
        kept.epoch += 1
        return kept.epoch

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0) -> None:
        kept = self._held(execution_id, epoch)
        kept.state, kept.outcome = "ended", outcome

    async def load(self, execution_id: str) -> History | None:
        kept = self._executions.get(execution_id)
        if kept is None:
            return None
        return History(
            begun=kept.begun, entries=tuple(kept.entries), state=kept.state, epoch=kept.epoch, outcome=kept.outcome
        )

    async def list(self, *, limit: int = 50, before: float | None = None, tenant: str | None = None) -> list[Summary]:
        found = []
        for kept in reversed(self._executions.values()):
            is_older = before is None or kept.begun.began_at < before
            if is_older and (tenant is None or kept.begun.tenant == tenant):
                found.append(_summary(kept))
        return found[:limit]

    async def close(self) -> None:
        return

    def _held(self, execution_id: str, epoch: int) -> _Kept:
        kept = self._executions.get(execution_id)
        if kept is None:
            raise UsageError(f"no execution {execution_id!r} in the ledger")
        if kept.epoch != epoch:
            raise Fenced(f"execution {execution_id!r} was taken over by another process")
        return kept


def _summary(kept: _Kept) -> Summary:
    begun, outcome = kept.begun, kept.outcome
    return Summary(
        execution_id=begun.execution_id,
        state=kept.state,
        status=outcome.status if outcome else "",
        began_at=begun.began_at,
        seconds=outcome.seconds if outcome else 0.0,
        calls=sum(isinstance(entry, Given) for entry in kept.entries),
        first_line=begun.program.text.strip().partition("\n")[0][:80],
        session=begun.session,
        tenant=begun.tenant,
    )
