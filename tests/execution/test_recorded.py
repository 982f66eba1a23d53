"""What interfaces learn of executions that they do not hold."""

from toolfold import Limits, Paused, Reply, Runtime, ToolSpec, tool
from toolfold.ledger.memory import MemoryLedger

ASK = ToolSpec(name="ask", python_name="ask", source="caller")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_record_has_the_answers_of_the_outside_and_no_others() -> None:
    async with Runtime([add]) as runtime:
        step = await runtime.start("await add(a=1, b=2)\nawait ask()\nawait ask()", tools=[ASK])
        await runtime.resume(step.execution_id, [Reply(call_id=2, value="yes")])
        found = await runtime.executions.recorded(step.execution_id)

    assert found is not None
    assert (found.state, found.has_ended, found.outcome) == ("paused", False, None)
    assert found.answered == {2: Reply(call_id=2, value="yes")}


async def test_a_record_shows_the_outcome_as_it_was_returned_although_more_is_kept() -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as runtime:
        outcome = await runtime.run("print('x' * 5000)", limits=Limits(output_bytes=1000))
        found = await runtime.executions.recorded(outcome.execution_id)
        history = await ledger.load(outcome.execution_id)

    assert found is not None
    assert found.has_ended
    assert found.outcome is not None
    assert (found.outcome.stdout, found.outcome.stdout_cut_bytes) == (outcome.stdout, outcome.stdout_cut_bytes)
    assert history is not None
    assert history.outcome is not None
    assert len(history.outcome.stdout) == 5001


async def test_nothing_is_on_record_of_what_never_was() -> None:
    async with Runtime() as runtime:
        assert await runtime.executions.recorded("0" * 16) is None
        assert await runtime.executions.end_recorded("0" * 16) is False


async def test_an_execution_of_which_only_the_record_is_left_is_ended_once() -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as first:
        step = await first.start("await ask()", tools=[ASK])
        assert isinstance(step, Paused)
        await first.executions.release(step.execution_id)
    async with Runtime(ledger=ledger) as second:
        ended = [await second.executions.end_recorded(step.execution_id, "timeout") for _ in range(2)]
        found = await second.executions.recorded(step.execution_id)

    assert ended == [True, False]
    assert found is not None
    assert found.outcome is not None
    assert (found.state, found.outcome.status) == ("ended", "timeout")
