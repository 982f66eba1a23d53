"""Router steps in their order: all that happens between a caller and a tool beside finding and calling it."""

from __future__ import annotations

import asyncio
import copy
import errno
import logging
import math
import random
import re
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from toolfold.errors import ToolArgumentsInvalid, ToolNotFound, ToolRefused
from toolfold.events import ToolRetried
from toolfold.models import MIB, Call, ToolSpec, Value
from toolfold.tools.policy import Policy
from toolfold.tools.router import (
    NO_FAULT_OF_THE_TOOL,
    CallRequest,
    Handler,
    Wrapper,
    check_size,
    checked,
    error_text,
    from_record,
    preparation,
    withholding,
)
from toolfold.tools.tool import CallContext, Decision, Globs, Tool, least, positive

# ----------------------------------------------------------------------------------------------------
# Approval and budget steps: one asks before a call, the other counts the calls of one program.

NOBODY_CAN_APPROVE: Final = Decision(approved=False, reason="it needs approval, and nobody can give it here")
_log: Final = logging.getLogger(__name__)


def approval(policy: Policy) -> Wrapper:
    """Asks for each call of the tools that the policy says to ask for; anything but a yes refuses."""

    def wrap(tool: Tool, rest: Handler) -> Handler:
        async def ask(request: CallRequest) -> Value:
            decision = await _decision(tool, request)
            if not decision.approved:
                reason = f": {decision.reason}" if decision.reason else ""
                raise ToolRefused(f"{tool.spec.name!r} was denied{reason}")
            if decision.arguments is not None:
                edited = dict(decision.arguments)
                request.arguments = preparation(tool)(edited)
                # The steps after this one remember calls by what was approved, not by what was asked.
                request.call = msgspec.structs.replace(request.call, arguments=edited)
                request.note(arguments=edited)
                await policy.check_conditions(tool.spec, request)
            return await rest(request)

        return ask if policy.asks(tool.spec) else rest

    return wrap


async def deny(_call: Call, _spec: ToolSpec) -> Decision:
    """An `Approve` for interfaces whose programs may pause for their tools, and that have nobody to ask for a yes."""
    return NOBODY_CAN_APPROVE


async def _decision(tool: Tool, request: CallRequest) -> Decision:
    name = tool.spec.name
    approve = (request.context or CallContext()).approve
    if approve is None:
        return NOBODY_CAN_APPROVE
    try:
        return await approve(request.call, tool.spec)
    # A broken way to ask must refuse: it may raise anything, and none of it is for the program to read.
    except Exception as error:
        _log.exception("asking for approval of %r failed", name)
        raise ToolRefused(f"{name!r} needs approval, and asking for it failed") from error


def budget(policy: Policy) -> Wrapper:
    """Refuses the calls of a program beyond the policy's `max_calls`; a direct call has no program."""

    def wrap(tool: Tool, rest: Handler) -> Handler:
        name, most = tool.spec.name, policy.max_calls(tool.spec)
        if most is None:
            return rest

        def count(request: CallRequest) -> Awaitable[Value]:
            if request.context is not None and request.caller == "code":
                calls = request.context.spent.calls
                if calls[name] >= most:
                    raise ToolRefused(f"{name!r} is out of budget: {calls[name]} of {most} calls used in this program")
                calls[name] += 1
            return rest(request)

        return count

    return wrap


class StepClock(Protocol):
    """Time as the steps see it, so that a test can hold it still: seconds that only go forward."""

    def now(self) -> float: ...
    async def sleep(self, seconds: float, /) -> None: ...


