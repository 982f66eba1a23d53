"""Tools that nodes call themselves: what may be one, what goes on record, and what a lost node means for their calls."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from tests.engines.ray.local_nodes import LocalNode, LocalNodes
from tests.tools.support import FakeClock
from toolfold import Runtime, UsageError, tool
from toolfold.engines.base import Called, EngineTools, ReplayTape
from toolfold.engines.ray import RayEngine, node, wire_messages
from toolfold.engines.ray import node as ray_node
from toolfold.engines.ray.run import NodeServedCalls, RunHistory
from toolfold.errors import ToolFailed
from toolfold.execution.calls import OwnTools as NodeTools
from toolfold.models import Call, Limits
from toolfold.protocol.codec import Violation, encode
from toolfold.tools.policy import Policy
from toolfold.tools.remote_descriptions import Shipment, ShippedTool
from toolfold.tools.router_steps import Breaker, BreakerStep, Concurrency, Retry, RetryStep, SystemClock, wrappers
from toolfold.tools.tool import CallContext

looked_up: list[int] = []
saved: list[int] = []
held: dict[str, asyncio.Event] = {}


@tool(read_only=True)
async def look_up(n: int) -> int:
    """Ten times as much."""
    looked_up.append(n)
    return n * 10


@tool(idempotent=True)
async def slow(n: int) -> int:
    """Takes until it is let go."""
    looked_up.append(n)
    held["began"].set()
    await held["may end"].wait()
    return n * 10


@tool(read_only=True)
async def broken() -> None:
    """Fails."""
    raise ToolFailed("out of paper")


@tool(read_only=True)
async def mistaken(text: str) -> None:
    """Has a mistake."""
    looked_up.append(len(text))
    raise ConnectionError(text)


@tool(read_only=True)
async def unwritable() -> None:
    """Has words that UTF-8 does not have."""
    raise RuntimeError("\ud800" * 9_000)


@tool(read_only=True)
async def large() -> str:
    """More than a reply may be."""
    return "x" * 2000


async def save(n: int) -> int:
    """Not safe to repeat."""
    saved.append(n)
    return n


@tool(read_only=True)
async def told(context: CallContext) -> str:
    """Asks whose call it is."""
    return context.tenant


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    held.update({"began": asyncio.Event(), "may end": asyncio.Event()})
    yield
    looked_up.clear()
    saved.clear()


NAMES = ["look_up", "slow", "broken", "mistaken", "unwritable", "large"]


def opened(nodes: LocalNodes, names: list[str] = NAMES, **options: Any) -> Runtime:
    """A runtime whose nodes call these tools."""

    def own_tools() -> EngineTools:
        return runtime._own_tools(names)

    runtime = Runtime(
        [look_up, slow, broken, mistaken, unwritable, large, save, told],
        engine=RayEngine(nodes, wait_seconds=5, own_tools=own_tools),
        **options,
    )
    return runtime


@pytest.fixture
def nodes() -> LocalNodes:
    return LocalNodes(LocalNode("one"), LocalNode("two"))


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with opened(LocalNodes(LocalNode("one"))) as runtime:
        yield runtime


@pytest.fixture
def at_the_runtime(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tools of the calls that the runtime's own router serves."""
    served: list[str] = []
    router = runtime.catalog.router
    serve = router.serve

    async def noted(call: Call, **options: Any) -> Any:
        served.append(call.tool)
        return await serve(call, **options)

    monkeypatch.setattr(router, "serve", noted)
    return served


async def test_calls_of_named_tools_are_served_on_the_node_and_are_all_on_record(
    runtime: Runtime, at_the_runtime: list[str]
) -> None:
    outcome = await runtime.run("a = await look_up(n=1)\nb = await save(n=2)\n[a, b, await look_up(n=3)]")

    calls = [(call.id, call.name, call.arguments, call.bytes_out, call.line, call.error) for call in outcome.calls]
    assert (outcome.value, at_the_runtime) == ([10, 2, 30], ["save"])
    assert calls == [
        (1, "look_up", {"n": 1}, 2, 1, None),
        (2, "save", {"n": 2}, 1, 2, None),
        (3, "look_up", {"n": 3}, 2, 3, None),
    ]


