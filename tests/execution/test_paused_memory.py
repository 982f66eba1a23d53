"""Paused executions hold so much memory and no more; what lets go of its guest goes on all the same."""

import asyncio

import pytest

from toolfold import Outcome, Paused, Reply, Runtime, ToolSpec
from toolfold.engines.process import guest
from toolfold.errors import UsageError
from toolfold.execution.pauses import PausedLimits, PausedMemory
from toolfold.models import MIB
from toolfold.runtime import RuntimeSettings

ASK = ToolSpec(name="ask", python_name="ask")
HEAVY = "x = b'x' * 90_000_000\nanswer = await ask()\n[answer, len(x)]"
SPOILT = """
import threading
x = b'x' * 90_000_000
thread = threading.Thread(target=lambda: tools.ask())
thread.start()
thread.join()
"""


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "FREEZE_AFTER_SECONDS", 0.0)


async def _start(runtime: Runtime, text: str, tenant: str = "") -> Paused:
    step = await runtime.start(text, tools=[ASK], tenant=tenant)
    assert isinstance(step, Paused)
    return step


async def _until_letting_go(runtime: Runtime, left: int) -> None:
    async with asyncio.timeout(60):
        while len(runtime.executions.ids) != left:
            await asyncio.sleep(0.01)


async def _resume(runtime: Runtime, step: Paused) -> object:
    replies = [Reply(call_id=call.id, value="yes") for call in step.calls]
    outcome = await runtime.resume(step.execution_id, replies)
    assert isinstance(outcome, Outcome)
    return outcome.value


async def test_the_oldest_of_too_many_paused_guests_end_and_their_programs_are_replayed() -> None:
    limits = PausedLimits(tenant_bytes=200 * MIB, total_bytes=1024 * MIB)
    async with Runtime(
        engine="process", engine_options={"warm": 0}, settings=RuntimeSettings(paused_limits=limits)
    ) as runtime:
        steps = [await _start(runtime, HEAVY) for _ in range(4)]
        await _until_letting_go(runtime, 2)

        values = [await _resume(runtime, step) for step in steps]

    assert values == [["yes", 90_000_000]] * 4


async def test_a_large_guest_is_weighed_long_before_the_threads_of_a_small_one_are_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guest, "FREEZE_AFTER_SECONDS", 3600.0)
    limits = PausedLimits(tenant_bytes=200 * MIB, total_bytes=1024 * MIB)
    async with Runtime(
        engine="process", engine_options={"warm": 0}, settings=RuntimeSettings(paused_limits=limits)
    ) as runtime:
        small = await _start(runtime, "await ask()")
        large = [await _start(runtime, HEAVY) for _ in range(4)]
        await _until_letting_go(runtime, 3)

        assert (small.execution_id in runtime.executions.ids, large[-1].execution_id in runtime.executions.ids) == (
            True,
            True,
        )


async def test_a_program_that_cannot_be_replayed_ends_where_its_tenant_holds_too_much() -> None:
    limits = PausedLimits(tenant_bytes=80 * MIB, total_bytes=1024 * MIB)
    async with Runtime(
        engine="process", engine_options={"warm": 0}, settings=RuntimeSettings(paused_limits=limits)
    ) as runtime:
        step = await _start(runtime, SPOILT)
        await _until_letting_go(runtime, 0)

        with pytest.raises(UsageError, match="has ended"):
            await _resume(runtime, step)


def test_each_tenant_has_its_share_and_of_all_the_largest_holder_yields() -> None:
    memory = PausedMemory(PausedLimits(tenant_bytes=100, total_bytes=150))

    assert memory.add("a1", "a", 60) == []
    assert memory.add("b1", "b", 40) == []
    assert memory.add("a2", "a", 40) == []
    assert memory.add("a3", "a", 10) == ["a1"]
    assert memory.add("b2", "b", 70) == ["b1"]
    memory.remove("a2")
    assert memory.add("c1", "c", 90) == ["c1"]
    assert memory.add("d1", "d", 200) == ["d1"]