class SystemClock:
    """The system's clock."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


# ----------------------------------------------------------------------------------------------------
# Circuit breaker step.
#
# A breaker is `closed` while its tool works. After several failures in a row it is open: calls
# fail at once. When its time is up one call may try; its success closes the breaker, its failure
# opens it for as long again. Each tenant has breakers of its own: what fails for one, by its own arguments
# or its own rights, may work for the others. Only an error that says that the tool is unavailable counts; any
# other error is an answer, like a success. A refusal, bad arguments and a cancel say nothing of the tool.

_MOST_TENANTS: Final = 1000
_NETWORK_ERRNOS: Final = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
_UNAVAILABLE_NAME: Final = re.compile(
    "Timeout|TimedOut|Connect(ion|or)?(Error|Closed|Failure|Lost)|ServerDisconnected|TransportError|NetworkError"
    "|ServiceUnavailable"
)
"""Names of errors in client libraries, which need not be installed here."""
_STATUS_ATTRIBUTES: Final = ("status_code", "status", "http_status", "code")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When to leave a tool alone, and for how long."""

    failures: int = 5
    """Consecutive failures that open it."""
    open_seconds: float = 30.0


def _counts(tool: Tool, error: BaseException) -> bool | None:
    """Whether it is a failure; `None` if it says nothing of the tool."""
    if tool.breaks_on == "failure":
        return None if isinstance(error, NO_FAULT_OF_THE_TOOL) else True
    if isinstance(error, ToolNotFound | ToolRefused | ToolArgumentsInvalid):
        return None
    return is_unavailable(error)


