"""Circuit breaker and retry steps, and the clock of the steps.

A breaker is `closed` while its tool works. After several failures in a row it is open: calls
fail at once. When its time is up one call may try; its success closes the breaker, its failure
opens it for as long again. Each tenant has breakers of its own: what fails for one, by its own arguments
or its own rights, may work for the others. Only failures of the tool count: not a refusal, not bad arguments,
not a reply that cannot be sent, not a cancel.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from dataclasses import dataclass
from typing import Final, Protocol

from toolfold.errors import ToolRefused
from toolfold.events import ToolRetried
from toolfold.models import Value
from toolfold.tools.router import NO_FAULT_OF_THE_TOOL, CallRequest, Handler, error_text
from toolfold.tools.tool import Tool

# ----------------------------------------------------------------------------------------------------
# Time as the wrappers see it, so that a test can hold it still.


class StepClock(Protocol):
    """Seconds that only go forward, and a way to wait for them."""

    def now(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_MOST_TENANTS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When to leave a tool alone, and for how long."""

    failures: int = 5
    """In a row."""
    open_seconds: float = 30.0


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
                if not isinstance(error, NO_FAULT_OF_THE_TOOL):
                    failing_state = states.setdefault(tenant, state or _BreakerState(tool.spec.name, breaker, clock))
                    failing_state.fail(request, is_probe=is_probe)
                    if len(states) > _MOST_TENANTS:
                        del states[next(iter(states))]
                raise
            finally:
                if state is not None and is_probe:
                    state.is_probing = False
            if states and (healed := states.pop(tenant, None)) is not None:
                healed.succeed(request)
            return value

        return watch


class _BreakerState:
    """What one breaker remembers."""

    def __init__(self, name: str, breaker: Breaker, clock: StepClock) -> None:
        self._name = name
        self._breaker = breaker
        self._clock = clock
        self._open_until = 0.0
        self.failures = 0
        self.is_probing = False

    def admit_probe(self, request: CallRequest) -> None:
        """Let one call through once the time is up; raise for all others."""
        remaining_seconds = self._open_until - self._clock.now()
        if remaining_seconds <= 0 and not self.is_probing:
            self.is_probing = True
            return
        request.note(attempts=0, breaker="open")
        when = (
            f"is not called until {math.ceil(remaining_seconds)} s from now"
            if remaining_seconds > 0
            else "is being tried by another call now"
        )
        raise ToolRefused(f"{self._name!r} failed {self.failures} times in a row and {when}")

    def fail(self, request: CallRequest, *, is_probe: bool) -> None:
        self.failures += 1
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
    """How often, and how long between; the wait doubles each time."""

    attempts: int = 3
    first_wait_seconds: float = 0.1
    jitter: float = 0.25
    """Each wait is up to this part of itself longer or shorter; 0 for exact waits."""
    longest_wait_seconds: float = 30.0
    """A tool that asks for a longer wait is not called again: the program decides."""

    def wait_seconds(self, failures: int) -> float:
        """How long to wait after so many failures."""
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
