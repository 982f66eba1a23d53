"""Driver process that is connected to Ray, and the runtime's client for it.

Ray ends a process, with no way to catch it, when the cluster's head is away for longer than
`gcs_rpc_server_reconnect_timeout_s`, 60 s by default. The runtime serves other programs and has calls in flight, so
that process must not be the runtime's. Programs pay nothing for it: their messages go from the runtime straight to the
nodes. Only where they cannot (TLS, a firewall) do they take this way as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import logging
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

from toolfold.engines.base import EngineTools
from toolfold.engines.ray.cluster import (
    ANSWER,
    STOP_SECONDS,
    ClusterNode,
    NodeAnswer,
    NodeOptions,
    RayDriver,
    check_address,
)
from toolfold.engines.ray.direct_connection import DirectMailbox, Frames
from toolfold.engines.ray.node_link import Mailbox, NodeFacts, PollingMailbox
from toolfold.errors import EngineUnavailable, UsageError, install_extra
from toolfold.protocol.codec import encode

_CLOSE_SECONDS: Final = 2 * STOP_SECONDS
_METHODS: Final = frozenset({"connect", "seen", "start_actor", "send", "listen", "end_actor"})
_ERRORS: Final[dict[str, type[Exception]]] = {"unavailable": EngineUnavailable, "usage": UsageError}
_LOST_MESSAGE: Final = "the process that was connected to the Ray cluster has ended; the head may be away"
_encode: Final = msgspec.msgpack.encode
_decode: Final = msgspec.msgpack.decode


class DriverProcess(Frames):
    """A `RayDriver` in a child process. Once Ray has ended that, requests raise `EngineUnavailable`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__()
        self.is_alive = True
        self._process = process
        self._numbers = itertools.count(1)
        # Any: each answer has a type of its own.
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    @classmethod
    async def start(cls, address: str) -> DriverProcess:
        """Start it, and have it join the cluster; raises as `RayDriver.connect`."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = _start_process(theirs.fileno())
        _, driver = await asyncio.get_running_loop().create_connection(lambda: cls(process), sock=ours)
        try:
            # Nodes import tools from where this process does.
            await driver._ask("connect", address, sys.path, sys.argv[:1])
        except BaseException:
            await driver.disconnect()
            raise
        return driver

    async def disconnect(self) -> None:
        """Leave the cluster. A process that cannot, because the head is away, is killed."""
        self.is_alive = False
        self.close()
        await asyncio.to_thread(_wait_for, self._process)

    async def seen(self) -> list[ClusterNode]:
        return [ClusterNode(*row) for row in await self._ask("seen")]

    async def start_actor(self, node_id: str, address: str, cpus: float, options: bytes) -> bytes:
        answer: bytes = await self._ask("start_actor", node_id, address, cpus, options)
        return answer

    async def send(self, node_id: str, body: bytes) -> None:
        await self._ask("send", node_id, body)

    async def listen(self, node_id: str) -> bytes:
        body: bytes = await self._ask("listen", node_id)
        return body

    async def end_actor(self, node_id: str) -> None:
        await self._ask("end_actor", node_id)

    # Any: as above.
    async def _ask(self, method: str, *arguments: Any) -> Any:
        if not self.is_alive:
            raise EngineUnavailable(_LOST_MESSAGE)
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.write(_encode((number, method, arguments)))
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def hear(self, body: bytes) -> None:
        number, error, value = _decode(body)
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return  # its caller was cancelled
        if error:
            answer.set_exception(_ERRORS[error](value))
        else:
            answer.set_result(value)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_alive = False
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(EngineUnavailable(_LOST_MESSAGE))


class _DriverServer(Frames):
    """The child's end; the child exits when the connection ends."""

    def __init__(self) -> None:
        super().__init__()
        self.driver: RayDriver | None = None
        self.ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, body: bytes) -> None:
        task = asyncio.create_task(self._answer(*_decode(body)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, method: str, arguments: list[Any]) -> None:
        error, value = "", None
        try:
            value = await self._do(method, arguments)
        except EngineUnavailable as refusal:
            error, value = "unavailable", str(refusal)
        except UsageError as refusal:
            error, value = "usage", str(refusal)
        # Whatever else Ray raises means the same to the caller. Its texts are pages long; the first line says it.
        except Exception as problem:  # noqa: BLE001
            text = str(problem).strip().partition("\n")[0][:200]
            error, value = "unavailable", f"Ray failed with {type(problem).__name__}: {text}"
        self.write(_encode((number, error, value)))

    # Any: each method has arguments and an answer of its own.
    async def _do(self, method: str, arguments: list[Any]) -> Any:
        assert method in _METHODS, "sent by the runtime"
        if method != "connect":
            return await getattr(self.driver, method)(*arguments)
        address, sys.path[:], sys.argv[:1] = arguments
        self.driver = RayDriver(address)
        return self.driver.connect()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


def serve(fd: int) -> None:
    """Main function of the child: answer requests until the runtime hangs up."""
    asyncio.run(_serve(fd))
    # Without waiting for threads of Ray that wait for a head.
    os._exit(0)


async def _serve(fd: int) -> None:
    _, server = await asyncio.get_running_loop().create_connection(_DriverServer, sock=socket.socket(fileno=fd))
    await server.ended.wait()
    if server.driver is not None:
        await server.driver.disconnect()


def _start_process(fd: int) -> subprocess.Popen[bytes]:
    # With the folder that this package is in, however the runtime found it.
    import_path = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve({fd})"],
        pass_fds=[fd],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": import_path},
        # It must not hear the signals of a terminal: it ends when the runtime hangs up.
        start_new_session=True,
    )


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ----------------------------------------------------------------------------------------------------
# Nodes of a Ray cluster: joined, left, and found again after the cluster was away.

