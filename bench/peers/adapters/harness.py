"""`pydantic-ai-harness`'s `CodeMode`: its toolset, entered once and asked for `run_code` as an agent would.

Four of them are open, as four agents would be; each program starts a new session in its warm worker.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Self

from pydantic_ai import FunctionToolset, RunContext, RunUsage
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai_harness import CodeMode
from pydantic_monty import MountDir

from bench.peers.adapters.base import Adapter, Ran

OPEN = 4
LIMITS = {"max_duration_secs": 10.0, "max_memory": 1_000_000_000, "max_suspensions": 100_000}


class Harness(Adapter):
    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self._idle: asyncio.Queue[ToolManager[Any]] = asyncio.Queue()
        for _ in range(OPEN):
            await self._idle.put(await self._manager())
        return self

    async def _manager(self) -> ToolManager[Any]:
        mount = MountDir(virtual_path="/", host_path=".") if self.with_files else None
        mode = CodeMode[None](max_tool_calls=100_000, resource_limits=LIMITS, mount=mount)
        toolset = mode.get_wrapper_toolset(FunctionToolset(list(self.tools.values())))
        assert toolset is not None
        ctx = RunContext[None](deps=None, model=TestModel(), usage=RunUsage(), run_step=1)
        await self._stack.enter_async_context(toolset)
        return await ToolManager(toolset=toolset).for_run_step(ctx)

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def run(self, text: str) -> Ran:
        manager = await self._idle.get()
        try:
            # `restart`: else a program sees the names of the one before it, and shares its limit of calls.
            call = ToolCallPart("run_code", {"code": text, "restart": True})
            answer = await manager.handle_call(call)
        finally:
            self._idle.put_nowait(manager)
        return read(answer.return_value)


def read(content: Any) -> Ran:
    """Its answer is the value alone, or a dict with what was printed and, where there is one, the value."""
    if content == {}:
        return Ran(None)
    if isinstance(content, dict) and "output" in content and set(content) <= {"output", "result"}:
        return Ran(content.get("result"), content["output"])
    return Ran(content)