async def test_calls_on_the_node_take_no_message_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_node, "LATER_SECONDS", 3600.0)
    monkeypatch.setattr(node, "HEARTBEAT_SECONDS", 3600.0)
    local = LocalNode("one")
    async with opened(LocalNodes(local)) as runtime:
        assert local.node is not None
        said_before = local.node.messages
        outcome = await runtime.run("for n in range(50):\n    print(n)\n    await look_up(n=n)")
        said = local.node.messages - said_before

    assert (len(outcome.calls), outcome.stdout.split()) == (50, [str(n) for n in range(50)])
    assert said == 1


async def test_a_tool_that_fails_on_a_node_reads_as_one_that_fails_here() -> None:
    text = "\n".join(
        f"try:\n    await {call}\nexcept Exception as error:\n    print(error)"
        for call in ("broken()", "look_up(n=k)", "large()", "mistaken(text=k)")
    )
    limits = Limits(reply_bytes=1000)
    nodes = LocalNodes(LocalNode("one"))
    async with (
        opened(nodes, limits=limits) as there,
        Runtime([look_up, broken, mistaken, large], limits=limits) as here,
    ):
        on_node = await there.run(f"k = 'x'\n{text}")
        local = await here.run(f"k = 'x'\n{text}")

    assert on_node.stdout == local.stdout
    on_record = [
        [(call.name, call.error, call.bytes_in, call.bytes_out, call.traceback) for call in outcome.calls]
        for outcome in (on_node, local)
    ]
    assert on_record[0] == on_record[1]


IN_A_ROW = (
    "for one in (mistaken(text='no such row'), unwritable()):\n    await asyncio.wait([asyncio.ensure_future(one)])"
)
AT_ONCE = "await asyncio.gather(mistaken(text='no such row'), unwritable(), return_exceptions=True)\n0"


@pytest.mark.parametrize("text", [IN_A_ROW, AT_ONCE], ids=["in a row", "at once"])
@pytest.mark.parametrize("error_details", [True, False])
async def test_the_record_has_where_a_tool_failed_on_a_node_as_it_has_here(text: str, error_details: bool) -> None:
    steps = wrappers(retry=Retry(attempts=1), error_details=error_details)
    nodes = LocalNodes(LocalNode("one"))
    async with opened(nodes, steps=steps) as there, Runtime([mistaken, unwritable], steps=steps) as here:
        on_node, local = [await runtime.run(f"import asyncio\n{text}") for runtime in (there, here)]

    of_node, of_local = ({call.name: call.traceback for call in outcome.calls} for outcome in (on_node, local))
    assert (on_node.problem, of_node.keys()) == (None, {"mistaken", "unwritable"})
    assert of_node == of_local
    assert ("in mistaken" in of_node["mistaken"]) == error_details


async def test_nodes_retry_and_leave_alone_as_the_runtime_is_told_to() -> None:
    text = "for n in range(3):\n    try:\n        await mistaken(text='x')\n    except Exception:\n        pass"
    steps = wrappers(retry=Retry(attempts=2, first_wait_seconds=0), breaker=Breaker(failures=2, open_seconds=3600))
    nodes = LocalNodes(LocalNode("one"))
    async with opened(nodes, steps=steps) as there, Runtime([mistaken], steps=steps) as here:
        on_node, local = await there.run(text), await here.run(text)

    on_record = [[(call.attempts, call.breaker) for call in outcome.calls] for outcome in (on_node, local)]
    assert on_record == [[(2, ""), (2, "opened"), (0, "open")]] * 2


async def test_many_calls_at_once_keep_their_order_on_record(runtime: Runtime) -> None:
    text = "import asyncio\nawait asyncio.gather(*(look_up(n=n) if n % 2 else save(n=n) for n in range(40)))"
    outcome = await runtime.run(text)

    assert outcome.value == [n * 10 if n % 2 else n for n in range(40)]
    assert sorted(call.id for call in outcome.calls) == list(range(1, 41))