def is_unavailable(error: BaseException | None, depth: int = 8) -> bool:
    """Whether an error or its cause is a timeout, a lost connection, a dead server or an HTTP status of 5xx.

    An error decides for itself with an attribute `tool_unavailable`.
    """
    if error is None or depth == 0:
        return False
    claim = getattr(error, "tool_unavailable", None)
    if isinstance(claim, bool):
        return claim
    if isinstance(error, TimeoutError | ConnectionError | socket.gaierror):
        return True
    if isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS:
        return True
    if any(_UNAVAILABLE_NAME.search(kind.__name__) for kind in type(error).__mro__):
        return True
    places = (error, getattr(error, "response", None))
    statuses = [getattr(place, name, None) for place in places for name in _STATUS_ATTRIBUTES]
    if any(isinstance(status, int) and 500 <= status <= 599 for status in statuses):
        return True
    causes = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    causes.append(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    # `URLError` has the error of its socket there.
    causes.append(reason if isinstance(reason := getattr(error, "reason", None), OSError) else None)
    return any(is_unavailable(cause, depth - 1) for cause in causes)


@dataclass(frozen=True, slots=True)
class BreakerStep:
    """One breaker for each tool and tenant."""

    breaker: Breaker
    clock: StepClock

    def wrap(self, tool: Tool, rest: Handler) -> Handler:
        """The step for one tool."""
        breaker, clock = self.breaker, self.clock
        # Of the tenants for whom it failed last, oldest first; most calls find none here.
        states: dict[str, _BreakerState] = {}

        async def watch(request: CallRequest) -> Value:
            tenant = "" if request.context is None else request.context.tenant
            state = states.get(tenant)
            is_probe = state is not None and state.failures >= breaker.failures
            if state is not None and is_probe:
                state.admit_probe(request)
            try:
                value = await rest(request)
            # Also `SystemExit`, which the router takes for a failure of the tool.
            except (Exception, SystemExit) as error:
                counts = _counts(tool, error)
                if counts:
                    failing_state = states.setdefault(tenant, state or _BreakerState(tool.spec.name, breaker, clock))
                    failing_state.fail(request, error, is_probe=is_probe)
                    if len(states) > _MOST_TENANTS:
                        del states[next(iter(states))]
                elif counts is False and (answering := states.pop(tenant, None)) is not None:
                    answering.succeed(request)
                raise
            finally:
                if state is not None and is_probe:
                    state.is_probing = False
            if states and (healed := states.pop(tenant, None)) is not None:
                healed.succeed(request)
            return value

        return watch


class _BreakerState:
    def __init__(self, name: str, breaker: Breaker, clock: StepClock) -> None:
        self._name = name
        self._breaker = breaker
        self._clock = clock
        self._open_until = 0.0
        # Any: a source that watches its server says with the error how to ask whether it is back.
        self._is_back: Any = None
        self.failures = 0
        self.is_probing = False

    def admit_probe(self, request: CallRequest) -> None:
        """Let one call through once the time is up; raise for all others."""
        remaining_seconds = self._open_until - self._clock.now()
        if self._is_back is not None and self._is_back():
            remaining_seconds = 0.0
        if remaining_seconds <= 0 and not self.is_probing:
            self.is_probing = True
            return
        request.note(attempts=0, breaker="open")
        when = "is being tried by another call now"
        if remaining_seconds > 0:
            when = f"is not called until {math.ceil(remaining_seconds)} s from now"
        raise ToolRefused(f"{self._name!r} failed {self.failures} times in a row and {when}")

    def fail(self, request: CallRequest, error: BaseException, *, is_probe: bool) -> None:
        self.failures += 1
        self._is_back = getattr(error, "is_back", None)
        # Calls that were on their way when it opened and fail later do not keep it open for longer.
        if self.failures == self._breaker.failures or (is_probe and self.failures > self._breaker.failures):
            self._open_until = self._clock.now() + self._breaker.open_seconds
            request.note(breaker="opened")

    def succeed(self, request: CallRequest) -> None:
        if self.failures >= self._breaker.failures:
            request.note(breaker="closed")


# ----------------------------------------------------------------------------------------------------
# The step that tries again, where that cannot do a thing twice.
#
# Written by hand: `stamina` sleeps on the real clock only, so exact waits cannot be tested, and it
# costs 50 µs for a call that works at once, where this costs 0.2.


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Number of attempts, and the wait between them, which doubles each time."""

    attempts: int = 3
    first_wait_seconds: float = 0.1
    jitter: float = 0.25
    """Each wait is up to this part of itself longer or shorter; 0 for exact waits."""
    longest_wait_seconds: float = 30.0
    """A tool that asks for a longer wait is not called again: the program decides."""

    def wait_seconds(self, failures: int) -> float:
        """Seconds to wait after so many failures."""
        exact: float = self.first_wait_seconds * 2 ** (failures - 1)
        # Spreads callers out; no secret hangs on it.
        return exact * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311


@dataclass(frozen=True, slots=True)
class RetryStep:
    """Calls again if the tool is read-only or idempotent, or if the error says that nothing ran."""

    retry: Retry
    clock: StepClock

    def wrap(self, tool: Tool, rest: Handler) -> Handler:
        """The step for one tool."""
        retry, clock = self.retry, self.clock
        if tool.retry == "never" or retry.attempts < 2:
            return rest
        is_repeatable = tool.retry == "always" or tool.spec.read_only or tool.spec.idempotent

        async def attempt(request: CallRequest) -> Value:
            failures = 0
            while True:
                try:
                    return await rest(request)
                except Exception as error:
                    failures += 1
                    if failures >= retry.attempts or not (is_repeatable or nothing_ran(error)):
                        raise
                    if isinstance(error, NO_FAULT_OF_THE_TOOL):
                        raise
                    retry_after_seconds = getattr(error, "retry_after_seconds", 0.0)
                    if retry_after_seconds > retry.longest_wait_seconds:
                        raise
                    reason = error_text(tool.spec.name, error)
                await clock.sleep(max(retry_after_seconds, retry.wait_seconds(failures)))
                request.note(attempts=failures + 1)
                if request.context is not None and request.context.tell is not None:
                    execution_id = request.context.execution_id
                    request.context.tell(ToolRetried(execution_id, request.call, failures + 1, reason))

        return attempt


def nothing_ran(error: Exception) -> bool:
    """Whether the tool failed before it did a thing: it says so with `nothing_ran = True`, or was not reached."""
    return isinstance(error, ConnectionRefusedError) or getattr(error, "nothing_ran", False) is True


# ----------------------------------------------------------------------------------------------------
# Reply cache step: replies by idempotency key, and by arguments where a tool may be cached.
#
# * The same key twice runs the tool once, for as long as the reply is kept.
# * Calls that come while the first one is on its way wait for it and share what becomes of it.
# * A failure is not kept: the next call runs the tool again.
# * What is kept is bounded in number and bytes, the longest unused goes first, and never crosses tenants.

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
        arguments = sha256(msgspec.json.encode(request.call.arguments, order="deterministic")).digest()
        slot = ((request.context or CallContext()).tenant, request.call.tool, arguments if key is None else key)
        in_flight = self._in_flight.get()
        while entry := self._fresh(slot) or in_flight.get(slot):
            first_arguments, end = entry
            if first_arguments != arguments:
                tool = request.call.tool
                raise ToolRefused(f"{tool!r} was called before with idempotency key {key!r} and other arguments")
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


# ----------------------------------------------------------------------------------------------------
# Concurrency step: how many calls of a tool, or of one source, run at once.

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One value for each event loop, made at its first use there: a router may live longer than its first loop."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            value = self._values[loop] = self._make()
        return value

    def take(self) -> T | None:
        """The running loop's, which is made anew at its next use; `None` if there is none."""
        return self._values.pop(asyncio.get_running_loop(), None)


class Concurrency:
    """Calls over the limit wait for their turn; waiting does not count against a tool's timeout.

    Args:
        sources: Most calls in flight for each source that a pattern means: `{"mcp:*": 4}`.
        tools: The same for each tool, by name, identifier or alias.

    Raises:
        UsageError: a number is less than 1.
    """

    def __init__(self, *, sources: Mapping[str, int] | None = None, tools: Mapping[str, int] | None = None) -> None:
        self._sources = positive(sources or {}, "calls in flight")
        self._tools = positive(tools or {}, "calls in flight")
        self._by_source: dict[str, PerLoop[asyncio.Semaphore]] = {}

    def limits(self, spec: ToolSpec) -> bool:
        """Whether calls of this tool may have to wait."""
        return bool(self._of_source(spec.source)) or least(self._tools, spec) is not None

    def wrap(self, tool: Tool, rest: Handler) -> Handler:
        """The step for one tool."""
        spec = tool.spec
        source = self._of_source(spec.source)
        if source:
            rest = _queueing(self._by_source.setdefault(spec.source, _slots(min(source))), rest)
        most = least(self._tools, spec)
        # A call takes its tool's slot first, always, so that no two calls can wait for each other.
        return rest if most is None else _queueing(_slots(most), rest)

    def _of_source(self, source: str) -> list[int]:
        return [most for pattern, most in self._sources.items() if Globs([pattern]).match_text(source)]


def _slots(most: int) -> PerLoop[asyncio.Semaphore]:
    return PerLoop(lambda: asyncio.Semaphore(most))


def _queueing(slots: PerLoop[asyncio.Semaphore], rest: Handler) -> Handler:
    async def queue(request: CallRequest) -> Value:
        async with slots.get():
            return await rest(request)

    return queue


def wrappers(
    *, policy: Policy | None = None, cache: Cache | None = None, breaker: Breaker | None = None,
    retry: Retry | None = None, concurrency: Concurrency | None = None, clock: StepClock | None = None,
    error_details: bool = True,
) -> tuple[Wrapper, ...]:  # fmt: skip
    """The steps for one `Router`, outermost first.

    `None` is the default of each: memory, breaker and retry are on, everything is allowed, nothing queues. Without
    `error_details` a program reads only the type of a tool's error.
    """
    policy = policy or Policy()
    clock = clock or SystemClock()
    return (
        *(() if error_details else (withholding,)),
        policy.gate,
        checked,  # after the gate: who may not call learns nothing of the arguments
        policy.condition_gate,
        approval(policy),
        budget(policy),
        from_record,
        remembering(cache or Cache(), clock),
        BreakerStep(breaker or Breaker(), clock).wrap,
        RetryStep(retry or Retry(), clock).wrap,
        # Inside the retry, so that a slot is free while a failed call waits; the router's timeout
        # comes after, so that waiting for a slot is not the tool's time.
        (concurrency or Concurrency()).wrap,
    )
