"""A program's wall clock: what does not count."""

import asyncio
from typing import Any

from toolfold import Call, Limits, Tool, ToolSpec
from toolfold.testing import Called, Ended, scripted
from toolfold.tools.tool import CallContext


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
