"""Attacks from programs of the wasm engine: the corpus of `tests/escapes`, mutated frames, a broken memory.

The corpus's attacks by system calls of the kernel are left out: an instance has none to make.
"""

import asyncio
import contextlib
import json
import random
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

from tests.engines.wasm.worker_client import DIED, FILES, GUEST_FRAMES, READY, Worker, cache_folder
from tests.escapes_support.attack import Attack, load_attacks
from tests.escapes_support.bait import Bait
from tests.escapes_support.real_host import run_on_engine
from tests.escapes_support.seen import GRANTED, Seen, order_for
from toolfold.engines.base import Died, Ended, Order
from toolfold.engines.wasm import WasmEngine, artifacts, messages
from toolfold.engines.wasm.engine import WasmRun
from toolfold.engines.wasm.worker_pool import Slot
from toolfold.models import Limits, Program

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

MUTATED_FRAMES = 100_000
MOST_MESSAGES = 8
"""Of one program."""
BY_SYSTEM_CALL = ("kernel(", "ctypes", "NR[", "_libc")
MEANINGLESS = {
    "files_dev": "`/dev` is a folder in memory, with the standard streams",
    "protocol_unread_replies": "each exchange takes replies along; see the test below",
    "network_inet_pair": "the error number is the one of WASI",
    "resources_threads": "threads run in their place, one after the other",
}
ATTACKS = [
    attack
    for attack in load_attacks()
    if not any(word in attack.text for word in BY_SYSTEM_CALL) and attack.name not in MEANINGLESS
]

PRELUDE = """
import json, os, struct, _host
def _send(data): return _host.call(struct.pack("<I", 0) + bytes(data)) and 0 or len(data)
_write = os.write
os.write = lambda fd, data: _send(data) if fd == 3 else _write(fd, data)
"""
"""In place of the descriptor that the host listens on elsewhere: the door."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[WasmEngine]:
    artifacts.prepare(cache_folder())
    async with WasmEngine(warm=2, cache=cache_folder()) as engine:
        yield engine


@pytest.fixture(scope="module")
def bait() -> Any:
    with Bait() as bait:
        yield bait


def order_of(attack: Attack, bait: Bait, text: str) -> Order:
    order = order_for(attack, bait, is_control=False, text=text)
    head, _, rest = order.program.text.partition('"""Put before')
    whole = head + PRELUDE + rest[rest.index("def send(") :]
    return structs.replace(order, program=Program(text=whole))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_it_holds(attack: Attack, engine: WasmEngine, bait: Bait) -> None:
    bait.refresh()
    before = await run_on_engine(engine, order_of(attack, bait, attack.before)) if attack.before else Seen()
    seen = await run_on_engine(engine, order_of(attack, bait, attack.text))
    seen.bait, seen.printed_before = bait, before.printed

    assert (seen.reaches(attack), seen.error) == (False, ""), seen.printed[-500:]
    honest = await run_on_engine(engine, Order(program=Program(text="7"), tools=GRANTED))
    assert (honest.status, honest.value) == ("finished", 7)


async def test_replies_that_are_not_read_end_the_program(engine: WasmEngine) -> None:
    attack = next(attack for attack in load_attacks() if attack.name == "protocol_unread_replies")
    calls = (
        "b''.join(struct.pack('<I', len(b)) + b for b in [json.dumps([1, '', '', [[n, 2, {}, 0]], -1, None]).encode()"
    )
    text = f"import json, struct, time, _host\n_host.call(bytes(4) + {calls} for n in range(1, 90)]))\ntime.sleep(20)"
    order = Order(program=Program(text=text), tools=GRANTED, limits=Limits(wall_seconds=15, **attack.limits))

    seen = await run_on_engine(engine, order)

    assert (seen.status, seen.problem_text, seen.error) == ("limit", "the program does not read its replies", "")


# ----------------------------------------------------------------------------------------------------
# Mutated messages of a worker that a guest has taken over


class _Lone:
    """A worker with one slot and no process."""

    def __init__(self) -> None:
        self.is_gone = False
        self.greeting = b""

    def kill(self) -> None:
        self.is_gone = True
        self.slot.close()

    slot: "_Wire"


class _Wire(Slot):
    """Its host end has the files at once; where they are broken, the worker ends."""

    def __init__(self, worker: Any) -> None:
        super().__init__(worker)
        self._loop = asyncio.get_running_loop()

    def _write(self, data: bytes) -> None:
        if data[4] == messages.FINISH and b'"files": true' in data:
            files = HONEST[5]()
            self._loop.call_soon(self.feed, files if CHANCE.random() < 0.5 else mutated(files, CHANCE))
            # It may still wait for the rest of a message that never comes.
            self._loop.call_later(0.001, self.worker.kill)

    def feed(self, data: bytes) -> None:
        self._received(data)


