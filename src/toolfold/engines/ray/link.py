"""Link from the runtime to one node: mailboxes, messages out in order, parts in. Knows nothing of Ray.

Rules:
1. What is said in one turn of the loop leaves together, and while much is on its way more is gathered: a busy link
   sends few large messages, an idle one sends at once.
2. A node that is silent for too long is lost, like one that is gone. Nothing that it says later is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from toolfold.engines.ray import wire
from toolfold.models import ToolSpec
from toolfold.protocol.codec import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.engines.ray.wire import FromNode, ToNode


# ----------------------------------------------------------------------------------------------------
# How messages get to a node and back. Knows nothing of Ray, nor of what the messages say.

MOST_ON_THEIR_WAY: Final = 4
LISTENERS: Final = 2
"""While one message comes in, the next may be on its way."""


class Mailbox(Protocol):
    """Brings messages by itself, and takes them without a wait."""

    is_full: bool
    """Further messages should be gathered, until there is room."""

    def attach(self, hear: Callable[[bytes], None], lose: Callable[[str], None], has_room: Callable[[], None]) -> None:
        """From now on messages go to `hear`; `lose` is told why none comes any more."""

    def write(self, number: int, body: bytes) -> None:
        """Send one."""

    def detach(self) -> None:
        """Bring nothing more."""


class PullTransport(Protocol):
    """A way that has to be asked for each message. Raises whatever it likes: the node is lost then."""

    async def send(self, number: int, body: bytes) -> None: ...
    async def listen(self) -> bytes: ...


class PollingMailbox:
    """A `Mailbox` out of a way that has to be asked."""

    def __init__(self, transport: PullTransport) -> None:
        self.is_full = False
        self._transport = transport
        self._on_their_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._lose: Callable[[str], None] | None = None
        self._has_room: Callable[[], None] | None = None

    def attach(self, hear: Callable[[bytes], None], lose: Callable[[str], None], has_room: Callable[[], None]) -> None:
        """Ask for messages, again and again."""
        self._lose, self._has_room = lose, has_room
        for _ in range(LISTENERS):
            self._begin(self._listen(hear, lose))

    def write(self, number: int, body: bytes) -> None:
        """Send one."""
        self._on_their_way += 1
        self.is_full = self._on_their_way >= MOST_ON_THEIR_WAY
        self._begin(self._send(number, body))

    def detach(self) -> None:
        """Bring nothing more."""
        self._lose = self._has_room = None
        for task in self._tasks:
            task.cancel()

    # a coroutine of any kind
    def _begin(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[call-overload]  # see above
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, hear: Callable[[bytes], None], lose: Callable[[str], None]) -> None:
        try:
            while self._lose is not None:
                hear(await self._transport.listen())
        # Whatever the transport raises means one thing.
        except Exception as error:  # noqa: BLE001
            lose(_first_line(error))

    async def _send(self, number: int, body: bytes) -> None:
        try:
            await self._transport.send(number, body)
        # As above.
        except Exception as error:  # noqa: BLE001
            if self._lose is not None:
                self._lose(_first_line(error))
            return
        self._on_their_way -= 1
        self.is_full = False
        if self._has_room is not None:
            self._has_room()


def _first_line(error: BaseException) -> str:
    # Ray's texts are pages long; the first line says what happened.
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


MOST_GRANTS: Final = 64
NO_RUN: Final = 0


class RunListener(Protocol):
    """Listener for one program on the node."""

    def hear(self, body: bytes) -> None:
        """A part of a message for it, not read yet."""

    def lose_node(self, why: str) -> None:
        """Nothing more comes from there."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a node reports about itself."""

    node_id: str
    address: str
    cores: int
    isolation: str = ""
    notes: tuple[str, ...] = ()
    modules: frozenset[str] | None = None
    own_tools: tuple[ToolSpec, ...] = ()
    """That it calls itself."""


