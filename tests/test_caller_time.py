"""The time in which a caller executes a call, as the program's own timers see it."""

import time
from pathlib import Path
from typing import Any

import pytest

from toolfold import Outcome, Paused, Runtime, ToolSpec, tool
from toolfold.ledger.base import ReplyEntry
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import Reply
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

FETCH = ToolSpec(name="fetch", python_name="fetch", input_schema={"type": "object", "properties": {"n": {}}})
PROGRAM = """
try:
    first = await asyncio.wait_for(fetch(n=1), 500)
except TimeoutError:
    first = "too late"
second = await asyncio.wait_for(fetch(n=2), 60)
print(first, second)
"""


@pytest.fixture(autouse=True)
def hours(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a caller take hours."""
    real, ahead = time.clock_gettime, [0.0]
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + ahead[0])

    def pass_by(seconds: float) -> None:
        ahead[0] += seconds

    return pass_by


@pytest.mark.parametrize("engine", ["process", "monty"])
async def test_a_caller_that_takes_longer_than_the_program_waits_is_too_late(engine: str, hours: Any) -> None:
    async with Runtime(engine=engine) as runtime:
        step = await runtime.start(PROGRAM, tools=[FETCH])
        assert isinstance(step, Paused)
        hours(3600)
        step = await runtime.resume(step.execution_id, [Reply(call_id=1, value="one")])
        assert isinstance(step, Paused)
        end = await runtime.resume(step.execution_id, [Reply(call_id=2, value="two")])

    assert [call.id for call in step.calls] == [2]
    assert isinstance(end, Outcome)
    assert end.stdout == "too late two\n"


@pytest.mark.parametrize("engine", ["process", "monty"])
async def test_a_caller_that_is_quick_is_in_time(engine: str) -> None:
    async with Runtime(engine=engine) as runtime:
        step = await runtime.start(PROGRAM.replace("500", "3000"), tools=[FETCH])
        while isinstance(step, Paused):
            step = await runtime.resume(
                step.execution_id, [Reply(call_id=call.id, value="in time") for call in step.calls]
            )

    assert step.stdout == "in time in time\n"


async def test_it_is_too_late_however_many_turns_the_event_loop_had_before(hours: Any) -> None:
    program = """
said = []
for n in range(70):
    for _ in range(n):
        await asyncio.sleep(0)
    try:
        said.append(await asyncio.wait_for(fetch(n=n), 500))
    except TimeoutError:
        pass
said
"""
    async with Runtime() as runtime:
        step = await runtime.start(program, tools=[FETCH])
        while isinstance(step, Paused):
            hours(1000)
            [call] = step.calls
            step = await runtime.resume(step.execution_id, [Reply(call_id=call.id, value="in time")])

    assert (step.status, step.value) == ("finished", [])


async def test_sleeps_of_the_program_go_on_meanwhile(hours: Any) -> None:
    program = """
order = []
async def nap(seconds):
    await asyncio.sleep(seconds)
    order.append(seconds)
async def ask():
    order.append(await fetch(n=1))
await asyncio.gather(nap(2000), nap(100), ask())
order
"""
    async with Runtime() as runtime:
        step = await runtime.start(program, tools=[FETCH])
        assert isinstance(step, Paused)
        hours(3600)
        end = await runtime.resume(step.execution_id, [Reply(call_id=1, value="reply")])

    assert isinstance(end, Outcome)
    assert end.value == [100, 2000, "reply"]


@pytest.mark.parametrize("engine", ["process", "monty"])
async def test_a_person_may_take_as_long_as_they_like(engine: str, hours: Any) -> None:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    program = "import asyncio\nprint(await asyncio.wait_for(pay(amount=1), 500))"
    async with Runtime([pay], engine=engine, policy=Policy(ask=["pay"])) as runtime:
        step = await runtime.start(program)
        assert isinstance(step, Paused)
        hours(3600)
        end = await runtime.resume(step.execution_id, decisions={1: Decision(approved=True)})

    assert isinstance(end, Outcome)
    assert end.stdout == "paid\n"


async def test_a_replay_times_out_where_the_program_did_and_the_late_reply_is_on_record(hours: Any) -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as runtime:
        step = await runtime.start(PROGRAM, tools=[FETCH])
        assert isinstance(step, Paused)
        hours(3600)
        step = await runtime.resume(step.execution_id, [Reply(call_id=1, value="one")])
        assert isinstance(step, Paused)
    async with Runtime(ledger=ledger) as runtime:
        end = await runtime.resume(step.execution_id, [Reply(call_id=2, value="two")])
        history = await ledger.load(step.execution_id)

    assert isinstance(end, Outcome)
    assert end.stdout == "too late two\n"
    assert history is not None
    given = [entry.reply.value for entry in history.entries if isinstance(entry, ReplyEntry)]
    assert given == ["one", "two"]


@pytest.mark.parametrize("wait_seconds", [100, 1000], ids=["ran out before it", "runs out after it"])
async def test_the_time_counts_across_a_restart(wait_seconds: int, tmp_path: Path, hours: Any) -> None:
    path = tmp_path / "ledger.sqlite"
    async with Runtime(ledger=path) as runtime:
        step = await runtime.start(PROGRAM.replace("500", str(wait_seconds)), tools=[FETCH])
        assert isinstance(step, Paused)
        hours(200)
    hours(3600)
    async with Runtime(ledger=path) as runtime:
        step = await runtime.resume(step.execution_id, [Reply(call_id=1, value="one")])
        assert isinstance(step, Paused)
        end = await runtime.resume(step.execution_id, [Reply(call_id=2, value="two")])

    assert isinstance(end, Outcome)
    assert end.stdout == "too late two\n"
