"""A program that is run again against its tape and its replies does the same, call for call."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from toolfold.engines.base import Called, Ended, Order, Printed, ReplayTape, Waiting
from toolfold.engines.process import ProcessEngine
from toolfold.models import Call, Program, Reply, ToolSpec

GET = ToolSpec(name="get", python_name="get", input_schema={"type": "object", "properties": {"key": {}}})

PROGRAMS = {
    "gather": "print(await asyncio.gather(*[get(key=n) for n in range(5)]))\nprint(await get(key='last'))",
    "chains": (
        "async def chain(n):\n"
        "    for step in range(3):\n"
        "        if (await get(key=[n, step])) % 2:\n"
        "            await asyncio.sleep(0)\n"
        "    return n\n"
        "for done in asyncio.as_completed([chain(n) for n in range(6)]):\n"
        "    print(await done, tools.get(key='sync'))"
    ),
    "world": (
        "import random, uuid, time, datetime, secrets, os\n"
        "print(random.random(), uuid.uuid4(), time.time(), datetime.datetime.now(), datetime.date.today())\n"
        "print(await get(key=[random.randint(0, 9), secrets.token_hex(4), os.urandom(2).hex()]))\n"
        "print(time.monotonic(), time.perf_counter_ns(), time.strftime('%H:%M:%S'), time.localtime().tm_sec, datetime.datetime.utcnow())\n"
        "print(await get(key=str(datetime.datetime.now(datetime.UTC))))"
    ),
    "timers": (
        "async def ticking():\n"
        "    for n in range(4):\n"
        "        await asyncio.sleep(0.003)\n"
        "        print('tick', await get(key=n))\n"
        "tick = asyncio.create_task(ticking())\n"
        "for n in range(5):\n"
        "    print('tock', await get(key=n))\n"
        "    await asyncio.sleep(0.002)\n"
        "try:\n"
        "    await asyncio.wait_for(asyncio.sleep(1), 0.01)\n"
        "except TimeoutError:\n"
        "    print('late', await get(key='late'))\n"
        "await tick"
    ),
    "busy": (
        "task = asyncio.create_task(get(key=1))\n"
        "turns = 0\n"
        "while not task.done():\n"
        "    turns += 1\n"
        "    await asyncio.sleep(0)\n"
        "print(await get(key=turns))"
    ),
    "pair": (
        "first, second = [asyncio.ensure_future(get(key=n)) for n in range(2)]\nprint(await first)\nprint(await second)"
    ),
    "busy pair": (
        "first, second = [asyncio.ensure_future(get(key=n)) for n in range(2)]\n"
        "print(await first)\n"
        "while not second.done():\n"
        "    await asyncio.sleep(0)\n"
        "print(second.result())"
    ),
    "numpy": (
        "import numpy as np, pandas as pd\n"
        "print(np.random.rand(), np.random.default_rng().integers(0, 100, 3).tolist())\n"
        "print(pd.Timestamp.now(), pd.Timestamp.today())\n"
        "print(await get(key=float(np.random.rand())))"
    ),
}


@dataclass
class Record:
    calls: list[Call] = field(default_factory=list)
    wakes: list[int] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    stdout: str = ""


async def drive(engine: ProcessEngine, name: str, seed: int, past: Record | None, chance: random.Random) -> Record:
    """Run a program, answering calls in random order; the replies of a past run are given at once."""
    tape = ReplayTape(tuple(past.wakes), tuple(past.clocks)) if past else ReplayTape()
    program = Program(text=PROGRAMS[name], preset_names=("asyncio",), library_set="data" if name == "numpy" else "bare")
    order = Order(program=program, tools=[GET], seed=seed, tape=tape, report_waiting=True)
    record = Record()
    answered = past.replies if past else []
    open_calls: list[Call] = []
    async with engine.open(order) as run:
        for reply in answered:
            run.answer(reply)
        record.replies.extend(answered)
        old = {reply.call_id for reply in answered}
        async for event in run:
            match event:
                case ReplayTape():
                    assert not event.is_spoilt
                    record.wakes.extend(event.wakes)
                    record.clocks.extend(event.clocks)
                case Called():
                    record.calls.extend(event.calls)
                    open_calls.extend(call for call in event.calls if call.id not in old)
                case Printed():
                    record.stdout += event.text
                case Ended():
                    assert event.status == "finished", (record, event)
            is_time = isinstance(event, Waiting) or name.startswith("busy") or chance.random() < 0.5
            if open_calls and is_time and not isinstance(event, Ended):
                chance.shuffle(open_calls)
                for call in _some(open_calls, chance):
                    open_calls.remove(call)
                    reply = Reply(call_id=call.id, value=call.id * 7)
                    record.replies.append(reply)
                    run.answer(reply)
                    if chance.random() < 0.5:
                        await asyncio.sleep(0)
    return record


def _some(calls: Sequence[Call], chance: random.Random) -> list[Call]:
    return list(calls[: chance.randint(1, len(calls))])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.long
async def test_a_replay_makes_the_same_calls_and_prints_the_same(name: str) -> None:
    async with ProcessEngine() as first, ProcessEngine() as second:
        for seed in range(6):
            chance = random.Random(seed)
            once = await drive(first, name, seed, None, chance)

            again = await drive(second, name, seed, once, chance)

            assert (again.calls, again.stdout) == (once.calls, once.stdout)


@pytest.mark.parametrize("name", ["pair", "busy pair"])
@pytest.mark.long
async def test_a_reply_that_came_after_the_last_of_the_tape_is_not_slept_through(name: str) -> None:
    past = Record(wakes=[1], replies=[Reply(call_id=1, value=7), Reply(call_id=2, value=14)])
    async with ProcessEngine() as engine:
        again = await drive(engine, name, 0, past, random.Random(0))

    assert again.stdout == "7\n14\n"
