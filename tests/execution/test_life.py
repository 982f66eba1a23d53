"""The table of an execution's states, and what depends on it."""

import pytest

from toolfold import Outcome, Reply, Runtime, ToolSpec, UsageError
from toolfold.engines.base import Ended
from toolfold.execution.execution import TRANSITIONS, Change, Life, State
from toolfold.testing import ScriptedEngine

ASK = ToolSpec(name="ask", python_name="ask", source="caller")


@pytest.mark.parametrize("change", ["open", "pause", "accept", "resume", "refuse", "close", "finish"])
def test_nothing_follows_an_end(change: Change) -> None:
    life = Life()
    for step in ("open", "close", "finish"):
        life.move(step)  # type: ignore[arg-type]

    with pytest.raises(KeyError):
        life.move(change)
    assert (life.state, life.is_over, life.is_settled) == ("ended", True, True)


def test_every_state_can_be_left_for_the_end() -> None:
    states: set[State] = {state for state, _ in TRANSITIONS}

    assert {state for state in states if (state, "close") in TRANSITIONS} == states - {"closed"}
    assert TRANSITIONS["closed", "finish"] == "ended"


async def test_a_program_that_is_stopped_while_it_is_opened_ends_as_soon_as_it_is_there() -> None:
    engine = ScriptedEngine(Ended(status="finished", value=1))
    life = Life()
    life.stop("cancelled")
    async with engine.open(None) as run:  # type: ignore[arg-type]
        life.attach(run)
        events = [event async for event in run]

    assert events == [Ended(status="cancelled")]


async def test_an_id_that_is_in_use_here_is_refused_and_the_first_execution_keeps_its_guest() -> None:
    async with Runtime() as runtime:
        await runtime.start("x = 41\nawait ask() + x", tools=[ASK], execution_id="chosen-by-me")
        with pytest.raises(UsageError, match="is already in the ledger; ids are used once"):
            await runtime.start("2", tools=[ASK], execution_id="chosen-by-me")
        held = runtime.executions.ids
        outcome = await runtime.resume("chosen-by-me", [Reply(call_id=1, value=1)])

    assert held == ("chosen-by-me",)
    assert isinstance(outcome, Outcome)
    assert outcome.value == 42
