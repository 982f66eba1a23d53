"""A node that was taken over, on a real connection: whatever it says, the runtime stays whole and says what happened."""

import asyncio
from dataclasses import dataclass
from math import inf

import msgspec
import pytest

from toolfold import EngineCrashed, Runtime
from toolfold.engines.base import EngineTools
from toolfold.engines.ray import RayEngine, wire_messages
from toolfold.engines.ray.cluster import ClusterNode
from toolfold.engines.ray.direct_connection import DirectMailbox
from toolfold.engines.ray.node_link import Mailbox, NodeFacts
from toolfold.models import File

saved: list[int] = []


async def save(n: int) -> int:
    """Counts."""
    saved.append(n)
    return n


@dataclass
class HostileNode:
    """Answers every message of the runtime with the same bytes."""

    said: bytes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(32)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(8), "big")
                await reader.readexactly(size)
                writer.write(len(self.said).to_bytes(8, "big") + self.said)
        except asyncio.IncompleteReadError:
            writer.close()


class HostileNodes:
    """A cluster of one of them."""

    own_tools: EngineTools | None = None

    def __init__(self, node: HostileNode) -> None:
        self.node = node
        self.mailboxes: list[DirectMailbox] = []

    async def connect(self) -> None:
        """There is nothing to connect to."""

    async def disconnect(self) -> None:
        """As above."""

    async def seen(self) -> list[ClusterNode]:
        return [ClusterNode("hostile", "hostile", 1, False, inf)]

    async def join(self, node: ClusterNode) -> tuple[NodeFacts, Mailbox]:
        self.server = await asyncio.start_server(self.node.serve, "127.0.0.1", 0)
        mailbox = await DirectMailbox.connect("127.0.0.1", self.server.sockets[0].getsockname()[1], bytes(32))
        self.mailboxes.append(mailbox)
        return NodeFacts(node_id=node.node_id, address=node.address, cores=1), mailbox

    async def leave(self, node_id: str) -> None:
        for mailbox in self.mailboxes:
            mailbox.close()
        self.server.close()


def of_run(*said: wire_messages.FromNode) -> bytes:
    return wire_messages.join([(1, wire_messages.part(one)) for one in said])


def ended(value: object = 1, *files: File) -> wire_messages.WireEnded:
    return wire_messages.WireEnded("finished", value, None, files, frozenset(), (), keeps_session=False)


CALL = wire_messages.WireCalled([(1, 0, {"n": 1}, 0, 0)])
SAID = {
    "a pickle": (b"\x80\x04K\x01.", "it sent a message that cannot be read"),
    "no part": (wire_messages.join([(1, b"\x00")]), "sent a part that cannot be read"),
    "a tool that was not granted": (of_run(wire_messages.WireCalled([(1, 9, {}, 0, 0)])), "sent a call of no tool"),
    "the same call twice": (of_run(CALL, CALL), "sent calls out of order"),
    "keys that are numbers": (of_run(wire_messages.WireCalled([(1, 0, {"n": {1: 2}}, 0, 0)])), "sent "),
    "not a number": (of_run(ended(float("nan"))), "sent "),
    "a file elsewhere": (of_run(ended(1, File(name="../x", data=b""))), "sent a file outside of the data folder"),
    "a reply that it had no tool for": (
        of_run(
            wire_messages.WireCalled([(1, 0, {"n": 1}, 0, 0)]), wire_messages.WireServed(1, 0, 0.0, 1, None, 1, 1, "")
        ),
        "sent a reply to no call of its own",
    ),
    "a status of its own": (
        wire_messages.join([(1, msgspec.msgpack.encode([[4, "great", None, None, [], [], [], False]]))]),
        "sent a part that cannot be read",
    ),
    "a program's part in its own name": (
        wire_messages.join([(0, wire_messages.part(ended()))]),
        "it sent a part for no run",
    ),
}


@pytest.mark.parametrize(("said", "text"), SAID.values(), ids=SAID.keys())
async def test_the_node_is_dropped_and_the_program_is_not_to_blame(said: bytes, text: str) -> None:
    saved.clear()
    nodes = HostileNodes(HostileNode(said))
    async with Runtime([save], engine=RayEngine(nodes, wait_seconds=0.2)) as runtime:
        with pytest.raises(EngineCrashed) as caught:
            await runtime.run("await save(n=1)")
        lost = runtime._engine._fleet.links

    assert text in str(caught.value) or "no node of the Ray cluster can be used" in str(caught.value)
    assert (lost, len(saved) <= 1) == ((), True)


async def test_words_for_programs_of_others_are_not_heard() -> None:
    nodes = HostileNodes(
        HostileNode(wire_messages.join([(77, wire_messages.part(ended("forged"))), (1, wire_messages.part(ended(1)))]))
    )
    async with Runtime([save], engine=RayEngine(nodes)) as runtime:
        outcome = await runtime.run("await save(n=1)")

    assert (outcome.status, outcome.value) == ("finished", 1)
