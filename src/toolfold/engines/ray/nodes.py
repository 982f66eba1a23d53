"""The nodes of a Ray cluster as the runtime uses them: joined, left, and found again after the cluster was away."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, cast

from msgspec import structs

from toolfold.engines.ray.actor import NodeAnswer, NodeOptions, read_answer
from toolfold.engines.ray.cluster import ClusterNode, RayDriver, check_address
from toolfold.engines.ray.direct import DirectMailbox
from toolfold.engines.ray.driver import DriverProcess
from toolfold.engines.ray.link import NodeFacts
from toolfold.engines.ray.mailbox import AskingMailbox
from toolfold.errors import EngineUnavailable, UsageError, install_extra
from toolfold.protocol.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolfold.engines.base import OwnTools
    from toolfold.engines.ray.fleet import Seen
    from toolfold.engines.ray.mailbox import Mailbox

RECONNECT_SECONDS: Final = 5.0
"""How long after an attempt to join a cluster again the next is made."""
_log: Final = logging.getLogger(__name__)


class RayNodes:
    """The nodes of one cluster. A process of its own joins it, unless this process has joined one already.

    Args:
        address: `auto`, `local`, or `HOST:PORT` of the cluster's head.
        options: Of the engine on each node.
        cpus: That each actor takes from Ray's own accounts.
    """

    def __init__(self, address: str, options: NodeOptions, *, cpus: float) -> None:
        self._address = address
        self._options = options
        self._cpus = cpus
        self.own_tools: OwnTools | None = None
        self._driver: RayDriver | DriverProcess | None = None
        self._try_at = 0.0
        self._reason = "the connection is lost"
        self._direct: dict[str, DirectMailbox] = {}

    async def connect(self) -> None:
        """Join the cluster.

        Raises:
            EngineUnavailable: There is none, or it runs another Ray or Python.
            UsageError: Ray is not installed, or the address is not one.
        """
        if _is_driver():
            self._driver = RayDriver(self._address)
            return
        if importlib.util.find_spec("ray") is None:
            raise UsageError(f"'ray' is not installed; {install_extra('ray')}")
        await asyncio.to_thread(check_address, self._address)
        self._driver = await DriverProcess.start(self._address)

    async def disconnect(self) -> None:
        """Leave it."""
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    async def seen(self) -> Sequence[Seen]:
        """The nodes that are alive. Joins the cluster again if the connection to it was lost.

        Raises:
            EngineUnavailable: It cannot be asked.
        """
        if self._driver is None or not self._driver.is_alive:
            await self._reconnect()
        return await self._connected().seen()

    async def _reconnect(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._try_at:
            raise EngineUnavailable(self._reason)
        self._try_at = now + RECONNECT_SECONDS
        await self.disconnect()
        try:
            await self.connect()
        except EngineUnavailable as error:
            self._reason = str(error)
            raise
        _log.warning("connected to the Ray cluster at %s again", self._address)

    def _connected(self) -> RayDriver | DriverProcess:
        if self._driver is None:
            raise EngineUnavailable(f"not connected to the Ray cluster at {self._address!r}")
        return self._driver

    async def join(self, node: Seen) -> tuple[NodeFacts, Mailbox]:
        """Start an actor there, and its engine.

        Raises:
            EngineUnavailable: It cannot be used, and the text says why.
        """
        driver = self._connected()
        options = encode(self._options_on(node))
        answer = read_answer(await driver.start_actor(node.node_id, node.address, self._cpus, options))
        mistake = _mismatch(answer.toolfold, answer.python) or answer.error
        if mistake:
            await self.leave(node.node_id)
            raise EngineUnavailable(f"node {node.address} cannot run programs: {mistake}")
        facts = NodeFacts(
            node_id=node.node_id, address=node.address, cores=cast("ClusterNode", node).cores,
            isolation=answer.isolation, notes=answer.notes, modules=answer.modules,
            own_tools=self.own_tools.specs if self.own_tools is not None else (),
        )  # fmt: skip
        return facts, await self._mailbox(node, driver, answer)

    def _options_on(self, node: Seen) -> NodeOptions:
        options = structs.replace(self._options, host="" if _has_tls() else node.address.rpartition(":")[0])
        own = self.own_tools
        return options if own is None else structs.replace(options, own_tools=own.described, make_own_tools=own.make)

    async def _mailbox(self, node: Seen, driver: RayDriver | DriverProcess, answer: NodeAnswer) -> Mailbox:
        """A connection of its own, where one can be made; else through Ray, which takes a millisecond or two longer."""
        if answer.port:
            try:
                direct = await DirectMailbox.connect(node.address.rpartition(":")[0], answer.port, answer.token)
            except (OSError, TimeoutError) as error:
                _log.warning(
                    "node %s cannot be reached directly (%s): its messages go through Ray", node.address, error
                )
            else:
                self._direct[node.node_id] = direct
                return direct
        return AskingMailbox(_Actor(driver, node.node_id))

    async def leave(self, node_id: str) -> None:
        """End its guests and its actor."""
        direct = self._direct.pop(node_id, None)
        try:
            # Where that is no longer connected, Ray ends its actors.
            with contextlib.suppress(EngineUnavailable):
                await self._connected().end_actor(node_id)
        finally:
            # Last: an actor that is hung up on leaves by itself, which Ray reports as a crash.
            if direct is not None:
                direct.close()


class _Actor:
    """One node, asked for each message."""

    def __init__(self, driver: RayDriver | DriverProcess, node_id: str) -> None:
        self._driver = driver
        self._node_id = node_id

    async def send(self, number: int, body: bytes) -> None:
        await self._driver.send(self._node_id, number, body)

    async def listen(self) -> bytes:
        return await self._driver.listen(self._node_id)


def _is_driver() -> bool:
    """Whether the host has joined a cluster in this process; Ray is not imported for the question."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _has_tls() -> bool:
    """A connection of our own would not be encrypted, where Ray's are."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


def _mismatch(theirs: str, python: str) -> str:
    """What differs so that programs would not do the same there."""
    if theirs != version("toolfold"):
        return f"it has toolfold {theirs}, and this is {version('toolfold')}; install the same there"
    ours = platform.python_version()
    if python.split(".")[:2] != ours.split(".")[:2]:
        return f"it has Python {python}, and this is {ours}; use the same there"
    return ""
