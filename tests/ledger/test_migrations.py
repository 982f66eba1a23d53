"""Ledgers that an older toolfold wrote, and files that are not whole."""

import gzip
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from toolfold import Reply, Runtime, UsageError, tool
from toolfold.ledger.sqlite.schema import FORMAT
from toolfold.ledger.sqlite.store import SqliteLedger

FORMATS = Path(__file__).parent / "formats"
KEYS = {
    f"format{version}{sealed}": "correct horse battery staple" if sealed else None
    for version in (1, 2, 3, 4, 5)
    for sealed in ("", "-sealed")
}


@tool
async def save(key: int) -> int:
    """Keeps a number."""
    return key * 10


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


@pytest.mark.parametrize("name", list(KEYS))
async def test_a_ledger_of_an_older_format_is_read_resumed_and_kept_as_it_was(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(gzip.decompress((FORMATS / f"{name}.sqlite.gz").read_bytes()))
    ledger = SqliteLedger(path, key=KEYS[name])

    ended = await ledger.load("a" * 16)
    async with Runtime([save], ledger=ledger, engine="process") as runtime:
        outcome = await runtime.resume("b" * 16, [Reply(call_id=2, value="answer")])
        await runtime.call("save", {"key": 1})
        uses = (await runtime.learned()).uses
    await ledger.close()

    before = int(name.removeprefix("format")[0])
    assert uses["save"] == {3: 4, 4: 3, 5: 3}.get(before, 1)  # from format 3 on it has learned before
    assert ended is not None
    assert ended.outcome is not None
    assert (ended.outcome.stdout, ended.is_whole) == ("10\n20\n", True)
    assert getattr(outcome, "stdout", "") == "30 answer\n"
    old = tmp_path / f"ledger.sqlite.format{before}"
    assert (version_of(path), version_of(old), oct(old.stat().st_mode & 0o777)) == (FORMAT, before, "0o600")
    with closing(sqlite3.connect(old)) as connection:
        states = connection.execute("SELECT id, state FROM executions ORDER BY id").fetchall()
    assert states == [("a" * 16, "ended"), ("b" * 16, "paused")]


async def test_a_process_of_the_format_before_goes_on_writing_and_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(gzip.decompress((FORMATS / "format4.sqlite.gz").read_bytes()))
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        changes_before = older.execute("SELECT count(*) FROM changes").fetchone()
        ledger = SqliteLedger(path)
        kept = older.execute("SELECT count(*) FROM changes").fetchone()
        following = ledger.follow("0")
        seen = [await anext(following) for _ in range(2)]

        older.execute("BEGIN IMMEDIATE")
        older.execute("UPDATE executions SET touched_at = ? WHERE number = 1", (time.time(),))
        older.execute("INSERT INTO changes (execution) VALUES (1)")
        older.execute("COMMIT")
        seen.append(await anext(following))
    await ledger.close()

    assert (changes_before, kept) == ((5,), (0,))
    assert [change.execution_id for change in seen] == ["a" * 16, "b" * 16, "a" * 16]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE executions DROP COLUMN calls", "is not whole: there is no column 'calls' in 'executions'"),
        ("DROP TABLE grants", "is not whole: there is no table 'grants'"),
        ("PRAGMA user_version = 0", "is a database, but no ledger of toolfold's"),
    ],
)
async def test_a_file_that_is_not_whole_is_refused_in_one_line(change: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await SqliteLedger(path).close()
    with closing(sqlite3.connect(path)) as vandal:
        vandal.execute(change)

    with pytest.raises(UsageError) as caught:
        SqliteLedger(path)

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_only_one_server_holds_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    first, second = SqliteLedger(path), SqliteLedger(path)
    first.hold_alone()

    with pytest.raises(UsageError) as caught:
        second.hold_alone()
    await first.close()
    second.hold_alone()
    await second.close()

    text = (
        f"ledger {str(path)!r} is served by another process; name another file with --ledger FILE, or share one Redis"
    )
    assert str(caught.value) == text
