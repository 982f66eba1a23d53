"""A guest that is woken for a program before the program is there, and kept off the host's core until it is."""

import asyncio
import os

import toolfold
from toolfold import Runtime


@toolfold.tool
async def echo(value: int) -> int:
    """The same again."""
    return value


async def test_programs_run_on_every_core_that_the_host_may_use() -> None:
    cores = sorted(os.sched_getaffinity(0))
    text = "import os\nfor i in range(200):\n    await echo(value=i)\nsorted(os.sched_getaffinity(0))"
    async with Runtime(tools=[echo], engine="process") as runtime:
        values = [(await runtime.run(text)).value for _ in range(5)]

    assert values == [cores] * 5


async def test_a_guest_that_was_woken_for_a_rejected_program_serves_the_next() -> None:
    async with Runtime(tools=[echo], engine="process") as runtime:
        outcomes = [await runtime.run(text) for text in ("1 +", "ech(value=1)", "await echo(value=2)", "len(")]

    assert [(outcome.status, outcome.value) for outcome in outcomes] == [
        ("rejected", None),
        ("rejected", None),
        ("finished", 2),
        ("rejected", None),
    ]


async def test_what_a_guest_tried_its_hand_on_is_no_part_of_a_program() -> None:
    text = "print(sorted(name for name in globals() if not name.startswith('__')), dir(tools))"
    async with Runtime(engine="process", warm=1) as runtime:
        in_session = await runtime.run(text, session="a", keep_names=True)
        for _ in range(1000):  # some of them when the next guest is ready to be woken
            assert (await runtime.run("1 +")).status == "rejected"
            await asyncio.sleep(0)
        woken = await runtime.run(text)

    assert (in_session.stdout, woken.stdout) == ("['ToolError', 'tools'] []\n",) * 2


async def test_a_seeded_guest_draws_its_own_numbers_after_it_was_woken() -> None:
    async with Runtime(engine="process") as runtime:
        drawn = [(await runtime.run("import random\nrandom.random()")).value for _ in range(4)]

    assert len(set(map(str, drawn))) == 4
