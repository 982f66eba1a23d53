"""Executions in the background: waiting for one, reading along, ending it, and going on with it after a restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.gate import Gate
from toolfold import Outcome, Paused, Runtime, ToolSpec, UsageError, tool
from toolfold.engines.base import EngineWrapper, Order, Run
from toolfold.engines.process import ProcessEngine
from toolfold.errors import Fenced
from toolfold.execution.program_output import Part, Place
from toolfold.ledger.base import Moment
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import Limits, Reply
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision


async def test_start_returns_at_once_and_a_wait_may_end_before_the_program() -> None:
    gate = Gate()
    async with Runtime([gate.tool()]) as runtime:
        execution = await runtime.start("print('in')\nawait gate()", background=True)
        still = await execution.wait(0)
        await gate.entered.wait()
        calls = [call.tool for call in execution.open_calls]
        waiting = asyncio.create_task(execution.wait())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.opened.set()
        one, two = await asyncio.gather(execution.wait(), execution.wait(1e12))

    assert (still, calls) == (None, ["gate"])
    assert isinstance(one, Outcome)
    assert one is two
    assert (one.execution_id, one.status, one.value, one.stdout) == (execution.id, "finished", "open", "in\n")


class SlowToOpen(EngineWrapper):
    """Opens no program before the test lets it."""

    def __init__(self) -> None:
        super().__init__(ProcessEngine())
        self.asked = asyncio.Event()
        self.may_open = asyncio.Event()

    @asynccontextmanager
    async def open(self, order: Order) -> AsyncIterator[Run]:
        self.asked.set()
        await self.may_open.wait()
        async with self.inner.open(order) as run:
            yield run


async def test_an_execution_that_waits_for_its_guest_has_no_open_calls() -> None:
    engine = SlowToOpen()
    async with Runtime(engine=engine) as runtime:
        execution = await runtime.start("1", background=True)
        await engine.asked.wait()
        calls = execution.open_calls
        engine.may_open.set()
        outcome = await execution.wait()

    assert isinstance(outcome, Outcome)
    assert (calls, outcome.value) == ((), 1)


async def test_a_rejected_program_is_an_outcome_to_wait_for() -> None:
    async with Runtime() as runtime:
        execution = await runtime.start("await nothing()", background=True)
        outcome = await execution.wait()
        parts = [part async for part in execution.output()]

    assert isinstance(outcome, Outcome)
    assert (outcome.status, parts) == ("rejected", [])


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("-inf")])
async def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    async with Runtime() as runtime:
        execution = await runtime.start("1", background=True)
        with pytest.raises(UsageError) as caught:
            await execution.wait(seconds)

    assert str(caught.value) == f"timeout_seconds must be 0 or more, got {seconds!r}"


async def test_a_cancel_ends_the_program_and_its_calls() -> None:
    gate = Gate()
    async with Runtime([gate.tool()]) as runtime:
        execution = await runtime.start("print('in')\nawait gate()", background=True)
        await gate.entered.wait()
        outcome = await execution.cancel()
        again = await execution.cancel()

    assert (outcome.status, outcome.stdout, gate.left) == ("cancelled", "in\n", 1)
    assert again is outcome


async def test_it_pauses_goes_on_and_is_found_again_by_its_id() -> None:
    fetch = ToolSpec(name="fetch", python_name="fetch")
    async with Runtime() as runtime:
        execution = await runtime.start("print(await fetch())\nprint(await fetch())", tools=[fetch], background=True)
        first = await execution.wait()
        again = await execution.wait()
        execution.resume([Reply(call_id=1, value="one")])
        with pytest.raises(UsageError, match="is not paused; wait for it first"):
            execution.resume([Reply(call_id=1, value="one")])
        found = await runtime.executions.attach(execution.id)
        second = await found.wait()
        outcome = await found.cancel()
        ended = await runtime.executions.attach(execution.id)

    assert isinstance(first, Paused)
    assert again is first
    assert isinstance(second, Paused)
    assert [call.id for call in second.calls] == [2]
    assert (outcome.status, outcome.stdout) == ("cancelled", "one\n")
    assert found is execution
    assert await ended.wait() == outcome


async def test_ids_that_are_nothing_to_attach_to_are_told_apart() -> None:
    fetch = ToolSpec(name="fetch", python_name="fetch")
    async with Runtime() as runtime:
        step = await runtime.start("await fetch()", tools=[fetch])
        assert isinstance(step, Paused)
        said = []
        for execution_id in ("0" * 16, "", "../x", step.execution_id):
            with pytest.raises(UsageError) as caught:
                await runtime.executions.attach(execution_id)
            said.append(str(caught.value).replace(step.execution_id, "ID"))

    assert said == [
        "no execution '0000000000000000' in the ledger; it was cancelled or never existed",
        "no execution '' in the ledger; it was cancelled or never existed",
        "no execution '../x' in the ledger; it was cancelled or never existed",
        "execution 'ID' was not started in the background",
    ]


async def test_output_is_read_while_the_program_runs_each_part_once() -> None:
    gate = Gate()
    program = "import sys\nprint('one')\nprint('oops', file=sys.stderr)\nawait gate()\nprint('two')"
    async with Runtime([gate.tool()]) as runtime:
        execution = await runtime.start(program, background=True)
        parts = aiter(execution.output())
        first = [await anext(parts), await anext(parts)]
        gate.opened.set()
        rest = [part async for part in parts]
        outcome = await execution.wait()

    assert first == [
        Part(text="one\n", stream="stdout", place=Place(4, 0)),
        Part(text="oops\n", stream="stderr", place=Place(4, 5)),
    ]
    assert rest == [Part(text="two\n", stream="stdout", place=Place(8, 5))]
    assert isinstance(outcome, Outcome)
    assert (outcome.stdout, outcome.stderr) == ("one\ntwo\n", "oops\n")


async def test_a_program_that_makes_no_call_is_heard_while_it_computes() -> None:
    async with Runtime() as runtime:
        execution = await runtime.start("print('busy')\nwhile True: pass", background=True)
        part = await anext(aiter(execution.output()))
        outcome = await execution.cancel()

    assert (part.text, outcome.status, outcome.stdout) == ("busy\n", "cancelled", "busy\n")


async def test_much_output_comes_whole_and_in_order_to_a_slow_reader_and_one_that_leaves_costs_nothing() -> None:
    program = "for n in range(40_000):\n    print(n, 'x' * 40)\n"
    async with Runtime() as runtime:
        execution = await runtime.start(program, background=True)
        async for _ in execution.output():
            break
        slow, place = [], Place()
        async for part in execution.output():
            slow.append(part.text)
            place = part.place
            await asyncio.sleep(0)
        outcome = await execution.wait()
        late = [part async for part in runtime.executions.output(execution.id)]
        whole = (await runtime._ledger.load(execution.id)).outcome.stdout  # type: ignore[union-attr]

    assert "".join(slow) == whole == "".join(f"{n} {'x' * 40}\n" for n in range(40_000))
    assert max(map(len, slow)) <= 64 * 1024
    assert (place, late) == (Place(len(whole), 0), [])
    assert isinstance(outcome, Outcome)
    assert runtime._live._watches == {}


async def test_no_signal_finds_the_guest_in_the_middle_of_its_output() -> None:
    program = """
