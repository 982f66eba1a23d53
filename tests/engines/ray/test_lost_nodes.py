"""Programs whose node is lost go on on another, and no call is made twice. On nodes without Ray."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.engines.ray.local_nodes import LocalNode, LocalNodes
from toolfold import EngineCrashed, EngineUnavailable, Outcome, Paused, Reply, Runtime, ToolSpec
from toolfold.engines.base import Capabilities
from toolfold.engines.ray import RayEngine, wire_messages
from toolfold.models import File

ASK = ToolSpec(
    name="ask",
    python_name="ask",
    input_schema={"type": "object", "properties": {"q": {}}, "required": ["q"]},
    source="caller",
)


class Tools:
    """A tool that counts its calls, and one that can be held open."""

    def __init__(self) -> None:
        self.saved: list[int] = []
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def save(self, n: int) -> int:
        """Not safe to repeat."""
        self.saved.append(n)
        return n * 10

    async def hold(self, n: int) -> int:
        """Takes until it is let go."""
        self.saved.append(n)
        self.began.set()
        await self.may_end.wait()
        return n * 10


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def nodes() -> LocalNodes:
    return LocalNodes(LocalNode("one"), LocalNode("two"))


@pytest.fixture
async def runtime(nodes: LocalNodes, tools: Tools) -> AsyncIterator[Runtime]:
    async def save(n: int) -> int:
        """Not safe to repeat."""
        return await tools.save(n)

    async def hold(n: int) -> int:
        """Takes until it is let go."""
        return await tools.hold(n)

    async with Runtime(tools=[save, hold], engine=RayEngine(nodes, wait_seconds=0.5)) as runtime:
        yield runtime


async def lose(nodes: LocalNodes) -> None:
    """The node that runs the only program."""
    busy = [node for node in nodes.nodes if node.node is not None and node.node._runs]
    assert len(busy) == 1
    await busy[0].kill()


async def test_a_program_goes_on_where_it_was(runtime: Runtime, nodes: LocalNodes, tools: Tools) -> None:
    text = (
        "import random, time\n"
        "first = (random.random(), time.time(), {'a', 'b', 'c'})\n"
        "print(repr(first))\n"
        "a = await save(n=1)\n"
        "b, c = await __import__('asyncio').gather(hold(n=2), save(n=3))\n"
        "print(first == eval(repr(first)), a, b, c)\n"
        "[repr(first), await save(n=4)]"
    )
    running = asyncio.create_task(runtime.run(text))
    await tools.began.wait()
    await lose(nodes)
    tools.may_end.set()
    outcome = await running

    assert outcome.status == "finished"
    assert sorted(tools.saved) == [1, 2, 3, 4]
    assert outcome.stdout == f"{outcome.value[0]}\nTrue 10 20 30\n"
    assert [call.id for call in outcome.calls] == [1, 2, 3, 4]


async def test_a_call_that_ends_while_there_is_no_node_is_not_lost(
    runtime: Runtime, nodes: LocalNodes, tools: Tools
) -> None:
    runtime._engine._fleet._wait_seconds = 30
    running = asyncio.create_task(runtime.run("await hold(n=1)"))
    await tools.began.wait()
    other = next(node for node in nodes.nodes if node.node is not None and not node.node._runs)
    await other.kill()
    await lose(nodes)
    tools.may_end.set()
    nodes.nodes.append(LocalNode("three"))
    outcome = await running

    assert (outcome.status, outcome.value, tools.saved) == ("finished", 10, [1])


async def test_where_no_node_is_left_the_engine_is_to_blame(runtime: Runtime, nodes: LocalNodes, tools: Tools) -> None:
    running = asyncio.create_task(runtime.run("await hold(n=1)"))
    await tools.began.wait()
    for node in nodes.nodes:
        await node.kill()

    with pytest.raises(EngineCrashed) as caught:
        await running
    with pytest.raises(EngineUnavailable) as refused:
        await runtime.run("1")

    assert str(caught.value) == "no node of the Ray cluster can be used, for 0.5 s; see 'ray status'"
    assert caught.value.started == ("hold",)
    assert str(refused.value) == str(caught.value)


async def test_a_program_with_threads_is_not_replayed(runtime: Runtime, nodes: LocalNodes, tools: Tools) -> None:
    text = "import asyncio\nawait asyncio.to_thread(tools.save, 1)\nawait hold(n=2)"
    running = asyncio.create_task(runtime.run(text))
    await tools.began.wait()
    await lose(nodes)

    with pytest.raises(EngineCrashed) as caught:
        await running

    assert str(caught.value).endswith("the program cannot be replayed: it used threads, or read the clock too often")
    assert tools.saved == [1, 2]


async def test_a_session_loses_its_names_with_its_node(runtime: Runtime, nodes: LocalNodes, tools: Tools) -> None:
    first = await runtime.run("x = 1", session="s", keep_names=True)
    second = await runtime.run("x += 1\nx", session="s", keep_names=True)
    running = asyncio.create_task(runtime.run("await hold(n=x)", session="s", keep_names=True))
    await tools.began.wait()
    await lose(nodes)
    with pytest.raises(EngineCrashed, match="and the names of the session with it"):
        await running
    third = await runtime.run("x", session="s", keep_names=True)

    assert (first.status, second.value, third.status) == ("finished", 2, "rejected")


async def test_a_paused_program_goes_on_elsewhere(runtime: Runtime, nodes: LocalNodes) -> None:
    paused = await runtime.start("a = await save(n=1)\nb = await ask(q='?')\n[a, b]", tools=[ASK])
    assert isinstance(paused, Paused)
    await lose(nodes)
    outcome = await runtime.resume(paused.execution_id, [Reply(call_id=paused.calls[0].id, value="yes")])

    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.value) == ("finished", [10, "yes"])


async def test_a_program_that_is_cancelled_while_its_node_is_lost_is_cancelled(
    runtime: Runtime, nodes: LocalNodes, tools: Tools
) -> None:
    running = asyncio.create_task(runtime.run("await hold(n=1)", execution_id="one"))
    await tools.began.wait()
    for node in nodes.nodes:
        await node.kill()
    await runtime.executions.cancel("one")

    assert (await running).status == "cancelled"


async def where_four_run(runtime: Runtime, nodes: LocalNodes) -> list[int]:
    """How many of four programs each node has."""

    def counts() -> list[int]:
        return [len(node.node._runs) for node in nodes.nodes if node.node is not None]

    running = [asyncio.create_task(runtime.run("await hold(n=1)")) for _ in range(4)]
    while sum(counts()) < 4:
        await asyncio.sleep(0.01)
    found = counts()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return found


async def test_a_node_that_is_drained_gets_no_more_programs(runtime: Runtime, nodes: LocalNodes) -> None:
    nodes.nodes[0].is_draining = True
    await runtime._engine._fleet._look()

    assert await where_four_run(runtime, nodes) == [0, 4]


async def test_programs_of_a_drained_node_move_before_it_leaves(
    runtime: Runtime, nodes: LocalNodes, tools: Tools
) -> None:
    running = asyncio.create_task(runtime.run("await hold(n=1)"))
    await tools.began.wait()
    busy = next(node for node in nodes.nodes if node.node is not None and node.node._runs)
    busy.is_draining, busy.leaves_at = True, time.time() + 3600
    await runtime._engine._fleet._look()
    moved_early = runtime._engine.replays
    busy.leaves_at = time.time() + 1
    await runtime._engine._fleet._look()
    tools.may_end.set()
    outcome = await running

    assert (moved_early, runtime._engine.replays) == (0, 1)
    assert (outcome.value, tools.saved, busy.engine) == (10, [1], None)


async def test_a_drained_node_that_nobody_uses_is_let_go(runtime: Runtime, nodes: LocalNodes) -> None:
    nodes.nodes[0].is_draining = True
    await runtime._engine._fleet._look()

    assert [link.facts.node_id for link in runtime._engine._fleet.links] == ["two"]


async def test_programs_are_spread_over_the_nodes(runtime: Runtime, nodes: LocalNodes) -> None:
    assert await where_four_run(runtime, nodes) == [2, 2]


async def test_a_node_that_cannot_isolate_is_named_before_anything_runs() -> None:
    nodes = LocalNodes(LocalNode("one"), LocalNode("two", refusal="user namespaces are denied"))
    with pytest.raises(EngineUnavailable) as caught:
        async with RayEngine(nodes):
            pass

    assert str(caught.value) == "node two cannot run programs: user namespaces are denied"
    assert nodes.nodes[0].engine is None


async def test_the_engine_says_what_its_nodes_have(runtime: Runtime) -> None:
    capabilities: Capabilities = runtime._engine.capabilities

    assert capabilities.cores == 2
    assert capabilities.modules is not None


async def test_each_node_says_what_it_has_begun_and_lost(runtime: Runtime, nodes: LocalNodes, tools: Tools) -> None:
    async def figures() -> dict[str, tuple[int, int, int]]:
        return {
            one.address: (one.programs, one.started, one.moved) for one in (await runtime.executions.guests()).nodes
        }

    running = asyncio.create_task(runtime.run("await hold(n=1)"))
    await tools.began.wait()
    busy, idle = sorted(nodes.nodes, key=lambda node: not (node.node is not None and node.node._runs))
    before = await figures()
    await lose(nodes)
    tools.may_end.set()
    await running

    assert before == {busy.node_id: (1, 1, 0), idle.node_id: (0, 0, 0)}
    assert await figures() == {busy.node_id: (0, 1, 1), idle.node_id: (0, 1, 0)}


CALL = wire_messages.WireCalled([(1, 0, {}, 0, 0)])
FORGED = {
    "no message": b"\xc1",
    "a pickle": b"\x80\x04K\x01.",
    "no part": wire_messages.join([(1, b"\x00")]),
    "a call of no tool": wire_messages.join([(1, wire_messages.part(wire_messages.WireCalled([(1, 99, {}, 0, 0)])))]),
    "a call out of turn": wire_messages.join([(1, wire_messages.part(wire_messages.WireCalled([(7, 0, {}, 0, 0)])))]),
    "a call twice": wire_messages.join([(1, wire_messages.part(CALL)), (1, wire_messages.part(CALL))]),
    "keys that are numbers": wire_messages.join(
        [(1, wire_messages.part(wire_messages.WireCalled([(1, 0, {"a": {1: 2}}, 0, 0)])))]
    ),
    "not a number": wire_messages.join(
        [(1, wire_messages.part(wire_messages.WireEnded("finished", float("nan"), None, (), frozenset(), (), False)))]
    ),
    "a file elsewhere": wire_messages.join(
        [
            (
                1,
                wire_messages.part(
                    wire_messages.WireEnded(
                        "finished", 1, None, (File(name="../x", data=b""),), frozenset(), (), keeps_session=False
                    )
                ),
            )
        ],
    ),
    "an unknown status": wire_messages.join(
        [(1, msgspec.msgpack.encode([[4, "great", None, None, [], [], [], False]]))]
    ),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
async def test_a_node_that_says_what_no_node_says_is_not_believed(forged: bytes) -> None:
    nodes = LocalNodes(LocalNode("one", forged=[forged]))
    async with Runtime(engine=RayEngine(nodes, wait_seconds=10)) as runtime:
        try:
            outcome = await runtime.run("6 * 7")
        except EngineCrashed as error:
            assert "the node of the program sent" in str(error)  # noqa: PT017
        else:
            assert (outcome.status, outcome.value) == (
                "finished",
                42,
            )  # the message was broken, and it went on elsewhere
