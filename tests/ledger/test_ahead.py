"""What is safe before it is in the tables of a SQLite ledger: kills, forks, takeovers, and files that are damaged."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.ledger.made_up import begun, given, made, outcome
from tests.ledger.several import said, start
from tests.ledger.test_sqlite import full_disk
from toolfold.errors import Fenced
from toolfold.ledger.base import ExecutionHistory
from toolfold.ledger.sqlite.change_key import rekey
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.ledger.sqlite.write_ahead_log import MAX_BYTES, START

KEY = b"k" * 32
WRITER = """
import asyncio, os, signal, sys, time
from tests.ledger.made_up import begun, given, made
from toolfold.ledger.sqlite.store import SqliteLedger

async def main(path, key):
    ledger = SqliteLedger(path, key=key.encode() or None)
    ledger.begin(begun("a"))
    {body}
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(*sys.argv[1:]))
"""
SECURES = 'ledger.note("a", given(7)); assert ledger.secure("a", made(1, where="here")) is None'
NOTES = 'ledger.note("a", given(7), made(1, where="here"))'
SECURED = ExecutionHistory(start_record=begun("a"), entries=(given(7), made(1, where="here")), state="running", epoch=0)


@pytest.fixture(name="path")
def given_path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def killed(body: str, path: Path, key: str = "") -> None:
    """A process that did this and was killed at once."""
    process = start("-c", WRITER.format(body=body), str(path), key)
    assert (*process.communicate(), process.returncode) == ("", "", -signal.SIGKILL)


def files(path: Path) -> list[Path]:
    return sorted(path.with_name(f"{path.name}-ahead").glob("*"))


async def safe(waits: Awaitable[None] | None) -> None:
    if waits is not None:
        await waits


async def read(path: Path, key: bytes | None = None) -> ExecutionHistory | None:
    ledger = SqliteLedger(path, key=key)
    history = await ledger.load("a")
    await ledger.close()
    return history


@pytest.mark.parametrize("key", [None, KEY], ids=["open", "sealed"])
async def test_what_was_secured_outlives_a_kill_and_is_brought_in_once(key: bytes | None, path: Path) -> None:
    killed(SECURES, path, (key or b"").decode())
    assert len(files(path)) == 1

    found = [await read(path, key), await read(path, key)]

    assert found == [SECURED, SECURED]
    assert not path.with_name(f"{path.name}-ahead").exists()


async def test_without_it_the_same_is_lost_with_the_process(path: Path) -> None:
    killed(NOTES, path)

    assert await read(path) is None


async def test_a_process_that_has_the_ledger_open_reads_what_a_killed_one_left(path: Path) -> None:
    ledger = SqliteLedger(path)
    killed(SECURES, path)

    found = await ledger.load("a")
    epoch = await ledger.takeover("a")
    await ledger.close()

    assert (found, epoch, files(path)) == (SECURED, 1, [])


async def test_what_was_deleted_does_not_come_back(path: Path) -> None:
    ledger = SqliteLedger(path)
    killed(SECURES, path)

    was_known = await ledger.delete("a")
    await ledger.close()

    assert (was_known, await read(path)) == (True, None)


@pytest.mark.long
async def test_random_kills_lose_nothing_that_was_secured_and_double_nothing(path: Path) -> None:
    chance = random.Random(3)
    body = """number = 0
    while True:
        number += 1
        waits = ledger.secure("a", made(number, padding="x" * (number % 7 * 300)))
        if waits is not None:
            await waits
        os.write(1, b"%d\\n" % number)
        ledger.note("a", given(number))
        await asyncio.sleep(0.0001 * (number % 3))
    """
    lost = []
    for kill in range(12):
        one = path.with_name(f"{kill}.sqlite")
        process = start("-c", WRITER.format(body=body), str(one), "")
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(chance.randrange(1, 400))]
        process.kill()
        seen += process.stdout.read().split()
        process.communicate()
        history = await read(one)
        assert history is not None
        ids = [entry.call.id for entry in history.entries if hasattr(entry, "call")]
        if ids != list(range(1, len(ids) + 1)) or len(ids) < int(seen[-1]):
            lost.append((kill, seen[-1], ids))

    assert lost == []


@pytest.mark.long
async def test_a_busy_process_keeps_its_file_small_and_loses_nothing(path: Path) -> None:
    body = """for number in range(1, 6001):
        waits = ledger.secure("a", made(number, padding="x" * 500))
        if waits is not None:
            await waits"""
    killed(body, path)
    (file,) = files(path)

    found = await read(path)

    assert found is not None
    assert [entry.call.id for entry in found.entries if hasattr(entry, "call")] == list(range(1, 6001))
    assert not file.exists()


async def test_the_file_never_grows_beyond_its_limit(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    for number in range(3000):
        await safe(ledger.secure("a", made(number, padding="x" * 500)))
    (file,) = files(path)
    size = file.stat().st_size
    mode = file.stat().st_mode & 0o777
    await ledger.close()

    assert (size <= START + MAX_BYTES, mode) == (True, 0o600)


async def test_who_takes_over_from_a_living_process_has_its_last_call_and_the_other_makes_no_more(path: Path) -> None:
    first, second = SqliteLedger(path), SqliteLedger(path)
    first.begin(begun("a"))
    await first.flush("a")
    assert first.secure("a", made(1)) is None

    epoch = await second.takeover("a")
    found = await second.load("a")
    with pytest.raises(Fenced):
        await safe(first.secure("a", made(2)))
    again = await second.load("a")
    await first.close()
    await second.close()

    assert (epoch, found) == (
        1,
        ExecutionHistory(start_record=begun("a"), entries=(made(1),), state="running", epoch=1),
    )
    assert again == found


async def test_a_process_that_was_taken_over_makes_not_even_its_first_call(path: Path) -> None:
    first, second = SqliteLedger(path), SqliteLedger(path)
    first.begin(begun("a"))
    await first.flush("a")

    epoch = await second.takeover("a")
    with pytest.raises(Fenced):
        await safe(first.secure("a", made(1)))
    found = await second.load("a")
    await first.close()
    await second.close()

    assert (epoch, found) == (1, ExecutionHistory(start_record=begun("a"), state="running", epoch=1))


@pytest.mark.parametrize("is_late", [False, True], ids=["usual", "without a file at its start"])
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "COMMIT"])
async def test_a_call_in_the_middle_of_a_takeover_is_taken_over_or_never_made(
    statement: str, *, is_late: bool, path: Path
) -> None:
    first, second = SqliteLedger(path), SqliteLedger(path)
    if is_late:
        with full_disk():  # its file can be made only with its first call
            first.begin(begun("a"))
    else:
        first.begin(begun("a"))
    await first.flush("a")
    loop = asyncio.get_running_loop()
    calls: list[asyncio.Future[None]] = []

    async def call() -> None:
        calls.append(asyncio.ensure_future(safe(first.secure("a", made(1)))))
        if statement == "BEGIN IMMEDIATE":  # nobody has SQLite's lock, so the owner comes first
            await asyncio.wait(calls)

    on_statement(second, statement, lambda: asyncio.run_coroutine_threadsafe(call(), loop).result())
    epoch = await second.takeover("a")
    (error,) = await asyncio.gather(*calls, return_exceptions=True)
    with pytest.raises(Fenced):
        await safe(first.secure("a", made(2)))
    found = await second.load("a")
    await first.close()
    await second.close()

    is_made = error is None
    assert (is_made, isinstance(error, Fenced)) == ((True, False) if statement == "BEGIN IMMEDIATE" else (False, True))
    assert (epoch, found) == (
        1, ExecutionHistory(start_record=begun("a"), entries=(made(1),) if is_made else (), state="running", epoch=1)
    )  # fmt: skip


def on_statement(ledger: SqliteLedger, statement: str, act: Callable[[], None]) -> None:
    """Act once, in the ledger's thread, right before its next statement of this text is executed."""
    connection = ledger._writer._db  # the only way between two statements

    def trace(text: str) -> None:
        if text == statement:
            connection.set_trace_callback(None)
            act()

    connection.set_trace_callback(trace)


