"""A resume that is cancelled at every place where it waits: the execution is as before, or as after."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from toolfold import Paused, Reply, Runtime, ToolSpec, UsageError
from toolfold.ledger.base import Ledger, ReplyEntry
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Outcome

ASK = ToolSpec(name="ask", python_name="ask", source="caller")
PROGRAM = "first = await ask()\nprint(first, await ask())"
PLACES = 24


@pytest.fixture(params=["memory", "sqlite"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    made: Ledger = MemoryLedger() if request.param == "memory" else SqliteLedger(tmp_path / "ledger.sqlite")
    yield made
    await made.close()


async def cut(runtime: Runtime, execution_id: str, turns: int, call_id: int) -> Paused | Outcome | None:
    """Resume, and cancel that after so many turns of the loop; what it came to before."""
    task = asyncio.create_task(runtime.resume(execution_id, [Reply(call_id=call_id, value=call_id)]))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return None if task.cancelled() else task.result()  # any other exception is the test's


async def replied(ledger: Ledger, execution_id: str) -> list[int]:
    history = await ledger.load(execution_id)
    assert history is not None
    return [entry.reply.call_id for entry in history.entries if isinstance(entry, ReplyEntry)]


@pytest.mark.long
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("call_id", [1, 2], ids=["to a pause", "to the end"])
async def test_a_cancelled_resume_that_is_tried_again_takes_no_reply_twice(
    ledger: Ledger, elsewhere: bool, call_id: int
) -> None:
    ends: set[str] = set()
    async with Runtime(ledger=ledger) as runtime, Runtime(ledger=ledger) as other:
        for turns in range(PLACES):
            paused = await runtime.start(PROGRAM, tools=[ASK])
            name = paused.execution_id
            if call_id == 2:
                await runtime.resume(name, [Reply(call_id=1, value=1)])
            await cut(runtime, name, turns, call_id)
            ends.add(await goes_on(other if elsewhere else runtime, name, call_id))
            given = await replied(ledger, name)
            assert given == sorted(set(given)), turns

    assert ends <= {"1 2\n", "ended"}
    assert "1 2\n" in ends


async def goes_on(runtime: Runtime, name: str, call_id: int) -> str:
    """What the program printed in the end; a cancel that came while it ran has ended it."""
    try:
        async with asyncio.timeout(60):
            step = await runtime.resume(name, [Reply(call_id=call_id, value=call_id)])
            while isinstance(step, Paused):
                step = await runtime.resume(name, [Reply(call_id=call.id, value=call.id) for call in step.calls])
    except UsageError as error:
        if "no open call" in str(error):  # the first try has come to its pause
            return await answer_open_calls(runtime, name)
        is_ended = str(error) == f"execution {name!r} has ended; there is nothing to resume"
        return "ended" if is_ended else str(error)
    return step.stdout


async def answer_open_calls(runtime: Runtime, name: str) -> str:
    step = await runtime.resume(name)
    while isinstance(step, Paused):
        step = await runtime.resume(name, [Reply(call_id=call.id, value=call.id) for call in step.calls])
    return step.stdout


@pytest.mark.parametrize("make", [MemoryLedger, SqliteLedger])
async def test_a_cancel_during_the_end_is_a_cancel(make: Callable[..., Ledger], tmp_path: Path) -> None:
    ledger = make() if make is MemoryLedger else make(tmp_path / "ledger.sqlite")
    seen = set()
    async with Runtime(ledger=ledger) as runtime:
        for turns in range(PLACES):
            task = asyncio.create_task(runtime.start("print(1)", tools=[ASK]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            seen.add("cancelled" if task.cancelled() else type(task.exception() or task.result()).__name__)
    await ledger.close()

    assert seen <= {"cancelled", "Outcome"}
