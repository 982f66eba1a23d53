"""Trying again, where that cannot do a thing twice."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.tools.support import FakeClock, Planned, made, router_of, serve
from toolfold.errors import ToolArgumentsInvalid, ToolError, ToolRefused, ToolTimedOut
from toolfold.models import Reply, ReplyMeta
from toolfold.tools.router_steps import Retry

EXACT = Retry(jitter=0)


class NeverSent(ToolError):
    nothing_ran = True


@pytest.mark.parametrize("fields", [{"read_only": True}, {"idempotent": True}, {"retry": "always"}])
async def test_a_safe_tool_that_fails_twice_is_called_three_times(fields: Any) -> None:
    clock, call = FakeClock(), Planned(ValueError("busy"), ValueError("busy"), "done")
    router = router_of(made(call, **fields), retry=EXACT, clock=clock)

    reply = await serve(router)

    assert (reply, reply.meta) == (Reply(call_id=1, value="done"), ReplyMeta(attempts=3))
    assert (call.calls, clock.slept) == (3, [0.1, 0.2])


@pytest.mark.parametrize("fields", [{"destructive": True}, {}, {"read_only": True, "retry": "never"}])
async def test_a_tool_that_may_do_it_twice_is_called_once(fields: Any) -> None:
    clock, call = FakeClock(), Planned(ValueError("busy"), "done")
    router = router_of(made(call, **fields), retry=EXACT, clock=clock)

    reply = await serve(router)

    assert (reply, reply.meta) == (Reply(call_id=1, error="'x' failed: busy"), None)
    assert (call.calls, clock.slept) == (1, [])


@pytest.mark.parametrize("error", [NeverSent("the server is gone"), ConnectionRefusedError()])
async def test_any_tool_is_called_again_if_nothing_ran(error: Exception) -> None:
    clock, call = FakeClock(), Planned(error, "done")
    router = router_of(made(call, destructive=True), retry=EXACT, clock=clock)

    assert (await serve(router)).value == "done"
    assert (call.calls, clock.slept) == (2, [0.1])


async def test_what_ran_in_a_later_attempt_ends_it() -> None:
    clock, call = FakeClock(), Planned(NeverSent("no"), ValueError("half done"), "done")
    router = router_of(made(call), retry=EXACT, clock=clock)

    reply = await serve(router)

    assert (reply.error, reply.meta) == ("'x' failed: half done", ReplyMeta(attempts=2))


async def test_after_the_last_attempt_the_last_error_counts() -> None:
    clock, call = FakeClock(), Planned(ValueError("1"), ValueError("2"), ValueError("3"), "done")
    router = router_of(made(call, read_only=True), retry=EXACT, clock=clock)

    reply = await serve(router)

    assert (reply.error, reply.meta, call.calls) == ("'x' failed: 3", ReplyMeta(attempts=3), 3)


@pytest.mark.parametrize(
    "error", [ToolRefused("no"), ToolArgumentsInvalid("no"), SystemExit(1), asyncio.CancelledError()]
)
async def test_a_refusal_and_bad_arguments_would_only_come_again(error: BaseException) -> None:
    clock, call = FakeClock(), Planned(error, "done")
    router = router_of(made(call, read_only=True, retry="always"), retry=EXACT, clock=clock)

    assert (await serve(router)).error is not None
    assert (call.calls, clock.slept) == (1, [])


async def test_a_reply_that_cannot_be_sent_is_not_asked_for_again() -> None:
    clock, call = FakeClock(), Planned(object())
    router = router_of(made(call, read_only=True), retry=EXACT, clock=clock)

    assert (await serve(router)).error == "'x' returned a value that cannot be sent: object"
    assert call.calls == 1


async def test_each_attempt_has_the_whole_timeout() -> None:
    calls = []

    async def slow_at_first(arguments: Mapping[str, Any]) -> str:
        calls.append(1)
        if len(calls) < 3:
            await asyncio.Event().wait()
        return "done"

    clock = FakeClock()
    router = router_of(made(slow_at_first, read_only=True, timeout_seconds=0.01), retry=EXACT, clock=clock)

    assert (await serve(router)).value == "done"
    assert clock.slept == [0.1, 0.2]


async def test_a_timeout_of_a_tool_that_may_have_run_is_final() -> None:
    call = Planned(ToolTimedOut("'x' timed out after 1 s"), "done")
    router = router_of(made(call), retry=EXACT, clock=FakeClock())

    assert (await serve(router)).error == "'x' timed out after 1 s"


async def test_a_cancel_while_waiting_comes_through() -> None:
    call, sleeping = Planned(ValueError("busy")), asyncio.Event()

    class Endless(FakeClock):
        async def sleep(self, seconds: float) -> None:
            sleeping.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(serve(router_of(made(call, read_only=True), clock=Endless())))
    await sleeping.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert call.calls == 1


async def test_waits_are_spread_by_default() -> None:
    waits = [Retry().wait_seconds(failures) for failures in (1, 2) for _ in range(100)]

    assert all(0.075 <= wait <= 0.125 for wait in waits[:100])
    assert all(0.15 <= wait <= 0.25 for wait in waits[100:])
    assert len(set(waits)) > 150


async def test_one_attempt_is_no_retry() -> None:
    call = Planned(ValueError("busy"), "done")

    assert (await serve(router_of(made(call, read_only=True), retry=Retry(attempts=1)))).error == "'x' failed: busy"
