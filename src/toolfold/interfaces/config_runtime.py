"""Runtime from a config, with the MCP servers that the config names."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import msgspec

from toolfold.config import Config, load_config
from toolfold.config.build import (
    StrayPatterns,
    bridge_servers,
    declared_tools,
    ledger_of,
    module_sources,
    runtime_settings,
    with_policies,
)
from toolfold.config.discovery import find_config
from toolfold.errors import UsageError, install_extra
from toolfold.execution.request import RuntimeSettings, change_settings, merge_options
from toolfold.models import Outcome, Paused, ProgramOptions, StartOptions, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.catalog import Catalog
from toolfold.tools.policy import Policy
from toolfold.tools.search import SEARCH_SPEC, Index, search_tool
from toolfold.tools.tool import Globs, Tool, python_name

if TYPE_CHECKING:
    from toolfold.execution.request import SettingsKeywords
    from toolfold.models import ProgramKeywords, StartKeywords
    from toolfold.sources.mcp import Bridge
    from toolfold.sources.mcp.server_definition import ServerStatus


@asynccontextmanager
async def from_config(
    config: str | os.PathLike[str] | Config | None = None, **changes: Unpack[SettingsKeywords]
) -> AsyncIterator[Runtime]:
    """A runtime with all that a `toolfold.yaml` says: tools, servers, policy, limits, engine and ledger.

    Args:
        config: The file; unless given, the nearest `toolfold.yaml` from the current folder upwards.
        changes: Fields of `RuntimeSettings`, which count more than the config.

    Raises:
        UsageError: there is no such file, or it has mistakes.
    """
    config = resolve_config(config)
    settings = change_settings(runtime_settings(config), changes)
    own = None if settings.ledger is not None else ledger_of(config)
    if own is not None:
        settings = msgspec.structs.replace(settings, ledger=own)
    try:
        async with open_runtime(config, config_tools(config), settings) as runtime:
            yield runtime
    finally:
        if own is not None:
            await own.close()


def resolve_config(config: str | os.PathLike[str] | Config | None) -> Config:
    if isinstance(config, Config):
        return config
    path = Path(config) if config is not None else find_config()
    if path is None:
        raise UsageError("no toolfold.yaml in this or a parent folder; name one, or write one with 'toolfold init'")
    return load_config(path)


def config_tools(config: Config) -> list[Tool]:
    # Imported here: it belongs to the command line, which brings more than a library wants at its start.
    from toolfold.interfaces.cli.load_tools import load_tools  # noqa: PLC0415

    return [*load_tools(module_sources(config)), *declared_tools(config)]


# ----------------------------------------------------------------------------------------------------
# A runtime whose programs also call the MCP servers of a config, for interfaces that have no client to ask.
#
# The MCP interface has its own (`interfaces.mcp.offer`), which tells its client of changes; the names are the same.

_log: Final = logging.getLogger(__name__)
CONNECT_SECONDS: Final = 30.0
"""How long a program waits for a server that it mentions: `npx` may be installing it."""
_OPEN_ENDED: Final = re.compile(r"\bsearch_tools\b|\b(?:dir|getattr|hasattr|vars)\(\s*tools\b")
"""A program that looks for tools may mean any of them."""


def open_runtime(
    config: Config, local: Sequence[Tool], settings: RuntimeSettings, *,
    tenants: Mapping[str, Sequence[str]] | None = None, make: Callable[..., Runtime] = Runtime,
) -> Runtime:  # fmt: skip
    """The runtime of an interface: with the servers of the config, if it has any that someone may call.

    `tenants` has patterns of the tools of servers and APIs that each tenant may call; `None` lets everyone call all.
    `make` makes a runtime without servers.
    """
    if not config.servers:  # else a pattern may mean a tool of one that connects later
        StrayPatterns(config).warn(tool.spec for tool in local)
    is_shared = bool(config.servers) or (tenants is not None and any(map(is_granted, local)))
    if not is_shared or tenants == {}:
        return make(tools=with_policies(config, local), settings=settings)
    return BridgedRuntime(config, local, settings, tenants=tenants)


def bash_line(runtime: Runtime, *, clients: str = "") -> str:
    """The start-up line on bash programs, whose sandbox is wider; empty where no client may send any.

    `clients` are those that may where the config says nothing.
    """
    is_set, profile = runtime.executions.allows_bash(), runtime.executions.shell_profile
    if is_set and not profile:
        return "execution.languages has bash, but this engine runs no bash programs here; see 'toolfold doctor'"
    if not profile or not runtime.executions.allows_bash(unless_set=bool(clients)):
        return ""
    return f"bash programs are on{'' if is_set else f' for {clients}'} ({profile})"


async def permitted_tools(config: Config, local: Sequence[Tool], policy: Policy) -> tuple[ToolSpec, ...]:
    """What programs may call under a config, once every server has connected or failed. Runs no program."""
    bridged: list[Tool] = []
    if config.servers:
        async with _bridge(config, lambda: None) as bridge:
            await bridge.settled(timeout_seconds=CONNECT_SECONDS)
            _complain(bridge)
            bridged = with_python_names(without_local(bridge.tools(), local))
    return tuple(spec for spec in Catalog([*local, *bridged]).specs if policy.permits(spec))


class BridgedRuntime(Runtime):
    """Enter it to connect, in the background; a program waits only for the servers that it mentions."""

    def __init__(
        self, config: Config, local: Sequence[Tool], settings: RuntimeSettings, *,
        tenants: Mapping[str, Sequence[str]] | None,
    ) -> None:  # fmt: skip
        self._local = tuple(local)
        self._config = config
        self._globs = None if tenants is None else {name: Globs(patterns) for name, patterns in tenants.items()}
        self._hidden: dict[str, frozenset[str]] = {}
        self._indexes: dict[tuple[str, ...], tuple[tuple[ToolSpec, ...], Index]] = {}
        self._bridge = _bridge(config, self._refresh)
        super().__init__(self._offered_tools(), settings=settings)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._bridge.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self._bridge.__aexit__(*exc)
        finally:
            await super().__aexit__(*exc)

    async def run(
        self, text: str, *, options: ProgramOptions | None = None, **keywords: Unpack[ProgramKeywords]
    ) -> Outcome:
        """As in the runtime, with the servers' tools that the tenant may call."""
        await self._wait_for_servers(self.catalog.with_saved_texts(text))
        return await super().run(text, options=self._hiding(merge_options(ProgramOptions, options, keywords)))

    # Any: one of two types, as in the runtime.
    async def start(
        self, text: str, *, background: bool = False, options: ProgramOptions | None = None,
        **keywords: Unpack[StartKeywords],
    ) -> Any:  # fmt: skip
        """As in the runtime, with the servers' tools that the tenant may call."""
        await self._wait_for_servers(self.catalog.with_saved_texts(text))
        options = self._hiding(merge_options(StartOptions, options, keywords))
        return await (
            super().start(text, background=True, options=options)
            if background
            else super().start(text, options=options)
        )

    # Any: as in the runtime.
    async def resume(self, execution_id: str, *args: Any, **options: Any) -> Paused | Outcome:
        """As in the runtime; one that began in another process may need any server."""
        if execution_id not in self.executions.ids:
            await self._bridge.settled(timeout_seconds=CONNECT_SECONDS)
        return await super().resume(execution_id, *args, **options)

    async def settled(self, *, timeout_seconds: float) -> None:
        await self._bridge.settled(timeout_seconds=timeout_seconds)

    @property
    def servers(self) -> Sequence[ServerStatus]:
        return self._bridge.status()

    def _hiding(self, options: ProgramOptions) -> ProgramOptions:
        """Without the tools that the tenant may not call, beside those that are hidden already."""
        hidden = self.hidden_from(options.tenant)
        return msgspec.structs.replace(options, hidden=hidden.union(options.hidden)) if hidden else options

    def hidden_from(self, tenant: str) -> frozenset[str]:
        """Tools of servers and APIs that this tenant's programs do not know of."""
        if self._globs is None:
            return frozenset()
        key = tenant if tenant in self._globs else ""
        if key not in self._hidden:
            globs = self._globs.get(key, Globs(()))
            own = {SEARCH_SPEC.name, *(tool.spec.name for tool in self._local if not is_granted(tool))}
            # A saved program is hidden with the tools that it calls; to propose one takes none.
            specs = (spec for spec in self.tools if spec.name not in own and not spec.source.startswith("program"))
            self._hidden[key] = frozenset(spec.name for spec in specs if not globs.match(spec))
        return self._hidden[key]

    async def _wait_for_servers(self, text: str) -> None:
        late = [
            server.name
            for server in self._bridge.status()
            if (server.state == "connecting" or (server.state == "failed" and not server.tools))
            and mentions(text, server.name)
        ]
        if late or _OPEN_ENDED.search(text):
            await self._bridge.settled(None if _OPEN_ENDED.search(text) else late, timeout_seconds=CONNECT_SECONDS)
        _complain(self._bridge, text)

    def _refresh(self) -> None:
        self._hidden.clear()
        self._indexes.clear()
        self.replace_tools(self._offered_tools())

    def _offered_tools(self) -> list[Tool]:
        bridged = with_python_names(without_local(self._bridge.tools(), self._local))
        return [*with_policies(self._config, [*self._local, *bridged]), search_tool(self._index_for)]

    def _index_for(self, tenant: str) -> Index:
        """The tools that a search finds: only those that the tenant may call."""
        specs = self._tools_of(tenant, hidden=self.hidden_from(tenant))
        names = tuple(spec.name for spec in specs)
        if names not in self._indexes or self._indexes[names][0] != specs:
            self._indexes[names] = specs, Index([spec for spec in specs if spec.name != SEARCH_SPEC.name])
        return self._indexes[names][1]


