"""Leases of a Redis ledger: they say, beside the records, which replica holds which execution.

1. A lease changes hands only together with the epoch, so who has the right epoch may renew it, also after it lapsed.
2. A lease tells others where to send a request. It protects nothing: the epoch does.
3. By its own clock a replica knows for how long nobody can have taken an execution; after that it must ask.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from toolfold.errors import UsageError
from toolfold.ledger import base
from toolfold.ledger.redis import lua_scripts
from toolfold.ledger.redis.connection import set_clock
from toolfold.ledger.redis.write_commands import Write
from toolfold.steady_clock import SteadyClock, steady_seconds

# Any: what a script answers is between it and whoever asks.
Ask: TypeAlias = Callable[..., Awaitable[Any]]
_AT_ONCE: Final = 500
_PROMPT_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Lease:
    epoch: int
    until: float
    """By the monotonic clock of this process."""


class Leases:
    """The leases of one replica.

    Args:
        ask: Runs a script on the server.
        owner: What the leases of this replica say; no other has it.
        seconds: How long a lease lasts that is not renewed.
        clock: Set by the server's with each beat: another server may have taken its place.

    Raises:
        UsageError: The duration makes no sense.
    """

    def __init__(self, ask: Ask, owner: str, seconds: float, clock: SteadyClock) -> None:
        self._ask = ask
        self._owner = owner
        self._seconds = seconds
        if not 0.001 <= seconds <= 86_400:
            raise UsageError(f"a lease lasts between a millisecond and a day, not {seconds!r} seconds")
        self.terms = owner, int(seconds * 1000)
        """Owner and duration in milliseconds, for the scripts that take a lease with a write."""
        self._clock = clock
        self._leases: dict[str, _Lease] = {}
        self._claims: dict[str, str] = {}
        """Owners of the executions that have not begun and of the turns of sessions, by name."""

    def record_write(self, write: Write) -> None:
        """Note that a write renewed the lease of its execution, or ended it with the execution."""
        if write.job is not None and write.job.kind == "finish":
            self._leases.pop(write.record.id, None)
        elif write.record.epoch is not None:
            self._leases[write.record.id] = _Lease(write.record.epoch, write.made_at + self._seconds)

    def record_takeover(self, execution_id: str, epoch: int, asked_at: float) -> None:
        """Note the lease of an execution that was taken over."""
        self._leases[execution_id] = _Lease(epoch, asked_at + self._seconds)

    async def owner_of(self, execution_id: str) -> str | None:
        answer = await self._ask(lua_scripts.OWNER, execution_id)
        return None if answer is None else answer.decode()

    async def claim(self, execution_id: str) -> bool:
        """Take the lease of an execution that has not begun, and renew it until `unclaim`; false if another has it."""
        return await self._claim(execution_id, self._owner)

    def unclaim(self, execution_id: str) -> None:
        """It has begun, and its writes hold the lease; or it never will."""
        self._claims.pop(execution_id, None)

    async def beat(self, execution_ids: Collection[str]) -> list[str]:
        """Say that this replica is there, and renew the leases of these executions; those that another has now."""
        asked_at = steady_seconds()
        answer = await self._ask(lua_scripts.TIME)
        if steady_seconds() - asked_at < _PROMPT_SECONDS:  # else it is not known when the server looked
            set_clock(self._clock, answer, asked_at)
        for execution_id in self._leases.keys() - set(execution_ids):
            # Its lease lapses, or went with its end.
            del self._leases[execution_id]
        leases = list(self._leases.items())
        lost_ids: list[str] = []
        for place in range(0, max(1, len(leases)), _AT_ONCE):
            lost_ids += await self._renew(leases[place : place + _AT_ONCE])
        claims = [word for claim in self._claims.items() for word in claim]
        for place in range(0, len(claims), 2 * _AT_ONCE):
            await self._ask(lua_scripts.RENEW, self.terms[1], *claims[place : place + 2 * _AT_ONCE])
        return lost_ids

    async def replicas(self) -> list[str]:
        """Owners whose last beat has not lapsed."""
        return [owner.decode() for owner in await self._ask(lua_scripts.REPLICAS)]

    async def confirm(self, execution_id: str) -> None:
        """Return if no other replica can have this execution now.

        Raises:
            Fenced: Another one has it.
            LedgerFailed: That cannot be found out.
        """
        lease = self._leases.get(execution_id)
        if lease is None or time.monotonic() < lease.until:
            return
        if await self._renew([(execution_id, lease)]):
            raise base.fenced_error(execution_id)

    async def release(self, executions: Collection[str], *, owner: str = "", is_leaving: bool = False) -> None:
        """End leases at once: one's own, or those of an `owner` that is known to be gone."""
        for execution_id in executions:
            self._leases.pop(execution_id, None)
        await self._ask(lua_scripts.LEAVE, owner or self._owner, int(is_leaving), *executions)

    async def take_turn(self, session: str, turn: str) -> bool:
        """Whether this turn has the session now; it keeps it until `end_turn`, wherever its execution goes on."""
        return await self._claim(f"session/{session}", turn)

    def forget_turn(self, session: str) -> str:
        """Do not renew it any more: its execution goes on elsewhere, or is over."""
        return self._claims.pop(f"session/{session}", "")

    async def end_turn(self, session: str, turn: str) -> None:
        """Let the next turn have the session."""
        await self._ask(lua_scripts.RELEASE, f"session/{session}", turn)

    async def find_abandoned(self, seconds: float) -> list[str]:
        """Executions that nobody holds, and of which nobody wrote for so long."""
        return [
            execution_id.decode() for execution_id in await self._ask(lua_scripts.ABANDONED, repr(seconds), _AT_ONCE)
        ]

    async def _claim(self, name: str, owner: str) -> bool:
        answer = await self._ask(lua_scripts.LEASE, name, owner, self.terms[1])
        if answer.decode() != owner:
            return False
        self._claims[name] = owner
        return True

    async def _renew(self, leases: Collection[tuple[str, _Lease]]) -> list[str]:
        asked_at = time.monotonic()
        pairs = [word for execution_id, lease in leases for word in (execution_id, lease.epoch)]
        answer = await self._ask(lua_scripts.BEAT, *self.terms, *pairs)
        lost_ids = {execution_id.decode() for execution_id in answer}
        for execution_id, lease in leases:
            if execution_id in lost_ids:
                lease.until = -math.inf  # remembered as long as its guest lives: that must hear of it, too
            else:
                lease.until = max(lease.until, asked_at + self._seconds)
        return sorted(lost_ids)
