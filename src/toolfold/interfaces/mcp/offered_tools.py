"""Tool offer of the MCP server: host and bridged tools, their description for each client, all fixed texts."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolfold.errors import ToolError, ToolfoldError
from toolfold.execution.described_files import DescribedFiles
from toolfold.interfaces.config_runtime import mentions, with_python_names, without_local
from toolfold.interfaces.mcp.prompt_texts import CONTRACT, DESCRIPTION, SEARCH_NAME
from toolfold.interfaces.tool_prompt import OFFERED_RULE, bash_rule, small_tools, without_offered
from toolfold.models import File, Json, Reply, RunNames, ToolSpec
from toolfold.prompts.catalog import HEADER, dense_text, dense_within
from toolfold.prompts.python_stubs import first_line
from toolfold.prompts.wording import width
from toolfold.runtime import Runtime
from toolfold.tools.policy import Policy
from toolfold.tools.search import Detail, Index, search_tool
from toolfold.tools.tool import CallContext, Tool, python_name

if TYPE_CHECKING:
    from toolfold.sources.mcp.bridge import Bridge
    from toolfold.sources.mcp.server_definition import ServerStatus
    from toolfold.tools.learned_replies import ToolLessons

# ----------------------------------------------------------------------------------------------------
# How much of a description each client shows the model, with the evidence.
#
# A client that cuts a text tells nobody. So no text of this interface is longer than what its client keeps; what does
# not fit is left out by us, and the text says how to find it.

Version: TypeAlias = tuple[int, ...]

OVERVIEW_CHARACTERS: Final = 1_200
"""For the tools where not every signature fits: they must be searched for anyway, and every request pays for it."""


@dataclass(frozen=True, slots=True)
class Cap:
    """What some versions of one client keep of a description and of the instructions."""

    client: str
    """As it calls itself in the handshake."""
    first: Version
    last: Version
    characters: int
    evidence: str


CAPS: Final = (
    Cap("claude-code", (2, 1, 84), (2, 1, 234), 2_048, "https://github.com/anthropics/claude-code/issues/41593"),
    Cap("claude-code", (2, 1, 235), (999,), 4_096, "measured with 2.1.325: make test NAME=claude"),
)
SAFE_CHARACTERS: Final = 4_096
"""For clients that nobody has measured."""


def description_limit(client: str, version: str) -> int:
    """How many characters of a description this client shows the model."""
    numbers = tuple(int(digits) for digits in re.findall(r"\d{1,9}", version)[:3])
    caps = (cap.characters for cap in CAPS if cap.client == client and cap.first <= numbers <= cap.last)
    return next(caps, SAFE_CHARACTERS)


# ----------------------------------------------------------------------------------------------------
# The description of `execute_program` for each client: in which style, within which length, from what is known.

_MOST_CLIENTS: Final = 1_000
_WAIT_SECONDS: Final = 0.5
"""For the ledger: the first list of tools waits for it."""
_log: Final = logging.getLogger(__name__)


class DescriptionWriter:
    """Writes the description, and keeps the last one: writing many signatures takes a while.

    Args:
        is_contract: In the specification's own words, without any tool.
        max_characters: What clients show of it; `None` takes what is known of each client.
        history: Gives what earlier programs have shown of the tools. It is read once for each client, so that the
            text does not change under a client whose prompt is cached.
        files: In the data folder of every program.
        offers_small: Tools that only read and have replied little so far are also listed as tools of the client.
    """

    def __init__(
        self, *, is_contract: bool = False, max_characters: int | None = None,
        history: Callable[[], Awaitable[ToolLessons]] | None = None, files: Sequence[File] = (),
        offers_small: bool = False,
    ) -> None:  # fmt: skip
        self.is_contract = is_contract
        self._max_characters = max_characters
        self._history = history
        self.files = DescribedFiles.of(files)
        """Described once a guest has read them."""
        self._offers_small = offers_small
        self.bash_rule = ""
        """Added to the rules for programs."""
        self._lessons: dict[str, ToolLessons | None] = {}
        self._last: tuple[tuple[object, ...], tuple[str, bool]] | None = None

    async def meet(self, client: str) -> None:
        """Read what earlier programs have shown, if this client is new."""
        if self._history is None or client in self._lessons:
            return
        self._lessons[client] = None
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                self._lessons[client] = await self._history()
        # A ledger that is slow or away costs the order of the tools, not the list.
        except (TimeoutError, ToolfoldError, OSError) as error:
            _log.warning("earlier programs could not be read: %s", str(error) or "too slow")
        while len(self._lessons) > _MOST_CLIENTS:
            del self._lessons[next(iter(self._lessons))]

    def small(self, specs: Sequence[ToolSpec], client: str, policy: Policy) -> tuple[ToolSpec, ...]:
        """Tools for direct calls of this client, too; the same as long as it is connected."""
        return small_tools(specs, self._lessons.get(client), policy) if self._offers_small else ()

    def text(
        self, servers: Sequence[ServerStatus], specs: Sequence[ToolSpec], *, max_characters: int, client: str = "",
        offered: Collection[str] = (),
    ) -> tuple[str, bool]:  # fmt: skip
        """The description, and whether every signature is in it, without what the client reads of `offered` anyway."""
        if self.is_contract:
            return CONTRACT + self.bash_rule, False
        room, lessons = self._max_characters or max_characters, self._lessons.get(client)
        states = tuple((server.name, server.state, server.tools) for server in servers)
        key = (room, states, tuple(specs), id(lessons), self.files.lines, tuple(offered))
        if self._last is None or self._last[0] != key:
            self._last = (key, self._write(servers, without_offered(specs, offered), room, lessons, offered))
        return self._last[1]

    def _write(
        self, servers: Sequence[ServerStatus], specs: Sequence[ToolSpec], room: int, lessons: ToolLessons | None,
        offered: Collection[str],
    ) -> tuple[str, bool]:  # fmt: skip
        # Rules, files, then tools.
        rule = f" {OFFERED_RULE}" if offered else ""
        parts = [DESCRIPTION + rule + self.bash_rule, *_absent_server_lines(servers, room // 4)]
        if self.files.files:
            parts.append(self.files.text(room // 4))
        if not specs:
            return "\n\n".join(parts), True
        parts.append(HEADER)
        listing = dense_within(
            specs, room - width("\n\n".join(parts)) - 1, overview=OVERVIEW_CHARACTERS,
            used={} if lessons is None else lessons.uses, learned={} if lessons is None else lessons.schemas(specs),
        )  # fmt: skip
        return "\n\n".join(parts) + f"\n{listing.text}" * bool(listing.text), listing.is_all


def _absent_server_lines(servers: Sequence[ServerStatus], room: int) -> list[str]:
    names = {
        f"Still connecting; `{SEARCH_NAME}` waits for them": [
            server.name for server in servers if server.state == "connecting" and not server.tools
        ],
        "Not reachable now": [server.name for server in servers if server.state == "failed"],
    }
    lines = [f"{reason}: {_join_within(absent, room)}" for reason, absent in names.items() if absent]
    return ["\n".join(lines)] if lines else []


def _join_within(names: Sequence[str], room: int) -> str:
    parts: list[str] = []
    for name in names:
        room -= width(name) + 2
        if room < 0:
            return ", ".join([*parts, f"and {len(names) - len(parts)} more"])
        parts.append(name)
    return ", ".join(parts)


MENTIONED_WAIT_SECONDS: Final = 30.0
"""How long a program waits for a server that it mentions and that is not connected yet: `npx` may be installing it."""
SEARCH_WAIT_SECONDS: Final = 20.0
"""How long a search, or a program that searches, waits for servers that are connecting."""


class Offer:
    """All tools of one runtime, kept up to date.

    Args:
        runtime: Is given the tools, each time they change.
        local: Tools of the host.
        policy: What it does not permit is not listed; calling it says why.
        blocked: Names that are refused by name even where no server has such a tool.
        prepare: Has the last word on each tool: timeouts, retries, caches of the config.
        when_complete: Told of all tools whenever they are read and no server's are missing.
        left_out: Servers of the config that cannot be started, and why.
        describing: Writes what clients are told.
    """

    def __init__(
        self, runtime: Runtime, *, local: Sequence[Tool] = (), policy: Policy | None = None,
        blocked: Sequence[str] = (), prepare: Callable[[Iterable[Tool]], Sequence[Tool]] = tuple,
        when_complete: Callable[[Iterable[ToolSpec]], None] | None = None, left_out: Mapping[str, str] | None = None,
        describing: DescriptionWriter | None = None,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._local = tuple(local)
        self._policy = policy or Policy()
        self._blocked = tuple(blocked)
        self._prepare = prepare
        self._when_complete = when_complete
        self._left_out = left_out or {}
        self._servers: Bridge | None = None
        self._index = Index(())
        self._search_tool = _with_missing_servers(search_tool(lambda _tenant: self._index), self._missing)
        self._specs: tuple[ToolSpec, ...] = ()
        self._is_stale = False
        self._announced_description = ""
        self.describing = describing or DescriptionWriter()
        if rule := bash_rule(runtime):
            self.describing.bash_rule = f" {rule}"
        self.refresh()
        self.announce()

    def bridge(self, servers: Bridge) -> None:
        """Offer the tools of these servers, too."""
        self._servers = servers
        self.refresh()
        self.announce()

    def expect_change(self) -> None:
        """Have the tools read again before the next program."""
        self._is_stale = True

    def _refresh_if_stale(self) -> None:
        """A server has listed its tools a moment ago, or a program was saved."""
        if self._is_stale or self._runtime.catalog is not self._catalog:
            self.refresh()

    def announce(self) -> bool:
        """Whether the description has changed since the last call."""
        previous, (self._announced_description, _) = self._announced_description, self.description()
        return previous != self._announced_description

    def refresh(self) -> None:
        """Read the tools of the servers again."""
        self._is_stale = False
        bridged = without_local(self._servers.tools() if self._servers is not None else (), self._local)
        tools = list(self._prepare([*self._local, *with_python_names(bridged)]))
        is_complete = self._servers is not None and all(status.state == "ready" for status in self._statuses())
        if self._when_complete is not None and is_complete:
            self._when_complete([tool.spec for tool in tools])
        tools += _sentinels(self._blocked, [tool.spec for tool in tools])
        self._runtime.replace_tools([*tools, self._search_tool])
        self._catalog = self._runtime.catalog
        self._specs = tuple(
            spec for spec in self._runtime.tools if spec.source != "toolfold" and self._policy.permits(spec)
        )
        self._index = self._index.updated(self._specs)

    # what a client is told

    def description(self, max_characters: int = SAFE_CHARACTERS, client: str = "") -> tuple[str, bool]:
        """The current description of `execute_program`, and whether it has all tools; if not, they must be searched."""
        self._refresh_if_stale()
        statuses = self._statuses()
        offered = [spec.name for spec in self.small(client)]
        text, is_all = self.describing.text(
            statuses, self._specs, max_characters=max_characters, client=client, offered=offered
        )
        # A client may read this once and never again, so what comes later must be found in another way.
        return text, is_all and all(status.state == "ready" for status in statuses)

    def small(self, client: str) -> tuple[ToolSpec, ...]:
        """Tools that this client is offered beside programs."""
        return self.describing.small(self._specs, client, self._policy)

    async def call(self, name: str, arguments: Mapping[str, Any], names: RunNames) -> Reply:
        """A direct call of a tool; `small` says which are offered."""
        return await self._runtime.call(name, arguments, names=names)

    async def search(self, query: str, detail: Detail) -> str:
        """Matching tools as text for a model; waits a while for servers that are connecting."""
        await self.wait_for(self._connecting(), SEARCH_WAIT_SECONDS)
        self._refresh_if_stale()
        index = await self._runtime.catalog.learning.index(self._index)
        hits, missing = await index.search_aside(query), self._missing()
        left_out = "".join(f"\n\n{line}" for line in self._left_out_lines())
        if not hits:
            return (_no_match_yet_text(query, missing) if missing else self._no_match_text(query)) + left_out
        # As they are declared: what was learned of them is marked.
        declared = {spec.name: spec for spec in self._specs}
        specs = [declared.get(hit.spec.name, hit.spec) for hit in hits]
        text = _format_specs(specs, detail, (await self._runtime.catalog.learning.lessons()).schemas(specs))
        if self.describing.is_contract and detail != "name":  # else the description has it
            text = f"{HEADER}\n{text}"
        return (f"{text}\n\n{missing}; its tools are not among these" if missing else text) + left_out

    def _no_match_text(self, query: str) -> str:
        near = ", ".join(self._index.domains_near(query))
        return f"no tool fits {query!r}; use other words, or fewer" + (
            f"; the nearest domains are {near}" if near else ""
        )

    # what a program needs

    async def wait_for_mentioned(self, text: str) -> None:
        """Wait until the servers that a program mentions have listed their tools or failed; all, if it searches."""
        text = self._runtime.catalog.with_saved_texts(text)
        connecting_names = self._connecting()
        if SEARCH_NAME in text:
            # Here and not in its call: what it finds must be among the tools that the program starts with.
            await self.wait_for(connecting_names, SEARCH_WAIT_SECONDS)
        else:
            late = [status.name for status in self._statuses() if status.state == "failed" and not status.tools]
            names = [name for name in (*connecting_names, *late) if mentions(text, name)]
            await self.wait_for(names, MENTIONED_WAIT_SECONDS)
        self._refresh_if_stale()

    async def wait_for_unknown(self, timeout_seconds: float) -> None:
        """Wait for servers whose tools are not known from an earlier start."""
        unknown = [status.name for status in self._statuses() if status.state == "connecting" and not status.tools]
        await self.wait_for(unknown, timeout_seconds)

    async def wait_for(self, names: Sequence[str], timeout_seconds: float) -> None:
        """Wait until these servers have listed their tools or failed, or the time is up."""
        if names and self._servers is not None:
            await self._servers.settled(names, timeout_seconds=timeout_seconds)
            self.refresh()

    def notes_on(self, text: str) -> tuple[str, ...]:
        """Why tools that a program mentions may be missing."""
        absent = (
            f"server {status.name!r} is not connected: {status.detail or status.state}"
            for status in self._statuses()
            if status.state != "ready" and mentions(text, status.name)
        )
        return (*absent, *self._left_out_lines(text))

    def _left_out_lines(self, text: str | None = None) -> tuple[str, ...]:
        """A line for each server that cannot be started, or for those that a program's text mentions."""
        return tuple(
            f"server {name!r} is left out: {why}"
            for name, why in self._left_out.items()
            if text is None or mentions(text, name)
        )

    def _connecting(self) -> list[str]:
        return [status.name for status in self._statuses() if status.state == "connecting"]

    def _missing(self) -> str:
        connecting_names = self._connecting()
        return f"server {connecting_names[0]!r} is still connecting" if connecting_names else ""

    def _statuses(self) -> Sequence[ServerStatus]:
        return self._servers.status() if self._servers is not None else ()


