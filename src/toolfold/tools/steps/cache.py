"""Reply cache step: replies by idempotency key, and by arguments where a tool may be cached.

* The same key twice runs the tool once, for as long as the reply is kept.
* Calls that come while the first one is on its way wait for it and share what becomes of it.
* A failure is not kept: the next call runs the tool again.
* What is kept is bounded in number and bytes, the longest unused goes first, and never crosses tenants.
"""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from toolfold.errors import ToolRefused
from toolfold.models import MIB, Value
from toolfold.tools.router import CallRequest, Handler, Wrapper, check_size
from toolfold.tools.steps.concurrency import PerLoop
from toolfold.tools.steps.resilience import StepClock
from toolfold.tools.tool import CallContext, Tool

_ENTRY_BYTES: Final = 512
"""Counted for each reply beside its own size, so that a flood of empty ones is bounded too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Cache limits, and how long idempotency keys are valid."""

    max_entries: int = 10_000
    max_bytes: int = 64 * MIB
    key_seconds: float = 3600.0


def remembering(cache: Cache, clock: StepClock) -> Wrapper:
    """One memory for all tools of a router."""
    memory = _ReplyCache(cache, clock)

    def wrap(tool: Tool, rest: Handler) -> Handler:
        seconds = tool.spec.cache_seconds

        def look(request: CallRequest) -> Awaitable[Value]:
            context = request.context
            key = None if context is None else context.idempotency_key
            if key is not None:
                return memory.serve(request, rest, key, cache.key_seconds)
            return rest(request) if seconds <= 0 else memory.serve(request, rest, None, seconds)

        return look

    return wrap


@dataclass(frozen=True, slots=True)
class _CachedReply:
    value: Value
    size: int
    until: float


_Slot: TypeAlias = tuple[str, str, str | bytes]
"""Tenant, tool, and the key or the arguments' digest."""
_End: TypeAlias = _CachedReply | BaseException


class _ReplyCache:
    """Replies that may be given again, and calls whose reply will be."""

    def __init__(self, cache: Cache, clock: StepClock) -> None:
        self._cache = cache
        self._clock = clock
        self._replies: OrderedDict[_Slot, tuple[bytes, _CachedReply]] = OrderedDict()
        self._stored_bytes = 0
        self._in_flight = PerLoop[dict[_Slot, tuple[bytes, asyncio.Future[_End]]]](dict)

    async def serve(self, request: CallRequest, rest: Handler, key: str | None, seconds: float) -> Value:
        """The reply kept for this call, or the rest's own."""
        arguments = _digest(request)
        slot = ((request.context or CallContext()).tenant, request.call.tool, arguments if key is None else key)
        in_flight = self._in_flight.get()
        while entry := self._fresh(slot) or in_flight.get(slot):
            first_arguments, end = entry
            if first_arguments != arguments:
                raise ToolRefused(
                    f"{request.call.tool!r} was called before with idempotency key {key!r} and other arguments"
                )
            if isinstance(end, _CachedReply):
                return _again(request, end)
            await asyncio.wait([end])
            if not end.cancelled():
                return _again(request, end.result())
            # The first one's program went away; this call, or another that waited, is the first now.
        return await self._first(slot, arguments, request, rest, seconds)

    async def _first(self, slot: _Slot, arguments: bytes, request: CallRequest, rest: Handler, seconds: float) -> Value:
        in_flight = self._in_flight.get()
        future: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
        in_flight[slot] = (arguments, future)
        try:
            value = await rest(request)
            reply = _CachedReply(_own(request, value), request.size_bytes or 0, self._clock.now() + seconds)
            self._keep(slot, arguments, reply)
            future.set_result(reply)
        except (Exception, SystemExit) as error:
            future.set_result(error)
            raise
        finally:
            del in_flight[slot]
            future.cancel()  # does nothing unless this call was cancelled
        return value

    def _fresh(self, slot: _Slot) -> tuple[bytes, _CachedReply] | None:
        entry = self._replies.get(slot)
        if entry is None:
            return None
        if entry[1].until <= self._clock.now():
            self._drop(slot)
            return None
        self._replies.move_to_end(slot)
        return entry

    def _keep(self, slot: _Slot, arguments: bytes, reply: _CachedReply) -> None:
        self._replies[slot] = (arguments, reply)
        self._stored_bytes += reply.size + _ENTRY_BYTES
        while len(self._replies) > self._cache.max_entries or self._stored_bytes > self._cache.max_bytes:
            self._drop(next(iter(self._replies)))

    def _drop(self, slot: _Slot) -> None:
        self._stored_bytes -= self._replies.pop(slot)[1].size + _ENTRY_BYTES


def _again(request: CallRequest, end: _End) -> Value:
    request.note(attempts=0, cached=True)
    if isinstance(end, BaseException):
        raise end
    # Kept under one execution's limits, given under another's.
    check_size(request.call.tool, end.size, request.max_reply_bytes)
    request.size_bytes = end.size
    return _own(request, end.value)


def _own(request: CallRequest, value: Value) -> Value:
    """A direct caller holds the very value and may change it; a program is sent a copy anyway."""
    return copy.deepcopy(value) if request.caller == "direct" else value


def _digest(request: CallRequest) -> bytes:
    return sha256(msgspec.json.encode(request.call.arguments, order="deterministic")).digest()
