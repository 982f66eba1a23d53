"""Ray engine and its fleet: one actor per node, each with a process engine of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, Self

from toolfold.engines.base import NOT_OPEN, Capabilities, EngineSettings, EngineTools, Guests, NodeLoad, Order
from toolfold.engines.process.zygote_launch import tier_named
from toolfold.engines.ray import wire_messages
from toolfold.engines.ray.cluster import ClusterNode, NodeOptions
from toolfold.engines.ray.driver_process import RayNodes
from toolfold.engines.ray.node_link import Mailbox, NodeFacts, NodeLink
from toolfold.engines.ray.run import RayRun
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import LibrarySet

# ----------------------------------------------------------------------------------------------------
# Fleet of nodes: which there are, which has room, which has the guest of a session.

LOOK_SECONDS: Final = 1.0
"""Interval at which the cluster is asked for its nodes."""
TRY_AGAIN_SECONDS: Final = 30.0
"""Until a node that could not be used is tried again."""
REST_SECONDS: Final = 1.0
"""Until a node that could not begin a program gets another: it may be about to leave."""
MOVE_SECONDS: Final = 5.0
"""How long before a drained node leaves its programs are moved."""
SCARCE_BYTES: Final = 1024 * 1024 * 1024
"""A node with less free memory gets a program only if all others have less, too."""
_log: Final = logging.getLogger(__name__)


class Nodes(Protocol):
    """The cluster."""

    own_tools: EngineTools | None
    """Tools that nodes call themselves; set before the first is joined."""

    async def connect(self) -> None:
        """Join the cluster; raises as `join`."""

    async def disconnect(self) -> None: ...
    async def seen(self) -> Sequence[ClusterNode]:
        """The nodes that are alive."""

    async def join(self, node: ClusterNode) -> tuple[NodeFacts, Mailbox]:
        """Make a node ready for programs; `EngineUnavailable` says why it cannot be used."""

    async def leave(self, node_id: str) -> None:
        """Undo `join`."""


class Fleet:
    """Links to all nodes that can be used, kept up to date."""

    def __init__(self, nodes: Nodes, *, wait_seconds: float, lost_after_seconds: float) -> None:
        self._nodes = nodes
        self._wait_seconds = wait_seconds
        self._lost_after_seconds = lost_after_seconds
        self._links: dict[str, NodeLink] = {}
        self._sessions: dict[str, NodeLink] = {}
        self._unfit: dict[str, float] = {}
        """Time until which each node that could not be used is left alone."""
        self._changed = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._runs = itertools.count(1)
        self._started: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()
        """Programs that began on each node, and that continued elsewhere when it was lost; by its address."""

    @property
    def links(self) -> tuple[NodeLink, ...]:
        return tuple(self._links.values())

    @property
    def loads(self) -> tuple[NodeLoad, ...]:
        """Loads of the connected nodes, and of nodes that lost programs."""
        rooms = {link.facts.address: (link.room, len(link.runs)) for link in self.links}
        nobody = wire_messages.WireRoom(0, 0, 0), 0
        loads = []
        for address in sorted({*rooms, *self.moved}):
            room, programs = rooms.get(address, nobody)
            loads.append(
                NodeLoad(
                    address=address, guests=room.guests, guest_memory_bytes=room.guest_bytes, programs=programs,
                    started=self._started[address], moved=self.moved[address],
                )
            )  # fmt: skip
        return tuple(loads)

    def next_run(self, link: NodeLink) -> int:
        self._started[link.facts.address] += 1
        return next(self._runs)

    async def start(self) -> None:
        """Make every node ready; `EngineUnavailable` says which one cannot be used and why, or that there is none."""
        nodes = [node for node in await self._nodes.seen() if not node.is_draining]
        if not nodes:
            raise EngineUnavailable("the Ray cluster has no node that is alive; start one with 'ray start'")
        results = await asyncio.gather(*map(self._join, nodes), return_exceptions=True)
        failures = [error for error in results if isinstance(error, BaseException)]
        if failures:
            await self.close()
            unexpected = [error for error in failures if not isinstance(error, EngineUnavailable)]
            raise unexpected[0] if unexpected else EngineUnavailable("; ".join(map(str, failures)))
        self._watch = asyncio.create_task(self._keep_watch())

    async def close(self) -> None:
        tasks = [*self._joining.values(), *([self._watch] if self._watch is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        links, self._links = self.links, {}
        self._sessions.clear()
        for link in links:
            await link.close()
        leaving = (self._nodes.leave(link.facts.node_id) for link in links)
        await asyncio.gather(*leaving, *self._leaving, return_exceptions=True)

    # where a program goes

    async def room(self, session: str) -> NodeLink:
        """The node of the session, else the one with most room; `EngineUnavailable` if there is none for a while."""
        link = self._pick(session)
        if link is not None:
            return link
        try:
            async with asyncio.timeout(self._wait_seconds):
                while (link := self._pick(session)) is None:
                    self._changed.clear()
                    # Nothing is set when a node has rested.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(REST_SECONDS):
                            await self._changed.wait()
        except TimeoutError:
            text = f"no node of the Ray cluster can be used, for {self._wait_seconds:g} s; see 'ray status'"
            raise EngineUnavailable(text) from None
        return link

    def _pick(self, session: str) -> NodeLink | None:
        if session and (session_link := self._sessions.get(session)) is not None and not session_link.is_lost:
            return session_link
        now = asyncio.get_running_loop().time()
        usable = [
            link
            for link in self._links.values()
            if not link.is_draining and self._unfit.get(link.facts.node_id, 0.0) <= now
        ]
        return min(usable, key=lambda link: (0 < link.room.free_bytes < SCARCE_BYTES, link.load), default=None)

    def rest(self, link: NodeLink) -> None:
        """Give it no program for a moment."""
        self._unfit[link.facts.node_id] = asyncio.get_running_loop().time() + REST_SECONDS

    def note_session(self, session: str, link: NodeLink | None) -> None:
        """Remember which node has the guest of a session, if any."""
        if link is None:
            self._sessions.pop(session, None)
        else:
            self._sessions[session] = link

    def has_session(self, session: str) -> bool:
        link = self._sessions.get(session)
        return link is not None and not link.is_lost

    def end_session(self, session: str) -> None:
        link = self._sessions.pop(session, None)
        if link is not None:
            link.send(wire_messages.EndSession(session))

    # which nodes there are

    async def _join(self, node: ClusterNode) -> None:
        facts, mailbox = await self._nodes.join(node)
        self._links[node.node_id] = NodeLink(
            facts, mailbox, on_lost=self._drop_link, on_gone=lambda session: self.note_session(session, None),
            lost_after_seconds=self._lost_after_seconds,
        )  # fmt: skip
        self._changed.set()

    def _drop_link(self, link: NodeLink, why: str) -> None:
        _log.warning(
            "node %s is lost (%s): %d programs continue on other nodes", link.facts.address, why, len(link.runs)
        )
        self._links.pop(link.facts.node_id, None)
        self._sessions = {session: other for session, other in self._sessions.items() if other is not link}
        # It may be alive behind a partition: nothing of the runtime must stay on it.
        task = asyncio.create_task(self._nodes.leave(link.facts.node_id))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _keep_watch(self) -> None:
        last_reason = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
                last_reason = ""
            # The cluster itself may be away for a while; running programs continue.
            except Exception as error:  # noqa: BLE001
                reason = str(error).partition("\n")[0]
                if reason != last_reason:  # once, not every second until it is back
                    _log.warning("cannot list the nodes of the Ray cluster: %s", reason)
                last_reason = reason

    async def _look(self) -> None:
        nodes = {node.node_id: node for node in await self._nodes.seen()}
        for node_id, link in tuple(self._links.items()):
            if node_id not in nodes:
                link.lose("the cluster says that it is dead")
            else:
                self._heed_drain(link, nodes[node_id])
        now = asyncio.get_running_loop().time()
        for node_id, node in nodes.items():
            if node_id in self._links or node_id in self._joining or node.is_draining:
                continue
            if self._unfit.get(node_id, 0.0) <= now:
                # Not awaited: a node that is dying answers late, and others may be lost meanwhile.
                self._joining[node_id] = asyncio.create_task(self._try_to_join(node))

    def _heed_drain(self, link: NodeLink, node: ClusterNode) -> None:
        """Start no programs there, and move those that run before it goes. Ray waits for our actor to leave."""
        link.is_draining = node.is_draining
        if not node.is_draining:
            return
        is_in_use = bool(link.runs) or link in self._sessions.values()
        if not is_in_use or node.leaves_at - time.time() < MOVE_SECONDS:
            link.lose("it is drained")

    async def _try_to_join(self, node: ClusterNode) -> None:
        try:
            await self._join(node)
        except EngineUnavailable as error:
            self._unfit[node.node_id] = asyncio.get_running_loop().time() + TRY_AGAIN_SECONDS
            _log.warning("%s", error)
        finally:
            self._joining.pop(node.node_id, None)


class RayEngine:
    """Engine that places programs on nodes with free cores, and continues them elsewhere when a node is lost."""

    name = "ray"

    def __init__(
        self, nodes: Nodes, *, isolation: str = "namespace", wait_seconds: float = 60.0,
        lost_after_seconds: float = 20.0, own_tools: Callable[[], EngineTools] | None = None,
    ) -> None:  # fmt: skip
        self.isolation = isolation
        self._own_tools = own_tools
        self._nodes = nodes
        self._timing = (wait_seconds, lost_after_seconds)
        self._fleet: Fleet | None = None
        self._capabilities = Capabilities()
        self.notes: tuple[str, ...] = ()

    @classmethod
    def from_settings(
        cls, settings: EngineSettings, /, *, address: str = "auto", isolation: str = "namespace", warm: int = 2,
        cpus: float = 0.0, host_libraries: bool = False, wait_seconds: float = 60.0, lost_after_seconds: float = 20.0,
        tools_on_nodes: Sequence[str] = (),
    ) -> RayEngine:  # fmt: skip
        if tier_named(isolation).name == "none":
            raise UsageError("isolation 'none' cannot be used on a cluster; use 'namespace' or 'landlock'")
        options = NodeOptions(
            limits=settings.limits, isolation=isolation, warm=warm, host_libraries=host_libraries,
            max_kept_guests=settings.max_kept_guests, max_kept_bytes=settings.max_kept_bytes,
        )  # fmt: skip
        nodes = RayNodes(address, options, cpus=cpus)
        own_tools = None
        if tools_on_nodes:
            if settings.own_tools is None:
                raise UsageError("tools_on_nodes: there are no tools; give it to a runtime that has some")
            own_tools = partial(settings.own_tools, tools_on_nodes)
        return cls(
            nodes, isolation=isolation, wait_seconds=wait_seconds, lost_after_seconds=lost_after_seconds,
            own_tools=own_tools,
        )  # fmt: skip

    @property
    def capabilities(self) -> Capabilities:
        """Modules that every node has, and cores of all of them."""
        return self._capabilities

    @property
    def replays(self) -> int:
        """Number of programs that moved to another node so far."""
        return 0 if self._fleet is None else self._fleet.moved.total()

    async def __aenter__(self) -> Self:
        self._nodes.own_tools = self._own_tools() if self._own_tools is not None else None
        await self._nodes.connect()
        fleet = Fleet(self._nodes, wait_seconds=self._timing[0], lost_after_seconds=self._timing[1])
        try:
            await fleet.start()
        except BaseException:
            await self._nodes.disconnect()
            raise
        self._fleet = fleet
        nodes = [link.facts for link in fleet.links]
        module_sets = [node.modules for node in nodes if node.modules is not None]
        modules = frozenset.intersection(*module_sets) if module_sets and len(module_sets) == len(nodes) else None
        self._capabilities = Capabilities(modules=modules, stocked=self, cores=sum(node.cores for node in nodes))
        self.notes = tuple(dict.fromkeys(note for node in nodes for note in node.notes))
        return self

    async def __aexit__(self, *exc: object) -> None:
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await fleet.close()
        await self._nodes.disconnect()

    def open(self, order: Order) -> RayRun:
        return RayRun(order, self._open_fleet())

    def has_session(self, session: str) -> bool:
        return self._fleet is not None and self._fleet.has_session(session)

    def end_session(self, session: str) -> None:
        if self._fleet is not None:
            self._fleet.end_session(session)

    async def preload(self, library_set: LibrarySet) -> None:
        for link in self._open_fleet().links:
            link.send(wire_messages.Preload(library_set))

    async def guests(self) -> Guests:
        """Guests of all nodes, as last reported; a busy node reports less often."""
        loads = self._open_fleet().loads
        return Guests(sum(load.guests for load in loads), sum(load.guest_memory_bytes for load in loads), loads)

    def _open_fleet(self) -> Fleet:
        if self._fleet is None:
            raise EngineUnavailable(NOT_OPEN)
        return self._fleet
