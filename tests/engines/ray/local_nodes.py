"""A cluster without Ray: each node is a process engine of this process, behind the same bytes."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from pkgutil import resolve_name

from toolfold.engines.base import EngineTools
from toolfold.engines.process import ProcessEngine
from toolfold.engines.ray.cluster import ClusterNode
from toolfold.engines.ray.node import Node
from toolfold.engines.ray.node_link import Mailbox, NodeFacts, PollingMailbox
from toolfold.errors import EngineUnavailable


@dataclass
class LocalNode:
    node_id: str
    is_draining: bool = False
    leaves_at: float = math.inf
    refusal: str = ""
    is_dead: bool = False
    engine: ProcessEngine | None = None
    node: Node | None = None
    forged: list[bytes] = field(default_factory=list)
    """Said in place of what the node has to say."""
    died: asyncio.Event = field(default_factory=asyncio.Event)

    async def kill(self) -> None:
        """All at once, as when a machine is switched off."""
        self.is_dead = True
        self.died.set()
        engine, self.engine = self.engine, None
        if engine is not None:
            await engine.__aexit__(None, None, None)

    async def send(self, body: bytes) -> None:
        if self.is_dead or self.node is None:
            raise ConnectionError("the node is gone")
        self.node.receive(body)

    async def listen(self) -> bytes:
        assert self.node is not None
        if self.is_dead:
            raise ConnectionError("the node is gone")
        listening = asyncio.ensure_future(self.node.listen())
        dying = asyncio.ensure_future(self.died.wait())
        try:
            await asyncio.wait([listening, dying], return_when=asyncio.FIRST_COMPLETED)
            if self.is_dead:
                raise ConnectionError("the node is gone")
            said = await listening
            return self.forged.pop() if self.forged else said
        finally:
            listening.cancel()
            dying.cancel()


class LocalNodes:
    """What `RayNodes` is for a real cluster."""

    def __init__(self, *nodes: LocalNode) -> None:
        self.nodes = list(nodes)
        self.own_tools: EngineTools | None = None

    async def connect(self) -> None:
        """There is nothing to connect to."""

    async def disconnect(self) -> None:
        """As above."""

    async def seen(self) -> list[ClusterNode]:
        return [
            ClusterNode(node.node_id, node.node_id, 1, node.is_draining, node.leaves_at)
            for node in self.nodes
            if not node.is_dead
        ]

    async def join(self, joined: ClusterNode) -> tuple[NodeFacts, Mailbox]:
        node = next(node for node in self.nodes if node.node_id == joined.node_id and not node.is_dead)
        if node.refusal:
            raise EngineUnavailable(f"node {node.node_id} cannot run programs: {node.refusal}")
        node.engine = await ProcessEngine(warm=1).__aenter__()
        own = self.own_tools
        node.node = Node(node.engine, None if own is None else resolve_name(own.make)(own.described))
        facts = NodeFacts(
            node_id=node.node_id, address=node.node_id, cores=1, modules=node.engine.capabilities.modules,
            own_tools=() if own is None else own.specs,
        )  # fmt: skip
        return facts, PollingMailbox(node.send, node.listen)

    async def leave(self, node_id: str) -> None:
        for node in self.nodes:
            if node.node_id == node_id and node.engine is not None:
                engine, node.engine = node.engine, None
                await engine.__aexit__(None, None, None)
