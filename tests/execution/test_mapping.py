"""`Runtime.map`: many programs, outcomes as they come."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

import pytest

import toolfold
from toolfold import EngineCrashed, EngineUnavailable, File, Limits, Runtime, UsageError
from toolfold.batches import Item
from toolfold.engines.base import Called, Died, Ended, Order
from toolfold.engines.scripted import ScriptedEngine, ScriptedRun
from toolfold.models import Call


@toolfold.tool
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@toolfold.tool(read_only=True)
async def look() -> int:
    """Safe to repeat."""
    return 1


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[double, look], engine="process") as runtime:
        yield runtime


async def test_each_program_comes_back_once_with_its_tag_and_outcome(runtime: Runtime) -> None:
    items = [Item(text=f"await double(x={n})", tag=f"t{n}") for n in range(20)]

    found = [one async for one in runtime.map(items, in_flight=4)]

    assert sorted((one.index, one.tag, one.outcome.status, one.outcome.value) for one in found) == [
        (n, f"t{n}", "finished", 2 * n) for n in range(20)
    ]


async def test_texts_do_too_from_any_iterable(runtime: Runtime) -> None:
    async def texts() -> AsyncIterator[str]:
        yield "1"
        yield "2"

    found = [one.outcome.value async for one in runtime.map(texts(), in_flight=1)]

    assert found == [1, 2]


async def test_a_failing_program_is_an_outcome_like_any_other(runtime: Runtime) -> None:
    found = {one.index: one.outcome.status async for one in runtime.map(["1 / 0", "x = (", "1"])}

    assert found == {0: "failed", 1: "rejected", 2: "finished"}


async def test_what_an_item_says_counts_for_it_alone(runtime: Runtime) -> None:
    random = "import random\nrandom.random()"
    items = [
        Item(text="open('a.txt').read()", files=[File(name="a.txt", data=b"hello")]),
        Item(text="'a' * 2000", limits=Limits(value_bytes=1000)),
        Item(text="await double(x=1)", tools=["look"]),
        Item(text=random, seed=7),
        Item(text=random, seed=7),
        Item(text="n = 3", session="s", keep_names=True),
    ]

    found = {one.index: one.outcome async for one in runtime.map(items)}
    again = [one.outcome.value async for one in runtime.map([Item(text="n + 1", session="s", keep_names=True)])]

    assert [found[n].status for n in range(6)] == ["finished", "limit", "rejected", "finished", "finished", "finished"]
    assert found[0].value == "hello"
    assert found[3].value == found[4].value
    assert again == [4]


async def test_no_more_is_read_than_is_in_flight(runtime: Runtime) -> None:
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for _ in range(50):
            read += 1
            yield "1"

    taken = 0
    async with aclosing(runtime.map(texts(), in_flight=3)) as outcomes:
        async for _ in outcomes:
            taken += 1
            assert read <= taken + 3

    assert (read, taken) == (50, 50)


async def test_closing_it_ends_all_that_runs(runtime: Runtime) -> None:
    texts = ["1", "import time\ntime.sleep(60)", "await __import__('asyncio').sleep(60)"]
    async with aclosing(runtime.map(texts)) as outcomes:
        first = await anext(outcomes)

    assert first.outcome.value == 1
    assert runtime.executions.ids == ()


async def test_a_reader_that_is_cancelled_ends_all_that_runs(runtime: Runtime) -> None:
    began = asyncio.Event()

    async def read() -> None:
        async for _ in runtime.map(["1", "while True: pass"]):
            began.set()

    task = asyncio.create_task(read())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert runtime.executions.ids == ()


async def test_what_the_source_raises_is_raised(runtime: Runtime) -> None:
    def texts() -> Iterator[str]:
        yield "1"
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        [one async for one in runtime.map(texts())]


@pytest.mark.parametrize(
    ("programs", "in_flight", "message"),
    [
        ([], 0, "in_flight is 0; at least 1 program must be in flight"),
        (
            [Item(text="1", tools=["loook"])],
            1,
            "no tool 'loook' for a program of the batch; there are double, look, search_tools",
        ),
        ([b"1"], 1, "a batch consists of texts and `Item`s; this is a 'bytes'"),
    ],
)
async def test_wrong_use_is_said_in_one_line(runtime: Runtime, programs: list, in_flight: int, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        [one async for one in runtime.map(programs, in_flight=in_flight)]

    assert str(caught.value) == message


class _Breaking(ScriptedEngine):
    """Breaks in the first runs, and plays its script from then on."""

    def __init__(self, *events: object, breaks: int, calls: tuple[str, ...] = (), is_closed: bool = False) -> None:
        super().__init__(*events)
        self._breaks = breaks
        self._calls = calls
        self._is_closed = is_closed

    @asynccontextmanager
    async def open(self, order: Order) -> AsyncIterator[ScriptedRun]:
        self.orders.append(order)
        if len(self.orders) > self._breaks:
            yield ScriptedRun(self._events, self.answers, waits=True)
            return
        if self._is_closed:
            raise EngineUnavailable("no room")
        calls = [Called(Call(id=n, tool=name, arguments={})) for n, name in enumerate(self._calls, 1)]
        yield ScriptedRun((*calls, Died("the guest is gone")), [], waits=True)


@pytest.mark.parametrize(("calls", "is_closed"), [((), True), ((), False), (("look",), False)])
async def test_an_engine_that_breaks_is_tried_again_where_nothing_can_happen_twice(
    calls: tuple[str, ...], is_closed: bool
) -> None:
    engine = _Breaking(Ended(status="finished", value=5), breaks=2, calls=calls, is_closed=is_closed)
    async with Runtime(tools=[look], engine=engine) as runtime:
        found = [one.outcome.value async for one in runtime.map(["1"])]

    assert (found, len(engine.orders)) == ([5], 3)


async def test_it_is_not_tried_again_after_a_call_that_may_not_be_made_twice() -> None:
    engine = _Breaking(Ended(status="finished"), breaks=1, calls=("double",))
    async with Runtime(tools=[double], engine=engine) as runtime:
        with pytest.raises(EngineCrashed) as caught:
            [one async for one in runtime.map(["1"])]

    assert (str(caught.value), caught.value.started, len(engine.orders)) == ("the guest is gone", ("double",), 1)


async def test_an_engine_that_stays_broken_is_raised_as_what_it_is() -> None:
    engine = _Breaking(breaks=99, is_closed=True)
    async with Runtime(engine=engine) as runtime:
        with pytest.raises(EngineUnavailable, match="no room"):
            [one async for one in runtime.map(["1"])]
