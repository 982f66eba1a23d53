"""The fakes that users get."""

from toolfold.models import Call, Program, Reply
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
