"""`MCPClientShim`: registered workers behind retries, a breaker and idempotency keys, without a catalog."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, MutableMapping, Sequence

from toolfold.doors.orchestrator.workers import Worker, bare_tool, tool_map
from toolfold.errors import ToolError, ToolNotFound, UsageError
from toolfold.models import Call, Value
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router, Wrapper
from toolfold.tools.steps import wrappers
from toolfold.tools.tool import CallContext


class MCPClientShim:
    """Calls workers by the tool's name.

    Args:
        workers: Of this client alone; by default those in `tool_map`, which all share.
        steps: What a call goes through instead of the usual retries, breaker and memory.
    """

    def __init__(
        self, workers: MutableMapping[str, Worker] | None = None, *, steps: Sequence[Wrapper] | None = None
    ) -> None:
        self.tool_map = tool_map if workers is None else workers
        self._steps = wrappers() if steps is None else tuple(steps)
        self._routers: dict[str, Router] = {}

    def register_worker(self, name: str, worker: Worker) -> None:
        """Let a worker serve a tool."""
        if not callable(worker):
            raise UsageError(f"the worker for {name!r} is not callable, got {type(worker).__name__}")
        self.tool_map[name] = worker

    async def call_tool(
        self, tool_name: str, parameters: Mapping[str, Value] | None = None, *, idempotency_key: str | None = None
    ) -> Value:
        """One call; a failed one is tried again, one with a key that was used is answered from memory.

        Raises:
            ToolError: the tool failed, or was not called; the text says which.
        """
        if tool_name not in self.tool_map:
            close = difflib.get_close_matches(tool_name, self.tool_map, n=1)
            raise ToolNotFound(f"no tool {tool_name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        router = self._routers.get(tool_name)
        if router is None:
            tool = bare_tool(tool_name, is_function=False, workers=self.tool_map)
            router = self._routers[tool_name] = Router(Catalog([tool]), wrappers=self._steps)
        return await direct(router, tool_name, parameters or {}, CallContext(idempotency_key=idempotency_key))


async def direct(router: Router, name: str, arguments: Mapping[str, Value], context: CallContext) -> Value:
    """The value of one call that no program makes; its error raised."""
    call = Call(id=0, tool=name, arguments=arguments)
    reply = await router.serve(call, caller="direct", context=context)
    if reply.error is not None:
        raise ToolError(reply.error)
    return reply.value
