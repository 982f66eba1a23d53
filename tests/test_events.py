"""The stream of events that listeners get."""

import logging
from typing import Any

import pytest

from toolfold import Outcome, Paused, Problem, Reply, Runtime, ToolSpec, tool
from toolfold.events import (
    ApprovalAsked,
    ApprovalDecided,
    DirectCall,
    Listeners,
    ProgramBegan,
    ProgramEnded,
    ProgramPaused,
    ProgramPrinted,
    ProgramRejected,
    ProgramResumed,
    RuntimeEvent,
    ToolCalled,
    ToolReplied,
    ToolRetried,
)
from toolfold.models import Call
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

ASK = ToolSpec(name="ask", python_name="ask", source="caller")


@tool
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


def kinds(events: list[RuntimeEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


async def test_a_program_is_told_of_from_its_start_to_its_end_with_the_lines_of_its_calls() -> None:
    told: list[RuntimeEvent] = []
    async with Runtime([double], listeners=[told.append]) as runtime:
        outcome = await runtime.run("import sys\nprint('a')\nx = await double(x=2)\nprint(x, file=sys.stderr)")

    (began, first, called, replied, second, ended) = told
    assert isinstance(began, ProgramBegan)
    assert (began.execution_id, began.start_record.execution_id) == (outcome.execution_id,) * 2
    assert first == ProgramPrinted(outcome.execution_id, "a\n", "stdout")
    line = 3 if outcome.engine == "process" else 0
    assert called == ToolCalled(outcome.execution_id, Call(id=1, tool="double", arguments={"x": 2}, line=line))
    assert replied == ToolReplied(outcome.execution_id, outcome.calls[0])
    assert second == ProgramPrinted(outcome.execution_id, "4\n", "stderr")
    assert ended == ProgramEnded(outcome.execution_id, outcome)


async def test_pauses_questions_and_answers_are_told_in_their_order() -> None:
    told: list[RuntimeEvent] = []
    async with Runtime([double], policy=Policy(ask=("double",)), listeners=[told.append]) as runtime:
        step = await runtime.start("[await ask(), await double(x=1)]", tools=[ASK])
        step = await runtime.resume(step.execution_id, [Reply(call_id=1, value="yes")])
        assert isinstance(step, Paused)
        decisions = {2: Decision(approved=True, reason="fine")}
        outcome = await runtime.resume(step.execution_id, decisions=decisions)

    assert isinstance(outcome, Outcome)
    assert kinds(told) == [
        "ProgramBegan", "ToolCalled", "ProgramPaused", "ProgramResumed", "ToolReplied",
        "ToolCalled", "ApprovalAsked", "ProgramPaused", "ProgramResumed", "ApprovalDecided", "ToolReplied", "ProgramEnded",
    ]  # fmt: skip
    (ask, pay) = [event.call for event in told if isinstance(event, ToolCalled)]
    of = outcome.execution_id
    assert [event for event in told if isinstance(event, ProgramPaused)] == [
        ProgramPaused(of, (ask,), ()),
        ProgramPaused(of, (), (pay,)),
    ]
    assert [event for event in told if isinstance(event, ProgramResumed)] == [
        ProgramResumed(of, (1,)),
        ProgramResumed(of, (2,)),
    ]
    assert ApprovalAsked(of, pay) in told
    assert ApprovalDecided(of, pay, approved=True, reason="fine") in told


async def test_a_retry_is_told_with_what_the_attempt_before_failed_with() -> None:
    told: list[RuntimeEvent] = []
    fails = [ConnectionRefusedError("nobody there")]

    @tool
    async def flaky() -> str:
        """Works the second time."""
        if fails:
            raise fails.pop()
        return "up"

    async with Runtime([flaky], listeners=[told.append]) as runtime:
        outcome = await runtime.run("await flaky()")

    (retried,) = [event for event in told if isinstance(event, ToolRetried)]
    assert (outcome.value, retried.execution_id, retried.call.id) == ("up", outcome.execution_id, 1)
    assert (retried.attempt, retried.error) == (2, "'flaky' failed: nobody there")


async def test_a_rejected_program_and_a_direct_call_are_told_too() -> None:
    told: list[RuntimeEvent] = []
    async with Runtime([double], listeners=[told.append]) as runtime:
        outcome = await runtime.run("await dubble(x=1)")
        reply = await runtime.call("double", {"x": 4})

    rejected, direct = told
    assert isinstance(outcome.problem, Problem)
    assert rejected == ProgramRejected(outcome.execution_id, "await dubble(x=1)", outcome.problem)
    assert isinstance(direct, DirectCall)
    assert (direct.call, direct.reply) == (Call(id=0, tool="double", arguments={"x": 4}), reply)


async def test_one_listener_that_raises_disturbs_neither_the_program_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[RuntimeEvent] = []

    def broken(_: RuntimeEvent) -> None:
        raise RuntimeError("no disk")

    async with Runtime([double], listeners=[broken, told.append]) as runtime:
        outcome = await runtime.run("await double(x=2)")

    assert outcome.value == 4
    assert kinds(told) == ["ProgramBegan", "ToolCalled", "ToolReplied", "ProgramEnded"]
    assert [line for line in caplog.messages if line.startswith("a listener failed")] == [
        f"a listener failed for {kind}" for kind in kinds(told)
    ]


async def test_listeners_add_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    told: list[RuntimeEvent] = []
    with caplog.at_level(logging.DEBUG, "toolfold.calls"):
        async with Runtime([double], listeners=[told.append]) as runtime:
            await runtime.run("await double(x=2)")

    assert [line.partition(" ms")[0].rpartition(" ")[0] for line in caplog.messages if " call 1 " in line] == [
        f"{told[0].execution_id} call 1 double(7 bytes)"  # type: ignore[union-attr]
    ]


def test_nobody_makes_events_where_nobody_listens() -> None:
    class Deaf:
        is_listening = False
        told: Any = None

        def __call__(self, event: RuntimeEvent) -> None:
            self.told = event

    deaf = Deaf()
    ended = ProgramEnded("e1", Outcome(execution_id="e1", status="finished"))
    Listeners([deaf]).tell_end(ended)

    assert Listeners([deaf]).tell is None
    assert deaf.told is ended
    assert Listeners([deaf, lambda event: None]).tell is not None
