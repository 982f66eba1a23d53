"""A guest that waits for the outside stands still as a whole, and one too many is let go."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from toolfold.engines.base import Called, Ended, Order, Waiting
from toolfold.engines.process import ProcessEngine, guest
from toolfold.engines.process import engine as process_engine
from toolfold.engines.process.zygote_launch import pid_of
from toolfold.models import Program, Reply, ToolSpec

BUSY = """
import threading
def spin():
    while not stop:
        pass
stop = []
thread = threading.Thread(target=spin)
thread.start()
"""
CALLS = (
    BUSY
    + """
value = tools.ask()
stop.append(1)
thread.join()
value
"""
)
TOOLS = [ToolSpec(name="ask", python_name="ask")]


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "FREEZE_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(process_engine, "FREEZE_AFTER_SECONDS", 0.0)


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[ProcessEngine]:
    async with ProcessEngine(warm=0) as engine:
        yield engine


async def test_the_threads_of_a_paused_program_run_only_when_it_goes_on(engine: ProcessEngine) -> None:
    told: list[int] = []
    order = Order(program=Program(text=CALLS), tools=TOOLS, report_waiting=True, on_frozen=told.append)
    async with engine.open(order) as run:
        async for event in run:
            match event:
                case Called():
                    (call,) = event.calls
                case Waiting():
                    run.hold()
                    await _until(lambda: _states(engine) == {"T"} and bool(told))
                    run.release()
                    run.answer(Reply(call_id=call.id, value="yes"))
                case Ended():
                    ended = event

    assert (ended.status, ended.value, told[0] > 1_000_000) == ("finished", "yes", True)


async def test_a_paused_program_that_is_stopped_says_its_last_words(engine: ProcessEngine) -> None:
    order = Order(program=Program(text="print('so far')\ntools.ask()"), tools=TOOLS, report_waiting=True)
    printed = ""
    async with engine.open(order) as run:
        async for event in run:
            match event:
                case Waiting():
                    run.hold()
                    await _until(lambda: _states(engine) == {"T"})
                    run.stop("timeout")
                case Ended():
                    ended = event
                case _:
                    printed += getattr(event, "text", "")

    assert (ended.status, printed) == ("timeout", "so far\n")


async def test_a_sessions_guest_stands_still_between_programs_and_goes_on_with_the_next(engine: ProcessEngine) -> None:
    await _run(engine, BUSY + "count = 41", "a")
    await _until(lambda: _states(engine) == {"T"})

    assert await _run(engine, "count + 1", "a") == 42


async def test_of_too_many_kept_guests_the_one_that_was_used_longest_ago_ends() -> None:
    async with ProcessEngine(warm=0, max_kept_guests=2) as engine:
        for name in ("a", "b", "a", "c"):
            await _run(engine, "x = 1", name)

        assert [engine.has_session(name) for name in ("a", "b", "c")] == [True, False, True]


async def test_kept_guests_that_take_too_much_memory_together_end() -> None:
    async with ProcessEngine(warm=0, max_kept_bytes=200_000_000) as engine:
        await _run(engine, "x = 1", "small")
        for name in ("a", "b", "c"):
            await _run(engine, "x = b'x' * 90_000_000", name)
            await _until(lambda name=name: engine.has_session(name) and "T" in _states(engine))

        await _until(lambda: not engine.has_session("a"))
        assert [engine.has_session(name) for name in ("b", "c")] == [True, True]


async def _run(engine: ProcessEngine, text: str, session: str) -> object:
    async with engine.open(Order(program=Program(text=text), session=session)) as run:
        return [event async for event in run][-1].value  # type: ignore[union-attr]


def _states(engine: ProcessEngine) -> set[str]:
    pids = [pid_of(fd) for pool in engine._pools.values() for fd in pool.zygote.guest_pidfds]
    texts = [Path(f"/proc/{pid}/stat").read_text() for pid in pids if pid]
    return {re.sub(r".*\) ", "", text, flags=re.DOTALL)[0] for text in texts}


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
