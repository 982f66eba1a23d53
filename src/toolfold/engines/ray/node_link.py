"""Link from the runtime to one node: mailboxes, outgoing messages, incoming parts. Knows nothing of Ray.

Rules:
1. Messages of one turn of the loop leave together, and a busy mailbox gathers more: a busy link sends few large
   messages, an idle one sends at once.
2. A node that is silent for too long is lost, like one that is gone. Nothing that it says later is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from toolfold.engines.ray import wire_messages
from toolfold.models import ToolSpec
from toolfold.protocol.codec import Violation

if TYPE_CHECKING:
    from toolfold.engines.ray.run import RayRun
    from toolfold.engines.ray.wire_messages import FromNode, ToNode

MOST_GRANTS: Final = 64
NO_RUN: Final = 0


class Mailbox(Protocol):
    """Messages to and from a node, in order."""

    is_full: bool
    """Whether further messages should be gathered until `has_room` is called."""

    def attach(self, hear: Callable[[bytes], None], lose: Callable[[str], None], has_room: Callable[[], None]) -> None:
        """Deliver messages to `hear` from now on; `lose` is called with the reason why no more will come."""

    def write(self, body: bytes) -> None: ...
    def detach(self) -> None:
        """Deliver nothing more."""


class PollingMailbox:
    """`Mailbox` over two functions that each move one message; whatever they raise loses the node."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], listen: Callable[[], Awaitable[bytes]]) -> None:
        self.is_full = False
        self._send = send
        self._listen = listen
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self, hear: Callable[[bytes], None], lose: Callable[[str], None], has_room: Callable[[], None]) -> None:
        self._hear, self._lose, self._has_room = hear, lose, has_room
        self._begin(self._poll())

    def write(self, body: bytes) -> None:
        """Send a message; the next one has to wait for its delivery."""
        self.is_full = True
        self._begin(self._deliver(body))

    def detach(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[object, None, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - of any kind, see the class
            # Ray's texts are pages long; the first line says what happened.
            self._lose(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}")

    async def _poll(self) -> None:
        while True:
            self._hear(await self._listen())

    async def _deliver(self, body: bytes) -> None:
        await self._send(body)
        self.is_full = False
        self._has_room()


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a node that can run programs."""

    node_id: str
    address: str
    cores: int
    notes: tuple[str, ...] = ()
    modules: frozenset[str] | None = None
    own_tools: tuple[ToolSpec, ...] = ()


class ToolGrant(NamedTuple):
    """Tools that a node knows by a number."""

    number: int
    tools: Sequence[ToolSpec]
    """Kept alive, so that their identity stays theirs."""
    own: frozenset[str]
    """Names of those that the node calls itself."""


class NodeLink:
    """Link to one node, from when it is ready until it is lost."""

    def __init__(
        self, facts: NodeFacts, mailbox: Mailbox, *, on_lost: Callable[[NodeLink, str], None],
        on_gone: Callable[[str], None], lost_after_seconds: float,
    ) -> None:  # fmt: skip
        self.facts = facts
        self.is_draining = False
        self.is_lost = False
        self.room = wire_messages.WireRoom(0, 0, 0)
        self.runs: dict[int, RayRun] = {}
        self._mailbox = mailbox
        self._on_lost, self._on_gone = on_lost, on_gone
        self._lost_after_seconds = lost_after_seconds
        self._heard_at = asyncio.get_running_loop().time()
        self._outbox: list[ToNode] = []
        self._grants: dict[int, ToolGrant] = {}
        self._watching = asyncio.create_task(self._watch())
        mailbox.attach(self._receive, self.lose, self._flush)

    @property
    def load(self) -> float:
        """Programs per core."""
        return len(self.runs) / max(self.facts.cores, 1)

    def send(self, message: ToNode) -> None:
        """Queue a message; ignored once the node is lost."""
        if self.is_lost:
            return
        self._outbox.append(message)
        if len(self._outbox) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def grant(self, tools: Sequence[ToolSpec]) -> ToolGrant:
        """The grant of these tools, sent to the node if it is new there."""
        grant = self._grants.pop(id(tools), None)
        if grant is None:
            if len(self._grants) >= MOST_GRANTS:
                oldest = next(iter(self._grants))
                self.send(wire_messages.Forget(self._grants.pop(oldest).number))
            used = {granted.number for granted in self._grants.values()}
            number = next(number for number in range(MOST_GRANTS) if number not in used)
            grant = ToolGrant(number, tools, self._own_among(tools))
            self.send(wire_messages.Grant(number, tuple(tools), grant.own))
        self._grants[id(tools)] = grant  # last: it was used most recently
        return grant

    def _own_among(self, tools: Sequence[ToolSpec]) -> frozenset[str]:
        # Not by the name alone: another tool of that name is the runtime's. Nor by the output schema, which may
        # have been learned.
        own = {(spec.name, spec.source): spec.input_schema for spec in self.facts.own_tools}
        return frozenset(spec.name for spec in tools if own.get((spec.name, spec.source)) == spec.input_schema)

    async def close(self) -> None:
        self._detach()
        await asyncio.gather(self._watching, return_exceptions=True)

    def lose(self, why: str) -> None:
        """Give the node up: it is gone, or cannot be trusted any more."""
        if self.is_lost:
            return
        self._detach()
        self._on_lost(self, why)
        runs, self.runs = tuple(self.runs.values()), {}
        for run in runs:
            run.lose_node(why)

    def _detach(self) -> None:
        self.is_lost = True
        self._watching.cancel()
        self._mailbox.detach()

    def _flush(self) -> None:
        if self.is_lost or not self._outbox or self._mailbox.is_full:
            return
        messages, self._outbox = self._outbox, []
        self._mailbox.write(wire_messages.pack(messages))

    async def _watch(self) -> None:
        """Rule 2."""
        loop = asyncio.get_running_loop()
        while (remaining_seconds := self._heard_at + self._lost_after_seconds - loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(remaining_seconds)  # messages only move its end
        self.lose(f"it said nothing for {self._lost_after_seconds:g} s")

    def _receive(self, body: bytes) -> None:
        if self.is_lost:
            return
        self._heard_at = asyncio.get_running_loop().time()
        try:
            for key, part in wire_messages.split(body):
                if key == NO_RUN:
                    for message in wire_messages.read(part):
                        self._hear_of_node(message)
                # Unknown: it has ended for the runtime, and the node does not know yet.
                elif (run := self.runs.get(key)) is not None:
                    run.hear(part)
        except Violation as breach:
            self.lose(f"it sent {breach}")

    def _hear_of_node(self, message: FromNode) -> None:
        if isinstance(message, wire_messages.WireRoom):
            self.room = message
        elif isinstance(message, wire_messages.WireGone):
            self._on_gone(message.session)
        else:
            raise Violation("a part for no run")
