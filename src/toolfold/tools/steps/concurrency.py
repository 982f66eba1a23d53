"""Concurrency step: how many calls of a tool, or of one source, run at once; and state per event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from toolfold.models import ToolSpec, Value
from toolfold.tools.names import Globs, least, positive
from toolfold.tools.router import CallRequest, Handler
from toolfold.tools.tool import Tool

# ----------------------------------------------------------------------------------------------------
# State that belongs to one event loop: a router may live longer than the loop of its first call.

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One value for each event loop, made at its first use there."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        """The running loop's."""
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
        is_source = any(Globs([pattern]).match_text(spec.source) for pattern in self._sources)
        return is_source or least(self._tools, spec) is not None

    def wrap(self, tool: Tool, rest: Handler) -> Handler:
        """The step for one tool."""
        spec = tool.spec
        source = [most for pattern, most in self._sources.items() if Globs([pattern]).match_text(spec.source)]
        if source:
            rest = _queueing(self._by_source.setdefault(spec.source, _slots(min(source))), rest)
        most = least(self._tools, spec)
        # A call takes its tool's slot first, always, so that no two calls can wait for each other.
        return rest if most is None else _queueing(_slots(most), rest)


def _slots(most: int) -> PerLoop[asyncio.Semaphore]:
    return PerLoop(lambda: asyncio.Semaphore(most))


def _queueing(slots: PerLoop[asyncio.Semaphore], rest: Handler) -> Handler:
    async def queue(request: CallRequest) -> Value:
        async with slots.get():
            return await rest(request)

    return queue
