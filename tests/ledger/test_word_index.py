"""Search over everything that a SQLite ledger has on record, and what of it other ledgers have."""

import asyncio
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from tests.ledger.made_up import begun, given, made, outcome
from toolfold import UsageError
from toolfold.ledger.base import ExecutionFilter, ReplyEntry, Retention
from toolfold.ledger.execution_summaries import parse_search
from toolfold.ledger.ledger_factory import reindex_ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.ledger.sqlite.word_index import WordIndex
from toolfold.models import CallRecord, Program, Reply

INJECTIONS = [
    'a" OR "print', "print NOT ACME", "body : *", "marks : m", "NEAR(print ACME)", "^print", "-print", "print*",
    '"', '""', "*", "{marks body} : print", "print) OR (1", "\0print", "'; DROP TABLE documents; --",
]  # fmt: skip


async def write(ledger: SqliteLedger | MemoryLedger) -> None:
    failed = ReplyEntry(
        Reply(call_id=2, error="card 4711 was declined"),
        CallRecord(id=2, name="price", arguments={}, error="card 4711 was declined"),
    )
    for name, program, entries, more in (
        (
            "a",
            "print(await price('ACME'))",
            (made(1, symbol="Zürich-7"), given(1, {"city": "Lima"}, symbol="Zürich-7")),
            {},
        ),
        ("b", "x = 1", (made(2), failed), {"tenant": "t", "title": "Weekly report", "tags": ("vip",)}),
        ("c", "get_orders()", (), {"tenant": "t"}),
    ):
        ledger.begin(begun(name, began_at=1000.0 + ord(name), program=Program(text=program), **more))
        ledger.note(name, *entries)
        calls = tuple(entry.record for entry in entries if isinstance(entry, ReplyEntry))
        ended = outcome(name, stdout=f"printed by {name}", calls=calls, status="failed" if name == "b" else "finished")
        await ledger.finish(name, ended, wait=True)


async def found(ledger: SqliteLedger | MemoryLedger, text: str, **more: object) -> str:
    query = ExecutionFilter(**{**parse_search(text, time.time()), **more})
    return "".join(row.execution_id for row in await ledger.search(query))


SEARCHES = {
    "lima": "a", "ZURICH": "a", "zürich-7": "a", "4711": "b", '"4711 was declined"': "b", '"was 4711"': "",
    "printed": "cba", '"printed by b"': "b", "get_orders": "c", "orders": "c", "ord": "c", '"ord"': "", "weekly vip": "b",
    "tool:price": "ba", "tool:price printed": "ba", "status:failed printed": "b", "tenant:t printed": "cb",
    "tag:vip printed": "b", "printed since:1970-01-01": "cba", "printed since:1d": "", "tenant:u printed": "", "lima 4711": "",
}  # fmt: skip


@pytest.mark.parametrize("is_indexed", [True, False])
async def test_a_run_is_found_by_argument_reply_error_output_and_operators(tmp_path: Path, is_indexed: bool) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    await write(ledger)
    if is_indexed:
        reindex_ledger(str(tmp_path / "ledger.sqlite"), None, lambda _: None)

    answers = {text: await found(ledger, text) for text in SEARCHES}
    index = ledger.word_index()
    assert index is not None
    pending = index.pending()
    await ledger.close()

    # What is not indexed yet is read as it is: there, words are found in the middle, and only with their accents.
    loose = {"ZURICH": "", '"ord"': "c"} if not is_indexed else {}
    assert answers == {**SEARCHES, **loose}
    assert pending == (0 if is_indexed else 3)


@pytest.mark.parametrize("text", INJECTIONS)
async def test_operators_of_the_index_are_words_like_any_other(tmp_path: Path, text: str) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    await write(ledger)
    reindex_ledger(str(tmp_path / "ledger.sqlite"), None, lambda _: None)

    rows = await ledger.search(ExecutionFilter(words=text, tenant="t"))
    after = await found(ledger, "printed")
    await ledger.close()

    assert {row.tenant for row in rows} <= {"t"}
    assert after == "cba"
    assert [row.execution_id for row in rows] in ([], ["c", "b"])  # `print*` is a word that somebody still types