async def test_an_execution_whose_file_came_late_is_written_ahead_after_one_commit(path: Path) -> None:
    ledger = SqliteLedger(path)
    with full_disk():
        ledger.begin(begun("a"))
    await ledger.flush("a")

    waits = [ledger.secure("a", made(1))]
    await safe(waits[0])
    waits.append(ledger.secure("a", made(2)))
    found = await ledger.load("a")
    await ledger.close()

    assert (waits[0] is None, waits[1]) == (False, None)
    assert found == ExecutionHistory(start_record=begun("a"), entries=(made(1), made(2)), state="running", epoch=0)


async def test_an_execution_that_begins_after_a_takeover_elsewhere_is_written_ahead_again(path: Path) -> None:
    first, second = SqliteLedger(path), SqliteLedger(path)
    first.begin(begun("a"))
    await first.flush("a")
    assert first.secure("a", made(1)) is None
    await second.takeover("a")
    first.begin(begun("b"))
    waits = [first.secure("b", made(1))]  # its first look at the mark
    await safe(waits[0])

    first.begin(begun("c"))
    waits.append(first.secure("c", made(1)))
    await first.close()
    await second.close()

    assert (waits[0] is None, waits[1]) == (False, None)


async def test_who_only_reads_sees_the_calls_of_a_living_process_and_leaves_them_to_it(path: Path) -> None:
    first, second = SqliteLedger(path), SqliteLedger(path)
    first.begin(begun("a"))
    await first.flush("a")
    assert first.secure("a", made(1)) is None

    found = await second.load("a")
    assert first.secure("a", made(2)) is None
    await first.finish("a", outcome("a"), wait=True)
    ended = await second.load("a")
    await first.close()
    await second.close()

    assert found == ExecutionHistory(start_record=begun("a"), entries=(made(1),), state="running", epoch=0)
    assert ended is not None
    assert (ended.state, ended.entries) == ("ended", (made(1), made(2)))


