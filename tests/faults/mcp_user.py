"""A client of `toolfold mcp` whose program outlasts its server: it yields, the server leaves, and the next one goes on."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from contextlib import suppress
from typing import Any, Final

import mcp_types as types
from mcp import Client, StdioServerParameters

from tests.faults.judge import Operation
from tests.faults.launcher import COMMAND, environment
from tests.faults.workers import Worker

_CONFIG: Final = """
ledger: {where: ledger.sqlite}
tools: {modules: [tools.py]}
mcp: {yield_after: 0.5s}
"""
_RUNNING: Final = "[Script still running]"
_DONE: Final = "[Script executed successfully]"
_PATIENCE_SECONDS: Final = 90.0


class McpUser(Worker):
    """`execute_program` that yields, the end of its server, and `wait_program` at the next one."""

    letter = "m"
    faults = (
        "kill -9 of an MCP server",
        "SIGTERM of an MCP server",
        "SIGINT of an MCP server",
        "closed stdin of an MCP server",
    )

    async def suffer(self, fault: str, name: str) -> Operation:
        config = self._folder / "toolfold.yaml"
        config.write_text(_CONFIG, "utf-8")
        operation, made = self.begin(name, "effect", "clock", "gate", "effect", "random", "gather", "effect")
        operation.is_all_on_record = True
        began = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._start(fault, operation, made.text)
                self.open_gate(operation)
                await self._finish(operation)
        except TimeoutError:
            operation.said = f"no answer after {fault}"
        operation.in_flight.append((began, time.monotonic()))
        return operation

    def _server(self) -> StdioServerParameters:
        variables = environment(self.clock.path, XDG_STATE_HOME=str(self._folder / "state"))
        words = [*COMMAND[1:], "mcp", "--config", str(self._folder / "toolfold.yaml")]
        return StdioServerParameters(command=COMMAND[0], args=words, env=variables)

    async def _start(self, fault: str, operation: Operation, text: str) -> None:
        began = time.monotonic()
        # The connection ends in the middle, and the SDK may say so with an exception group.
        with suppress(Exception):
            async with Client(self._server()) as client:
                first = await client.call_tool("execute_program", {"code": text})
                match = re.search(r"execution_id '([0-9a-f]+)'", "\n".join(_texts(first)))
                operation.execution_id = match[1] if match is not None else ""
                operation.said = "\n".join(_texts(first))
                pid, began = await self.at_gate(operation), time.monotonic()
                if "stdin" not in fault:
                    number = {"kill": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
                    os.kill(pid, number[fault.split(maxsplit=1)[0]])
                    with suppress(Exception):  # as above
                        await client.call_tool("wait_program", {"execution_id": operation.execution_id})
        self.disturb(fault, "host", began)

    async def _finish(self, operation: Operation) -> None:
        async with Client(self._server()) as client:
            texts = [_RUNNING]
            while texts[0].startswith(_RUNNING):
                found: Any = await client.call_tool("wait_program", {"execution_id": operation.execution_id})
                texts = _texts(found)
        operation.said = "\n".join(texts)
        head, _, operation.stdout = texts[0].partition("\n")
        operation.end = "completed" if head == _DONE else "lost"
        if operation.end == "lost":
            operation.stdout = ""


def _texts(result: types.CallToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, types.TextContent)]
