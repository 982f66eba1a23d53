"""A ledger far above its retention: small steps, however much there is, and exact at the end."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.ledger.made_up import begun, long_ledger, outcome
from toolfold.ledger.base import Retention
from toolfold.ledger.encryption import NoSeal
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.ledger.sqlite.tables import Tables
from toolfold.ledger.sqlite.writer import RetentionSweeper
from toolfold.steady_clock import SteadyClock

COUNT = 10_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    long_ledger(path, COUNT)
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def count(connection: sqlite3.Connection, table: str = "executions") -> int:
    (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(rows)


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (Retention(executions=100), [9800, 9600, 9400]),
        (Retention(executions=9500), [9800, 9600, 9500]),
        (Retention(total_bytes=1), [9800, 9600, 9400]),
        (Retention(age_seconds=0), [9800, 9600, 9400]),
    ],
    ids=["far too many", "too many", "too large", "too old"],
)
def test_a_step_forgets_a_few_hundred_and_not_all(
    keep: Retention, left: list[int], connection: sqlite3.Connection
) -> None:
    tables = Tables(connection, NoSeal(), 10_000, SteadyClock())
    tidying = RetentionSweeper(connection, tables, keep, lambda: False)
    tables.written_bytes = 1

    counts = []
    for _ in left:
        tidying.step(1)
        counts.append(count(connection))

    assert (counts, count(connection, "pieces")) == (left, 2 * left[-1])


@pytest.mark.parametrize(
    "keep",
    [
        Retention(executions=100),
        Retention(executions=COUNT - 500),
        Retention(total_bytes=1),
        Retention(age_seconds=0, open_age_seconds=5),
        Retention(age_seconds=1e12, open_age_seconds=0),
    ],
    ids=["far too many", "too many", "too large", "too old", "open too long"],
)
def test_a_step_searches_indexes_and_sorts_nothing(keep: Retention, connection: sqlite3.Connection) -> None:
    tables = Tables(connection, NoSeal(), 10_000, SteadyClock())
    statements: list[str] = []
    connection.set_trace_callback(statements.append)

    tables.is_over(keep)
    tables.sweep(keep)

    connection.set_trace_callback(None)
    plans = {
        step for statement in set(statements) for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
    }
    # The only scan of a table goes as far as what may stay, in an index that has all that is asked for.
    scans = {step for step in plans if "TEMP B-TREE" in step or step.startswith("SCAN")}
    allowed = ("SCAN executions USING COVERING INDEX executions_by_word", "SCAN (subquery", "SCAN CONSTANT ROW")
    assert {step for step in scans if not step.startswith(allowed)} == set()


@pytest.mark.parametrize("is_closing", [False, True])
def test_who_closes_waits_for_no_other_process(is_closing: bool, path: Path, connection: sqlite3.Connection) -> None:
    tables = Tables(connection, NoSeal(), 10_000, SteadyClock())
    tidying = RetentionSweeper(connection, tables, Retention(executions=100), lambda: is_closing)
    tables.written_bytes = 1

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        tidying.step(1)
        other.execute("ROLLBACK")
    waited_for = count(connection)
    tidying.step(1)

    assert (waited_for, count(connection)) == (COUNT, COUNT - 200)


@pytest.mark.long
async def test_a_process_that_lives_on_catches_up_and_leaves_the_others_records(path: Path) -> None:
    ledger = SqliteLedger(path, keep=Retention(executions=1000))
    ledger.begin(begun("new", began_at=2000.0, tenant="quiet"))
    await ledger.finish("new", outcome("new"), wait=True)

    async def counted() -> list[int]:
        return [(await ledger.counts(0.0, tenant))["recent"] for tenant in ("loud", "quiet")]

    while sum(counts := await counted()) > 1000:
        await asyncio.sleep(0.01)
    newest = [summary.execution_id for summary in await ledger.list(limit=2)]
    await ledger.close()

    # One in fifty is of the other tenant.
    assert (counts, newest) == ([1000 - COUNT // 50 - 1, COUNT // 50 + 1], ["new", f"{COUNT:016x}"])
