"""How much one tenant may do at once and in a minute, so that none can take it all."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from toolfold.doors.http.refusals import rate_limited
from toolfold.doors.http.settings import Settings


@dataclass(slots=True)
class _Share:
    """One tenant's part."""

    turns: asyncio.Semaphore
    allowance: float
    counted_at: float = field(default_factory=time.monotonic)
    waiting: int = 0
    paused: int = 0


class Gate:
    """Rates, turns and pauses of all tenants."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._shares: dict[str, _Share] = {}

    def start(self, tenant: str) -> None:
        """Count one start; the allowance fills up again over a minute.

        Raises:
            Refusal: 429, with the time until the next one is allowed.
        """
        share, per_minute = self._of(tenant), self._settings.starts_per_minute
        now = time.monotonic()
        share.allowance = min(per_minute, share.allowance + (now - share.counted_at) * per_minute / 60)
        share.counted_at = now
        if share.allowance < 1:
            raise rate_limited((1 - share.allowance) * 60 / per_minute)
        share.allowance -= 1
        if share.paused >= self._settings.paused:
            raise rate_limited(5)

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[float]:
        """Hold one of the tenant's turns; gives the seconds that were waited for it."""
        share = self._of(tenant)
        if share.turns.locked() and share.waiting >= self._settings.waiting:
            raise rate_limited(1)
        began = time.monotonic()
        share.waiting += 1
        try:
            await share.turns.acquire()
        finally:
            share.waiting -= 1
        try:
            yield time.monotonic() - began
        finally:
            share.turns.release()

    def paused(self, tenant: str, change: int) -> None:
        """One more or one less execution of the tenant is paused."""
        self._of(tenant).paused += change

    @property
    def paused_now(self) -> int:
        """Of all tenants."""
        return sum(share.paused for share in self._shares.values())

    def _of(self, tenant: str) -> _Share:
        share = self._shares.get(tenant)
        if share is None:
            turns = asyncio.Semaphore(self._settings.running)
            share = self._shares[tenant] = _Share(turns, float(self._settings.starts_per_minute))
        return share


class SessionTurns:
    """One execution of a session at a time, from its start to its end.

    Waited for before a tenant's turn is taken: an execution that waits for a paused one of its session
    must not hold what the paused one needs to go on.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    async def enter(self, session: str) -> None:
        """Wait for the session to be free."""
        self._users[session] += 1
        try:
            await self._locks.setdefault(session, asyncio.Lock()).acquire()
        except BaseException:
            self._left(session)
            raise

    def leave(self, session: str) -> None:
        """The execution is over."""
        self._locks[session].release()
        self._left(session)

    def _left(self, session: str) -> None:
        self._users[session] -= 1
        if not self._users[session]:
            del self._users[session], self._locks[session]
