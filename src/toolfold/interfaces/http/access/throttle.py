"""Throttling of clients that are refused again and again, so that a flood of refusals stays cheap.

1. Refusals count, and nothing else: on the account of whoever's key it was, without a good one on that of the address.
2. The first ones are answered at once, further ones at a rate; until then their connection may be cut to make room.
3. With a good key in its headers the next request waits too, before anything is done for it. Without one it does not:
   somebody else at that address, behind the same proxy, may have one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold.interfaces.http.access.auth import Authenticator
from toolfold.interfaces.http.body import account_of
from toolfold.interfaces.server.listen import rest

FREE: Final = 50
"""Refusals that cost nothing; they are forgotten at the rate."""
LONGEST_SECONDS: Final = 10.0
_MOST_ACCOUNTS: Final = 10_000
_NO_FLOOD: Final = frozenset({404, 499})
"""A file that is gone is asked for in good faith, and who has left hears no answer."""
_REFUSED_AS: Final = "toolfold.refused_as"


@dataclass(slots=True)
class _Debt:
    refusals: float
    at: float


def note_refusal(scope: Scope, status: int) -> None:
    """The request was, though some clients are told so with a 200."""
    scope[_REFUSED_AS] = status


class RefusalThrottle:
    """How long each account has to wait.

    Args:
        per_second: Refusals of one account that are answered, once its first ones are used up.
        clock: Seconds, for tests.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._debts: dict[str, _Debt] = {}

    @property
    def is_idle(self) -> bool:
        """Nobody was refused lately."""
        return not self._debts

    def seconds_of(self, account: str) -> float:
        """Until a request of the account is due."""
        return self.count(account, 0)

    def count(self, account: str, refusals: float = 1.0) -> float:
        """So many more, or less; gives the seconds until the next one is due."""
        now = self._clock()
        debt = self._debts.setdefault(account, _Debt(0.0, now))
        debt.refusals = max(0.0, debt.refusals - (now - debt.at) * self._per_second) + refusals
        debt.at = now
        if debt.refusals <= 0:
            del self._debts[account]
        elif len(self._debts) > _MOST_ACCOUNTS:
            del self._debts[next(iter(self._debts))]
        return min(LONGEST_SECONDS, max(0.0, debt.refusals - FREE) / self._per_second)


class Paced:
    """Keeps the pace of every request; the outermost thing that one meets."""

    def __init__(self, app: ASGIApp, *, auth: Authenticator, pace: RefusalThrottle) -> None:
        self._app = app
        self._auth = auth
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # As good as always nobody was refused: then no key is looked at twice.
        tenant = "" if self._pace.is_idle else self._auth.tenant_of_key(Headers(scope=scope))
        is_counted = bool(tenant) and self._pace.seconds_of(tenant) > 0
        if is_counted and not await rest(self._pace.count(tenant)):
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = scope.get(_REFUSED_AS, message["status"])
                is_refusal = 400 <= status < 500 and status not in _NO_FLOOD
                if is_counted and not is_refusal:
                    self._pace.count(tenant, -1)
                elif is_refusal and not is_counted and not await rest(self._pace.count(_account(scope))):
                    return
            await send(message)

        await self._app(scope, receive, answer)


def _account(scope: Scope) -> str:
    """Tenants' names have no blank, so no address is taken for one."""
    return account_of(scope) or f"at {(scope['client'] or ('',))[0]}"