class _Stub:
    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def take(self, library_set: str, session: str) -> Slot:
        return self._slot

    def give_back(self, slot: Slot, *, session: str) -> None:
        slot.listen(None)


def frame(text: str) -> bytes:
    body = text.encode()
    return struct.pack("<I", len(body)) + body


HONEST: list[Callable[[], bytes]] = [
    lambda: messages.message(GUEST_FRAMES, frame('[2,"out","err"]')),
    lambda: messages.message(GUEST_FRAMES, frame('[1,"","",[[1,0,{"a":[1,2.5,"x"]},3]],-1,null]')),
    lambda: messages.message(GUEST_FRAMES, frame('[1,"a","",[[1,0,{},1],[2,1,{},2]],0,null]') + frame('[2,"b",""]')),
    lambda: messages.message(GUEST_FRAMES, frame('[3,"","","finished",{"a":1},"",[0,0],"",[]]')),
    lambda: messages.message(DIED, json.dumps({"reason": "trap", "detail": "x"}).encode()),
    lambda: messages.message(FILES, messages.encode_files({"a.txt": b"1", "b/c.bin": bytes(20)})),
    lambda: messages.message(READY, b'{"layers": []}'),
]


CHANCE = random.Random(7)


def mutated(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out)) if out else 0
        match chance.randrange(6):
            case 0 if out:
                out[at] ^= 1 << chance.randrange(8)
            case 1 if out:
                out[at] = chance.choice(b'\x00\xff"[]{},0-\\e')
            case 2:
                out[at:at] = chance.randbytes(chance.randint(1, 8))
            case 3:
                del out[at : at + chance.randint(1, 8)]
            case 4:
                out[at:at] = out[at : at + chance.randint(1, 30)]
            case _:
                out += chance.choice(HONEST)()
    return bytes(out)


async def test_mutated_frames_crash_nothing() -> None:
    endings: set[str] = set()
    # Together: each one that is stopped has a moment for its last words.
    for _ in range(MUTATED_FRAMES // MOST_MESSAGES // 500):
        endings.update(await asyncio.gather(*(_ending_of_mutated_frames() for _ in range(500))))

    assert {"failed", "died", "finished", "cancelled"} <= endings


async def _ending_of_mutated_frames() -> str:
    worker = _Lone()
    slot = worker.slot = _Wire(worker)
    async with WasmRun(Order(program=Program(text="pass"), tools=GRANTED), _Stub(slot)) as run:  # type: ignore[arg-type]
        for _ in range(MOST_MESSAGES):
            data = CHANCE.choice(HONEST)()
            slot.feed(mutated(data, CHANCE) if CHANCE.random() < 0.8 else data)
        if CHANCE.random() < 0.5:
            worker.kill()
        else:
            run.stop("cancelled")
        async for event in run:
            last = event
    assert isinstance(last, Ended | Died), last
    return last.status if isinstance(last, Ended) else "died"


# ----------------------------------------------------------------------------------------------------
# A guest that breaks what it stands on

CORRUPTION = {
    "everywhere": "wild = as_strided(np.zeros(1, np.uint8), (1 << 27,), (1,))\nwild[:] = 0xA5",
    "here and there": (
        "wild = as_strided(np.zeros(1, np.uint8), (1 << 24,), (1,))\nchance = np.random.default_rng(3)\n"
        "for _ in range(10**6): wild[chance.integers(1 << 24)] = 255"
    ),
    "its code objects": (
        "wild = as_strided(np.zeros(1, np.uint64), (1 << 22,), (8,))\n"
        "for at in range(0, 1 << 22, 7): wild[at] = 0xFFFFFFFFFFFFFFFF"
    ),
    "outside": "wild = as_strided(np.zeros(1, np.uint8), (1 << 30,), (1,))\nprint(wild[::4096].sum())",
}


@pytest.mark.parametrize("text", CORRUPTION.values(), ids=CORRUPTION)
async def test_a_guest_that_corrupts_its_memory_ends_alone(text: str) -> None:
    artifacts.prepare(cache_folder())
    worker = Worker(2, "data")
    guilty, other = worker.slots
    for slot in worker.slots:
        slot.expect(READY)
    other.begin("first = await echo(value=1)\nfirst + await echo(value=2)")
    assert other.receive()[0] == GUEST_FRAMES  # it waits for its first reply

    result_of = "import numpy as np\nfrom numpy.lib.stride_tricks import as_strided\n" + text
    guilty.begin(result_of, {"cpu_seconds": 5})
    with contextlib.suppress(AssertionError):  # what it sent may be no frame
        guilty.follow()
    guilty.finish()
    guilty.expect(READY)
    afterwards = guilty.run("1 + 1")

    assert (afterwards.status, afterwards.value) == ("finished", 2)
    other.finish()
    other.expect(READY)
    assert other.run("2").value == 2
    assert worker.close() == 0
