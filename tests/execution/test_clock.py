"""A program's wall clock: what does not count."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from toolfold import Call, Decision, Limits, Outcome, Paused, Policy, Runtime, Tool, ToolSpec
from toolfold.events import DirectCall
from toolfold.testing import Called, Ended, scripted
from toolfold.tools.tool import CallContext

DAY = Limits(wall_seconds=86_400)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets a person take hours."""
    real, ahead = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: real() + ahead[0])

    def pass_by(seconds: float) -> None:
        ahead[0] += seconds

    return pass_by


async def test_the_clock_stands_still_while_a_call_asks_a_person_and_goes_on_after_it() -> None:
    async def asks(_: Any, context: CallContext) -> None:
        with (
            runtime.executions.standing_clock(context.execution_id),
            runtime.executions.standing_clock(context.execution_id),
        ):
            await asyncio.sleep(1.5 * limits.wall_seconds)

    async def hangs(_: Any, context: CallContext) -> None:
        with runtime.executions.standing_clock(context.execution_id):
            pass
        await asyncio.Event().wait()

    limits = Limits(wall_seconds=1)
    calls = [Called(Call(id=1, tool="asks", arguments={})), Called(Call(id=2, tool="hangs", arguments={}))]
    tools = [
        Tool(spec=ToolSpec(name=name, python_name=name), call=None, call_within=call)
        for name, call in (("asks", asks), ("hangs", hangs))
    ]
    runtime, _ = scripted(*calls, Ended(status="finished"), tools=tools)

    async with runtime:
        outcome = await runtime.run("...", limits=limits)

    assert (outcome.status, [(one.name, one.error) for one in outcome.calls][:1]) == ("timeout", [("asks", None)])
    assert (outcome.problem.kind, outcome.problem.message) == ("wall_clock", "the program took longer than 1 s")


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_time_that_a_person_takes_to_approve_is_not_the_calls(
    hours: Callable[[float], None], is_async: bool
) -> None:
    def pay(to: str) -> str:
        """Pay."""
        hours(60)
        return to

    def approve(call: Call, _: ToolSpec) -> Decision:
        hours(3600)
        return Decision(approved=call.arguments["to"] != "eve")

    async def approve_async(call: Call, spec: ToolSpec) -> Decision:
        return approve(call, spec)

    program = "for name in ('ann', 'eve', 'bob'):\n    try:\n        print(await pay(name))\n    except ToolError as error:\n        print(error)"
    policy = Policy(ask=["pay"])
    async with Runtime([pay], policy=policy, approve=approve_async if is_async else approve, limits=DAY) as runtime:
        outcome = await runtime.run(program)

    assert outcome.stdout == "ann\n'pay' was denied\nbob\n"
    assert [round(call.seconds / 60) for call in outcome.calls] == [1, 0, 1]


async def test_a_pause_for_an_approval_is_not_the_calls_time_on_record_either(
    hours: Callable[[float], None], tmp_path: Any
) -> None:
    def pay(to: str) -> str:
        """Pay."""
        hours(60)
        return to

    async with Runtime([pay], policy=Policy(ask=["pay"]), limits=DAY, ledger=tmp_path / "runs.sqlite") as runtime:
        step = await runtime.start("print(await asyncio.gather(pay('ann'), pay('bob')))")
        assert isinstance(step, Paused)
        hours(3600)
        step = await runtime.resume(step.execution_id, decisions={1: Decision(approved=True)})
        assert isinstance(step, Paused)
        hours(3600)
        outcome = await runtime.resume(step.execution_id, decisions={2: Decision(approved=True)})
        recorded = await runtime.executions.recorded(outcome.execution_id)

    assert isinstance(outcome, Outcome)
    assert [round(call.seconds / 60) for call in outcome.calls] == [1, 1]
    assert recorded is not None
    assert recorded.outcome is not None
    assert recorded.outcome.calls == outcome.calls


async def test_a_call_that_was_never_answered_by_a_person_took_no_time(hours: Callable[[float], None]) -> None:
    def pay(to: str) -> str:
        """Pay."""
        return to

    async def approve(_call: Call, _spec: ToolSpec) -> Decision:
        hours(3600)
        await asyncio.Event().wait()
        raise AssertionError

    limits = Limits(wall_seconds=1)
    async with Runtime([pay], policy=Policy(ask=["pay"]), approve=approve, limits=limits) as runtime:
        outcome = await runtime.run("await pay('ann')")

    assert [round(call.seconds / 60) for call in outcome.calls] == [0]


async def test_a_direct_call_has_the_time_of_its_tool(hours: Callable[[float], None]) -> None:
    def pay(to: str) -> str:
        """Pay."""
        hours(60)
        return to

    async def approve(_call: Call, _spec: ToolSpec) -> Decision:
        hours(3600)
        return Decision(approved=True)

    seconds: list[float] = []
    listen = lambda event: seconds.append(event.seconds) if isinstance(event, DirectCall) else None  # noqa: E731
    async with Runtime([pay], policy=Policy(ask=["pay"]), approve=approve, listeners=[listen]) as runtime:
        reply = await runtime.call("pay", {"to": "ann"})

    assert (reply.value, round(seconds[0] / 60)) == ("ann", 1)


async def test_a_person_whom_a_tool_asks_in_the_middle_of_a_call_takes_their_own_time(
    hours: Callable[[float], None],
) -> None:
    async def asks(_: Any, context: CallContext) -> None:
        with runtime.executions.standing_clock(context.execution_id, "mcp:forms"):
            hours(3600)
        hours(60)

    tool = Tool(spec=ToolSpec(name="asks", python_name="asks", source="mcp:forms"), call=None, call_within=asks)
    runtime, _ = scripted(Called(Call(id=1, tool="asks", arguments={})), Ended(status="finished"), tools=[tool])

    async with runtime:
        outcome = await runtime.run("...", limits=DAY)

    assert [round(call.seconds / 60) for call in outcome.calls] == [1]


@pytest.mark.parametrize("ends", ["early", "late"])
async def test_a_run_returns_when_its_cancelled_tools_have_ended(ends: str) -> None:
    steps: list[str] = []

    async def slow() -> None:
        """Takes long, and cleans up."""
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            steps.append("cleaned up")

    async def quick() -> None:
        """Ends."""

    limits = Limits() if ends == "early" else Limits(wall_seconds=1)
    program = "task = asyncio.create_task(slow())\nawait quick()" if ends == "early" else "await slow()"
    async with Runtime([slow, quick], limits=limits) as runtime:
        await runtime.run(program)
        steps.append("returned")

    assert steps == ["cleaned up", "returned"]


@pytest.mark.long
async def test_a_tool_that_cannot_be_cancelled_does_not_keep_its_program_for_ever() -> None:
    is_over = asyncio.Event()

    async def stubborn() -> None:
        """Does not end."""
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue

    async with Runtime([stubborn], limits=Limits(wall_seconds=0.5)) as runtime:
        outcome = await runtime.run("await stubborn()")
        is_over.set()

    assert (outcome.status, [call.error for call in outcome.calls]) == (
        "timeout", ["the program ended before the reply"],
    )  # fmt: skip
