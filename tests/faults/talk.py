"""How a client under faults talks: a request is sent again, to any server, until it is answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import httpx

AGAIN: Final = (409, 421, 429, 500, 502, 503)
BROKEN: Final = 500
PATIENCE_SECONDS: Final = 120.0
_TIMEOUTS_SECONDS: Final = (2.0, 5.0, 15.0)
"""Some are shorter than an outage: the work is done then, and its answer lost."""
_PAUSE_SECONDS: Final = 0.05
_MOST_BROKEN: Final = 10
"""Answers with 500 to one request; it is a violation already, and will not get better."""


class Talk:
    """One client's conversation with all servers."""

    def __init__(self, seed: int, bases: Callable[[], list[str]], patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._bases = bases
        self._patience_seconds = patience_seconds
        self.chance = random.Random(seed)
        self.requests = 0
        self.calm_at = 0.0
        """When the faults are over, by the monotonic clock: before that nobody is promised an answer."""
        self.refusals: Counter[str] = Counter()
        """After which a request was sent again."""
        self.lost: Counter[str] = Counter()
        """Why a request had no answer that was not sent again."""
        self.last_refusals: dict[str, int] = {}
        """Of the last request that was never answered."""
        self.broken: list[str] = []
        """Requests that were answered with 500, or refused without a reason."""
        self.http = httpx.AsyncClient(headers={"X-API-Key": "key-of-one"})

    async def close(self) -> None:
        await self.http.aclose()

    # Any: whatever httpx takes for a request.
    async def send(self, method: str, path: str, **request: Any) -> httpx.Response | None:
        """The answer; `None` where there was none for so long that something must be wrong."""
        deadline = max(time.monotonic(), self.calm_at) + self._patience_seconds
        before, broken = self.refusals.copy(), len(self.broken)
        while time.monotonic() < deadline and len(self.broken) - broken < _MOST_BROKEN:
            self.requests += 1
            url = self.chance.choice(self._bases()) + path
            try:
                answer = await self.http.request(method, url, timeout=self.chance.choice(_TIMEOUTS_SECONDS), **request)
            except httpx.TransportError as error:
                self.refusals[type(error).__name__] += 1
            else:
                if answer.status_code not in AGAIN:
                    return answer
                self.refusals[f"{answer.status_code} {_reason(answer)}"] += 1
                if answer.status_code == BROKEN or _reason(answer) is None:
                    self.broken.append(f"{method} {path}")
            await asyncio.sleep(_PAUSE_SECONDS)
        self.last_refusals = dict(self.refusals - before)
        return None

    # Any: as in `send`.
    async def try_once(self, method: str, path: str, **request: Any) -> httpx.Response | None:
        """The answer to a request that must not be sent again; `None` where it was lost."""
        self.requests += 1
        try:
            return await self.http.request(method, self.chance.choice(self._bases()) + path, timeout=30, **request)
        except httpx.TransportError as error:
            self.lost[type(error).__name__] += 1
            return None


def _reason(answer: httpx.Response) -> str | None:
    """Every refusal has one, in JSON."""
    try:
        return answer.json().get("error")
    except ValueError:
        return None
