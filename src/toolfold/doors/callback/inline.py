"""Programs whose parent is this very process: their calls are answered where they are made, without a pause."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from toolfold.checking import LargeChecks
from toolfold.doors.callback.executions import Wish, at, frame_of, limits_of, read_reply, specs_of
from toolfold.doors.callback.grants import meant
from toolfold.doors.callback.render import Answered, error_json, to_json
from toolfold.doors.callback.wire import OpenCall, ToolReply
from toolfold.doors.media import value_as_json
from toolfold.errors import ToolfoldError, ToolRefused
from toolfold.models import Limits, ToolSpec, Value
from toolfold.runtime import Runtime
from toolfold.tools.tool import Tool

Answer: TypeAlias = Callable[[OpenCall], Awaitable[ToolReply]]
AT_ONCE = 64
"""Calls of one program that are answered at the same time; the others wait."""


class InlinePrograms:
    """Programs with a parent's tools, on a runtime that has no others.

    Args:
        runtime: Open as long as this is used, and used by nobody else: its tools are those of the last program.
        limits: For every program; its wall clock is the longest that a caller may ask for.
    """

    def __init__(self, runtime: Runtime, *, limits: Limits | None = None) -> None:
        self._runtime = runtime
        self._limits = limits or Limits()
        self._large_texts = LargeChecks()

    async def run(self, wish: Wish, answer: Answer) -> tuple[str, bool]:
        """A program, to its end: the JSON of the tool, and whether it failed."""
        began = time.perf_counter()
        frame = frame_of(wish)
        calls = _Calls(wish, answer, self._limits.reply_bytes)
        try:
            limits = limits_of(wish, self._limits)
            frame = frame_of(wish, is_saved=True)
            specs = await specs_of(wish, limits, (), self._large_texts)
            # Nothing may come in between: what begins next has these tools, and keeps them.
            self._runtime.replace_tools(calls.tools(specs))
            outcome = await self._runtime.run(wish.code, limits=limits, seed=wish.seed, clock=wish.clock)
        except ToolfoldError as error:
            return error_json(error, at(frame, began), calls.made), True
        return to_json(outcome, calls.made, at(frame, began)), outcome.status != "finished"


class _Calls:
    """Those of one program."""

    def __init__(self, wish: Wish, answer: Answer, reply_bytes: int) -> None:
        self.made: list[Answered] = []
        self._name = wish.name or secrets.token_hex(8)
        self._answer = answer
        self._reply_bytes = reply_bytes
        self._room = asyncio.Semaphore(AT_ONCE)
        self._together = _Together() if wish.clock is not None else None

    def tools(self, specs: Sequence[ToolSpec]) -> list[Tool]:
        """The parent's, each of which leads here."""
        return [Tool(spec=spec, call=partial(self._serve, spec), retry="never") for spec in specs]

    async def _serve(self, spec: ToolSpec, arguments: Mapping[str, Value]) -> Value:
        # Any: arguments are JSON.
        plain: dict[str, Any] = value_as_json(arguments)
        name, meant_arguments = meant(spec, plain)
        call = OpenCall(id=f"call_{self._name}_{len(self.made) + 1}", name=name, arguments=meant_arguments)
        one = Answered(call)
        self.made.append(one)
        if self._together is None:
            given = await self._answered(call)
        else:
            given = await self._together.wait(self._answered(call))
        value = read_reply(one, given, spec, self._reply_bytes)
        if one.error is not None:
            raise ToolRefused(one.error)  # in its own words
        return value

    async def _answered(self, call: OpenCall) -> ToolReply:
        async with self._room:
            return await self._answer(call)


class _Together:
    """Replies to calls that were made at the same time come in the order of the calls, whichever is the first."""

    def __init__(self) -> None:
        self._unanswered = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self, reply: Awaitable[ToolReply]) -> ToolReply:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._unanswered += 1
        try:
            given = await reply
        finally:
            self._unanswered -= 1
            if not self._unanswered:
                waiting, self._waiting = self._waiting, []
                for one in waiting:
                    if not one.done():
                        one.set_result(None)
        await mine
        return given