def is_granted(tool: Tool) -> bool:
    """Whether a tool acts with the operator's own secrets, so that a tenant must be named to call it."""
    return tool.spec.source == "fetch" or tool.spec.source.startswith("api:")


class _NoServers:
    """In place of a bridge, where a config has APIs for some tenants and no server."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    def tools(self) -> Sequence[Tool]:
        return ()

    def status(self) -> Sequence[Any]:
        return ()

    async def settled(self, names: Iterable[str] | None = None, *, timeout_seconds: float) -> None:
        pass


def _bridge(config: Config, on_change: Callable[[], None]) -> Bridge | _NoServers:
    if not config.servers:
        return _NoServers()
    # Imported here: a config without servers does not need the extra.
    try:
        from toolfold.sources.mcp import Bridge  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name!r} is not installed, and the config has servers; {install_extra('mcp')}"
        ) from error

    # Only logged: whoever runs this may sit at another machine.
    def ask(server: str, url: str) -> None:
        _log.warning("server %r asks you to sign in: %s", server, url)

    return Bridge(bridge_servers(config), on_change=on_change, on_sign_in=ask)


def _complain(bridge: Bridge | _NoServers, text: str | None = None) -> None:
    """Log each server that has not connected; of those that a program's text mentions, if one is given."""
    for server in bridge.status():
        # Why one failed is in the log already.
        if server.state == "connecting" and (text is None or mentions(text, server.name)):
            _log.warning("server %r has not connected within %g s", server.name, CONNECT_SECONDS)


