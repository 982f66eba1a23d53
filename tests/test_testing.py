"""The fakes that users get."""

import pytest

from toolfold.errors import UsageError
from toolfold.models import Call, Problem, Program, Reply
from toolfold.testing import Called, Ended, scripted


async def price(ticker: str) -> int:
    """What it costs."""
    return len(ticker)


async def test_a_scripted_runtime_serves_the_calls_of_its_script() -> None:
    call = Call(id=1, tool="price", arguments={"ticker": "AAA"})
    runtime, engine = scripted(Called(call), Ended(status="finished", value=7), tools=[price])

    outcome = await runtime.run("await price('AAA')")

    assert (outcome.status, outcome.value, outcome.engine) == ("finished", 7, "scripted")
    assert [(reply.call_id, reply.value, reply.error) for reply in engine.answers] == [(1, 3, None)]
    assert [order.program for order in engine.orders] == [Program(text="await price('AAA')")]


async def test_a_misspelt_tool_is_an_error_that_names_the_right_one() -> None:
    call = Call(id=1, tool="prise", arguments={})
    runtime, engine = scripted(Called(call), Ended(status="finished"), tools=[price])

    await runtime.run("1")

    assert engine.answers == [Reply(call_id=1, error="no tool 'prise'; did you mean 'price'?")]


async def test_a_scripted_failure_is_the_outcome_with_its_problem() -> None:
    problem = Problem(kind="exception", message="ValueError: boom", line=1)
    runtime, _ = scripted(Ended(status="failed", problem=problem))

    outcome = await runtime.run("1")

    assert (outcome.status, outcome.problem) == ("failed", problem)


def test_a_text_for_a_problem_is_refused_where_it_is_written() -> None:
    with pytest.raises(UsageError) as told:
        scripted(Ended(status="failed", problem="boom"))  # type: ignore[arg-type]

    assert str(told.value) == ("problem='boom' of Ended is not a Problem; write Problem(kind='exception', message=...)")
