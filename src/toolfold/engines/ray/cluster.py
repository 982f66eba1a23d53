"""The only module that imports Ray: finds a cluster and its nodes, and puts one actor on each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import platform
import signal
import socket
import threading
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from toolfold.engines.ray.actor import NodeActor, NodeAnswer, NodeOptions, examine_here, read_answer, read_diagnosis
from toolfold.engines.ray.direct import DirectMailbox
from toolfold.engines.ray.link import NodeFacts
from toolfold.engines.ray.mailbox import AskingMailbox
from toolfold.errors import EngineUnavailable, UsageError, install_extra
from toolfold.models import Limits
from toolfold.protocol.packing import encode

if TYPE_CHECKING:
    from toolfold.engines.base import OwnTools
    from toolfold.engines.process.doctor import Diagnosis
    from toolfold.engines.ray.fleet import Seen
    from toolfold.engines.ray.mailbox import Mailbox
    from toolfold.models import Isolation

START_SECONDS: Final = 120.0
"""How long an actor may take until it is ready: Ray starts a process for it first."""
STOP_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 5.0
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Node:
    node_id: str
    address: str
    cores: int
    is_draining: bool
    leaves_at: float


class _Actor:
    # Any: Ray has no types for an actor's methods.
    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def send(self, number: int, body: bytes) -> None:
        await self._actor.send.remote(number, body)

    async def listen(self) -> bytes:
        said: bytes = await self._actor.listen.remote()
        return said


class RayNodes:
    """The nodes of one cluster. Connects when it is entered, unless this process is connected already.

    Args:
        address: `auto`, `local`, or `HOST:PORT` of the cluster's head.
        options: Of the engine on each node.
        cpus: That each actor takes from Ray's own accounts.
    """

    def __init__(self, address: str, options: NodeOptions, *, cpus: float) -> None:
        self._address = address
        self._options = options
        self._cpus = cpus
        self._is_ours = False
        self.own_tools: OwnTools | None = None
        # Any: Ray has no types for them.
        self._actors: dict[str, Any] = {}
        self._direct: dict[str, DirectMailbox] = {}

    def connect(self) -> None:
        """Join the cluster.

        Raises:
            EngineUnavailable: There is none, or it runs another Ray or Python.
            UsageError: Ray is not installed, or the address is not one.
        """
        ray = _ray()
        if ray.is_initialized():
            return
        _check_address(self._address)
        # Ray puts its own in the place of the host's.
        is_main = threading.current_thread() is threading.main_thread()
        handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)} if is_main else {}
        try:
            ray.init(
                address=self._address, namespace="toolfold", log_to_driver=False, logging_level=logging.ERROR,
                configure_logging=False, include_dashboard=False if self._address == "local" else None,
            )  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise EngineUnavailable(f"no use of the Ray cluster at {self._address!r}: {_one_line(error)}") from error
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        self._is_ours = True

    def disconnect(self) -> None:
        """Leave it, if it was joined here."""
        if self._is_ours:
            self._is_ours = False
            _ray().shutdown()

    async def seen(self) -> list[Seen]:
        """The nodes that are alive."""
        return list(await asyncio.to_thread(_seen))

    async def join(self, node: Seen) -> tuple[NodeFacts, Mailbox]:
        """Start an actor there, and its engine.

        Raises:
            EngineUnavailable: It cannot be used, and the text says why.
        """
        ray = _ray()
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        options = {"num_cpus": self._cpus, "scheduling_strategy": strategy, "max_restarts": 0, "max_concurrency": 1000}
        actor = self._actors[node.node_id] = ray.remote(NodeActor).options(**options).remote()
        try:
            async with asyncio.timeout(START_SECONDS):
                answer = read_answer(await actor.start.remote(encode(self._options_on(node))))
        except TimeoutError:
            await self.leave(node.node_id)
            raise EngineUnavailable(
                f"node {node.address} did not start in {START_SECONDS:g} s; see 'ray status' for room there"
            ) from None
        except ray.exceptions.RayError as error:
            await self.leave(node.node_id)
            raise EngineUnavailable(f"node {node.address} cannot run programs: {_reason(error)}") from error
        mistake = _mismatch(answer.toolfold, answer.python) or answer.error
        if mistake:
            await self.leave(node.node_id)
            raise EngineUnavailable(f"node {node.address} cannot run programs: {mistake}")
        cores = node.cores if isinstance(node, _Node) else 1
        facts = NodeFacts(
            node_id=node.node_id, address=node.address, cores=cores, isolation=answer.isolation, notes=answer.notes,
            modules=answer.modules, own_tools=self.own_tools.specs if self.own_tools is not None else (),
        )  # fmt: skip
        return facts, await self._mailbox(node, actor, answer)

    def _options_on(self, node: Seen) -> NodeOptions:
        options = structs.replace(self._options, host="" if _has_tls() else node.address.rpartition(":")[0])
        own = self.own_tools
        return options if own is None else structs.replace(options, own_tools=own.described, make_own_tools=own.make)

    # Any: Ray has no types for an actor.
    async def _mailbox(self, node: Seen, actor: Any, answer: NodeAnswer) -> Mailbox:
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
        return AskingMailbox(_Actor(actor))

    async def leave(self, node_id: str) -> None:
        """End its guests and its actor."""
        direct = self._direct.pop(node_id, None)
        try:
            await self._end(self._actors.pop(node_id, None))
        finally:
            # Last: an actor that is hung up on leaves by itself, which Ray reports as a crash.
            if direct is not None:
                direct.close()

    # Any: Ray has no types for an actor.
    async def _end(self, actor: Any) -> None:
        if actor is None:
            return
        ray = _ray()
        # It may be gone, or its node may be: then there is nothing to end.
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await actor.stop.remote()
                # Asked first: of an actor that is killed, Ray tells the user that a worker died unexpectedly.
                await actor.__ray_terminate__.remote()
        with contextlib.suppress(ray.exceptions.RayError, ValueError):
            ray.kill(actor)


def examine_nodes(address: str, required: Isolation) -> dict[str, Diagnosis | str]:
    """What each node can promise, by its address; a text where it cannot even be asked.

    Raises:
        EngineUnavailable: There is no cluster.
    """
    nodes = RayNodes(address, NodeOptions(limits=Limits(), max_kept_guests=0, max_kept_bytes=0), cpus=0.0)
    nodes.connect()
    ray = _ray()
    try:
        asked = {}
        for node in _seen():
            strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.node_id, soft=False)
            task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)(examine_here)
            asked[node.address] = task.remote(required)
        return {place: _examined(ray, reference) for place, reference in asked.items()}
    finally:
        nodes.disconnect()


# Any: Ray has no types for what it will return.
def _examined(ray: Any, reference: Any) -> Diagnosis | str:
    try:
        return read_diagnosis(ray.get(reference, timeout=START_SECONDS))
    except (ray.exceptions.RayError, TimeoutError) as error:
        return _reason(error)


# Any: Ray's own types are loose.
def _ray() -> Any:
    try:
        # Here, not at the top: it takes a second, and an extra that is not there must be told in one line.
        import ray  # noqa: PLC0415
        import ray.util.scheduling_strategies  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"'ray' is not installed; {install_extra('ray')}") from error
    return ray


def _seen() -> list[_Node]:
    """The nodes that are alive. One without a core only if there is no other: a head has none, to be left alone."""
    ray = _ray()
    # The only door to this; without it a node that is drained is found when it is gone. In milliseconds since 1970.
    draining: dict[str, int] = getattr(ray._private.state.state, "get_draining_nodes", dict)()
    alive = [node for node in ray.nodes() if node["Alive"]]
    return [
        _Node(
            node["NodeID"],
            f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
            int(node["Resources"].get("CPU", 0)) or 1,
            node["NodeID"] in draining,
            # 0: no deadline.
            draining.get(node["NodeID"], 0) / 1000 or math.inf,
        )
        for node in [node for node in alive if node["Resources"].get("CPU")] or alive
    ]


def _has_tls() -> bool:
    """A connection of our own would not be encrypted, where Ray's are."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


def _check_address(address: str) -> None:
    """Ray waits for long, and says little, where nobody listens."""
    if address in ("auto", "local"):
        return
    if "://" in address:
        raise UsageError(f"{address!r} is not HOST:PORT of a Ray head; Ray Client addresses cannot be used")
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"{address!r} is not HOST:PORT of a Ray head, as in '10.0.0.5:6379'")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            return
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "no answer"
        raise EngineUnavailable(
            f"no Ray cluster at {address!r}: {reason}; start one with 'ray start --head', or give another address"
        ) from error


def _mismatch(theirs: str, python: str) -> str:
    """What differs so that programs would not do the same there."""
    if theirs != version("toolfold"):
        return f"it has toolfold {theirs}, and this is {version('toolfold')}; install the same there"
    ours = platform.python_version()
    if python.split(".")[:2] != ours.split(".")[:2]:
        return f"it has Python {python}, and this is {ours}; use the same there"
    return ""


def _reason(error: BaseException) -> str:
    text = str(error)
    if "No module named 'toolfold" in text:
        return f"toolfold is not installed there; install {version('toolfold')} with the extra 'ray' on that node"
    return _one_line(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