class ToolGrant(NamedTuple):
    """Tools that a node knows."""

    number: int
    tools: Sequence[ToolSpec]
    """They themselves, so that their identity stays theirs."""
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
        self.room = wire.WireRoom(0, 0, 0)
        self.runs: dict[int, RunListener] = {}
        self._mailbox = mailbox
        self._on_lost, self._on_gone = on_lost, on_gone
        self._lost_after_seconds = lost_after_seconds
        self._heard_at = asyncio.get_running_loop().time()
        self._outbox: list[ToNode] = []
        self._next_out = 0
        self._inbox = _Inbox()
        self._grants: dict[int, ToolGrant] = {}
        """By identity of the tools."""
        self._watching = asyncio.create_task(self._watch())
        mailbox.attach(self._take, self.lose, self._flush)

    @property
    def load(self) -> float:
        """Programs per core."""
        return len(self.runs) / max(self.facts.cores, 1)

    def send(self, message: ToNode) -> None:
        """In its turn; ignored once the node is lost."""
        if self.is_lost:
            return
        self._outbox.append(message)
        if len(self._outbox) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def grant(self, tools: Sequence[ToolSpec]) -> ToolGrant:
        """What the node knows these tools by; it is told if it does not."""
        grant = self._grants.pop(id(tools), None)
        if grant is None:
            if len(self._grants) >= MOST_GRANTS:
                oldest = next(iter(self._grants))
                self.send(wire.Forget(self._grants.pop(oldest).number))
            grant = ToolGrant(self._free_number(), tools, self._own_among(tools))
            self.send(wire.Grant(grant.number, tuple(tools), grant.own))
        self._grants[id(tools)] = grant  # last: it was used most recently
        return grant

    def _own_among(self, tools: Sequence[ToolSpec]) -> frozenset[str]:
        """By all that it takes and is: another tool of that name is the runtime's."""
        own = {spec.name: spec for spec in self.facts.own_tools}
        return frozenset(spec.name for spec in tools if spec.name in own and _is_same(spec, own[spec.name]))

    def _free_number(self) -> int:
        used = {granted.number for granted in self._grants.values()}
        return next(number for number in range(MOST_GRANTS + 1) if number not in used)

    async def close(self) -> None:
        """Hear nothing more."""
        self.is_lost = True
        self._watching.cancel()
        self._mailbox.detach()
        await asyncio.gather(self._watching, return_exceptions=True)

    def lose(self, why: str) -> None:
        """The node is gone, or is not to be trusted any more."""
        if self.is_lost:
            return
        self.is_lost = True
        self._watching.cancel()
        self._mailbox.detach()
        self._on_lost(self, why)
        runs, self.runs = tuple(self.runs.values()), {}
        for run in runs:
            run.lose_node(why)

    # out

    def _flush(self) -> None:
        if self.is_lost or not self._outbox or self._mailbox.is_full:
            return
        messages, self._outbox = self._outbox, []
        number, self._next_out = self._next_out, self._next_out + 1
        self._mailbox.write(number, wire.pack(messages))

    # in

    async def _watch(self) -> None:
        """Rule 2."""
        loop = asyncio.get_running_loop()
        while (remaining_seconds := self._heard_at + self._lost_after_seconds - loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(remaining_seconds)  # messages only move its end
        self.lose(f"it said nothing for {self._lost_after_seconds:g} s")

    def _take(self, body: bytes) -> None:
        if self.is_lost:
            return
        self._heard_at = asyncio.get_running_loop().time()
        try:
            for key, part in self._inbox.in_turn(*wire.split(body)):
                if key == NO_RUN:
                    for message in wire.read(part):
                        self._hear_of_node(message)
                # Not known: it has ended for the runtime, and the node does not know yet.
                elif (run := self.runs.get(key)) is not None:
                    run.hear(part)
        except Violation as breach:
            self.lose(f"it sent {breach}")

    def _hear_of_node(self, message: FromNode) -> None:
        if isinstance(message, wire.WireRoom):
            self.room = message
        elif isinstance(message, wire.WireGone):
            self._on_gone(message.session)
        else:
            raise Violation("a part for no run")


class _Inbox:
    """Messages in the order of their numbers, however they come in."""

    def __init__(self) -> None:
        self._next = 0
        self._early: dict[int, list[tuple[int, bytes]]] = {}

    def in_turn(self, number: int, parts: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """The parts whose turn it is.

        Raises:
            Violation: More are early than can be.
        """
        if number == self._next and not self._early:
            self._next += 1
            return parts
        self._early[number] = parts
        if len(self._early) > LISTENERS:
            raise Violation(f"message {number} out of order")
        due: list[tuple[int, bytes]] = []
        while (now := self._early.pop(self._next, None)) is not None:
            self._next += 1
            due += now
        return due


def _is_same(spec: ToolSpec, other: ToolSpec) -> bool:
    # Not the output schema: what was learned of it may be told to a program.
    return (spec.source, spec.input_schema) == (other.source, other.input_schema)