async def test_a_call_that_the_program_does_not_wait_for_is_on_record(runtime: Runtime) -> None:
    outcome = await runtime.run("import asyncio\ntask = asyncio.create_task(slow(n=1))\nawait look_up(n=2)\n'over'")

    assert outcome.value == "over"
    assert {call.name: call.error for call in outcome.calls} == {
        "look_up": None,
        "slow": "the program ended before the reply",
    }


async def test_a_program_whose_node_is_lost_has_the_replies_it_had_and_only_the_open_call_is_made_again(
    nodes: LocalNodes,
) -> None:
    text = "a = await look_up(n=1)\nb = await save(n=2)\nc = await slow(n=3)\n[a, b, c, await look_up(n=4)]"
    async with opened(nodes) as runtime:
        running = asyncio.create_task(runtime.run(text))
        await held["began"].wait()
        held["began"].clear()
        busy = next(node for node in nodes.nodes if node.node is not None and node.node._runs)
        link = next(link for link in runtime._engine._fleet.links if link.runs)
        (run,) = link.runs.values()
        # What nobody waits for leaves a little later.
        while len(run._past.replies) < 2:
            await asyncio.sleep(0.01)
        await busy.kill()
        await held["began"].wait()
        held["may end"].set()
        outcome = await running

    assert (outcome.value, saved, looked_up) == ([10, 2, 30, 40], [2], [1, 3, 3, 4])
    assert [call.id for call in outcome.calls] == [1, 2, 3, 4]


async def test_programs_that_can_pause_have_all_their_calls_served_by_the_runtime(
    runtime: Runtime, at_the_runtime: list[str]
) -> None:
    outcome = await runtime.start("await look_up(n=1)", durable=True)

    assert (outcome.value, at_the_runtime) == (10, ["look_up"])  # type: ignore[union-attr]  # it has ended


async def test_a_tool_of_the_same_name_that_is_another_is_the_runtimes(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(name="look_up", read_only=True)
    async def other(word: str) -> str:
        """Another one."""
        return word * 2

    runtime.replace_tools([other])
    outcome = await runtime.run("await look_up(word='ab')")

    assert (outcome.value, looked_up) == ("abab", [])


# what cannot run on nodes


class Patient(Retry):
    """Waits as it likes."""

    def wait_seconds(self, failures: int) -> float:
        return failures * 7.0


OTHER_STEPS = (
    "'look_up' cannot run on nodes: "
    "it is retried or left alone otherwise than with wrappers(), and nodes have no other steps"
)
REFUSED: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "unknown": ("lookup", {}, "no tool 'lookup'; did you mean 'look_up'?"),
    "unsafe": (
        "save",
        {},
        "'save' cannot run on nodes: it is neither read-only nor idempotent, and a call whose node is lost is made again",
    ),
    "asked": (
        "look_up",
        {"policy": Policy(ask=["look_*"])},
        "'look_up' cannot run on nodes: its calls need approval, which is asked for where the runtime is",
    ),
    "budget": (
        "look_up",
        {"policy": Policy(max_calls={"look_up": 3})},
        "'look_up' cannot run on nodes: max_calls limits it, and only the runtime can count its calls",
    ),
    "blocked": (
        "look_up",
        {"policy": Policy(block=["look_up"])},
        "'look_up' cannot run on nodes: the policy does not permit it",
    ),
    "asked by a step": (
        "look_up",
        {"steps": wrappers(policy=Policy(ask=["look_*"]))},
        "'look_up' cannot run on nodes: its calls need approval, which is asked for where the runtime is",
    ),
    "budget of a step": (
        "look_up",
        {"steps": wrappers(policy=Policy(max_calls={"look_up": 3}))},
        "'look_up' cannot run on nodes: max_calls limits it, and only the runtime can count its calls",
    ),
    "blocked by a step": (
        "look_up",
        {"steps": wrappers(policy=Policy(block=["look_up"]))},
        "'look_up' cannot run on nodes: the policy does not permit it",
    ),
    "in flight": (
        "look_up",
        {"steps": wrappers(concurrency=Concurrency(tools={"look_up": 2}))},
        "'look_up' cannot run on nodes: max_in_flight limits it, and only the runtime can count its calls",
    ),
    "own step": (
        "look_up",
        {"steps": [lambda _, rest: rest]},
        "'look_up' cannot run on nodes: a router step of your own serves its calls, and nodes do not have it",
    ),
    "no retries": (
        "look_up",
        {"steps": ()},
        OTHER_STEPS,
    ),
    "breaker within retries": (
        "look_up",
        {"steps": [RetryStep(Retry(), SystemClock()).wrap, BreakerStep(Breaker(), SystemClock()).wrap]},
        OTHER_STEPS,
    ),
    "own retry": (
        "look_up",
        {"steps": wrappers(retry=Patient())},
        OTHER_STEPS,
    ),
    "own clock": (
        "look_up",
        {"steps": wrappers(clock=FakeClock())},
        OTHER_STEPS,
    ),
    "context": (
        "told",
        {},
        "'told' cannot run on nodes: it takes a CallContext, which only the runtime has",
    ),
}


