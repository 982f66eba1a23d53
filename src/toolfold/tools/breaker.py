"""The step that leaves a broken tool alone for a while.

A breaker is `closed` while its tool works. After several failures in a row it is open: calls
fail at once. When its time is up one call may try; its success closes the breaker, its failure
opens it for as long again. Each tenant has breakers of its own: what fails for one, by its own arguments
or its own rights, may work for the others. Only failures of the tool count: not a refusal, not bad arguments,
not a reply that cannot be sent, not a cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from toolfold.errors import ToolRefused
from toolfold.models import Value
from toolfold.tools.clock import Clock
from toolfold.tools.router import NO_FAULT_OF_THE_TOOL, Handler, Request
from toolfold.tools.tool import Tool

_MOST_TENANTS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When to leave a tool alone, and for how long."""

    failures: int = 5
    """In a row."""
    open_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Breaking:
    """One breaker for each tool and tenant."""

    breaker: Breaker
    clock: Clock

    def wrap(self, tool: Tool, rest: Handler) -> Handler:
        """The step for one tool."""
        breaker, clock = self.breaker, self.clock
        # Of the tenants for whom it failed last, oldest first; most calls find none here.
        states: dict[str, _State] = {}

        async def watch(request: Request) -> Value:
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
                    kept = states.setdefault(tenant, state or _State(tool.spec.name, breaker, clock))
                    kept.fail(request, is_probe=is_probe)
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


class _State:
    """What one breaker remembers."""

    def __init__(self, name: str, breaker: Breaker, clock: Clock) -> None:
        self._name = name
        self._breaker = breaker
        self._clock = clock
        self._open_until = 0.0
        self.failures = 0
        self.is_probing = False

    def admit_probe(self, request: Request) -> None:
        """Let one call through once the time is up; raise for all others."""
        left = self._open_until - self._clock.now()
        if left <= 0 and not self.is_probing:
            self.is_probing = True
            return
        request.note(attempts=0, breaker="open")
        when = f"is not called until {math.ceil(left)} s from now" if left > 0 else "is being tried by another call now"
        raise ToolRefused(f"{self._name!r} failed {self.failures} times in a row and {when}")

    def fail(self, request: Request, *, is_probe: bool) -> None:
        self.failures += 1
        # Calls that were on their way when it opened and fail later do not keep it open for longer.
        if self.failures == self._breaker.failures or (is_probe and self.failures > self._breaker.failures):
            self._open_until = self._clock.now() + self._breaker.open_seconds
            request.note(breaker="opened")

    def succeed(self, request: Request) -> None:
        if self.failures >= self._breaker.failures:
            request.note(breaker="closed")
