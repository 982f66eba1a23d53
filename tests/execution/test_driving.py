"""The loop that every interface with pauses shares."""

import asyncio

import pytest

from toolfold import Outcome, Paused, Reply, Runtime, ToolSpec, tool
from toolfold.execution.registry import Answers, drive, refuse_approvals
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

ASK = ToolSpec(name="ask", python_name="ask", source="caller")


@tool
async def delete(name: str) -> str:
    """Delete something."""
    return f"deleted {name}"


async def test_a_program_is_driven_through_all_its_pauses_to_its_outcome() -> None:
    async def answer(paused: Paused) -> Answers:
        return Answers(
            replies=[Reply(call_id=call.id, value=call.id * 10) for call in paused.calls],
            decisions={call.id: Decision(approved=True) for call in paused.approvals},
        )

    async with Runtime([delete], policy=Policy(ask=("delete",))) as runtime:
        step = await runtime.start("[await ask(), await delete(name='a'), await ask()]", tools=[ASK])
        outcome = await drive(runtime, step, answer)

    assert isinstance(outcome, Outcome)
    assert outcome.value == [10, "deleted a", 30]


async def test_a_pause_that_is_not_answered_comes_back_open() -> None:
    async with Runtime([delete], policy=Policy(ask=("delete",))) as runtime:
        step = await runtime.start(
            "try:\n    await delete(name='a')\nexcept Exception as error:\n    print(error)\nawait ask()", tools=[ASK]
        )
        paused = await drive(runtime, step, refuse_approvals)
        assert isinstance(paused, Paused)
        outcome = await runtime.resume(paused.execution_id, [Reply(call_id=2, value="yes")])

    assert [call.tool for call in paused.calls] == ["ask"]
    assert isinstance(outcome, Outcome)
    assert (outcome.stdout, outcome.value) == (
        "'delete' was denied: it needs approval, and nobody can give it here\n",
        "yes",
    )


@pytest.mark.parametrize("failure", [RuntimeError("no answer"), asyncio.CancelledError()])
async def test_an_execution_that_nobody_answers_any_more_is_cancelled(failure: BaseException) -> None:
    async def answer(_: Paused) -> Answers:
        raise failure

    async with Runtime() as runtime:
        step = await runtime.start("await ask()", tools=[ASK])
        with pytest.raises(type(failure)):
            await drive(runtime, step, answer)

        assert runtime.executions.ids == ()


async def test_an_outcome_needs_no_answer() -> None:
    async with Runtime() as runtime:
        step = await runtime.start("1", tools=[ASK])

        assert await drive(runtime, step, refuse_approvals) is step
