"""Cluster access, the only module that imports Ray: joins, finds nodes, runs one actor on each."""

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
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

import msgspec

from toolfold.engines.process import ProcessEngine
from toolfold.engines.process.doctor import Diagnosis, examine
from toolfold.engines.ray.direct_connection import DirectServer
from toolfold.engines.ray.node import Node
from toolfold.errors import EngineUnavailable, ToolfoldError, UsageError, install_extra
from toolfold.models import Isolation, Limits
from toolfold.protocol.codec import decoder, encode

START_SECONDS: Final = 120.0
"""How long an actor may take until it is ready: Ray starts a process for it first."""
STOP_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 5.0


class ClusterNode(NamedTuple):
    """A node as Ray sees it."""

    node_id: str
    address: str
    cores: int
    is_draining: bool
    leaves_at: float
    """When a drained node goes, in seconds since 1970; infinite without a deadline."""


class RayDriver:
    """This process as a Ray driver. If the cluster is away for too long, Ray ends the process without a word."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_ours = False
        # Any: Ray has no types for them.
        self._actors: dict[str, Any] = {}

    @property
    def is_alive(self) -> bool:
        return bool(_ray().is_initialized())

    def connect(self) -> None:
        """Join the cluster, unless this process has; `EngineUnavailable` or `UsageError` if that is not possible."""
        ray = _ray()
        if ray.is_initialized():
            return
        check_address(self._address)
        # Ray replaces those of the host. Only the main thread can restore them.
        is_main = threading.current_thread() is threading.main_thread()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT) if is_main}
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

    async def disconnect(self) -> None:
        """Leave the cluster, if it was joined here."""
        if self._is_ours:
            self._is_ours = False
            _ray().shutdown()

    async def seen(self) -> list[ClusterNode]:
        return await asyncio.to_thread(_alive_nodes)

    async def start_actor(self, node_id: str, address: str, cpus: float, options: bytes) -> bytes:
        """Start an actor and its engine there; an encoded `NodeAnswer`, or `EngineUnavailable`, which says why not."""
        ray = _ray()
        settings = {
            "num_cpus": cpus, "scheduling_strategy": _only_on(node_id), "max_restarts": 0, "max_concurrency": 1000
        }  # fmt: skip
        actor = self._actors[node_id] = ray.remote(NodeActor).options(**settings).remote()
        try:
            async with asyncio.timeout(START_SECONDS):
                answer: bytes = await actor.start.remote(options)
        except TimeoutError:
            await self.end_actor(node_id)
            raise EngineUnavailable(
                f"node {address} did not start in {START_SECONDS:g} s; see 'ray status' for room there"
            ) from None
        except ray.exceptions.RayError as error:
            await self.end_actor(node_id)
            raise EngineUnavailable(f"node {address} cannot run programs: {_reason(error)}") from error
        return answer

    async def send(self, node_id: str, body: bytes) -> None:
        await self._actors[node_id].send.remote(body)

    async def listen(self, node_id: str) -> bytes:
        body: bytes = await self._actors[node_id].listen.remote()
        return body

    async def end_actor(self, node_id: str) -> None:
        actor = self._actors.pop(node_id, None)
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
    """Diagnosis of each node by address, or why it cannot be examined; `EngineUnavailable` without a cluster."""
    driver = RayDriver(address)
    driver.connect()
    ray = _ray()
    try:
        references = {}
        for node in _alive_nodes():
            task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=_only_on(node.node_id))(examine_here)
            references[node.address] = task.remote(required)
        return {place: _examined(ray, reference) for place, reference in references.items()}
    finally:
        asyncio.run(driver.disconnect())


# Any: Ray has no types for what it will return.
def _examined(ray: Any, reference: Any) -> Diagnosis | str:
    try:
        return _diagnosis.decode(ray.get(reference, timeout=START_SECONDS))
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


# Any: as above.
def _only_on(node_id: str) -> Any:
    return _ray().util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)


def _alive_nodes() -> list[ClusterNode]:
    """Nodes that are alive. One without a core only if there is no other: a head has none, to be left alone."""
    ray = _ray()
    # The only way to see that a node is drained before it is gone. In milliseconds since 1970.
    draining: dict[str, int] = getattr(ray._private.state.state, "get_draining_nodes", dict)()
    alive = [node for node in ray.nodes() if node["Alive"]]
    return [
        ClusterNode(
            node["NodeID"],
            f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
            int(node["Resources"].get("CPU", 0)) or 1,
            node["NodeID"] in draining,
            # 0: no deadline.
            draining.get(node["NodeID"], 0) / 1000 or math.inf,
        )
        for node in [node for node in alive if node["Resources"].get("CPU")] or alive
    ]


def check_address(address: str) -> None:
    """`EngineUnavailable` if nobody listens there, `UsageError` for no address: Ray itself waits and says little."""
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


def _reason(error: BaseException) -> str:
    if "No module named 'toolfold" in str(error):
        return f"toolfold is not installed there; install {version('toolfold')} with the extra 'ray' on that node"
    return _one_line(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


# ----------------------------------------------------------------------------------------------------
# Actor of each node: a process engine behind a few methods that take and return bytes.


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the engine of a node."""

    limits: Limits
    isolation: str = "namespace"
    warm: int = 2
    host_libraries: bool = False
    host: str = ""
    """Address to listen on for a direct connection; empty: messages go through Ray."""
    max_kept_guests: int
    max_kept_bytes: int
    own_tools: bytes = b""
    make_own_tools: str = ""
    """As in `EngineTools`; empty if all calls go to the runtime."""


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the start of a node."""

    toolfold: str
    python: str
    error: str = ""
    notes: tuple[str, ...] = ()
    modules: frozenset[str] | None = None
    port: int = 0
    """Where the node listens for a direct connection; 0 if it does not."""
    token: bytes = b""


_options: Final = decoder(NodeOptions)
ANSWER: Final = decoder(NodeAnswer)
_diagnosis: Final = decoder(Diagnosis)
_PARENT_SECONDS: Final = 0.5


def examine_here(required: Isolation) -> bytes:
    return encode(asyncio.run(examine(required)))


class NodeActor:
    """Actor on each node. Its engine ends with its process, and its process with the runtime's."""

    def __init__(self) -> None:
        self._engine: ProcessEngine | None = None
        self._node: Node | None = None
        self._server: DirectServer | None = None
        self._parent: asyncio.Task[None] | None = None

    async def start(self, body: bytes) -> bytes:
        """Start the engine; an encoded `NodeAnswer`."""
        answer: dict[str, Any] = {"toolfold": version("toolfold"), "python": platform.python_version()}
        try:
            options = _options.decode(body)
            own = resolve_name(options.make_own_tools)(options.own_tools) if options.make_own_tools else None
            engine = ProcessEngine(
                isolation=options.isolation, limits=options.limits, warm=options.warm,
                host_libraries=options.host_libraries, max_kept_guests=options.max_kept_guests,
                max_kept_bytes=options.max_kept_bytes,
            )  # fmt: skip
            self._engine = await engine.__aenter__()
        except (ToolfoldError, msgspec.MsgspecError, OSError) as error:
            return encode(NodeAnswer(**answer, error=str(error)))
        self._node = Node(engine, own)
        self._parent = asyncio.create_task(self._watch_parent(os.getppid()))
        if options.host:
            self._server = DirectServer(self._node, self._leave)
            # Without it, messages go through Ray.
            with contextlib.suppress(OSError):
                answer["port"], answer["token"] = await self._server.open(options.host)
        modules = engine.capabilities.modules
        return encode(NodeAnswer(**answer, notes=engine.notes, modules=modules))

    async def send(self, body: bytes) -> None:
        assert self._node is not None, "it was started"
        self._node.receive(body)

    async def listen(self) -> bytes:
        assert self._node is not None, "it was started"
        return await self._node.listen()

    async def _watch_parent(self, raylet: int) -> None:
        """Leave with the raylet: without it the node is lost. Ray's own check takes a zombie for a living one."""
        while os.getppid() == raylet:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_PARENT_SECONDS)
        await self._leave()

    async def _leave(self) -> None:
        """Exit without Ray, which may be slow to see that the runtime or the raylet is gone, or be gone itself."""
        await self.stop()
        os._exit(0)

    async def stop(self) -> None:
        if self._parent is not None and self._parent is not asyncio.current_task():
            self._parent.cancel()
        if self._server is not None:
            self._server.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.__aexit__(None, None, None)
