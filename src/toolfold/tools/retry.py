"""The step that tries again, where that cannot do a thing twice.

Written by hand: `stamina` sleeps on the real clock only, so exact waits cannot be tested, and it
costs 50 µs for a call that works at once, where this costs 0.2.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from toolfold.events import ToolRetried
from toolfold.models import Value
from toolfold.tools.clock import Clock
from toolfold.tools.router import NO_FAULT_OF_THE_TOOL, Handler, Request, error_text
from toolfold.tools.tool import Tool


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
class Retrying:
    """Calls again if the tool is read-only or idempotent, or if the error says that nothing ran."""

    retry: Retry
    clock: Clock

    def wrap(self, tool: Tool, rest: Handler) -> Handler:
        """The step for one tool."""
        retry, clock = self.retry, self.clock
        if tool.retry == "never" or retry.attempts < 2:
            return rest
        is_repeatable = tool.retry == "always" or tool.spec.read_only or tool.spec.idempotent

        async def attempt(request: Request) -> Value:
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
                    asked = getattr(error, "retry_after_seconds", 0.0)
                    if asked > retry.longest_wait_seconds:
                        raise
                    reason = error_text(tool.spec.name, error)
                await clock.sleep(max(asked, retry.wait_seconds(failures)))
                request.note(attempts=failures + 1)
                if request.context is not None and request.context.tell is not None:
                    execution_id = request.context.execution_id
                    request.context.tell(ToolRetried(execution_id, request.call, failures + 1, reason))

        return attempt


def nothing_ran(error: Exception) -> bool:
    """Whether the tool failed before it did a thing: it says so with `nothing_ran = True`, or was not reached."""
    return isinstance(error, ConnectionRefusedError) or getattr(error, "nothing_ran", False) is True
