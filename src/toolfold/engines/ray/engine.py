"""Programs on the nodes of a Ray cluster: one actor per node, each with a process engine of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from toolfold.engines.base import NOT_OPEN, Capabilities, Guests
from toolfold.engines.process.tiers import tier_named
from toolfold.engines.ray import wire
from toolfold.engines.ray.actor import NodeOptions
from toolfold.engines.ray.fleet import Fleet
from toolfold.engines.ray.nodes import RayNodes
from toolfold.engines.ray.run import RayRun
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import LibrarySet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolfold.engines.base import EngineSettings, Order, OwnTools
    from toolfold.engines.ray.fleet import Nodes


class RayEngine:
    """Places each program where there is room, and goes on elsewhere when a node is lost.

    Args:
        nodes: The cluster; `from_settings` makes one of an address.
        isolation: The tier on each node; a node that cannot give it makes entering fail.
        wait_seconds: How long a program waits for a node when there is none.
        lost_after_seconds: After how long a silence a node counts as lost.
        own_tools: Describes the tools that nodes call themselves, when the engine is entered.
    """

    name = "ray"

    def __init__(
        self, nodes: Nodes, *, isolation: str = "namespace", wait_seconds: float = 60.0,
        lost_after_seconds: float = 20.0, own_tools: Callable[[], OwnTools] | None = None,
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
        """For the registry: what the runtime says, and the options that a user gives."""
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
        """Guests that wait; modules that every node has; cores of all of them."""
        return self._capabilities

    @property
    def replays(self) -> int:
        """How many programs went on on another node so far."""
        return 0 if self._fleet is None else self._fleet.moved.total()

    async def __aenter__(self) -> Self:
        self._nodes.own_tools = self._own_tools() if self._own_tools is not None else None
        if isinstance(self._nodes, RayNodes):
            await self._nodes.connect()
        fleet = Fleet(self._nodes, wait_seconds=self._timing[0], lost_after_seconds=self._timing[1])
        try:
            await fleet.start()
        except BaseException:
            await self._disconnect()
            raise
        self._fleet = fleet
        facts = [link.facts for link in fleet.links]
        known = [one.modules for one in facts if one.modules is not None]
        modules = frozenset.intersection(*known) if known and len(known) == len(facts) else None
        self._capabilities = Capabilities(modules=modules, stocked=self, cores=sum(one.cores for one in facts))
        self.notes = tuple(dict.fromkeys(note for one in facts for note in one.notes))
        return self

    async def __aexit__(self, *exc: object) -> None:
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await fleet.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        if isinstance(self._nodes, RayNodes):
            await self._nodes.disconnect()

    def open(self, order: Order) -> RayRun:
        """Start a program. Leaving the context kills the guest and frees all it held."""
        return RayRun(order, self._opened())

    def has_session(self, session: str) -> bool:
        """Whether the names of that session are still there."""
        return self._fleet is not None and self._fleet.has_session(session)

    def end_session(self, session: str) -> None:
        """End the guest that the session keeps; harmless if there is none."""
        if self._fleet is not None:
            self._fleet.end_session(session)

    async def preload(self, library_set: LibrarySet) -> None:
        """Have guests with these libraries wait on every node."""
        for link in self._opened().links:
            link.send(wire.Preload(library_set))

    async def guests(self) -> Guests:
        """Of all nodes, as each last said: a node that is busy says it less often."""
        loads = self._opened().loads
        return Guests(sum(one.guests for one in loads), sum(one.guest_memory_bytes for one in loads), loads)

    def _opened(self) -> Fleet:
        if self._fleet is None:
            raise EngineUnavailable(NOT_OPEN)
        return self._fleet
