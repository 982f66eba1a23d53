"""An interface with a bridge that is made up, and a client in the same process, in either era."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import mcp_types as types
import pytest
from mcp import Client

from toolfold.interfaces.mcp.client_sessions import Clients
from toolfold.interfaces.mcp.offered_tools import DescriptionWriter, Offer
from toolfold.interfaces.mcp.program_tasks import YieldPolicy
from toolfold.interfaces.mcp.server import McpServer
from toolfold.ledger.base import Ledger
from toolfold.models import Limits, ToolSpec
from toolfold.runtime import Runtime, RuntimeSettings
from toolfold.sources.function_tools import as_tool
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Tool

ERAS = ("legacy", "auto")


@dataclass
class Server:
    """One made-up server: its status as the interface sees it."""

    name: str
    state: str = "ready"
    tools: int = 0
    detail: str = ""


@dataclass
class FakeBridge:
    """What the real bridge does for an interface, without a server behind it."""

    servers: dict[str, Server] = field(default_factory=dict)
    known: list[Tool] = field(default_factory=list)
    on_change: Callable[[], None] = lambda: None
    outer: Clients | None = None
    waited_for: list[list[str] | None] = field(default_factory=list)
    has_left: bool = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.has_left = True

    def tools(self) -> Sequence[Tool]:
        return tuple(self.known)

    def status(self) -> Sequence[Server]:
        return tuple(self.servers.values())

    async def settled(self, names: Iterable[str] | None = None, *, timeout_seconds: float) -> None:
        self.waited_for.append(None if names is None else list(names))
        for name in self.servers if names is None else names:
            if self.servers[name].state == "connecting":
                self.arrive(name)

    async def roots_changed(self) -> None:
        pass

    def arrive(self, name: str, *tools: Tool) -> None:
        self.known += tools
        count = sum(1 for tool in self.known if tool.spec.source == f"mcp:{name}")
        self.servers[name] = Server(name, "ready", count)
        self.on_change()


def bridged(server: str, name: str, call: Callable[..., Any] | None = None, **fields: Any) -> Tool:
    """A tool as the bridge makes it."""

    async def answer(arguments: Any, context: Any) -> Any:
        return None if call is None else await call(**arguments)

    full = f"mcp__{server}__{name}"
    spec = ToolSpec(name=full, python_name=full.replace("-", "_"), source=f"mcp:{server}", **fields)
    return Tool(spec=spec, call=answer, call_within=answer)


@pytest.fixture
def open_client():
    """Opens an interface on the default engine, and gives a client of it."""

    @asynccontextmanager
    async def opened(
        *tools: Any, bridge: FakeBridge | None = None, policy: Policy | None = None, limits: Limits | None = None,
        blocked: Sequence[str] = (), mode: str = "auto", describing: DescriptionWriter | None = None,
        yielding: YieldPolicy | None = None, ledger: Ledger | None = None, holds: Path | None = None,
        languages: Collection[str] | None = None, engine: str = "auto", **client: Any,
    ):  # fmt: skip
        policy = policy or Policy()
        limits = limits or Limits(wall_seconds=100)
        allowed = None if languages is None else frozenset(languages)
        settings = RuntimeSettings(entry_name="execute_program", languages=allowed)
        runtime = Runtime(policy=policy, settings=settings, limits=limits, ledger=ledger, engine=engine)
        local = [as_tool(tool) for tool in tools]
        offer = Offer(runtime, local=local, policy=policy, blocked=blocked, describing=describing)

        def connect(outer: Clients, on_change: Callable[[], None]) -> FakeBridge:
            assert bridge is not None
            bridge.outer, bridge.on_change = outer, on_change
            return bridge

        connecting = connect if bridge else None
        mcp_server = McpServer(runtime, offer, limits=limits, connect=connecting, yielding=yielding, holds=holds)
        async with mcp_server, Client(mcp_server.server, mode=mode, **client) as found:
            yield found
        assert mcp_server._clients.programs == {}

    return opened


async def run(client: Client, code: str, **arguments: Any) -> types.CallToolResult:
    return await client.call_tool("execute_program", {"code": code, **arguments})


def texts(result: types.CallToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, types.TextContent)]


async def until(claim: Callable[[], bool]) -> None:
    while not claim():
        await asyncio.sleep(0.005)


def descendants(pid: int) -> set[int]:
    """Every process below one, from the kernel's own tables."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in {pid, *found}} - found:
        found |= more
    return found


def left_of(pids: set[int], seconds: float = 60) -> set[int]:
    """Those that still run after a while; a zombie does not."""
    until = time.monotonic() + seconds
    while (left := {pid for pid in pids if _is_running(pid)}) and time.monotonic() < until:
        time.sleep(0.02)
    return left


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