def _no_match_yet_text(query: str, missing: str) -> str:
    return f"no tool fits {query!r} yet: {missing}; search again later"


def _format_specs(specs: Sequence[ToolSpec], detail: Detail, learned: Mapping[str, Mapping[str, Json]]) -> str:
    # In the form of the description, which is a fifth shorter than Python, and more where replies are typed.
    if detail == "name":
        return "\n".join(f"{spec.python_name}: {first_line(spec)}" for spec in specs)
    if detail == "signature":
        return dense_text(specs, learned=learned)
    return "\n".join(
        f"{dense_text([spec], learned=learned)}\n# input schema: {dict(spec.input_schema)}" for spec in specs
    )


def _with_missing_servers(search: Tool, missing: Callable[[], str]) -> Tool:
    """A search that finds nothing while a server is missing says so: an empty list would read as an answer."""
    call_within = search.call_within
    assert call_within is not None

    # Any: the arguments of `search_tools`, and what it found.
    async def call(arguments: Mapping[str, Any], context: CallContext) -> Any:
        hits = await call_within(arguments, context)
        if not hits and (late := missing()):
            raise ToolError(_no_match_yet_text(arguments["query"], late))
        return hits

    return replace(search, call_within=call)


def _sentinels(blocked: Sequence[str], specs: Sequence[ToolSpec]) -> list[Tool]:
    """Blocked names that no tool has, so that calling one is told to be blocked and not to be unknown."""
    known_names = {name for spec in specs for name in (spec.name, spec.python_name, *spec.aliases)}
    missing = {python_name(name) for name in blocked if not re.search(r"[*?\[]", name) and name not in known_names}
    return [
        Tool(spec=ToolSpec(name=name, python_name=name, source="toolfold"), call=_never)
        for name in sorted(missing - known_names)
    ]


async def _never(_: Mapping[str, Any]) -> None:
    raise AssertionError("the policy lets no call of a blocked tool through")
