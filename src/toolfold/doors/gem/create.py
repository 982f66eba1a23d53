"""Tool objects with a child on stdio, or with one that is reached over HTTP."""

from __future__ import annotations

import os
import site
import sys
import tempfile
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import toolfold
from toolfold.doors.callback.client import ParentTools
from toolfold.doors.gem.executor import Executor, OnOutput
from toolfold.doors.gem.link import Link
from toolfold.doors.gem.sharing import Share
from toolfold.doors.gem.tool import ProgrammaticToolCallingTool, answer_current
from toolfold.errors import UsageError

_TAIL_CHARACTERS: Final = 500


def create_programmatic_tool_calling_tool_stdio(
    workspace_path: str | Path | None = None,
    tool_executor: Executor | None = None,
    validate_on_init: bool = False,
    *,
    engine: str = "auto",
    on_output: OnOutput | None = None,
    cache_seconds: float = 0.0,
) -> ProgrammaticToolCallingTool:
    """A tool whose child is started with the first program, and ends with this process.

    Tools of one process share one child, if they have the same engine and environment variables.

    Args:
        workspace_path: Where programs with a `filename` are saved; by default the current folder.
        tool_executor: Gets every tool call of a program.
        validate_on_init: Start the child now, and raise `UsageError` if that fails.
        engine: Where programs run, as in `toolfold.Runtime`.
        on_output: Gets what a generator executor yields.
        cache_seconds: How long a reply is given again to the same call, for tools that only read; 0 is not at all.
    """
    workspace = Path(workspace_path or ".").absolute()
    if not workspace.is_dir():
        raise UsageError(f"workspace_path {str(workspace_path)!r} is not a folder; make it first")
    environment = _environment()
    key = (engine, tuple(sorted(environment.items())))
    said = _said.setdefault(key, [""])
    return ProgrammaticToolCallingTool(
        Share(key, lambda: Link(lambda: _child(engine, environment, said))),
        tool_executor=tool_executor,
        validate_on_init=validate_on_init,
        on_output=on_output,
        describe_failure=lambda: said[0],
        workspace=workspace,
        cache_seconds=cache_seconds,
    )


_said: dict[Hashable, list[str]] = {}
"""The last words of each child."""


@asynccontextmanager
async def _child(engine: str, environment: dict[str, str], said: list[str]) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        # Each program says where it is saved; this folder is only one that is there.
        args=["-m", "toolfold.doors.callback", "--workspace", tempfile.gettempdir(), "--engine", engine],
        env=environment,
    )
    # The child's stderr must be a real file.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        try:
            transport = stdio_client(parameters, errlog=errors)
            async with Client(transport, extensions=[ParentTools(answer_current)]) as client:
                yield client
        finally:
            errors.seek(0)
            said[0] = errors.read()[-_TAIL_CHARACTERS:].strip()


def create_programmatic_tool_calling_tool_http(
    host: str = "127.0.0.1",
    port: int = 8085,
    tool_executor: Executor | None = None,
    validate_on_init: bool = True,
    *,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    on_output: OnOutput | None = None,
    cache_seconds: float = 0.0,
) -> ProgrammaticToolCallingTool:
    """A tool whose child runs already: `python -m toolfold.doors.callback --transport streamable-http`.

    Args:
        host: Where it listens.
        port: The same.
        tool_executor: Gets every tool call of a program.
        validate_on_init: Connect now, and raise `UsageError` if that fails.
        url: Its whole address, instead of host and port.
        headers: For every request, such as `Authorization`.
        on_output: Gets what a generator executor yields.
        cache_seconds: How long a reply is given again to the same call, for tools that only read; 0 is not at all.
    """
    address = url or f"http://{host}:{port}/mcp"

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        # Programs may take minutes between two bytes; their own timeout ends them.
        async with (
            httpx2.AsyncClient(headers=dict(headers or {}), timeout=httpx2.Timeout(30, read=None)) as web,
            Client(
                streamable_http_client(address, http_client=web, max_sse_event_size=None),
                extensions=[ParentTools(answer_current)],
            ) as client,
        ):
            yield client

    return ProgrammaticToolCallingTool(
        Link(connect),
        tool_executor=tool_executor,
        validate_on_init=validate_on_init,
        on_output=on_output,
        cache_seconds=cache_seconds,
    )


def _environment() -> dict[str, str]:
    """The user's own, with this package where it was not installed but found on the path."""
    folder = str(Path(toolfold.__file__).parents[1])
    environment = dict(os.environ)
    if folder not in (*site.getsitepackages(), site.getusersitepackages()):
        known = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = f"{folder}{os.pathsep}{known}" if known else folder
    return environment
