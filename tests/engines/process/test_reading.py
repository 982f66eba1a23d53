"""Frames of one guest, while frames of another are read: in a tool of its program, in another thread, in its session."""

import asyncio
import itertools
import threading

import pytest

import toolfold
from toolfold import Outcome, Paused, Runtime
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision
from toolfold_guest.shared.adaptive_polling import Patience


@toolfold.tool
async def echo(value: int) -> int:
    """The same again."""
    return value


@toolfold.tool
async def wait(milliseconds: int) -> int:
    """Answers late."""
    await asyncio.sleep(milliseconds / 1000)
    return milliseconds


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, always_told: object) -> None:
    """The host looks for the next frame until it comes, as it does where nothing else keeps the cores busy."""
    monkeypatch.setattr(Patience, "sees", lambda self, looks=0: bool(self.poll(1000)))


async def test_a_tool_may_run_a_program_of_another_runtime_while_calls_wait_to_be_read() -> None:
    inner = Runtime(engine="process", engine_options={"warm": 1})

    @toolfold.tool
    async def nested() -> int:
        """Runs another program, whose last frame is large."""
        return len((await inner.run("'x' * 6000")).value or "")

    text = (
        "sum(await asyncio.gather(*[echo(value=1) for _ in range(64)], nested(), *[echo(value=1) for _ in range(70)]))"
    )
    async with inner, Runtime(tools=[echo, nested], engine="process", engine_options={"warm": 1}) as runtime:
        outcomes = [await runtime.run(text) for _ in range(20)]

    assert [(outcome.status, outcome.value, outcome.problem) for outcome in outcomes] == [("finished", 6134, None)] * 20


def test_runtimes_in_two_threads_do_not_read_each_others_frames() -> None:
    async def many(found: list[Outcome]) -> None:
        async with Runtime(tools=[echo], engine="process", engine_options={"warm": 1}) as runtime:
            for _ in range(10):
                found.append(await runtime.run("[await echo(value=i) for i in range(100)]"))

    found: tuple[list[Outcome], list[Outcome]] = ([], [])
    threads = [threading.Thread(target=lambda one=one: asyncio.run(many(one))) for one in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [(one.status, one.value) for one in (*found[0], *found[1])] == [("finished", list(range(100)))] * 20


async def test_a_reply_that_comes_after_its_program_does_not_break_the_next_of_the_session() -> None:
    async with Runtime(tools=[wait], engine="process") as runtime:
        for late in (5, 15, 30, 50, 80):
            # The value takes a while to encode: the reply comes when nobody waits for it any more.
            left = f"task = asyncio.create_task(wait(milliseconds={late}))\nawait asyncio.sleep(0.001)\nx = 1\n"
            first = await runtime.run(f"{left}list(range(900_000))", session=f"s{late}", keep_names=True)
            second = await runtime.run("x + 1", session=f"s{late}", keep_names=True)
            assert (first.status, second.status, second.value, second.problem) == ("finished", "finished", 2, None)


async def test_calls_in_a_row_leave_others_their_turn(patient: None) -> None:
    turns: list[int] = []
    calls: list[int] = []

    @toolfold.tool
    async def count() -> int:
        """How many calls there were."""
        calls.append(len(calls))
        return len(calls)

    async def others() -> None:
        while True:
            turns.append(len(calls))
            await asyncio.sleep(0)

    async with Runtime(tools=[count], engine="process") as runtime:
        task = asyncio.create_task(others())
        await runtime.run("for _ in range(500):\n    await count()")
        task.cancel()

    assert max(after - before for before, after in itertools.pairwise(turns)) == 16


async def test_the_host_looks_for_the_next_frame_unless_another_program_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(Patience, "sees", lambda self, looks=0: bool(looked.append(looks)))
    text = "for n in range(3):\n    await echo(value=n)"

    async def looks(runtime: Runtime) -> bool:
        looked.clear()
        await runtime.run(text)
        return bool(looked)

    async with Runtime(tools=[echo, wait], policy=Policy(ask=["wait"]), engine="process") as runtime:
        alone = await looks(runtime)
        await runtime.run("x = 1", session="kept", keep_names=True)
        beside_a_kept_guest = await looks(runtime)
        await runtime.start("await wait(milliseconds=1)")
        beside_a_paused_program = await looks(runtime)

    assert (alone, beside_a_kept_guest, beside_a_paused_program) == (True, True, False)


async def test_a_guest_that_is_quick_is_not_taken_for_one_that_still_works(patient: None) -> None:
    @toolfold.tool
    def add(a: int, b: int) -> int:
        """In a thread of its own, so that its end comes in a turn of the loop of its own."""
        return a + b

    text = "for n in range(3):\n    print(await add(a=n, b=0))"
    async with Runtime(tools=[add], policy=Policy(ask=["add"]), engine="process") as runtime:
        for _ in range(40):
            step = await runtime.start(text)
            while isinstance(step, Paused):
                yes = {call.id: Decision(approved=True) for call in step.approvals}
                step = await runtime.resume(step.execution_id, decisions=yes)
            assert (step.status, step.stdout) == ("finished", "0\n1\n2\n")


async def test_a_cancel_while_the_guest_is_being_made_ends_the_program() -> None:
    async with Runtime(engine="process") as runtime:
        running = asyncio.create_task(runtime.start("import pandas\nwhile True:\n    pass", execution_id="first"))
        while "first" not in runtime.executions.ids:
            await asyncio.sleep(0)
        await runtime.executions.cancel("first")
        outcome = await running

    assert isinstance(outcome, Outcome)
    assert outcome.status == "cancelled"