RECONNECT_SECONDS: Final = 5.0
"""From one attempt to join a cluster again to the next."""
_log: Final = logging.getLogger(__name__)


class RayNodes:
    """Nodes of the cluster at `address`, which a child process joins unless this process has joined one already."""

    def __init__(self, address: str, options: NodeOptions, *, cpus: float) -> None:
        self._address = address
        self._options = options
        self._cpus = cpus
        self.own_tools: EngineTools | None = None
        self._driver: RayDriver | DriverProcess | None = None
        self._try_at = 0.0
        self._reason = "the connection is lost"
        self._direct: dict[str, DirectMailbox] = {}

    async def connect(self) -> None:
        """Join the cluster; raises as `RayDriver.connect`."""
        if _is_driver():
            self._driver = RayDriver(self._address)
            return
        if importlib.util.find_spec("ray") is None:
            raise UsageError(f"'ray' is not installed; {install_extra('ray')}")
        await asyncio.to_thread(check_address, self._address)
        self._driver = await DriverProcess.start(self._address)

    async def disconnect(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.disconnect()

    async def seen(self) -> Sequence[ClusterNode]:
        """The nodes that are alive. Joins the cluster again if the connection to it was lost."""
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
        _log.warning("reconnected to the Ray cluster at %s", self._address)

    def _connected(self) -> RayDriver | DriverProcess:
        if self._driver is None:
            raise EngineUnavailable(f"not connected to the Ray cluster at {self._address!r}")
        return self._driver

    async def join(self, node: ClusterNode) -> tuple[NodeFacts, Mailbox]:
        driver = self._connected()
        options = encode(self._options_on(node))
        answer = ANSWER.decode(await driver.start_actor(node.node_id, node.address, self._cpus, options))
        problem = _mismatch(answer) or answer.error
        if problem:
            await self.leave(node.node_id)
            raise EngineUnavailable(f"node {node.address} cannot run programs: {problem}")
        facts = NodeFacts(
            node_id=node.node_id, address=node.address, cores=node.cores, notes=answer.notes, modules=answer.modules,
            own_tools=self.own_tools.specs if self.own_tools is not None else (),
        )  # fmt: skip
        return facts, await self._mailbox(node, driver, answer)

    def _options_on(self, node: ClusterNode) -> NodeOptions:
        options = structs.replace(self._options, host="" if _has_tls() else node.address.rpartition(":")[0])
        own = self.own_tools
        return options if own is None else structs.replace(options, own_tools=own.described, make_own_tools=own.make)

    async def _mailbox(self, node: ClusterNode, driver: RayDriver | DriverProcess, answer: NodeAnswer) -> Mailbox:
        """A direct connection where one can be made; else through Ray, which takes a millisecond longer."""
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
        return PollingMailbox(partial(driver.send, node.node_id), partial(driver.listen, node.node_id))

    async def leave(self, node_id: str) -> None:
        direct = self._direct.pop(node_id, None)
        try:
            # Where that is no longer connected, Ray ends its actors.
            with contextlib.suppress(EngineUnavailable):
                await self._connected().end_actor(node_id)
        finally:
            # Last: an actor that is hung up on leaves by itself, which Ray reports as a crash.
            if direct is not None:
                direct.close()


def _is_driver() -> bool:
    """Whether the host has joined a cluster in this process; does not import Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _has_tls() -> bool:
    """Whether Ray's connections are encrypted; a direct one would not be."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


def _mismatch(answer: NodeAnswer) -> str:
    if answer.toolfold != version("toolfold"):
        return f"it has toolfold {answer.toolfold}, and this is {version('toolfold')}; install the same there"
    ours = platform.python_version()
    if answer.python.split(".")[:2] != ours.split(".")[:2]:
        return f"it has Python {answer.python}, and this is {ours}; use the same there"
    return ""