# --- names ----------------------------------------------------------------------------------


def may_call_servers(text: str) -> bool:
    """Whether a program can mean a server's tool at all: by its whole name, through `tools`, or as a resource."""
    return re.search(r"\bmcp__|\b(?:tools|search_tools|list_resources|read_resource|get_prompt)\b", text) is not None


def mentions(text: str, server: str) -> bool:
    """By a tool's whole name, by the server's module, or as an argument: `read_resource("<server>", ...)`."""
    name, module = re.escape(server), re.escape(python_name(server))
    ways = rf"""\bmcp__(?:{name}|{module})__|\btools\.{module}\b|\btools\s+import\b.*\b{module}\b|["']{name}["']"""
    return re.search(ways, text) is not None


def without_local(bridged: Iterable[Tool], local: Collection[Tool]) -> list[Tool]:
    own = {tool.spec.name for tool in local}
    remaining = []
    for tool in bridged:
        if tool.spec.name in own:
            _log.warning("%r of %s is left out: the config has a tool of that name", tool.spec.name, tool.spec.source)
        else:
            remaining.append(tool)
    return remaining


def with_python_names(tools: Sequence[Tool]) -> list[Tool]:
    """Bridged tools under the identifier that programs call them by, so that errors name what was written."""
    name_counts = Counter(tool.spec.python_name for tool in tools)
    return [tool if name_counts[tool.spec.python_name] > 1 else _under_identifier(tool) for tool in tools]


def _under_identifier(tool: Tool) -> Tool:
    spec = tool.spec
    if spec.name == spec.python_name:
        return tool
    # The client's own spelling stays an alias: a policy may be written with it.
    return replace(tool, spec=replace(spec, name=spec.python_name, aliases=(*spec.aliases, spec.name)))
