"""Replies that are given again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.tools.support import FakeClock, Planned, made, router_of, serve, serve_in
from toolfold.models import Call, Reply, ReplyMeta
from toolfold.tools import Router
from toolfold.tools.router_steps import Cache
from toolfold.tools.tool import CallContext

AGAIN = ReplyMeta(attempts=0, cached=True)


def with_key(key: str, **fields: Any) -> CallContext:
    return CallContext(idempotency_key=key, **fields)


async def test_the_same_key_twice_runs_once() -> None:
    call = Planned("paid", "paid again")
    router = router_of(made(call, "pay", destructive=True))

    replies = [await serve_in(with_key("k1"), router, "pay", amount=5) for _ in range(2)]
    other_key = await serve_in(with_key("k2"), router, "pay", amount=5)

    assert [(reply.value, reply.meta) for reply in replies] == [("paid", None), ("paid", AGAIN)]
    assert (other_key.value, call.calls) == ("paid again", 2)


async def test_without_a_key_a_tool_that_is_not_cacheable_runs_each_time() -> None:
    call = Planned("paid")
    router = router_of(made(call))

    for _ in range(3):
        await serve_in(CallContext(), router)

    assert call.calls == 3


async def test_one_key_for_two_different_calls_is_refused() -> None:
    call = Planned("paid")
    router = router_of(made(call, "pay"))
    await serve_in(with_key("k"), router, "pay", amount=5)

    reply = await serve_in(with_key("k"), router, "pay", amount=6)

    assert reply.error == "'pay' was called before with idempotency key 'k' and other arguments"
    assert call.calls == 1


async def test_keys_belong_to_one_tool_and_one_tenant() -> None:
    pay, send = Planned("paid"), Planned("sent")
    router = router_of(made(pay, "pay"), made(send, "send"))

    for tool, tenant in (("pay", "a"), ("pay", "b"), ("send", "a"), ("pay", "a")):
        await serve_in(with_key("k", tenant=tenant), router, tool)

    assert (pay.calls, send.calls) == (2, 1)


async def test_a_key_is_forgotten_in_time() -> None:
    clock, call = FakeClock(), Planned("paid")
    router = router_of(made(call), cache=Cache(key_seconds=60), clock=clock)

    for _ in range(3):
        await serve_in(with_key("k"), router)
        clock.seconds += 40

    assert call.calls == 2


async def test_a_cacheable_tool_remembers_by_arguments_in_any_order_for_its_time() -> None:
    clock, call = FakeClock(), Planned("one", "two", "three")
    router = router_of(made(call, cache_seconds=10), clock=clock)

    first = await serve(router, a=1, b={"c": 2, "d": 3})
    again = await serve(router, b={"d": 3, "c": 2}, a=1)
    other = await serve(router, a=1, b={"c": 2, "d": 4})
    clock.seconds += 10
    late = await serve(router, a=1, b={"c": 2, "d": 3})

    assert [reply.value for reply in (first, again, other, late)] == ["one", "one", "two", "three"]
    assert [reply.meta for reply in (first, again, other, late)] == [None, AGAIN, None, None]


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (1, "1"), (None, False), ([], {})])
async def test_arguments_that_only_python_calls_equal_are_different(one: Any, other: Any) -> None:
    call = Planned("x")
    router = router_of(made(call, cache_seconds=10), clock=FakeClock())

    await serve(router, n=one)
    await serve(router, n=other)

    assert call.calls == 2


async def test_failures_are_not_remembered() -> None:
    call = Planned(ValueError("down"), "up")
    router = router_of(made(call, cache_seconds=10), clock=FakeClock())

    replies = [await serve(router) for _ in range(3)]

    assert [(reply.value, reply.error) for reply in replies] == [(None, "'x' failed: down"), ("up", None), ("up", None)]
    assert call.calls == 2


class Slow:
    """Waits for its gate, then returns or raises."""

    def __init__(self, end: Any) -> None:
        self.gate = asyncio.Event()
        self.end = end
        self.calls = 0

    async def __call__(self, arguments: Mapping[str, Any]) -> Any:
        self.calls += 1
        await self.gate.wait()
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


async def all_at_once(router: Router, count: int) -> list[asyncio.Task[Reply]]:
    tasks = [asyncio.create_task(serve_in(with_key("k"), router)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize(
    ("end", "value", "error"), [("paid", "paid", None), (ValueError("down"), None, "'x' failed: down")]
)
async def test_calls_at_the_same_time_wait_for_the_first_and_share_its_end(
    end: Any, value: str | None, error: str | None
) -> None:
    slow = Slow(end)
    tasks = await all_at_once(router_of(made(slow)), 5)
    slow.gate.set()

    replies = await asyncio.gather(*tasks)

    assert replies == [Reply(call_id=1, value=value, error=error)] * 5
    assert [reply.meta for reply in replies] == [None, *[AGAIN] * 4]
    assert slow.calls == 1


async def test_if_the_first_is_cancelled_one_that_waited_takes_its_place() -> None:
    slow = Slow("paid")
    first, *others = await all_at_once(router_of(made(slow)), 4)
    first.cancel()
    await asyncio.wait([first])
    await asyncio.sleep(0)
    slow.gate.set()

    replies = await asyncio.gather(*others)

    assert [reply.value for reply in replies] == ["paid"] * 3
    assert slow.calls == 2


async def test_one_that_waits_may_be_cancelled_alone() -> None:
    slow = Slow("paid")
    first, second = await all_at_once(router_of(made(slow)), 2)
    second.cancel()
    await asyncio.wait([second])
    slow.gate.set()

    assert ((await first).value, second.cancelled(), slow.calls) == ("paid", True, 1)


async def test_the_longest_unused_goes_first() -> None:
    call = Planned("r")
    router = router_of(made(call, cache_seconds=10), cache=Cache(max_entries=2), clock=FakeClock())

    hits = [(await serve(router, n=n)).meta == AGAIN for n in (1, 2, 1, 3, 1, 2)]

    assert hits == [False, False, True, False, True, False]


async def test_what_is_kept_is_bounded_in_bytes() -> None:
    call = Planned("r" * 1000)
    router = router_of(made(call, cache_seconds=10), cache=Cache(max_bytes=4000), clock=FakeClock())

    hits = [(await serve(router, n=n)).meta == AGAIN for n in (1, 2, 3, 3, 2, 1)]
    too_large = router_of(made(call, cache_seconds=10), cache=Cache(max_bytes=900), clock=FakeClock())
    for _ in range(2):
        await serve(too_large)

    assert hits == [False, False, False, True, True, False]
    assert call.calls == 4 + 2


async def test_a_reply_kept_under_a_wide_limit_is_measured_against_a_narrow_one() -> None:
    router = router_of(made(Planned("r" * 100), cache_seconds=10), clock=FakeClock())
    call = Call(id=1, tool="x", arguments={})
    await router.serve(call)

    reply = await router.serve(call, max_reply_bytes=50)

    assert reply.error == "'x' returned 102 bytes; the limit is 50 bytes"


async def test_a_direct_caller_cannot_change_what_is_kept() -> None:
    router = router_of(made(Planned({"rows": [1]}), cache_seconds=10), clock=FakeClock())

    for _ in range(3):
        reply = await serve(router, caller="direct")
        reply.value["rows"].append("mine")

    assert (await serve(router)).value == {"rows": [1]}


def test_a_router_may_outlive_an_event_loop() -> None:
    call = Planned("r")
    router = router_of(made(call, cache_seconds=10))

    replies = [asyncio.run(serve(router)) for _ in range(2)]

    assert [reply.meta for reply in replies] == [None, AGAIN]
