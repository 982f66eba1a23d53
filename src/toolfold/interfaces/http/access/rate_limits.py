"""Rate limits per tenant: starts per minute, concurrent programs, pauses and bodies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from toolfold.interfaces.http.metrics import Metrics
from toolfold.interfaces.http.outcome_bodies import Hangup, hangup_refusal, rate_limited
from toolfold.interfaces.http.settings import Settings

_QUICK_REQUESTS: Final = 100
_MOST_FOLLOWERS: Final = 50
"""Of one tenant: pages in browsers, each with one stream for all that happens, and one for a run."""
_ROOM_BEHIND: Final = 3.0
"""How many times as long as a large body took to decode, until the next one is."""
_OWN_ROOM_BEHIND: Final = 9.0
"""The same until the next one of the same tenant."""


@dataclass(slots=True)
class _Share:
    """Counters and locks of one tenant."""

    turns: asyncio.Semaphore
    allowance: float
    counted_at: float = field(default_factory=time.monotonic)
    waiting: int = 0
    paused: int = 0
    requests: int = 0
    followers: int = 0
    held_bytes: int = 0
    large: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One large body of the tenant at a time waits to be decoded: the others' do not queue behind all of them."""


class _Turn:
    """Turn of one tenant. A class, because a generator would cost a twentieth of a continuation."""

    __slots__ = ("_hangup", "_metrics", "_most_waiting", "_share")

    def __init__(self, share: _Share, metrics: Metrics, most_waiting: int, hangup: Hangup | None) -> None:
        self._share = share
        self._metrics = metrics
        self._most_waiting = most_waiting
        self._hangup = hangup

    async def __aenter__(self) -> None:
        seconds = 0.0
        if self._share.turns.locked():
            seconds = await self._wait()
        else:
            await self._share.turns.acquire()
        self._metrics.observe("queue_seconds", seconds)
        self._metrics.running += 1

    async def _wait(self) -> float:
        share, began = self._share, time.monotonic()
        if share.waiting >= self._most_waiting:
            raise rate_limited(1)
        share.waiting += 1
        try:
            async with while_connected(self._hangup):
                await share.turns.acquire()
        finally:
            share.waiting -= 1
        return time.monotonic() - began

    async def __aexit__(self, *_: object) -> None:
        self._metrics.running -= 1
        self._share.turns.release()


class Gate:
    """Rate limits, turns and pauses of all tenants."""

    def __init__(self, settings: Settings, metrics: Metrics | None = None) -> None:
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._shares: dict[str, _Share] = {}
        self._decoding = asyncio.Lock()
        self._followers = 0

    def start(self, tenant: str) -> None:
        """Count one start; `Refusal` 429 if the allowance, which fills up again over a minute, is used up."""
        self.expect_start(tenant)
        share = self._of(tenant)
        share.allowance -= 1
        if share.paused >= self._settings.paused:
            raise rate_limited(5)

    def expect_start(self, tenant: str) -> None:
        """`Refusal` 429 if the tenant may not start now; counts nothing."""
        if (seconds := self._seconds_to_start(tenant)) > 0:
            raise rate_limited(seconds)

    async def wait_for_start(self, tenant: str) -> None:
        """Count one start as soon as the tenant may have another; for programs that came in one request."""
        while True:
            seconds = self._seconds_to_start(tenant)
            if seconds <= 0:
                break
            await asyncio.sleep(seconds)  # others of the tenant may be quicker then
        self._of(tenant).allowance -= 1

    def _seconds_to_start(self, tenant: str) -> float:
        share, per_minute = self._of(tenant), self._settings.starts_per_minute
        now = time.monotonic()
        share.allowance = min(per_minute, share.allowance + (now - share.counted_at) * per_minute / 60)
        share.counted_at = now
        return max(0.0, (1 - share.allowance) * 60 / per_minute)

    def turn(self, tenant: str, hangup: Hangup | None = None) -> _Turn:
        """A turn to hold; 429 if too many wait already, 499 if the client hangs up before it comes."""
        return _Turn(self._of(tenant), self._metrics, self._settings.waiting, hangup)

    def enter(self, tenant: str) -> None:
        """Count a request of the tenant; `Refusal` 429 if it has too many."""
        share = self._of(tenant)
        most = self._settings.running + self._settings.waiting + _QUICK_REQUESTS
        if share.requests >= min(most, self._settings.max_connections // 2):
            raise rate_limited(1)
        share.requests += 1

    def leave(self, tenant: str, *, held_bytes: int) -> None:
        share = self._of(tenant)
        share.requests -= 1
        share.held_bytes -= held_bytes

    def follow(self, tenant: str) -> None:
        """Count a stream that may never end; `Refusal` 429 if there are too many."""
        share, connections = self._of(tenant), self._settings.max_connections
        is_too_many = share.followers >= min(_MOST_FOLLOWERS, max(1, connections // 10))
        # Of all tenants: half of the connections are left to requests that end.
        if is_too_many or self._followers >= max(1, connections // 2):
            raise rate_limited(5)
        share.followers += 1
        self._followers += 1

    def unfollow(self, tenant: str) -> None:
        self._of(tenant).followers -= 1
        self._followers -= 1

    def hold(self, tenant: str, size: int) -> None:
        """Count bytes of bodies in memory; `Refusal` 429 if there are too many."""
        share = self._of(tenant)
        if share.held_bytes + size > self._settings.max_held_bytes:
            raise rate_limited(1)
        share.held_bytes += size

    @asynccontextmanager
    async def large_body(self, tenant: str, hangup: Hangup) -> AsyncIterator[None]:
        """Hold the turn of decoding a large body, which blocks everyone, so others have room behind each."""
        own, loop = self._of(tenant).large, asyncio.get_running_loop()
        async with while_connected(hangup if own.locked() or self._decoding.locked() else None):
            await own.acquire()
            try:
                await self._decoding.acquire()
            except BaseException:
                own.release()
                raise
        began = time.thread_time()  # not counting what other processes took of the processor meanwhile
        try:
            yield
        finally:
            seconds = time.thread_time() - began
            loop.call_later(seconds * _ROOM_BEHIND, self._decoding.release)
            loop.call_later(seconds * _OWN_ROOM_BEHIND, own.release)

    def paused(self, tenant: str, change: int) -> None:
        self._of(tenant).paused += change

    @property
    def paused_now(self) -> int:
        return sum(share.paused for share in self._shares.values())

    def _of(self, tenant: str) -> _Share:
        share = self._shares.get(tenant)
        if share is None:
            turns = asyncio.Semaphore(self._settings.running)
            share = self._shares[tenant] = _Share(turns, float(self._settings.starts_per_minute))
        return share


@asynccontextmanager
async def while_connected(hangup: Hangup | None) -> AsyncIterator[None]:
    """Cancel the body with `Refusal` 499 when the client hangs up; `None` costs nothing."""
    if hangup is None:
        yield
        return
    scope = asyncio.timeout(None)
    try:
        async with scope:
            watch = asyncio.ensure_future(hangup())
            watch.add_done_callback(lambda done: _expire(scope, done))
            try:
                yield
            finally:
                watch.cancel()
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise hangup_refusal() from error


def _expire(scope: asyncio.Timeout, watch: asyncio.Future[None]) -> None:
    if watch.cancelled() or watch.exception() is not None:
        return
    with suppress(RuntimeError):  # what was waited for came in the same moment
        scope.reschedule(asyncio.get_running_loop().time())
