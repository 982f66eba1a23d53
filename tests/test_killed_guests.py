"""Guests that something outside kills: what had paused goes on, what had not begun begins, and limits stay limits."""

import asyncio
import os
import select
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.escapes_support.seen import descendants
from toolfold import EngineCrashed, Limits, Outcome, Paused, Problem, Reply, Runtime, ToolSpec
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

ASK = ToolSpec(name="ask", python_name="ask", input_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
KILLED = "the guest was killed from outside, and reached none of its limits"
ASKS_TWICE = """
import random
seen = [random.random()]
first = await ask(n=1)
second = await ask(n=2)
print("done", first, second, len(seen) == 1)
"""


def guests() -> list[int]:
    """Of this process: below its fork servers, and without processes of their own."""
    return [process for process in descendants(os.getpid()) if not descendants(process)]


def kill(pids: Iterable[int]) -> None:
    """Return when the kernel has ended them; this loop has heard nothing of it by then."""
    pidfds = [os.pidfd_open(pid) for pid in pids]
    assert pidfds
    for pidfd in pidfds:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    for pidfd in pidfds:
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        assert ended.poll(60_000)
        os.close(pidfd)


def answers(paused: Paused) -> list[Reply]:
    return [Reply(call_id=call.id, value=f"re {call.arguments['n']}") for call in paused.calls]


@pytest.mark.parametrize("file", ["", "ledger.db"], ids=["in memory", "in a file"])
async def test_a_paused_execution_goes_on_each_time_its_guest_was_killed(file: str, tmp_path: Path) -> None:
    ledger = tmp_path / file if file else None
    async with Runtime(engine="process", ledger=ledger) as runtime:
        step = await runtime.start(ASKS_TWICE, tools=[ASK])
        while isinstance(step, Paused):
            kill(guests())
            step = await runtime.resume(step.execution_id, answers(step))

    assert (step.status, step.stdout, step.problem) == ("finished", "done re 1 re 2 True\n", None)


async def test_a_paused_execution_goes_on_after_its_fork_server_was_killed() -> None:
    async with Runtime(engine="process") as runtime:
        step = await runtime.start(ASKS_TWICE, tools=[ASK])
        while isinstance(step, Paused):
            kill(set(descendants(os.getpid())) - set(guests()))
            step = await runtime.resume(step.execution_id, answers(step))

    assert (step.status, step.stdout, step.problem) == ("finished", "done re 1 re 2 True\n", None)


async def test_an_approved_call_is_made_once_where_the_guest_was_killed_before_the_answer() -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    async with Runtime([pay], engine="process", policy=Policy(ask=("pay",))) as runtime:
        step = await runtime.start("print(await pay(7))")
        assert isinstance(step, Paused)
        kill(guests())
        step = await runtime.resume(
            step.execution_id, decisions={call.id: Decision(approved=True) for call in step.approvals}
        )

    assert isinstance(step, Outcome)
    assert (step.status, step.stdout, paid) == ("finished", "paid\n", [7])


async def test_a_paused_program_that_cannot_be_replayed_says_that_its_guest_was_killed() -> None:
    async with Runtime(engine="process") as runtime:
        step = await runtime.start("await ask(n=1)", tools=[ASK], session="s", keep_names=True)
        assert isinstance(step, Paused)
        kill(guests())
        with pytest.raises(EngineCrashed) as crash:
            await runtime.resume(step.execution_id, answers(step))

    assert str(crash.value) == KILLED


async def test_a_guest_that_was_killed_while_it_waited_is_replaced() -> None:
    async with Runtime(engine="process", engine_options={"warm": 2}) as runtime:
        outcomes = []
        for text in ("1 + 1", "await asyncio.sleep(0)\n2 + 2", "import math\nmath.pi > 3"):
            async with asyncio.timeout(60):
                while len(guests()) < 2:
                    await asyncio.sleep(0.001)
            kill(guests())
            outcomes.append(await runtime.run(text))

    assert [(one.status, one.value) for one in outcomes] == [("finished", 2), ("finished", 4), ("finished", True)]


async def test_a_session_begins_without_names_after_its_guest_was_killed() -> None:
    async with Runtime(engine="process") as runtime:
        await runtime.run("count = 41", session="s", keep_names=True)
        kill(guests())
        begun = await runtime.run("count = 1\ncount", session="s", keep_names=True)
        following = await runtime.run("count + 1", session="s", keep_names=True)

    assert [(one.status, one.value) for one in (begun, following)] == [("finished", 1), ("finished", 2)]


async def test_a_program_whose_guest_is_killed_after_a_call_is_not_run_again() -> None:
    calls: list[str] = []

    def send() -> None:
        calls.append("sent")
        kill(guests())

    async with Runtime([send], engine="process") as runtime:
        with pytest.raises(EngineCrashed) as crash:
            await runtime.run("await send()\nawait send()")

    assert (str(crash.value), crash.value.started, calls) == (KILLED, ("send",), ["sent"])


async def test_a_program_that_uses_up_its_processor_time_is_told_so() -> None:
    async with Runtime(engine="process", limits=Limits(cpu_seconds=1)) as runtime:
        outcome = await runtime.run("print('begins', flush=True)\nwhile True:\n    pass")

    problem = Problem(kind="cpu", message="the program used its 1 s of CPU time")
    assert (outcome.status, outcome.problem) == ("limit", problem)
