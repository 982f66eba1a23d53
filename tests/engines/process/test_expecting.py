"""A guest makes a program ready while the host checks it, and is kept off the host's core until it starts."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager

import pytest
from msgspec.structs import replace

import toolfold
from toolfold import Limits, Outcome, Runtime
from toolfold.engines.base import Ended, Engine, EngineWrapper, Order, Run
from toolfold.engines.process import ProcessEngine
from toolfold.engines.process.guest import Guest
from toolfold.engines.process.jail_layout import BARE
from toolfold.models import Program

Told = list[tuple[Guest, str]]


@toolfold.tool
async def echo(value: int) -> int:
    """The same again."""
    return value


async def last_of(engine: Engine, order: Order) -> Ended:
    async with engine.open(order) as run:
        last = [event async for event in run][-1]
    assert isinstance(last, Ended)
    return last


async def test_programs_run_on_every_core_that_the_host_may_use() -> None:
    cores = sorted(os.sched_getaffinity(0))
    text = "import os\nfor i in range(200):\n    await echo(value=i)\nsorted(os.sched_getaffinity(0))"
    async with Runtime(tools=[echo], engine="process") as runtime:
        values = [(await runtime.run(text)).value for _ in range(5)]

    assert values == [cores] * 5


@pytest.mark.parametrize(
    "text",
    [
        "1 is 1\nawait echo(value=2)",  # Python warns of this when it compiles it
        "    a = 1\n    a + 1",  # the check moves it to the margin
        "return await echo(value=3)",
        "import json\njson.dumps([tools.echo(value=1)])",
        "x = [1]\nprint(x[5])",
        "try:\n    pass\nfinally:\n    pass\nnp.arange(3).sum()",
        "help(echo)",
        "",
    ],
)
async def test_a_program_that_was_made_ready_ends_as_any_other(text: str, always_told: Told) -> None:
    def whole(outcome: Outcome) -> tuple[object, ...]:
        return outcome.status, outcome.value, outcome.stdout, outcome.stderr, outcome.problem

    async with Runtime(tools=[echo], engine="process", engine_options={"warm": 0}) as runtime:
        usual = whole(await runtime.run(text))
    assert always_told == []
    async with Runtime(tools=[echo], engine="process") as runtime:
        foretold = whole(await runtime.run(text))

    assert [one for _, one in always_told] == [text]
    assert foretold == usual
    assert usual[0] in ("finished", "failed")


async def test_nothing_of_a_refused_program_reaches_the_next(always_told: Told) -> None:
    refused = "1 is 1\nech(value=1)"
    text = "print(sorted(name for name in globals() if not name.startswith('__')), dir(tools))\nech = 3\n1 is 2"
    async with Runtime(tools=[echo], engine="process") as runtime:
        alone = await runtime.run(text)
        outcomes = [await runtime.run(one) for one in (refused, "1 +", text)]

    assert [one for _, one in always_told[:2]] == [text, refused]
    assert [outcome.status for outcome in outcomes] == ["rejected", "rejected", "finished"]
    assert (outcomes[-1].stdout, outcomes[-1].stderr) == (alone.stdout, alone.stderr)


async def test_nothing_of_a_refused_program_runs_and_its_guest_ends_at_once(always_told: Told) -> None:
    nested = "".join(f"{' ' * depth}try:\n{' ' * depth} pass\n{' ' * depth}finally:\n" for depth in range(19))
    text = f"await echo(value=1)\n{nested}{' ' * 19}pass\nech(value=1)"  # Python copies the last line 2**19 times
    async with Runtime(tools=[echo], engine="process") as runtime:
        outcome = await runtime.run(text)
        await asyncio.wait_for(always_told[0][0].wait(), 60)

    assert (outcome.status, outcome.calls) == ("rejected", ())


async def test_a_program_that_comes_instead_of_the_expected_one_is_the_one_that_runs(always_told: Told) -> None:
    async with Runtime(tools=[echo], engine="process") as runtime:
        bare, data, again = [await runtime.run(text) for text in ("1", "np.arange(4).sum()", "2")]
        limits = Limits(memory_bytes=300 << 20)
        together = await asyncio.gather(
            runtime.run("3"), runtime.run("4"), runtime.run("5", limits=limits), runtime.run("6", session="s")
        )

    assert [outcome.value for outcome in (bare, data, again, *together)] == [1, 6, 2, 3, 4, 5, 6]


async def test_a_program_that_was_started_ahead_runs_once(always_told: Told) -> None:
    text = "print('once')\nawait echo(value=1)"
    async with Runtime(tools=[echo], engine="process") as runtime:
        runs = [await runtime.run(text) for _ in range(3)]

    assert {one for _, one in always_told} == {text}
    assert [(run.stdout, run.value, len(run.calls)) for run in runs] == [("once\n", 1, 1)] * 3


class Reseeded(EngineWrapper):
    """Opens each program with a seed of its own choice."""

    def open(self, order: Order) -> AbstractAsyncContextManager[Run]:
        return self.inner.open(replace(order, seed=7))


async def test_the_order_that_is_opened_counts_and_not_the_one_that_was_started_ahead(always_told: Told) -> None:
    text = "import random\nawait echo(value=1)\nrandom.random()"
    async with Runtime(tools=[echo], engine=Reseeded(ProcessEngine())) as runtime:
        runs = [await runtime.run(text) for _ in range(3)]
        await asyncio.wait_for(always_told[0][0].wait(), 60)

    assert len({run.value for run in runs}) == 1
    assert [len(run.calls) for run in runs] == [1, 1, 1]


async def test_a_seeded_guest_draws_its_own_numbers_after_it_was_woken(always_told: Told) -> None:
    async with Runtime(engine="process") as runtime:
        drawn = [(await runtime.run("import random\nrandom.random()")).value for _ in range(4)]

    assert len(set(map(str, drawn))) == 4


async def test_a_grant_that_is_too_large_to_be_told_ahead_is_told_with_the_start(always_told: Told) -> None:
    tools = [
        toolfold.ToolSpec(
            name=f"tool_{number}", python_name=f"tool_{number}", input_schema={"type": "object"}, source="caller"
        )
        for number in range(5000)
    ]
    async with Runtime(engine="process") as runtime:
        step = await runtime.start("len(dir(tools))", tools=tools)

    assert isinstance(step, Outcome)
    assert (step.status, step.value, step.problem) == ("finished", 5001, None)


async def test_a_guest_that_was_told_of_a_program_serves_a_whole_session(always_told: Told) -> None:
    limits = Limits(cpu_seconds=30)
    async with Runtime(engine="process", limits=limits) as runtime:
        engine = runtime._engine
        assert engine.capabilities.prepare is not None
        program = Program(text="a = 1\na")
        preparation = engine.capabilities.prepare(program.text, (), limits)
        a_tenth = Limits(cpu_seconds=3)  # a session's guest has ten times as much, and so this is the usual guest
        first = Order(program=program, session="s", limits=a_tenth, preparation=preparation)
        ends = [await last_of(engine, order) for order in (first, replace(first, program=Program(text="a + 1")))]

    assert [(end.status, end.value) for end in ends] == [("finished", 1), ("finished", 2)]
    assert [text for _, text in always_told] == ["a = 1\na"]


async def test_a_guest_ends_whose_run_is_opened_and_never_entered(always_told: Told) -> None:
    async with Runtime(engine="process") as runtime:
        engine = runtime._engine
        assert engine.capabilities.prepare is not None
        preparation = engine.capabilities.prepare("1", (), Limits())
        assert preparation is not None
        engine.open(Order(program=Program(text="1"), preparation=preparation))
        preparation.discard()
        await asyncio.wait_for(always_told[0][0].wait(), 60)
        assert (await runtime.run("2")).value == 2


async def test_a_preparation_that_was_used_up_is_not_used_again(always_told: Told) -> None:
    async with Runtime(engine="process") as runtime:
        engine = runtime._engine
        assert engine.capabilities.prepare is not None
        preparation = engine.capabilities.prepare("1", (), Limits())
        order = Order(program=Program(text="1"), preparation=preparation)
        ends = [await last_of(engine, order) for _ in range(2)]

    assert [(end.status, end.value) for end in ends] == [("finished", 1)] * 2
    assert [text for _, text in always_told] == ["1"]


async def test_a_guest_ends_whose_program_cannot_be_opened(always_told: Told) -> None:
    async with Runtime(engine="process") as runtime:
        with pytest.raises(toolfold.UsageError, match="outside"):
            await runtime.run("1", files=[toolfold.File(name="../outside", data=b"")])
        await asyncio.wait_for(always_told[0][0].wait(), 60)
        assert (await runtime.run("2")).value == 2


async def test_a_program_is_told_ahead_when_all_is_quiet_and_its_guest_is_the_usual_one(
    told_guests: Told,
) -> None:
    async with Runtime(engine="process") as runtime:
        pool = await runtime._engine._pool(BARE)  # type: ignore[attr-defined]
        for text, limits in (("1", None), ("2", Limits(memory_bytes=300 << 20)), ("3", Limits(wall_seconds=7))):
            async with asyncio.timeout(60):
                while not pool.is_quiet:
                    await asyncio.sleep(0.001)
            await runtime.run(text, limits=limits)
        await runtime.run("4")  # the next guests are on their way

    assert [text for _, text in told_guests] == ["1", "3"]


async def test_a_guest_ends_whose_program_needs_other_libraries(always_told: Told) -> None:
    async with Runtime(engine="process") as runtime:
        outcome = await runtime.run("int(np.arange(4).sum())")
        await asyncio.wait_for(always_told[0][0].wait(), 60)

    assert outcome.value == 6
