"""Calls of the user's `tool_executor`: threads in, five values out, exceptions as words."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final, TypeAlias

from toolfold.doors.callback.wire import OpenCall, ToolReply

FiveValues: TypeAlias = tuple[bool, bool, str, str, str]
"""`(tool_parsed, tool_execute_error, observation, returned_tool_name, returned_tool_call_id)`"""
# Any: arguments are JSON.
Executor: TypeAlias = Callable[[str, dict[str, Any], str], FiveValues | Generator[str, None, FiveValues]]
"""`executor(tool_name, tool_args, tool_call_id)`; a generator yields what its tool says while it runs."""
OnOutput: TypeAlias = Callable[[str, str, str], None]
"""`on_output(tool_name, tool_call_id, text)`"""

_HERE: Final = os.path.dirname(__file__)
_MOST_KEPT: Final = 10_000
NO_EXECUTOR: Final = "there is no tool executor; pass tool_executor=... or call set_tool_executor(...)"


class Answers:
    """Serves calls with the executor of the moment."""

    def __init__(self, executor: Executor | None, on_output: OnOutput | None, cache_seconds: float = 0.0) -> None:
        self.executor = executor
        self.on_output = on_output
        self._cache_seconds = cache_seconds
        self._kept: dict[tuple[int, str, str], tuple[float, ToolReply]] = {}
        """Replies and until when they hold, by executor, tool and arguments."""

    async def answer(self, call: OpenCall) -> ToolReply:
        """One call, in a thread of its own: an executor may block for as long as it likes."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ToolReply] = loop.create_future()

        def deliver(reply: ToolReply) -> None:
            if not future.done():
                future.set_result(reply)

        def work() -> None:
            reply = self._reply(call)
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(deliver, reply)

        # No pool: its threads are waited for when Python ends, and one that is stuck would be for ever.
        threading.Thread(target=work, name=f"toolfold-{call.name}", daemon=True).start()
        return await future

    def _reply(self, call: OpenCall) -> ToolReply:
        if self.executor is None:
            return _failed(call, NO_EXECUTOR)
        if self._cache_seconds <= 0:
            return self._fetched(call)
        key = (id(self.executor), call.name, json.dumps(call.arguments, sort_keys=True))
        until, kept = self._kept.get(key, (0.0, None))
        if kept is not None and time.monotonic() < until:
            return kept.model_copy(update={"id": call.id})
        reply = self._fetched(call)
        if not reply.has_error:  # a failure may be over by the next call
            while len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key] = (time.monotonic() + self._cache_seconds, reply)
        return reply

    def _fetched(self, call: OpenCall) -> ToolReply:
        assert self.executor is not None
        try:
            returned = self.executor(call.name, call.arguments, call.id)
            if isinstance(returned, Generator):
                returned = self._drained(call, returned)
        # A tool that calls `sys.exit` fails as any other; the program is told.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return _failed(call, _words(error), cause=_cause(error))
        return _checked(call, returned)

    def _drained(self, call: OpenCall, pieces: Generator[str, None, FiveValues]) -> FiveValues:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                # Any: what a generator returns is the executor's own; `_checked` looks at it.
                returned: Any = end.value
                return returned  # type: ignore[no-any-return]
            if self.on_output is not None:
                self.on_output(call.name, call.id, piece)


def _checked(call: OpenCall, returned: object) -> ToolReply:
    if not isinstance(returned, tuple | list) or len(returned) != 5:
        what = f"{len(returned)} values" if isinstance(returned, tuple | list) else type(returned).__name__
        return _failed(call, f"the tool executor must return five values, and returned {what}")
    parsed, has_error, observation, *_ = returned
    text = observation if isinstance(observation, str) else json.dumps(observation, default=str, ensure_ascii=False)
    # Half a surrogate pair has no UTF-8 form and would break the wire.
    text = text.encode("utf-8", "backslashreplace").decode()
    return ToolReply(id=call.id, parsed=bool(parsed), has_error=bool(has_error) or not parsed, observation=text)


def _failed(call: OpenCall, observation: str, *, cause: str = "") -> ToolReply:
    return ToolReply(id=call.id, parsed=True, has_error=True, observation=observation, cause=cause)


def _words(error: BaseException) -> str:
    text = str(error).encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _cause(error: BaseException) -> str:
    """The executor's own lines, without ours; of its files only the names, for a model reads this."""
    parts = traceback.TracebackException.from_exception(error, compact=True)
    part: traceback.TracebackException | None = parts
    while part is not None:
        part.stack = traceback.StackSummary.from_list(
            [_named(one) for one in part.stack if os.path.dirname(one.filename) != _HERE]
        )
        part = part.__cause__ or part.__context__
    return "".join(parts.format()).encode("utf-8", "backslashreplace").decode()


def _named(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    name = os.path.basename(frame.filename)
    return traceback.FrameSummary(name, frame.lineno, frame.name, lookup_line=False, line=frame.line or "")
