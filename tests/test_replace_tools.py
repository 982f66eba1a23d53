"""Tools that change while a runtime runs."""

import asyncio

import pytest

from toolfold.errors import UsageError
from toolfold.runtime import Runtime


def old() -> str:
    return "old"


def new() -> str:
    return "new"


async def test_the_next_program_has_the_new_tools_and_no_longer_the_old_ones() -> None:
    async with Runtime([old]) as runtime:
        runtime.replace_tools([new])
        fresh = await runtime.run("await new()")
        gone = await runtime.run("await old()")
        direct = await runtime.call("new", {})

    assert (fresh.value, direct.value) == ("new", "new")
    assert gone.status == "rejected"
    assert [spec.name for spec in runtime.tools] == ["new", "search_tools"]


async def test_a_program_that_runs_keeps_the_tools_it_began_with() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        began.set()
        await go_on.wait()
        return "waited"

    async with Runtime([old, wait]) as runtime:
        running = asyncio.create_task(runtime.run("[await wait(), await old()]"))
        await began.wait()
        runtime.replace_tools([new])
        go_on.set()
        outcome = await running

    assert outcome.value == ["waited", "old"]


async def test_tools_that_cannot_be_put_together_change_nothing() -> None:
    async with Runtime([old]) as runtime:
        with pytest.raises(UsageError):
            runtime.replace_tools([new, new])
        outcome = await runtime.run("await old()")

    assert outcome.value == "old"
