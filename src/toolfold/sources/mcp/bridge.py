"""All servers of a config as tools for programs. Knows no door, no runtime and no other source."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import webbrowser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import mcp_types as types

from toolfold.errors import UsageError
from toolfold.sources.mcp.bridged_names import Names, names_of
from toolfold.sources.mcp.eras import Eras
from toolfold.sources.mcp.extras import extra_tools
from toolfold.sources.mcp.keeper import Keeper
from toolfold.sources.mcp.oauth import token_folder
from toolfold.sources.mcp.outer import Outer
from toolfold.sources.mcp.remembered import Remembered
from toolfold.sources.mcp.server import Server, ServerStatus
from toolfold.sources.mcp.tools import bridged_tool
from toolfold.tools.tool import Tool

_log: Final = logging.getLogger(__name__)


class Bridge:
    """Enter it to connect, in the background, to all servers at once; leaving it ends every child process.

    Args:
        servers: No two of one name.
        outer: What the client outside can do; without it servers are told that it can do nothing.
        on_change: Called, in the event loop, when `tools()` has changed.
        on_sign_in: Called with a server's name and the address where a person must sign in; opens a browser.
        eras: Where the protocol eras of servers are remembered; by default in the user's cache folder.
        tokens: The folder of sign-ins; by default in the user's data folder.
        remembered: The folder of what servers listed last time; by default in the user's state folder.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        outer: Outer | None = None,
        on_change: Callable[[], None] | None = None,
        on_sign_in: Callable[[str, str], None] | None = None,
        eras: Path | None = None,
        tokens: Path | None = None,
        remembered: Path | None = None,
    ) -> None:
        names = [server.name for server in servers]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"two servers are named {name!r}; rename one")
        self._outer = outer
        self._on_change = on_change
        known_eras, last_time = Eras(eras), Remembered(remembered)
        self._keepers = {
            server.name: Keeper(
                server,
                outer=outer,
                eras=known_eras,
                remembered=last_time,
                tokens=tokens or token_folder(),
                on_change=self._change,
                on_sign_in=on_sign_in or _open_browser,
            )
            for server in servers
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._made: dict[tuple[str, str], tuple[types.Tool, Names, Tool]] = {}
        self._tools: tuple[Tool, ...] | None = None

    async def __aenter__(self) -> Bridge:
        self._tasks = [
            asyncio.create_task(keeper.run(), name=f"mcp server {name}") for name, keeper in self._keepers.items()
        ]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tools(self) -> tuple[Tool, ...]:
        """What is known now, also from last time; the same objects until something changes."""
        if self._tools is None:
            listed = {(name, one.name): one for name, keeper in self._keepers.items() for one in keeper.tools}
            named = names_of(listed)
            self._made = {key: self._tool(key, tool, named[key]) for key, tool in listed.items()}
            made = tuple(tool for _, _, tool in self._made.values())
            self._tools = (*made, *extra_tools(list(self._keepers.values())))
        return self._tools

    def status(self) -> tuple[ServerStatus, ...]:
        """How each server is doing, in the order of the config."""
        return tuple(keeper.status for keeper in self._keepers.values())

    async def settled(self, names: Iterable[str] | None = None, *, timeout_seconds: float) -> None:
        """Until these servers, or all, have listed their tools or failed; or until the time is up."""
        wanted = self._keepers.keys() if names is None else set(names) & self._keepers.keys()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for name in wanted:
                    await self._keepers[name].settled()

    async def roots_changed(self) -> None:
        """The folders of the client outside are others now: servers of the older era, which keep them, are told."""
        for keeper in self._keepers.values():
            await keeper.tell_roots_changed()

    def _change(self) -> None:
        self._tools = None
        if self._on_change is not None:
            self._on_change()

    def _tool(self, key: tuple[str, str], tool: types.Tool, names: Names) -> tuple[types.Tool, Names, Tool]:
        made = self._made.get(key)
        # Kept where nothing changed: a router remembers its way to each tool object.
        if made is not None and made[:2] == (tool, names):
            return made
        return tool, names, bridged_tool(tool, names, self._keepers[key[0]], self._outer)


def _open_browser(server: str, url: str) -> None:
    _log.warning("server %r asks you to sign in: %s", server, url)
    # In a thread: some browsers are waited for until they are closed.
    asyncio.get_running_loop().run_in_executor(None, webbrowser.open, url)
