"""Several processes on one ledger: writers that are killed in the middle, and racers for one execution.

    python -m tests.ledger.several kills URL COUNT
    python -m tests.ledger.several race URL ROUNDS

`URL` is `redis://...` or the path of a SQLite file. Writers are forked from a process that has everything
loaded, so that two hundred kills take seconds.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import toolfold
from tests.ledger.made_up import begun, given, made
from toolfold.errors import Fenced
from toolfold.ledger.base import CallEntry, ExecutionHistory, ReplyEntry
from toolfold.ledger.redis.store import RedisLedger
from toolfold.ledger.sqlite.store import SqliteLedger

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(toolfold.__file__).parents[1]), os.getcwd()])}


def start(*arguments: str) -> subprocess.Popen[str]:
    """One such process."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True,
    )  # fmt: skip


def said(*processes: subprocess.Popen[str]) -> list[str]:
    """What they printed, once all have ended well."""
    heard = [process.communicate() for process in processes]
    ends = [(process.returncode, error) for process, (_, error) in zip(processes, heard, strict=True)]
    assert ends == [(0, "")] * len(processes)
    return [output for output, _ in heard]


def kills(url: str, count: int) -> dict[str, Any]:
    """Kill that many writers; what they had acknowledged and is not there."""
    (output,) = said(start("-m", __name__, "kills", url, str(count)))
    report: dict[str, Any] = json.loads(output)
    return report


def races(url: str, *, racers: int, rounds: int) -> list[list[Any]]:
    """Each racer's epochs, those in which it could write, and how often it could not."""
    processes = [start("-m", __name__, "race", url, str(rounds)) for _ in range(racers)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    # All are at the line; without this, one is often done before the other has begun.
    for process in processes:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it ended, and `said` tells why
            process.stdin.write("go\n")
            process.stdin.flush()
    return [json.loads(output) for output in said(*processes)]


def _ledger(url: str) -> RedisLedger | SqliteLedger:
    return RedisLedger(url) if url.startswith("redis:") else SqliteLedger(Path(url))


async def _write(url: str, name: str, acknowledge: Callable[[int], object]) -> None:
    ledger = _ledger(url)
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


def _kill_one(url: str, name: str, chance: random.Random) -> int:
    """How many writes it acknowledged before it was killed."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            asyncio.run(_write(url, name, lambda number: os.write(theirs, b"%d\n" % number)))
        finally:
            os._exit(1)
    os.close(theirs)
    wanted = chance.randrange(1, 30)
    seen = b""
    while seen.count(b"\n") < wanted:
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
    return seen.count(b"\n")


def _is_whole(history: ExecutionHistory | None, count: int) -> bool:
    assert history is not None
    made_ids = [entry.call.id for entry in history.entries if isinstance(entry, CallEntry)]
    given_ids = [entry.reply.call_id for entry in history.entries if isinstance(entry, ReplyEntry)]
    in_order = list(range(1, len(made_ids) + 1)), list(range(2, 2 * len(given_ids) + 1, 2))
    return len(made_ids) >= count and len(given_ids) >= count // 2 and (made_ids, given_ids) == in_order


async def _lost(url: str, acknowledged: dict[str, int]) -> list[str]:
    ledger = _ledger(url)
    lost = [name for name, count in acknowledged.items() if not _is_whole(await ledger.load(name), count)]
    await ledger.close()
    return lost


async def _race(url: str, rounds: int) -> list[Any]:
    ledger = _ledger(url)
    await ledger.load("a")
    print("ready", flush=True)
    sys.stdin.readline()
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
    return [epochs, accepted, fenced]


def main(what: str, url: str, count: int) -> None:
    if what == "race":
        print(json.dumps(asyncio.run(_race(url, count))))
        return
    chance = random.Random(5)
    acknowledged = {f"e{kill}": _kill_one(url, f"e{kill}", chance) for kill in range(count)}
    lost = asyncio.run(_lost(url, acknowledged))
    print(json.dumps({"kills": count, "writes": sum(acknowledged.values()), "lost": lost}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
