"""Several processes on one file: kills in the middle of writes, and races for one execution."""

from pathlib import Path

import pytest

from tests.ledger.made_up import begun, made
from tests.ledger.several import kills, races, said, start
from toolfold.ledger.sqlite.store import SqliteLedger

OPENERS = """
import asyncio, os, sys
from tests.ledger.made_up import begun, outcome
from toolfold.ledger.sqlite.store import SqliteLedger

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
from toolfold.ledger.sqlite.store import SqliteLedger

async def main():
    ledger = SqliteLedger(sys.argv[1])
    ledger.begin(begun("a"))
    ledger.note("a", made(1))

asyncio.run(main())
"""


@pytest.mark.long
def test_two_hundred_kills_in_the_middle_of_writes_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    report = kills(str(tmp_path / "ledger.sqlite"), 200)

    assert (report["kills"], report["lost"]) == (200, [])
    assert report["writes"] >= 200


@pytest.mark.long
async def test_processes_that_race_for_one_execution_get_an_epoch_each_and_only_the_last_one_writes(
    tmp_path: Path,
) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    ledger.begin(begun("a"))
    await ledger.park("a")

    found = races(str(tmp_path / "ledger.sqlite"), racers=2, rounds=40)

    history = await ledger.load("a")
    await ledger.close()
    assert history is not None
    accepted = sorted(epoch for one in found for epoch in one[1])
    assert sorted(epoch for one in found for epoch in one[0]) == list(range(1, 81))
    assert len(accepted) + sum(one[2] for one in found) == 80
    assert ([entry.reply.call_id for entry in history.entries], history.epoch) == (accepted, 80)


@pytest.mark.long
def test_processes_that_make_the_same_file_at_once_all_get_it(tmp_path: Path) -> None:
    (output,) = said(start("-c", OPENERS, str(tmp_path / "ledger.sqlite")))

    assert output == "[0, 0, 0, 0, 0, 0, 0, 0]\n"


async def test_a_process_that_ends_without_closing_still_writes_what_it_gathered(tmp_path: Path) -> None:
    said(start("-c", FORGETS_TO_CLOSE, str(tmp_path / "ledger.sqlite")))

    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    history = await ledger.load("a")
    await ledger.close()
    assert history is not None
    assert history.entries == (made(1),)
