"""Ledger files of other formats, and files that are not whole.

The samples are folders that the code of commit f546cd8 left when it was killed: a program that has ended, one that is
paused, and one whose start is only in the write-ahead log.
"""

import gzip
import io
import math
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.made_up import SAMPLE_CONTENTS, begun, given, outcome, sample_contents
from toolfold import Reply, Runtime, UsageError, tool
from toolfold.ledger.base import ExecutionFilter, Retention
from toolfold.ledger.sqlite.schema import FORMAT
from toolfold.ledger.sqlite.store import SqliteLedger

FORMATS = Path(__file__).parent / "formats"
KEYS = {"format5": None, "format5-sealed": "correct horse battery staple"}
FOREVER = Retention(age_seconds=math.inf)
PRICE = given(1, 7.5, symbol="ACME")


@tool
async def save(key: int) -> int:
    """Keeps a number."""
    return key * 10


@pytest.fixture
def unpacked(tmp_path: Path) -> Any:
    """Unpacks a sample; the path of its ledger."""

    def unpack(name: str) -> Path:
        sample = gzip.decompress((FORMATS / f"{name}.tar.gz").read_bytes())
        with tarfile.open(fileobj=io.BytesIO(sample)) as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path / "ledger.sqlite"

    return unpack


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def rows_by_table(path: Path) -> dict[str, list[dict[str, Any]]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith("sqlite_")
        ]
        rows = {name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in names}
    rows["facts"] = [row for row in rows["facts"] if row["name"] != "clock"]  # of this machine, since it was started
    return rows


def layout_of(path: Path) -> dict[str, list[str]]:
    """The columns of each table, in any order, and those of each index."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
            " ORDER BY m.name, c.name"
        ).fetchall()
        indexes = connection.execute(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_index_info(m.name) c WHERE m.type = 'index'"
            " ORDER BY m.name, c.seqno"
        ).fetchall()
    columns: dict[str, list[str]] = {}
    for name, column in (*tables, *indexes):
        columns.setdefault(name, []).append(column)
    return columns


@pytest.mark.parametrize("name", list(KEYS))
async def test_a_file_of_the_format_before_is_migrated_with_every_value(name: str, unpacked: Any) -> None:
    path = unpacked(name)
    ledger = SqliteLedger(path, key=KEYS[name], keep=FOREVER)

    contents = await sample_contents(ledger)
    await ledger.close()

    assert contents == SAMPLE_CONTENTS


@pytest.mark.parametrize("name", list(KEYS))
async def test_the_migrated_file_has_all_rows_of_the_old_one_which_is_kept(
    name: str, unpacked: Any, tmp_path: Path
) -> None:
    path = unpacked(name)
    await SqliteLedger(path, key=KEYS[name], keep=FOREVER).close()
    await SqliteLedger(tmp_path / "new.sqlite").close()

    old = tmp_path / "ledger.sqlite.format5"
    before, after = rows_by_table(old), rows_by_table(path)
    killed = next(row for row in after["executions"] if row["id"] == "d" * 16)
    expected = {
        **before,
        "executions": [
            *(
                {
                    **{"interface" if key == "door" else key: value for key, value in row.items()},
                    "owner": "",
                    "names": b"",
                }
                for row in before["executions"]
            ),
            killed,
        ],
        "labels": [],
        "pieces": [*before["pieces"], *(row for row in after["pieces"] if row["execution"] == killed["number"])],
    }
    assert after == expected
    assert [row["id"][0] for row in after["executions"]] == ["a", "b", "c", "e", "d"]
    assert layout_of(path) == layout_of(tmp_path / "new.sqlite")
    assert (version_of(path), version_of(old), oct(old.stat().st_mode & 0o777)) == (FORMAT, 5, "0o600")


async def test_a_file_of_format_6_becomes_the_same_as_one_of_format_5(unpacked: Any, tmp_path: Path) -> None:
    path = unpacked("format5")
    sixth = tmp_path / "sixth.sqlite"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(sixth)) as target:
        source.backup(target)
        target.execute("ALTER TABLE executions ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
        target.execute("PRAGMA user_version = 6")
        target.commit()

    await SqliteLedger(path, keep=FOREVER).close()
    await SqliteLedger(sixth, keep=FOREVER).close()

    # What a process left beside the first file is not beside the second.
    fifth_rows = [row for row in rows_by_table(path)["executions"] if row["id"] != "d" * 16]
    assert [row for row in rows_by_table(sixth)["executions"] if row["id"] != "d" * 16] == fifth_rows
    assert layout_of(sixth) == layout_of(path)
    assert (version_of(sixth), version_of(tmp_path / "sixth.sqlite.format6")) == (FORMAT, 6)


async def test_a_file_of_format_7_takes_the_names_of_new_runs_and_keeps_its_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "seventh.sqlite"
    ledger = SqliteLedger(path, keep=FOREVER)
    ledger.begin(begun("a" * 16))
    await ledger.finish("a" * 16, outcome("a" * 16), wait=True)
    await ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        for change in ("TABLE labels", "INDEX executions_by_word"):
            connection.execute(f"DROP {change}")
        connection.execute("ALTER TABLE executions DROP COLUMN names")
        connection.execute("CREATE INDEX executions_by_word ON executions (touched_at, status, bytes)")
        connection.execute("PRAGMA user_version = 7")
        connection.commit()

    migrated = SqliteLedger(path, keep=FOREVER)
    migrated.begin(begun("b" * 16, began_at=2000.0, title="Report", tags=("vip",)))
    await migrated.finish("b" * 16, outcome("b" * 16), wait=True)
    rows = [(row.execution_id[0], row.title, row.tags) for row in await migrated.search(ExecutionFilter())]
    tagged = [row.execution_id[0] for row in await migrated.search(ExecutionFilter(tag="vip"))]
    await migrated.close()

    assert (rows, tagged) == ([("b", "Report", ("vip",)), ("a", "", ())], ["b"])
    assert (version_of(path), version_of(tmp_path / "seventh.sqlite.format7")) == (FORMAT, 7)


@pytest.mark.parametrize("name", list(KEYS))
async def test_a_paused_program_of_the_format_before_is_resumed(name: str, unpacked: Any) -> None:
    ledger = SqliteLedger(unpacked(name), key=KEYS[name], keep=FOREVER)

    async with Runtime([save], ledger=ledger, engine="process") as runtime:
        resumed = await runtime.resume("b" * 16, [Reply(call_id=2, value="answer")])
        await runtime.call("save", {"key": 1})
        uses = (await runtime.catalog.learning.lessons()).uses
    await ledger.close()

    assert (getattr(resumed, "stdout", ""), uses["save"]) == ("30 answer\n", 3)


@pytest.mark.parametrize("version", [1, 4])
async def test_a_file_of_a_format_that_nobody_has_is_refused_and_left_alone(version: int, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await SqliteLedger(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")

    with pytest.raises(UsageError) as caught:
        SqliteLedger(path)

    assert str(caught.value) == (
        f"ledger {str(path)!r} has format {version}, and formats below 5 are not read; "
        "move it away to begin a new one, or name another file"
    )
    assert (version_of(path), [file.name for file in tmp_path.glob("*.format*")]) == (version, [])


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
