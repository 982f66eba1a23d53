"""Pool of guests that are forked before they are needed.

Rules:
1. A guest is taken once, then it is closed; nothing is ever used twice.
2. The pool is topped up after a program is over, two at a time, and not while a program waits
   for its guest, so that forking ahead does not compete with what is wanted now.
3. Only guests with the engine's own limits wait here; other limits get a guest of their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from toolfold.engines.process.guest import HoldRegistry
from toolfold.errors import EngineUnavailable
from toolfold.models import Limits

if TYPE_CHECKING:
    from toolfold.engines.process.guest import Guest
    from toolfold.engines.process.zygote import Zygote

TOP_UP_AFTER_SECONDS: Final = 0.002
AT_A_TIME: Final = 2
BUFFER_BYTES: Final = 256 * 1024


class Pool:
    """Parked guests of one zygote."""

    def __init__(self, zygote: Zygote, limits: Limits, warm: int, *, refills: bool = True) -> None:
        self.zygote = zygote
        self._limits = limits
        self._usual = _of_process(limits)
        self._warm = warm
        self._loop = asyncio.get_running_loop()
        self._parked: deque[Guest] = deque()
        self._active_guests: set[Guest] = set()
        self._idle: set[Guest] = set()
        """Those among them that a session keeps, between two of its programs."""
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        """What is read goes here first. One program of the pool reads at a time; those of other pools may be in the
        middle of it: a tool may run a program of another runtime, and another thread may have a loop of its own."""
        self.holds = HoldRegistry()
        self._waiting = 0
        """Programs whose guest is still on its way."""
        self._top_up_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._top_up()
        if not refills:
            self._warm = 0

    def take(self, limits: Limits) -> Guest:
        """A guest for one program. It may still be on its way: see `until_ready`."""
        if self._is_closed:
            raise EngineUnavailable("the engine is closed")
        # Limits are set at the fork and can only be lowered: a parked guest has those of the engine for good.
        guest = (self._next_parked() or self.zygote.spawn()) if self.is_usual(limits) else self.zygote.spawn(limits)
        self._active_guests.add(guest)
        return guest

    def _next_parked(self) -> Guest | None:
        while self._parked:
            guest = self._parked.popleft()
            if not guest.has_ended:
                return guest
            self.give_back(guest)  # something outside killed it while it waited
        return None

    @property
    def is_quiet(self) -> bool:
        """Whether guests wait and there is nothing else to do."""
        is_idle = not self._active_guests and self._top_up_timer is None
        return is_idle and bool(self._parked) and self._parked[-1].ready.done()

    def is_usual(self, limits: Limits) -> bool:
        """Whether a parked guest will do for a program with these limits."""
        return limits is self._limits or _of_process(limits) == self._usual

    @property
    def is_shared(self) -> bool:
        """Whether more than one guest has a program, if only a paused one: none of them is favoured then."""
        return len(self._active_guests) - len(self._idle) > 1

    def rest(self, guest: Guest) -> None:
        """It is taken, and waits for the next program of its session: until then nobody reads what it sends."""
        self._idle.add(guest)

    def rouse(self, guest: Guest) -> None:
        """The next program is there."""
        self._idle.discard(guest)

    async def until_ready(self, guest: Guest) -> None:
        """Returns when a guest that was taken is locked down; one that cannot be is given back."""
        self._waiting += 1
        try:
            # Shielded: whoever gives up waiting must not cancel what others may still look at.
            if not guest.ready.done():
                await asyncio.shield(guest.ready)
            guest.ready.result()
        except BaseException:
            self.give_back(guest)
            raise
        finally:
            self._waiting -= 1

    def give_back(self, guest: Guest) -> None:
        """The program is over: end its guest and see that another one waits."""
        # The outcome waits neither for the kill nor for the closing.
        self._loop.call_soon(self._retire, guest)

    def _retire(self, guest: Guest) -> None:
        # Closed before the next is forked: the kernel counts both against the same limits.
        self._active_guests.discard(guest)
        self._idle.discard(guest)
        guest.close()
        if self._warm and self._top_up_timer is None and not self._is_closed:
            self._top_up_timer = self._loop.call_later(TOP_UP_AFTER_SECONDS, self._top_up)

    async def close(self) -> None:
        """End every guest, parked or taken, and the zygote."""
        for guest in self._active_guests:
            guest.close()
        self._active_guests.clear()
        self._idle.clear()
        await self.close_idle()

    async def close_idle(self) -> None:
        """End the zygote and what is parked. Programs that have a guest of it see for themselves how that ended."""
        self._is_closed = True
        if self._top_up_timer is not None:
            self._top_up_timer.cancel()
        for guest in self._parked:
            guest.close()
        self._parked.clear()
        await self.zygote.close()

    def _top_up(self) -> None:
        self._top_up_timer = None
        missing = min(AT_A_TIME, self._warm - len(self._parked))
        if missing <= 0 or self._is_closed or self.zygote.closed:
            return
        # Rule 2. The timer comes back for those that are not forked now.
        if not self._waiting:
            guests = self.zygote.spawn_many(missing)
            self._parked.extend(guests)
            guests[-1].ready.add_done_callback(self._settle)
        if len(self._parked) < self._warm:
            self._top_up_timer = self._loop.call_later(TOP_UP_AFTER_SECONDS, self._top_up)

    def _settle(self, _: asyncio.Future[None]) -> None:
        """The guests wait. With all quiet, the next program shall find them on another core than the host's."""
        if not self._active_guests:
            for guest in self._parked:
                guest.place.stay_away()


def _of_process(limits: Limits) -> Limits:
    """The limits that are set when a guest is forked; the others belong to the conversation."""
    plain = Limits()
    return replace(
        limits,
        wall_seconds=plain.wall_seconds,
        output_bytes=plain.output_bytes,
        value_bytes=plain.value_bytes,
        sent_bytes=plain.sent_bytes,
        reply_bytes=plain.reply_bytes,
        calls=plain.calls,
        calls_in_flight=plain.calls_in_flight,
        program_bytes=plain.program_bytes,
    )
