"""What a program can be given besides tools and files: standard input, and a clock that tells a time of its own."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.killed import ASK
from toolfold import File, Limits, Outcome, Reply, Runtime, UsageError
from toolfold.batches import Item
from toolfold.check_runner import LARGE_TEXT_CHARACTERS
from toolfold.ledger.sqlite.store import SqliteLedger

READERS = {
    "input": "[input(), input('? ')]",
    "lines": "import sys\n[line.rstrip() for line in sys.stdin]",
    "readline": "import sys\ninput = sys.stdin.readline\n[input().rstrip(), input().rstrip()]",
    "bytes": "import sys\nsys.stdin.buffer.read().decode().split()",
    "descriptor": "open(0).read().split()",
    "low level": "import os\nos.read(0, 100).decode().split()",
}
CLOCKS = """
import asyncio, datetime, os, random, time, uuid
seen = [time.time(), time.monotonic_ns(), str(datetime.datetime.now())]
time.sleep(0.01)
seen.append(time.time())
await asyncio.gather(asyncio.sleep(0.02), asyncio.sleep(0.01))
seen.append(time.time())
drawn = [random.random(), os.urandom(4).hex(), str(uuid.uuid4())]
seen, drawn, list({"a", "b", "c", "d"})
"""


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize("isolation", ["namespace", "landlock"])
async def test_a_program_reads_what_it_is_given(isolation: str) -> None:
    async with Runtime(engine="process", engine_options={"isolation": isolation}) as runtime:
        found = {name: await runtime.run(text, stdin="één\ntwo\n") for name, text in READERS.items()}

    assert {name: one.value for name, one in found.items()} == {name: ["één", "two"] for name in READERS}


async def test_what_is_given_ends_as_a_file_does(runtime: Runtime) -> None:
    outcome = await runtime.run("while True:\n    input()", stdin="one\n")

    assert outcome.problem is not None
    assert outcome.problem.message == "EOFError: EOF when reading a line"


@pytest.mark.parametrize("padding", ["", "# " * LARGE_TEXT_CHARACTERS + "\n"], ids=["small", "large"])
async def test_input_is_refused_before_the_first_call_only_where_nothing_is_given(
    runtime: Runtime, padding: str
) -> None:
    refused = await runtime.run(f"{padding}input()")
    given = await runtime.run(f"{padding}input()", stdin="typed")
    empty = await runtime.run(f"{padding}input()", stdin="")

    assert refused.problem is not None
    assert (refused.status, refused.problem.kind) == ("rejected", "input")
    assert (given.status, given.value) == ("finished", "typed")
    assert empty.status == "failed"


async def test_each_program_of_a_session_has_its_own_and_leaves_no_file(runtime: Runtime) -> None:
    text = "import os, sys, tempfile, time\n[sys.stdin.read(), time.time() < 10, os.listdir(tempfile.gettempdir())]"
    options = {"session": "given", "keep_names": True}

    first = await runtime.run(text, stdin="one", clock=1.0, **options)
    second = await runtime.run(text, **options)
    third = await runtime.run(text, stdin="three", **options)

    assert [one.value[:2] for one in (first, second, third)] == [["one", True], ["", False], ["three", False]]
    assert not any(".stdin" in one.value[2] for one in (first, second, third))
    assert first.files == ()


async def test_with_a_seed_and_a_clock_a_program_says_the_same_each_time(runtime: Runtime) -> None:
    first, second = [await runtime.run(CLOCKS, seed=7, clock=1.7e9) for _ in range(2)]
    other = await runtime.run(CLOCKS, seed=8, clock=1.7e9)

    assert first.status == "finished"
    assert first.value[0] == [
        1700000000.000001, 1700000000000002000, "2023-11-14 22:13:20.000003", 1700000000.010004, 1700000000.030005,
    ]  # fmt: skip
    assert second.value == first.value
    assert other.value[0] == first.value[0]
    assert other.value[1] != first.value[1]


async def test_a_program_that_waits_for_its_clock_gets_there(runtime: Runtime) -> None:
    text = """
import asyncio, time
until, turns = time.monotonic() + 1, 0
while time.monotonic() < until:
    await asyncio.sleep(0.3)
    turns += 1
turns"""

    assert (await runtime.run(text, clock=0.0)).value == 4


async def test_both_are_there_after_a_replay_in_another_process(tmp_path: Path) -> None:
    text = "import time\nseen = [input(), time.time()]\nawait ask(q=1)\n[*seen, input(), time.time()]"
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    async with Runtime(engine="process", ledger=ledger) as first:
        paused = await first.start(text, tools=[ASK], stdin="a\nb\n", seed=1, clock=10.0)
    async with Runtime(engine="process", ledger=ledger) as second:
        ended = await second.resume(paused.execution_id, [Reply(call_id=1, value=None)])
    await ledger.close()

    assert isinstance(ended, Outcome)
    assert ended.value == ["a", 10.000001, "b", 10.000002]


async def test_more_than_a_program_may_have_is_refused_in_one_line(runtime: Runtime) -> None:
    limits = dataclasses.replace(Limits(), temp_bytes=10)

    with pytest.raises(UsageError) as caught:
        await runtime.run("input()", stdin="é" * 6, limits=limits)

    assert str(caught.value) == "stdin has 12 bytes, more than 10, the limit of temp_bytes; give it as a file"


async def test_items_of_a_batch_have_their_own(runtime: Runtime) -> None:
    items = [Item(text="input()", stdin=f"{n}\n", files=[File(name="a", data=b"")]) for n in range(3)]

    found = {one.index: one.outcome.value async for one in runtime.map(items)}

    assert found == {0: "0", 1: "1", 2: "2"}


async def test_monty_has_a_clock_but_no_standard_input() -> None:
    text = "import random, time\nfirst = time.time()\ntime.sleep(0.01)\n[first, time.time(), random.random()]"
    async with Runtime(engine="monty") as runtime:
        one, two = [await runtime.run(text, seed=7, clock=1.5) for _ in range(2)]
        with pytest.raises(UsageError) as caught:
            await runtime.run("1", stdin="")

    assert one.value[:2] == [pytest.approx(1.500001), pytest.approx(1.510002)]
    assert two.value == one.value
    assert str(caught.value) == (
        "programs on the monty engine have no standard input; use the process engine, or a file"
    )
