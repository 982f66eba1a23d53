"""Calls that the caller answers: their arguments are checked while the program runs, as those of any call."""

from collections.abc import AsyncIterator

import pytest

from toolfold import Outcome, Paused, Reply, Runtime, ToolSpec
from toolfold.ledger.memory import MemoryLedger

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
TOOL = ToolSpec(name="ask-it", python_name="ask_it", input_schema=SCHEMA, source="caller")
BAD = "'ask-it' got a bad argument: x must be an integer, got '5z'"
UNKNOWN = "'ask-it' got a bad argument: no parameter 'zz'; it takes x"


@pytest.fixture(params=["process", "monty"])
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    async with Runtime(engine=request.param, ledger=MemoryLedger()) as runtime:
        yield runtime


async def test_a_call_that_does_not_fit_raises_in_the_program_and_is_never_handed_out(runtime: Runtime) -> None:
    text = """
v = "".join(["5", "z"])
for arguments in ({"x": v}, {"zz": 1}):
    try:
        await ask_it(**arguments)
    except ToolError as error:
        print(error)
print(await ask_it(x=5))
"""
    step = await runtime.start(text, tools=[TOOL])
    assert isinstance(step, Paused)
    assert [(call.tool, call.arguments) for call in step.calls] == [("ask-it", {"x": 5})]
    outcome = await runtime.resume(step.execution_id, [Reply(call_id=step.calls[0].id, value="yes")])

    assert isinstance(outcome, Outcome)
    assert outcome.stdout == f"{BAD}\n{UNKNOWN}\nyes\n"
    assert [(call.arguments, call.error) for call in outcome.calls] == [
        ({"x": "5z"}, BAD),
        ({"zz": 1}, UNKNOWN),
        ({"x": 5}, None),
    ]


async def test_of_a_gather_only_the_fitting_calls_are_handed_out(runtime: Runtime) -> None:
    text = """
import asyncio
v = [1, "5z", 2]
print(await asyncio.gather(*[ask_it(x=one) for one in v], return_exceptions=True))
"""
    step = await runtime.start(text, tools=[TOOL])
    assert isinstance(step, Paused)
    replies = [Reply(call_id=call.id, value=call.arguments["x"]) for call in step.calls]
    outcome = await runtime.resume(step.execution_id, replies)

    assert isinstance(outcome, Outcome)
    assert outcome.stdout == f"[1, {'ToolError' if runtime._engine.name == 'process' else '_csv.Error'}({BAD!r}), 2]\n"


async def test_a_program_all_of_whose_calls_are_wrong_ends_without_a_pause(runtime: Runtime) -> None:
    outcome = await runtime.start("v = [1, '5z'][1]\nawait ask_it(x=v)", tools=[TOOL])

    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.problem and outcome.problem.message) == ("failed", f"ToolError: {BAD}")


async def test_a_schema_that_lets_more_arguments_through_does_so(runtime: Runtime) -> None:
    opened = ToolSpec(name="a", python_name="a", input_schema={**SCHEMA, "additionalProperties": True}, source="caller")

    step = await runtime.start("await a(**{'z' * 2: 1})", tools=[opened])

    assert isinstance(step, Paused)
    assert [call.arguments for call in step.calls] == [{"zz": 1}]


async def test_a_wrong_call_is_answered_again_where_the_execution_goes_on_elsewhere() -> None:
    ledger = MemoryLedger()
    text = """
v = "5z"[:2]
try:
    await ask_it(x=v)
except ToolError as error:
    print(error)
print(await ask_it(x=5))
"""
    async with Runtime(ledger=ledger) as first:
        step = await first.start(text, tools=[TOOL])
        assert isinstance(step, Paused)
        await first.executions.release(step.execution_id)
    async with Runtime(ledger=ledger) as second:
        outcome = await second.resume(step.execution_id, [Reply(call_id=2, value="yes")])

    assert isinstance(outcome, Outcome)
    assert outcome.stdout == f"{BAD}\nyes\n"
