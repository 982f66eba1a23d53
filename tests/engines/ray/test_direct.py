"""The connection to a node: one runtime, which knows the secret, and nobody else."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from toolfold.engines.process import ProcessEngine
from toolfold.engines.ray import wire_messages
from toolfold.engines.ray.direct_connection import DirectMailbox, DirectServer
from toolfold.engines.ray.node import MOST_WAITING_BYTES, Node
from toolfold.models import Limits, Program, ToolSpec


class Served:
    def __init__(self, node: Node, port: int, token: bytes, ended: asyncio.Event) -> None:
        self.node, self.port, self.token, self.ended = node, port, token, ended


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    ended = asyncio.Event()

    async def end() -> None:
        ended.set()

    async with ProcessEngine(warm=1) as engine:
        node = Node(engine)
        server = DirectServer(node, end)
        port, token = await server.open("127.0.0.1")
        yield Served(node, port, token, ended)
        server.close()


class Heard:
    """Who is attached to a mailbox."""

    def __init__(self, mailbox: DirectMailbox) -> None:
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        mailbox.attach(self.messages.put_nowait, self.lose, lambda: None)

    def lose(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)


@pytest.mark.parametrize(
    ("text", "unmade"), [("6 * 7", ()), ("async def f(): pass\nc = f()\n42", ("f(...) at line 1",))]
)
async def test_messages_go_both_ways(text: str, unmade: tuple[str, ...], served: Served) -> None:
    mailbox = await DirectMailbox.connect("127.0.0.1", served.port, served.token)
    heard = Heard(mailbox)
    opened = wire_messages.Open(1, 0, Program(text=text), Limits(), (), "", 1, None, (), report_waiting=False)
    mailbox.write(wire_messages.pack([wire_messages.Grant(0, ()), opened]))
    parts = wire_messages.split(await heard.messages.get())
    mailbox.close()
    await served.ended.wait()

    ended = wire_messages.WireEnded("finished", 42, None, (), frozenset(), (), False, unmade)
    assert [(key, wire_messages.read(body)) for key, body in parts] == [(1, [ended])]


async def test_whoever_does_not_know_the_secret_hears_nothing(served: Served) -> None:
    stranger = await DirectMailbox.connect("127.0.0.1", served.port, b"x" * 32)
    heard = Heard(stranger)
    await heard.lost

    assert heard.messages.empty()
    assert not served.ended.is_set()


async def test_there_is_one_connection_and_its_end_is_told(served: Served) -> None:
    first = await DirectMailbox.connect("127.0.0.1", served.port, served.token)
    await Heard(first).messages.get()  # a heartbeat: it is served
    with pytest.raises(OSError):
        await DirectMailbox.connect("127.0.0.1", served.port, served.token)
    first.close()

    await served.ended.wait()


async def test_a_node_that_announces_too_much_is_hung_up_on_before_a_byte_is_kept() -> None:
    async def announce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(32)
        writer.write((2**40).to_bytes(8, "big") + b"x" * 1000)
        writer.close()

    server = await asyncio.start_server(announce, "127.0.0.1", 0)
    async with server:
        mailbox = await DirectMailbox.connect("127.0.0.1", server.sockets[0].getsockname()[1], b"x" * 32)
        heard = Heard(mailbox)

        assert await heard.lost == "it sent a message of 1099511627776 bytes"
        assert heard.messages.empty()


async def test_a_program_whose_words_nobody_reads_stands_still(served: Served) -> None:
    mailbox = await DirectMailbox.connect("127.0.0.1", served.port, served.token)
    calls = 300
    text = (
        "import asyncio\ntasks = []\n"
        f"for n in range({calls}):\n"
        "    tasks.append(asyncio.create_task(save(text='x' * 100_000)))\n"
        "    await asyncio.sleep(0.001)\n"
        "await asyncio.gather(*tasks)"
    )
    spec = ToolSpec(name="save", python_name="save")
    opened = wire_messages.Open(1, 0, Program(text=text), Limits(), (), "", 1, None, (), report_waiting=False)
    mailbox.write(wire_messages.pack([wire_messages.Grant(0, (spec,)), opened]))
    while served.node._outbox.has_room.is_set():
        await asyncio.sleep(0.01)
    held = served.node._outbox.waiting_bytes
    heard = Heard(mailbox)  # now they are read
    made = 0
    while made < calls:
        parts = wire_messages.split(await heard.messages.get())
        said = [one for key, body in parts if key == 1 for one in wire_messages.read(body)]
        made += sum(len(one.calls) for one in said if isinstance(one, wire_messages.WireCalled))
    mailbox.close()
    await served.ended.wait()

    assert held < MOST_WAITING_BYTES + 1024 * 1024


@pytest.mark.parametrize("count", [1, 2, 15, 16, 70_000])
def test_parts_of_a_run_are_read_together_in_their_order(count: int) -> None:
    said = [wire_messages.WireWaiting(number) for number in range(count)]
    body = wire_messages.merged([wire_messages.part(one) for one in said])

    assert wire_messages.read(body) == said