@pytest.mark.parametrize(("name", "options", "text"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_tool_that_needs_the_runtime_is_refused_before_anything_runs(
    nodes: LocalNodes, name: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        async with opened(nodes, [name], **options):
            pass

    assert str(caught.value) == f"tools_on_nodes: {text}"
    assert [node.engine for node in nodes.nodes] == [None, None]


async def test_a_function_that_nodes_cannot_import_is_refused() -> None:
    @tool(read_only=True)
    async def inner() -> int:
        """Within a function."""
        return 1

    with pytest.raises(UsageError) as caught:
        Runtime([inner])._own_tools(["inner"])

    assert str(caught.value) == (
        "tools_on_nodes: 'inner' cannot run on nodes: "
        "nodes import tools, and it is not a function at the top level of a module"
    )


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (
            "no_such_module:look_up",
            "'no_such_module' cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("json:look_up", "'json' has no 'look_up'"),
    ],
)
async def test_a_node_that_does_not_have_the_tool_says_so(place: str, text: str) -> None:
    spec = Runtime([look_up]).tools[0]
    body = encode(Shipment(tools=(ShippedTool(spec=spec, origin=place),)))
    with pytest.raises(UsageError) as caught:
        NodeTools(body)

    assert str(caught.value) == f"tool 'look_up' of tools_on_nodes was not found there: {text}"


async def test_a_node_that_has_another_version_of_the_tool_says_so() -> None:
    spec = Runtime([look_up]).tools[0]
    body = encode(Shipment(tools=(ShippedTool(spec=spec, origin=f"{__name__}:broken"),)))
    with pytest.raises(UsageError) as caught:
        NodeTools(body)

    assert str(caught.value) == (
        "tool 'look_up' of tools_on_nodes takes other arguments there; install the same version"
    )


# what a node says

FORGED = {
    "twice": wire_messages.WireServed(2, 0, 0.0, 1, None, 1, 1, ""),
    "out of order": wire_messages.WireServed(1, 7, 0.0, 1, None, 1, 1, ""),
    "large": wire_messages.WireServed(1, 0, 0.0, 1, None, 10**9, 1, ""),
    "no time": wire_messages.WireServed(1, 0, float("inf"), 1, None, 1, 1, ""),
    "no breaker": wire_messages.WireServed(1, 0, 0.0, 1, None, 1, 1, "maybe"),
    "long": wire_messages.WireServed(1, 0, 0.0, None, "x" * 100_000, 1, 1, ""),
    "long traceback": wire_messages.WireServed(1, 0, 0.0, None, "x", 1, 1, "", "x" * 100_000),
    "traceback of a success": wire_messages.WireServed(1, 0, 0.0, 1, None, 1, 1, "", "x"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_a_reply_that_no_router_gives_is_not_believed(forged: wire_messages.WireServed) -> None:
    own = NodeServedCalls(RunHistory(ReplayTape()), Limits())
    own.names = frozenset({"look_up"})
    own.without(Called(Call(id=1, tool="look_up", arguments={})))
    with pytest.raises(Violation):
        own.served(forged)
