"""Several processes on one file: kills in the middle of writes, and races for one execution.

The worker processes are forked from one that has everything loaded, so that two hundred kills take seconds.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolfold

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(toolfold.__file__).parents[1]), os.getcwd()])}

KILLS = """
import asyncio, json, os, random, signal, sys, time
from tests.ledger.made_up import begun, given, made
from toolfold.ledger.sqlite import SqliteLedger

path, kills = sys.argv[1], int(sys.argv[2])
chance = random.Random(5)

async def write(name, acknowledge):
    ledger = SqliteLedger(path)
    ledger.begin(begun(name))
    number = 0
    while True:
        number += 1
        ledger.note(name, made(number, padding="x" * (number % 7 * 300)))
        if number % 2:
            await ledger.flush(name)
        else:
            await ledger.park(name)
            await ledger.accept(name, [given(number, number)])
        acknowledge(number)

def worker(name, pipe):
    asyncio.run(write(name, lambda number: os.write(pipe, b"%d\\n" % number)))

async def entries_of(names):
    ledger = SqliteLedger(path)
    found = {name: await ledger.load(name) for name in names}
    await ledger.close()
    return found

acknowledged = {}
for kill in range(kills):
    name = f"e{kill}"
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            worker(name, theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    wanted = chance.randrange(1, 30)
    seen = b""
    while seen.count(b"\\n") < wanted:
        more = os.read(ours, 4096)
        assert more, "the worker ended by itself"
        seen += more
    # Somewhere in the next few writes, not always at the same step of one.
    time.sleep(chance.random() * 0.002)
    os.kill(pid, signal.SIGKILL)
    while more := os.read(ours, 4096):
        seen += more
    os.close(ours)
    os.waitpid(pid, 0)
    acknowledged[name] = seen.count(b"\\n")

lost = []
for name, history in asyncio.run(entries_of(acknowledged)).items():
    made_ids = [entry.call.id for entry in history.entries if hasattr(entry, "call")]
    given_ids = [entry.reply.call_id for entry in history.entries if hasattr(entry, "reply")]
    count = acknowledged[name]
    if made_ids[:count] != list(range(1, count + 1)) or given_ids[: count // 2] != list(range(2, count + 1, 2)):
        lost.append([name, count, made_ids, given_ids])
print(json.dumps({"kills": len(acknowledged), "writes": sum(acknowledged.values()), "lost": lost}))
"""

RACE = """
import asyncio, json, os, sys
from tests.ledger.made_up import begun, given, made
from toolfold.ledger.record import Fenced
from toolfold.ledger.sqlite import SqliteLedger

path, racers, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

async def race():
    ledger = SqliteLedger(path)
    epochs, accepted, fenced = [], [], 0
    for _ in range(rounds):
        epoch = await ledger.takeover("a")
        epochs.append(epoch)
        await asyncio.sleep(0)
        try:
            await ledger.accept("a", [given(epoch, os.getpid())], epoch=epoch)
            accepted.append(epoch)
        except Fenced:
            fenced += 1
    await ledger.close()
    return epochs, accepted, fenced

async def prepare():
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    await ledger.park("a")
    await ledger.close()

async def verdict():
    ledger = SqliteLedger(path)
    history = await ledger.load("a")
    await ledger.close()
    return [entry.reply.call_id for entry in history.entries], history.epoch

asyncio.run(prepare())
pipes = []
for _ in range(racers):
    ours, theirs = os.pipe()
    if not os.fork():
        try:
            os.write(theirs, json.dumps(asyncio.run(race())).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    pipes.append(ours)
reports = [json.loads(os.fdopen(pipe).read()) for pipe in pipes]
for _ in pipes:
    os.wait()
written, epoch = asyncio.run(verdict())
print(json.dumps({
    "epochs": sorted(one for report in reports for one in report[0]),
    "accepted": sorted(one for report in reports for one in report[1]),
    "fenced": sum(report[2] for report in reports),
    "written": written,
    "epoch": epoch,
}))
"""

OPENERS = """
import asyncio, os, sys
from tests.ledger.made_up import begun, outcome
from toolfold.ledger.sqlite import SqliteLedger

async def one(name):
    ledger = SqliteLedger(sys.argv[1])
    ledger.begin(begun(name))
    await ledger.finish(name, outcome(name))
    await ledger.close()

children = []
for number in range(8):
    pid = os.fork()
    if not pid:
        try:
            asyncio.run(one(f"e{number}"))
            os._exit(0)
        finally:
            os._exit(1)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children])
"""

FORGETS_TO_CLOSE = """
import asyncio, sys
from tests.ledger.made_up import begun, made
from toolfold.ledger.sqlite import SqliteLedger

async def main():
    ledger = SqliteLedger(sys.argv[1])
    ledger.begin(begun("a"))
    ledger.note("a", made(1))

asyncio.run(main())
"""


def drive(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, env=ENVIRONMENT, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.long
def test_two_hundred_kills_in_the_middle_of_writes_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    report = json.loads(drive(KILLS, str(tmp_path / "ledger.sqlite"), "200"))

    assert (report["kills"], report["lost"]) == (200, [])
    assert report["writes"] >= 200


@pytest.mark.long
def test_processes_that_race_for_one_execution_get_an_epoch_each_and_only_the_last_one_writes(tmp_path: Path) -> None:
    report = json.loads(drive(RACE, str(tmp_path / "ledger.sqlite"), "2", "40"))

    assert report["epochs"] == list(range(1, 81))
    assert report["epoch"] == 80
    assert report["written"] == report["accepted"]
    assert len(report["accepted"]) + report["fenced"] == 80


@pytest.mark.long
def test_processes_that_make_the_same_file_at_once_all_get_it(tmp_path: Path) -> None:
    assert drive(OPENERS, str(tmp_path / "ledger.sqlite")) == "[0, 0, 0, 0, 0, 0, 0, 0]\n"


async def test_a_process_that_ends_without_closing_still_writes_what_it_gathered(tmp_path: Path) -> None:
    from tests.ledger.made_up import made
    from toolfold.ledger.sqlite import SqliteLedger

    drive(FORGETS_TO_CLOSE, str(tmp_path / "ledger.sqlite"))

    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    history = await ledger.load("a")
    await ledger.close()
    assert history is not None
    assert history.entries == (made(1),)