async def test_large_entries_wait_for_their_commit(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    assert ledger.secure("a", made(1)) is None
    ledger.note("a", given(1, "x" * 100_000))

    waits = ledger.secure("a", made(2))
    await safe(waits)
    is_small_again = ledger.secure("a", made(3)) is None
    found = await ledger.load("a")
    await ledger.close()

    assert (waits is None, is_small_again) == (False, True)
    assert found is not None
    assert found.entries == (made(1), given(1, "x" * 100_000), made(2), made(3))


async def test_a_child_that_was_forked_holds_nothing_of_its_parent(path: Path) -> None:
    # Said by the child, which has let go by then.
    script = f"{SECURES}\n    if not os.fork():\n        os.write(1, b'%d\\n' % os.getpid())\n        time.sleep(600)"
    process = start("-c", WRITER.format(body=script), str(path), "")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.wait()

    found = await read(path)
    os.kill(child, signal.SIGKILL)
    process.communicate()

    assert found == SECURED


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
async def test_a_damaged_file_costs_what_is_behind_the_damage_and_no_more(damage: str, path: Path) -> None:
    killed(f'{SECURES}; assert ledger.secure("a", made(2, where="there")) is None', path)
    (file,) = files(path)
    content = bytearray(file.read_bytes())
    place = content.index(b"there")
    if damage == "changed":
        content[place] ^= 1
    file.write_bytes({"cut": content[:place], "changed": content, "empty": b""}[damage])

    found = await read(path)

    assert (found, files(path)) == (None if damage == "empty" else SECURED, [])


async def test_a_file_of_another_version_is_left_to_that_one(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    killed(SECURES, path)
    (file,) = files(path)
    file.write_bytes(file.read_bytes().replace(b"toolfold ahead 1", b"toolfold ahead 2"))

    found = await read(path)

    assert (found, files(path)) == (None, [file])
    assert {record.message for record in caplog.records} == {
        f"the file {file.name!r} beside the ledger is from another version of toolfold; open it with that version"
    }


async def test_the_file_of_a_sealed_ledger_tells_nothing(path: Path) -> None:
    killed(SECURES, path, KEY.decode())
    (file,) = files(path)

    assert b"where" not in file.read_bytes()


async def test_a_new_key_is_for_what_a_killed_process_left_too(path: Path) -> None:
    await SqliteLedger(path, key=KEY).close()
    killed(SECURES, path, KEY.decode())

    rekey(path, KEY, b"n" * 32)

    assert (await read(path, b"n" * 32), files(path)) == (SECURED, [])


def test_processes_that_bring_in_the_same_file_do_it_once(path: Path) -> None:
    killed(SECURES, path)
    script = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {os.getcwd()!r})
from tests.ledger.test_ahead import read
print(len((asyncio.run(read(Path(sys.argv[1])))).entries))
"""

    heard = said(*(start("-c", script, str(path)) for _ in range(4)))

    assert heard == ["2\n"] * 4