import asyncio
for n in range(3_000):
    print(n, 'é' * 50)
    if n % 10 == 0:
        await echo(n=n)
"""

    @tool
    async def echo(n: int) -> int:
        """Echo."""
        return n

    async with Runtime([echo]) as runtime:
        execution = await runtime.start(program, background=True)
        texts: list[str] = []

        async def poke() -> None:
            while execution.is_running:
                live = runtime._live.get(execution.id)
                if live is not None and live.life.state == "running":
                    live.life.run.ask_for_output()  # type: ignore[attr-defined]
                await asyncio.sleep(0)

        poking = asyncio.create_task(poke())
        texts = [part.text async for part in execution.output()]
        await poking
        outcome = await execution.wait()

    assert isinstance(outcome, Outcome)
    assert outcome.status == "finished"
    assert "".join(texts) == "".join(f"{n} {'é' * 50}\n" for n in range(3_000))


async def test_after_its_runtime_is_left_it_goes_on_elsewhere_from_its_record(tmp_path: Path) -> None:
    path, gate = tmp_path / "ledger.sqlite", Gate()
    program = "print('one')\nawait gate()\nprint('two')"
    async with Runtime([gate.tool()], ledger=path) as runtime:
        execution = await runtime.start(program, background=True)
        await gate.entered.wait()
    gate.opened.set()
    async with Runtime([gate.tool()], ledger=path) as runtime:
        found = await runtime.executions.attach(execution.id)
        texts = [part.text async for part in found.output()]
        outcome = await found.wait()

    assert isinstance(outcome, Outcome)
    assert ("".join(texts), outcome.stdout, outcome.status) == ("one\ntwo\n", "one\ntwo\n", "finished")


async def test_one_that_goes_on_elsewhere_while_its_process_lives_makes_each_call_once(tmp_path: Path) -> None:
    path, gate, charges = tmp_path / "ledger.sqlite", Gate(), []

    @tool
    async def charge(number: int) -> None:
        """Not to be done twice."""
        charges.append(number)

    program = "await gate()\nfor number in range(3):\n    await charge(number)"
    async with (
        Runtime([gate.tool(), charge], ledger=path) as first,
        Runtime([gate.tool(), charge], ledger=path) as second,
    ):
        execution = await first.start(program, background=True)
        await gate.entered.wait()
        gate.entered.clear()
        found = await second.executions.attach(execution.id)
        await gate.entered.wait()
        gate.opened.set()
        outcome = await found.wait()
        with pytest.raises(Fenced):
            await execution.wait()

    assert isinstance(outcome, Outcome)
    assert (outcome.status, charges) == ("finished", [0, 1, 2])


async def test_a_standing_answer_for_one_in_the_background() -> None:
    rows: list[int] = []

    @tool
    async def write(row: int) -> None:
        """Write."""
        rows.append(row)

    async with Runtime([write], policy=Policy(ask=["write"]), ledger=MemoryLedger()) as runtime:
        execution = await runtime.start("for n in range(50):\n    await write(row=n)", background=True)
        paused = await execution.wait()
        assert isinstance(paused, Paused)
        execution.resume(decisions={1: Decision(approved=True, covers="tool", by="ann")})
        outcome = await execution.wait()

    assert isinstance(outcome, Outcome)
    assert (outcome.status, rows) == ("finished", list(range(50)))


async def test_the_wall_clock_goes_on_where_it_stood_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolfold.execution.wall_clock.TICK_SECONDS", 0.05)
    path, gate = tmp_path / "ledger.sqlite", Gate()
    limits = Limits(wall_seconds=60)
    async with Runtime([gate.tool()], ledger=path) as runtime:
        execution = await runtime.start("await gate()", background=True, limits=limits)
        await gate.entered.wait()
        while not (ticks := await ticks_of(runtime, execution.id)):
            await asyncio.sleep(0.01)
    async with Runtime([gate.tool()], ledger=path) as runtime:
        found = await runtime.executions.attach(execution.id)
        while len(again := await ticks_of(runtime, execution.id)) <= len(ticks) + 1:
            await asyncio.sleep(0.01)
        await found.cancel()

    assert again == sorted(again, reverse=True)
    assert 59 < again[-1] < again[0] < 60


async def ticks_of(runtime: Runtime, execution_id: str) -> list[float]:
    story = await runtime._ledger.story(execution_id)
    entries = () if story is None else story.entries
    return [entry.facts["seconds_left"] for entry in entries if isinstance(entry, Moment) and entry.kind == "ticked"]
