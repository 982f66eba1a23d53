"""One timer for the clocks of many executions."""

import asyncio
import time
from collections.abc import Callable

from toolfold.execution.wall_clock import Alarm, WallClock


def soon() -> float:
    return time.perf_counter() + 0.01


def noting(rung: list[str], name: str, until: asyncio.Event | None = None) -> Callable[[], None]:
    def ring() -> None:
        rung.append(name)
        if until is not None:
            until.set()

    return ring


async def test_what_is_due_first_rings_first_whenever_it_was_set() -> None:
    alarm, rung, is_over = Alarm(), list[str](), asyncio.Event()

    alarm.set("late", soon() + 0.02, noting(rung, "late", is_over))
    alarm.set("early", soon(), noting(rung, "early"))
    alarm.set("never", soon() + 3600, noting(rung, "never"))
    await is_over.wait()

    assert rung == ["early", "late"]


async def test_what_is_cleared_does_not_ring_and_keeps_nobody_else_from_it() -> None:
    alarm, rung, is_over = Alarm(), list[str](), asyncio.Event()

    alarm.set("gone", soon(), noting(rung, "gone"))
    alarm.clear("gone")
    alarm.set("next", soon() + 0.01, noting(rung, "next", is_over))
    await is_over.wait()

    assert rung == ["next"]


async def test_one_that_raises_keeps_nobody_else_from_ringing() -> None:
    alarm, rung, is_over = Alarm(), list[str](), asyncio.Event()
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context["exception"]))
    failure = ValueError("a listener's")

    def fail() -> None:
        raise failure

    at = soon()
    alarm.set("broken", at, fail)
    alarm.set("sound", at, noting(rung, "sound", is_over))
    await is_over.wait()

    assert (rung, raised) == (["sound"], [failure])


def test_a_timer_of_a_loop_that_is_closed_is_made_again_in_the_next() -> None:
    alarm, rung = Alarm(), list[str]()

    async def set_only() -> None:
        alarm.set("first", soon() + 3600, noting(rung, "first"))
        alarm.clear("first")

    async def wait() -> None:
        is_over = asyncio.Event()
        alarm.set("second", soon(), noting(rung, "second", is_over))
        await is_over.wait()

    asyncio.run(set_only())
    asyncio.run(wait())

    assert rung == ["second"]


async def test_a_clock_that_stops_between_its_time_and_its_turn_does_not_ring() -> None:
    rung: list[str] = []
    clock = WallClock(0.001, Alarm(), noting(rung, "late"))
    clock.start()
    while clock.seconds_left > -0.001:  # its time passes while the loop has no turn
        pass
    await asyncio.sleep(0)  # the alarm goes off, and the clock's turn comes next
    clock.stop()
    await asyncio.sleep(0)

    assert rung == []


async def test_a_clock_ticks_until_it_rings(monkeypatch) -> None:
    monkeypatch.setattr("toolfold.execution.wall_clock.TICK_SECONDS", 0.01)
    told, is_over = list[str](), asyncio.Event()
    clock = WallClock(0.035, Alarm(), noting(told, "rang", is_over), noting(told, "tick"))

    clock.start()
    await is_over.wait()

    assert (told[0], told[-1]) == ("tick", "rang")
    assert set(told[:-1]) == {"tick"}
