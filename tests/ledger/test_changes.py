"""What followers of a SQLite ledger are told: from several processes, and by clocks that go wrong."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.ledger.made_up import begun, made, outcome
from tests.ledger.several import said, start
from toolfold.ledger.base import LedgerChange
from toolfold.ledger.sqlite.store import SqliteLedger

WRITER = """
import asyncio, sys
from tests.ledger.made_up import begun, made, outcome
from toolfold.ledger.sqlite.store import SqliteLedger

async def main(path, name):
    ledger = SqliteLedger(path)
    for number in range(60):
        ledger.begin(begun(f"{name}{number}"))
        for call in (1, 2):
            ledger.note(f"{name}{number}", made(call))
            await ledger.flush(f"{name}{number}")
        await ledger.finish(f"{name}{number}", outcome(f"{name}{number}"), wait=True)
    await ledger.close()

asyncio.run(main(*sys.argv[1:]))
"""


class Clock:
    """Tells the time since it was set, and goes on a little each time it is read."""

    def __init__(self, *, step: float, resolution: float) -> None:
        self.seconds = 2_000_000_000.0
        self.passed = 0.0
        self._step = step
        self._resolution = resolution

    def monotonic(self) -> float:
        self.passed += self._step
        return self.passed

    def time(self) -> float:
        return self.seconds + self.monotonic()

    def get_clock_info(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(resolution=self._resolution)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made_up = Clock(step=5e-7, resolution=1e-9)
    monkeypatch.setattr("toolfold.ledger.sqlite.tables.time", made_up)
    return made_up


@pytest.fixture
def coarse_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands still for as long as a test takes."""
    monkeypatch.setattr("toolfold.ledger.sqlite.tables.time", Clock(step=0.0, resolution=0.015))


@pytest.fixture
async def ledgers(tmp_path: Path) -> AsyncIterator[tuple[SqliteLedger, SqliteLedger]]:
    """Two on one file, with connections of their own, as two processes have."""
    both = SqliteLedger(tmp_path / "ledger.sqlite"), SqliteLedger(tmp_path / "ledger.sqlite")
    yield both
    for one in both:
        await one.close()


async def write(ledger: SqliteLedger, name: str) -> None:
    ledger.begin(begun(name))
    await ledger.flush(name)


async def told(changes: AsyncIterator[LedgerChange], count: int) -> list[str]:
    return [(await anext(changes)).execution_id for _ in range(count)]


async def test_nothing_is_written_for_followers(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.flush("a")
    await ledger.finish("a", outcome("a"), wait=True)
    await ledger.close()

    with closing(sqlite3.connect(path)) as reader:
        tables = [name for (name,) in reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: reader.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    assert {name: count for name, count in counts.items() if count} == {
        "executions": 1, "grants": 1, "pieces": 3, "sqlite_sequence": 1, "facts": 1,  # the last one is the clock
    }  # fmt: skip


@pytest.mark.long
async def test_of_what_two_processes_write_the_last_word_on_each_execution_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.sqlite")
    ledger = SqliteLedger(path)
    writers = [start("-c", WRITER, path, name) for name in "ab"]
    cursors: list[float] = []
    async with asyncio.timeout(100):  # what was not told is waited for in vain
        await anext(ledger.follow("0"))  # they are at work
        following = ledger.follow()
        assert (await anext(following)).execution_id == ""
        ended = {one.execution_id for one in await ledger.list(limit=200) if one.state == "ended"}
        while len(ended) < 120:
            change = await anext(following)
            cursors.append(float(change.cursor))
            story = await ledger.story(change.execution_id)
            if story is not None and story.state == "ended":
                ended.add(change.execution_id)
    await asyncio.to_thread(said, *writers)
    await ledger.close()

    assert ended == {f"{name}{number}" for name in "ab" for number in range(60)}
    assert cursors == sorted(set(cursors))


@pytest.mark.usefixtures("coarse_clock")
async def test_writes_of_one_moment_are_told_in_the_order_of_their_commits(
    ledgers: tuple[SqliteLedger, SqliteLedger],
) -> None:
    one, other = ledgers
    following = one.follow("0")
    for name in "abcd":
        await write(one if name in "ac" else other, name)
    first = await told(following, 4)
    one.note("a", made(1))
    await one.flush("a")

    assert (first, await told(following, 1)) == (["a", "b", "c", "d"], ["a"])


@pytest.mark.parametrize("back_seconds", [0.001, 60.0, 3000.0])
async def test_a_clock_that_is_set_back_hides_no_change(
    clock: Clock, ledgers: tuple[SqliteLedger, SqliteLedger], back_seconds: float
) -> None:
    one, other = ledgers
    for name in "abcd":
        await write(one if name in "ac" else other, name)
    following = one.follow("0")
    before = await told(following, 4)
    clock.seconds -= back_seconds
    after = []
    for name in "efghi":
        await write(one if name in "egh" else other, name)
        after += await told(following, 1)

    assert (before, after) == (["a", "b", "c", "d"], ["e", "f", "g", "h", "i"])


async def test_a_clock_that_is_set_forward_and_back_hides_no_change_of_who_did_not_see_it(
    clock: Clock, ledgers: tuple[SqliteLedger, SqliteLedger]
) -> None:
    one, other = ledgers
    following = one.follow("0")
    await write(one, "a")
    clock.seconds += 600
    await write(other, "b")
    before = await told(following, 2)
    clock.seconds -= 600
    clock.passed += 2
    await write(one, "c")

    assert (before, await told(following, 1)) == (["a", "b"], ["c"])


async def test_after_a_clock_that_was_far_ahead_followers_read_anew_and_miss_nothing(
    clock: Clock, ledgers: tuple[SqliteLedger, SqliteLedger], tmp_path: Path
) -> None:
    one, other = ledgers
    right = clock.seconds
    clock.seconds = right + 10 * 86_400
    await write(one, "a")
    following = one.follow("0")
    before = await told(following, 1)
    clock.seconds = right
    await write(other, "b")
    anew = await told(following, 1)
    for ledger, name in ((other, "c"), (one, "d")):
        await write(ledger, name)

    assert (before, anew, await told(following, 2)) == (["a"], [""], ["c", "d"])
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as reader:
        latest = reader.execute("SELECT max(touched_at) FROM executions WHERE id != 'a'").fetchone()[0]
    assert latest < right + 1  # else nothing that comes now would be forgotten for ten days more


async def test_a_clock_that_is_set_back_hides_no_change_where_the_last_execution_was_deleted(
    clock: Clock, ledgers: tuple[SqliteLedger, SqliteLedger]
) -> None:
    one, other = ledgers
    await write(one, "a")
    following = one.follow("0")
    before = await told(following, 1)
    await one.delete("a")
    clock.seconds -= 60
    await write(other, "b")
    anew = await told(following, 1)
    await write(other, "c")

    assert (before, anew, await told(following, 1)) == (["a"], [""], ["c"])


async def test_the_first_decision_on_a_call_is_told(ledgers: tuple[SqliteLedger, SqliteLedger]) -> None:
    one, other = ledgers
    await write(one, "a")
    following = one.follow("0")
    begin = await told(following, 1)
    decided = [await other.decide("a", 0, 1, body) for body in (b"yes", b"no")]
    then = await told(following, 1)
    await write(one, "b")

    assert (decided, [*begin, *then, *await told(following, 1)]) == ([True, False], ["a", "a", "b"])
