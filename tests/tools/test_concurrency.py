"""How many calls run at the same time."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.tools.support import FakeClock, Planned, made, router_of, serve
from toolfold.errors import UsageError
from toolfold.tools.router_steps import Concurrency


class Counting:
    """Remembers how many calls were in it at once."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now -= 1
        return "done"


async def most_of(names: str, **limits: Any) -> int:
    counting = Counting()
    tools = [
        made(counting, "a", source="mcp:db"),
        made(counting, "b", source="mcp:db"),
        made(counting, "c", source="mcp:mail"),
        made(counting, "d"),
    ]
    router = router_of(*tools, concurrency=Concurrency(**limits))
    replies = await asyncio.gather(*(serve(router, name) for name in names))
    assert [reply.value for reply in replies] == ["done"] * len(names)
    return counting.most


@pytest.mark.parametrize(
    ("names", "limits", "most"),
    [
        ("aaaabbbb", {}, 8),
        ("aaaabbbb", {"sources": {"mcp:db": 3}}, 3),
        ("aabbcccc", {"sources": {"mcp:*": 2}}, 4),
        ("aaaadddd", {"sources": {"mcp:*": 1}}, 5),
        ("aaaabbbb", {"tools": {"a": 1}}, 5),
        ("aaaabbbb", {"tools": {"*": 1}}, 2),
        ("aaaabbbb", {"sources": {"mcp:db": 3, "mcp:*": 2}, "tools": {"a": 1}}, 2),
    ],
)
async def test_calls_over_the_limit_wait(names: str, limits: Any, most: int) -> None:
    assert await most_of(names, **limits) == most


async def test_waiting_for_a_turn_is_not_the_tools_time() -> None:
    first_may_end = asyncio.Event()

    async def first(arguments: Mapping[str, Any]) -> str:
        await first_may_end.wait()
        return "done"

    tools = [made(first, "first", source="mcp:db"), made(Planned("done"), source="mcp:db", timeout_seconds=0.01)]
    router = router_of(*tools, concurrency=Concurrency(sources={"mcp:db": 1}))
    calls = [asyncio.create_task(serve(router, name)) for name in ("first", "x")]
    # Longer than the second call may take by itself; it does not wait for anything then, however slow the machine is.
    asyncio.get_running_loop().call_later(0.05, first_may_end.set)

    assert [(await one).value for one in calls] == ["done", "done"]


async def test_a_failed_call_waits_for_its_next_attempt_without_a_slot() -> None:
    order: list[str] = []
    other_done = asyncio.Event()

    async def call(arguments: Mapping[str, Any]) -> str:
        order.append(arguments["who"])
        if order == ["first"]:
            raise ConnectionRefusedError
        return "done"

    class Waits(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await other_done.wait()

    router = router_of(made(call), concurrency=Concurrency(tools={"x": 1}), clock=Waits())
    first = asyncio.create_task(serve(router, who="first"))
    await asyncio.sleep(0)
    await serve(router, who="second")
    other_done.set()
    await first

    assert order == ["first", "second", "first"]


async def test_a_cancelled_call_gives_its_slot_back() -> None:
    stuck = asyncio.Event()

    async def call(arguments: Mapping[str, Any]) -> str:
        if arguments.get("stuck"):
            stuck.set()
            await asyncio.Event().wait()
        return "done"

    router = router_of(made(call), concurrency=Concurrency(tools={"x": 1}))
    task = asyncio.create_task(serve(router, stuck=True))
    await stuck.wait()
    waiting = asyncio.create_task(serve(router))
    await asyncio.sleep(0)
    task.cancel()

    assert (await waiting).value == "done"


def test_a_router_may_outlive_an_event_loop() -> None:
    router = router_of(made(Counting()), concurrency=Concurrency(sources={"*": 1}))

    async def two() -> list[Any]:
        return [reply.value for reply in await asyncio.gather(serve(router), serve(router))]

    assert [asyncio.run(two()) for _ in range(2)] == [["done", "done"]] * 2


def test_a_limit_is_at_least_one() -> None:
    with pytest.raises(UsageError) as caught:
        Concurrency(sources={"mcp:*": 0})

    assert str(caught.value) == "calls in flight of 'mcp:*' must be at least 1, got 0"