async def test_what_ends_is_in_the_index_by_itself_and_what_runs_is_found_too(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    index = ledger.word_index()
    assert index is not None
    index.begin()
    ledger.begin(begun("r", program=Program(text="print('running words')")))
    await ledger.flush("r")
    await write(ledger)
    async with asyncio.timeout(60):
        while index.pending():
            await asyncio.sleep(0.02)

    assert (await found(ledger, "running"), await found(ledger, "4711")) == ("r", "b")
    await ledger.close()


async def test_pages_of_a_search_have_every_run_once(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    for number in range(7):
        ledger.begin(begun(f"n{number}", began_at=1000.0 + number))
        if number % 3:
            await ledger.finish(f"n{number}", outcome(f"n{number}"), wait=True)
    reindex_ledger(str(tmp_path / "ledger.sqlite"), None, lambda _: None)
    names, before = [], ""
    while page := await ledger.search(ExecutionFilter(words="acme"), limit=2, before=before):
        names += [row.execution_id for row in page]
        before = names[-1]
    await ledger.close()

    assert names == [f"n{number}" for number in reversed(range(7))]


async def test_words_of_forgotten_runs_are_not_found_and_leave_the_file_with_the_next_reindex(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path, keep=Retention())
    await write(ledger)
    reindex_ledger(str(path), None, lambda _: None)

    await ledger.delete("b")
    rows = await found(ledger, "4711")
    count = reindex_ledger(str(path), None, lambda _: None)
    await ledger.close()

    assert (rows, count) == ("", 2)
    assert b"declined" not in (tmp_path / "ledger.sqlite-words").read_bytes()
    assert oct((tmp_path / "ledger.sqlite-words").stat().st_mode & 0o777) == "0o600"


async def test_the_index_of_another_file_is_begun_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.sqlite", tmp_path / "other.sqlite"
    ledger = SqliteLedger(path)
    await write(ledger)
    await ledger.close()
    reindex_ledger(str(path), None, lambda _: None)
    empty = SqliteLedger(other)
    await empty.close()
    shutil.copy(tmp_path / "ledger.sqlite-words", tmp_path / "other.sqlite-words")

    index = WordIndex(other)
    rows = index.search(ExecutionFilter(words="lima"), 10, "")
    index.close()

    assert rows == []
    with sqlite3.connect(tmp_path / "other.sqlite-words") as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)


async def test_a_sealed_ledger_has_no_index_and_finds_nothing_by_words(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path, key="correct horse battery staple")
    await write(ledger)

    answers = [await found(ledger, "lima"), await found(ledger, "tool:price"), await found(ledger, "tag:vip")]
    index = ledger.word_index()
    await ledger.close()

    assert (answers, index) == (["", "ba", "b"], None)
    assert [one.name for one in tmp_path.iterdir() if "words" in one.name] == []
    with pytest.raises(UsageError, match="an encrypted ledger has no search index"):
        reindex_ledger(str(path), "correct horse battery staple", lambda _: None)


async def test_a_ledger_without_an_index_searches_titles_and_first_lines(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    await write(ledger)

    assert [await found(ledger, text) for text in ('"get_orders"', "weekly", "lima", "tag:vip")] == ["c", "b", "", "b"]


def test_operators_are_read_as_people_type_them() -> None:
    now = 1_000_000.0

    assert parse_search('tool:get_orders status:running "exact words" two since:2d', now) == {
        "tool": "get_orders", "state": "running", "since": now - 2 * 86_400, "words": '"exact words" two',
    }  # fmt: skip
    assert parse_search('user:"Ann B" http://x tool: ', now) == {"user": "Ann B", "words": "http://x tool:"}
    with pytest.raises(UsageError, match="since must be a time such as"):
        parse_search("since:yesterday", now)
