import asyncio
import logging
import os
import resource
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.made_up import begun, given, made, outcome
from toolfold import UsageError
from toolfold.errors import LedgerFailed
from toolfold.ledger.base import ExecutionFilter, ExecutionHistory, Retention
from toolfold.ledger.encryption import NoSeal
from toolfold.ledger.sqlite.listing import SqliteListing
from toolfold.ledger.sqlite.schema import FORMAT
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import ToolSpec


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UsageError) as caught:
        SqliteLedger(path, **options)
    return str(caught.value)


def rows(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """What another reader of the file sees."""
    with closing(sqlite3.connect(path)) as reader:
        return reader.execute(statement, values).fetchall()


async def test_a_new_process_reads_what_the_last_one_wrote(path: Path) -> None:
    first = SqliteLedger(path)
    first.begin(begun("a"))
    first.note("a", made(1))
    await first.park("a")
    await first.close()

    second = SqliteLedger(path)
    history = await second.load("a")
    epoch = await second.takeover("a")
    await second.accept("a", [given(1, "yes")], epoch=epoch)
    await second.finish("a", outcome("a"), epoch=epoch)
    ended = await second.load("a")
    await second.close()

    assert history is not None
    assert ended is not None
    assert (history.state, history.entries, epoch) == ("paused", (made(1),), 1)
    assert (ended.state, ended.entries) == ("ended", (made(1), given(1, "yes")))


async def test_two_ledgers_on_one_file_see_each_others_writes(path: Path) -> None:
    one, other = SqliteLedger(path), SqliteLedger(path)
    one.begin(begun("a"))
    await one.flush("a")

    found = await other.load("a")
    await one.close()
    await other.close()

    assert found is not None
    assert found.start_record == begun("a")


async def test_the_files_are_for_their_user_only(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    await ledger.flush("a")

    modes = {file.name: stat.filemode(file.stat().st_mode) for file in path.parent.iterdir()}
    await ledger.close()

    files = dict.fromkeys(["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"], "-rw-------")
    assert modes == {**files, "ledger.sqlite-ahead": "drwx------"}


async def test_executions_with_the_same_grant_store_it_once(path: Path) -> None:
    tools = tuple(ToolSpec(name=f"t{n}", python_name=f"t{n}", description="x" * 100) for n in range(50))
    ledger = SqliteLedger(path)
    for number in range(5):
        ledger.begin(begun(f"same{number}", tools=tools))
        ledger.begin(begun(f"equal{number}", tools=tuple(tools)))
        ledger.begin(begun(f"other{number}", tools=tools[:1]))
    await ledger.flush("other4")

    ((grants,),) = rows(path, "SELECT count(*) FROM grants")
    history = await ledger.load("equal3")
    await ledger.sweep(Retention(open_age_seconds=0.0))
    ((left,),) = rows(path, "SELECT count(*) FROM grants")
    ledger.begin(begun("again", tools=tools))
    again = await ledger.load("again")
    await ledger.close()

    assert (grants, left) == (2, 0)
    assert history is not None
    assert again is not None
    assert (history.start_record.tools, again.start_record.tools) == (tools, tools)


async def test_many_waiters_share_one_commit(path: Path) -> None:
    ledger = SqliteLedger(path)
    for number in range(100):
        ledger.begin(begun(f"e{number}"))
    await ledger.flush("e0")
    seen: list[str] = []
    ledger._writer._db.set_trace_callback(seen.append)

    for number in range(100):
        ledger.note(f"e{number}", made(1))
    await asyncio.gather(*(ledger.park(f"e{number}") for number in range(100)))

    ledger._writer._db.set_trace_callback(None)
    await ledger.close()
    assert seen.count("COMMIT") <= 3


@pytest.mark.long
async def test_a_thread_that_fell_asleep_wakes_for_the_next_write(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    await ledger.flush("a")
    while ledger._writer._is_at_work:
        await asyncio.sleep(0.05)

    ledger.note("a", made(1))
    while not rows(path, "SELECT 1 FROM executions WHERE calls = 1"):
        await asyncio.sleep(0.02)
    await ledger.park("a")

    history = await ledger.load("a")
    await ledger.close()
    assert history is not None
    assert (history.state, history.entries) == ("paused", (made(1),))


async def test_retention_is_kept_without_being_asked_for(path: Path) -> None:
    ledger = SqliteLedger(path, keep=Retention(executions=20))
    for number in range(200):
        ledger.begin(begun(f"e{number}", began_at=float(number)))
        await ledger.finish(f"e{number}", outcome(f"e{number}"))
        if number % 10 == 0:
            await ledger.list(limit=1)
    await ledger.flush("e199")
    await ledger.flush("e199")

    left = await ledger.list(limit=1000)
    await ledger.close()

    assert len(left) <= 40
    assert left[0].execution_id == "e199"


async def test_space_of_forgotten_executions_goes_back_to_the_disk(path: Path) -> None:
    ledger = SqliteLedger(path)
    for number in range(20):
        ledger.begin(begun(f"e{number}"))
        ledger.note(f"e{number}", made(1), given(1, os.urandom(100_000)))
        await ledger.finish(f"e{number}", outcome(f"e{number}"))
    await ledger.close()
    before = path.stat().st_size

    ledger = SqliteLedger(path, keep=Retention(age_seconds=0.0))
    ledger.begin(begun("new"))
    await ledger.flush("new")
    await ledger.close()

    assert before > 2_000_000
    assert path.stat().st_size < 200_000


async def test_a_store_that_fails_is_said_to_whoever_waits_and_in_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    await ledger.flush("a")
    with sqlite3.connect(path) as vandal:
        vandal.execute("DROP TABLE pieces")
    vandal.close()

    ledger.note("a", made(1))
    with caplog.at_level(logging.ERROR, "toolfold.ledger"), pytest.raises(LedgerFailed) as caught:
        await ledger.park("a")
    ledger.note("a", made(2))
    with pytest.raises(LedgerFailed):
        await ledger.flush("a")
    # The outcome is the caller's whatever becomes of the record.
    await ledger.finish("a", outcome("a"))
    await ledger.close()

    text = "the ledger cannot be written: no such table: pieces; check its disk and its folder"
    assert str(caught.value) == text
    assert caplog.messages[0] == f"{text}; 1 writes are pending"


@pytest.mark.parametrize("change", ["UPDATE pieces SET body = x'0199' WHERE piece = 1", "DELETE FROM pieces"])
async def test_a_record_that_was_tampered_with_is_one_clear_line(change: str, path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.flush("a")
    with sqlite3.connect(path) as vandal:
        vandal.execute(change)
    vandal.close()

    with pytest.raises(LedgerFailed) as caught:
        await ledger.load("a")
    await ledger.close()

    assert str(caught.value).startswith("the ledger cannot be read: ")


async def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = SqliteLedger(path)
    await ledger.close()

    with pytest.raises(LedgerFailed) as writing:
        ledger.begin(begun("a"))
    with pytest.raises(LedgerFailed) as reading:
        await ledger.load("a")

    assert str(writing.value) == str(reading.value) == "the ledger is closed; open it again"


def test_one_ledger_serves_several_event_loops_one_after_another(path: Path) -> None:
    ledger = SqliteLedger(path)

    async def begin(name: str) -> None:
        ledger.begin(begun(name))
        await ledger.park(name)

    asyncio.run(begin("a"))
    asyncio.run(begin("b"))

    assert asyncio.run(ledger.find("", limit=9)) == ["a", "b"]
    asyncio.run(ledger.close())


async def test_a_round_writes_its_pieces_its_row_and_one_index(path: Path) -> None:
    ledger = SqliteLedger(path)
    wal = path.with_name("ledger.sqlite-wal")
    header, frame = 32, 24 + 4096
    ledger.begin(begun("a"))
    await ledger.park("a")

    pages = []
    for call in (1, 3):  # the first round may fill a page
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        await ledger.accept("a", [given(call, "yes")])
        ledger.note("a", made(call + 1))
        await ledger.park("a")
        pages.append((wal.stat().st_size - header) // frame)
    await ledger.close()

    # In each of its two commits: the piece and its key, the row, and the order in which rows were written.
    assert pages[1] == 2 * 4


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT id FROM executions WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", ("a", "b", 2)),
        ("SELECT piece, body FROM pieces WHERE execution = ? ORDER BY piece", (1,)),
    ],
    ids=["find", "show"],
)
async def test_a_command_reads_only_what_it_shows_however_long_the_ledger(
    statement: str, values: tuple[object, ...], path: Path
) -> None:
    await SqliteLedger(path).close()

    plan = [row[3] for row in rows(path, f"EXPLAIN QUERY PLAN {statement}", *values)]

    assert (len(plan), plan[0].split()[0]) == (1, "SEARCH")


@pytest.mark.parametrize(
    "wanted",
    [
        ExecutionFilter(),
        ExecutionFilter(until=9e9),
        ExecutionFilter(tenant="t", until=9e9),
        ExecutionFilter(state="running"),
        ExecutionFilter(state="ended"),
        ExecutionFilter(status="failed"),
        ExecutionFilter(interface="mcp"),
        ExecutionFilter(session="s"),
        ExecutionFilter(tool="price"),
        ExecutionFilter(since=1.0),
        ExecutionFilter(text="acme"),
        ExecutionFilter(text="acme", interface="mcp"),
    ],
    ids=repr,
)
async def test_a_listing_is_read_in_its_order_and_never_sorted(wanted: ExecutionFilter, path: Path) -> None:
    await SqliteLedger(path).close()
    with closing(sqlite3.connect(path)) as connection:
        statement, values = SqliteListing(connection, NoSeal()).statement(wanted, "a")

    plan = [row[3] for row in rows(path, f"EXPLAIN QUERY PLAN {statement}", *values, 50)]

    # The right part of the order: only those are sorted that began in the same moment.
    assert [step for step in plan if "TEMP B-TREE FOR ORDER" in step or ("SCAN" in step and "INDEX" not in step)] == []


def test_a_file_that_is_no_database_is_one_clear_line(path: Path) -> None:
    path.write_text("hello, this is a text file and not a database" * 50)

    assert refusal(path) == (
        f"ledger {str(path)!r} cannot be used: it is damaged or no ledger (file is not a database); "
        "move it away to begin a new one"
    )


async def test_a_damaged_file_is_one_clear_line(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    await ledger.flush("a")
    await ledger.close()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 20_000)

    assert refusal(path).startswith(f"ledger {str(path)!r} cannot be used: it is damaged or no ledger (")


def test_a_database_of_someone_else_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE people (name TEXT)")
    other.close()
    before = path.read_bytes()

    said = refusal(path)

    assert said == f"{str(path)!r} is a database, but no ledger of toolfold's; name another file"
    assert path.read_bytes() == before


async def test_a_file_of_a_newer_toolfold_is_left_alone(path: Path) -> None:
    await SqliteLedger(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {FORMAT + 1}")
    newer.close()

    assert refusal(path) == (
        f"ledger {str(path)!r} was made by a newer toolfold (format {FORMAT + 1}, this one reads {FORMAT}); "
        "update toolfold, or name another file"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing/ledger.sqlite", "no folder {parent!r} for the ledger; make it, or name another"),
        ("file/ledger.sqlite", "ledger {path!r} cannot be opened: not a directory; name another file, or 'memory'"),
        ("", "ledger {path!r} cannot be opened: is a directory; name another file, or 'memory'"),
        ("nul\0", "ledger {path!r} cannot be opened: its path has a null character; name another"),
    ],
)
def test_a_path_that_cannot_be_is_one_clear_line(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / name

    assert refusal(path) == said.format(path=str(path), parent=str(path.parent))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_one_clear_line(path: Path) -> None:
    path.parent.chmod(0o500)

    assert refusal(path) == f"ledger {str(path)!r} cannot be opened: permission denied; name another file, or 'memory'"


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow beyond a page."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


async def test_a_moment_of_full_disk_leaves_no_hole(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.flush("a")
    with full_disk():
        ledger.begin(begun("b"))
        ledger.note("a", given(1), made(2))
        with pytest.raises(LedgerFailed):
            await ledger.flush("a")
        ledger.note("a", given(2))
        with pytest.raises(LedgerFailed):
            await ledger.finish("a", outcome("a"), wait=True)
        ledger.note("b", made(1))

    await ledger.flush("b")
    await ledger.park("b")
    found = [await ledger.load(name) for name in ("a", "b")]
    await ledger.close()

    entries = (made(1), given(1), made(2), given(2))
    assert found == [
        ExecutionHistory(start_record=begun("a"), entries=entries, state="ended", epoch=0, outcome=outcome("a")),
        ExecutionHistory(start_record=begun("b"), entries=(made(1),), state="paused", epoch=0),
    ]


async def test_what_no_memory_could_hold_while_the_disk_was_full_is_said(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    await ledger.flush("a")
    with full_disk():
        for number in range(1, 9):
            ledger.note("a", given(number, "x" * 10_000_000))
        with pytest.raises(LedgerFailed):
            await ledger.flush("a")

    found = await ledger.load("a")
    await ledger.close()

    assert found is not None
    assert (found.is_full, found.is_whole, len(found.entries)) == (True, False, 6)


async def test_a_cursor_holds_when_all_that_it_was_given_for_was_deleted(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.begin(begun("a"))
    await ledger.flush("a")
    seen = await anext(ledger.follow("0"))
    await ledger.delete("a")
    await ledger.sweep()
    ledger.begin(begun("b"))
    await ledger.flush("b")

    told = await anext(ledger.follow(seen.cursor))
    await ledger.close()

    assert (seen.execution_id, told.execution_id) == ("a", "b")
