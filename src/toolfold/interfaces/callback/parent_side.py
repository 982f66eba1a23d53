"""Parent side of the callback extension: answers the child's calls until the program has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp_types import CallToolResult, TextContent

from toolfold.interfaces.callback.messages import (
    EXTENSION,
    CallsResult,
    OpenCall,
    ResumeParams,
    ResumeRequest,
    ResumeResult,
    ToolReply,
)

_LINGER_SECONDS: Final = 0.002
"""Replies that come this soon after another share its message: a `gather` needs few messages then."""
_GOODBYE_SECONDS: Final = 1.0
_AT_ONCE: Final = 64
"""Calls of one program that are answered at the same time; the others wait."""


class ParentTools(ClientExtension):
    """Pass it to `mcp.Client(extensions=[...])`.

    Args:
        answer: Serves one call. Calls run at the same time; it must not raise and not block the loop.
    """

    identifier = EXTENSION

    def __init__(self, answer: Callable[[OpenCall], Awaitable[ToolReply]]) -> None:
        self._answer = answer

    # Any: the claim's own model is its type.
    def claims(self) -> Sequence[ResultClaim[Any]]:
        """A tool's result may be open calls instead."""
        return [ResultClaim(result_type="toolfold/calls", model=CallsResult, resolve=self._resolve)]

    async def _resolve(self, first: CallsResult, context: ClaimContext) -> CallToolResult:
        conversation = _Conversation(context.session, first.execution_id, self._answer)
        try:
            result = await conversation.run(ResumeResult(calls=first.calls, seconds_left=first.seconds_left))
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GOODBYE_SECONDS):
                await conversation.cancel()
            raise
        finally:
            conversation.close()
        return CallToolResult(content=[TextContent(text=result.final or "")], is_error=result.has_failed)


class _Conversation:
    def __init__(
        self, session: ClientSession, execution_id: str, answer: Callable[[OpenCall], Awaitable[ToolReply]]
    ) -> None:
        self._session = session
        self._execution_id = execution_id
        self._answer = answer
        self._running: set[asyncio.Task[ToolReply]] = set()
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def run(self, step: ResumeResult) -> ResumeResult:
        while step.final is None:
            self._running |= {asyncio.create_task(self._reply(call)) for call in step.calls}
            replies = await self._some_replies(step.seconds_left)
            step = await self._resume(ResumeParams(execution_id=self._execution_id, replies=replies))
        return step

    async def _reply(self, call: OpenCall) -> ToolReply:
        async with self._room:
            return await self._answer(call)

    async def _some_replies(self, seconds: float) -> list[ToolReply]:
        """At least one, unless the program's time is over first."""
        done, rest = await asyncio.wait(self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        while done and rest:
            more, rest = await asyncio.wait(rest, timeout=_LINGER_SECONDS, return_when=asyncio.ALL_COMPLETED)
            done |= more
            if not more:
                break
        self._running -= done
        return [task.result() for task in done]

    async def _resume(self, params: ResumeParams) -> ResumeResult:
        return await self._session.send_request(ResumeRequest(params=params), ResumeResult)

    async def cancel(self) -> None:
        await self._resume(ResumeParams(execution_id=self._execution_id, is_given_up=True))

    def close(self) -> None:
        for task in self._running:
            task.cancel()
