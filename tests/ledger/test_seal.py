import base64
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.ledger.made_up import begun, given, made, outcome
from toolfold import UsageError
from toolfold.errors import SealBroken
from toolfold.ledger.encryption import Seal, seal_with
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Program, ToolSpec

KEY = bytes(range(32))
SALT = b"s" * 16


async def write(path: Path, **options: object) -> None:
    tools = (ToolSpec(name="t", python_name="t", description="SECRET-TOOL"),)
    ledger = SqliteLedger(path, **options)
    ledger.begin(begun("a", program=Program(text="SECRET-PROGRAM"), tools=tools))
    ledger.note("a", made(1, it="SECRET-ARGUMENT"), given(1, "SECRET-REPLY"))
    await ledger.finish("a", outcome("a", stdout="SECRET-OUTPUT"))
    await ledger.close()


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UsageError) as caught:
        SqliteLedger(path, **options)
    return str(caught.value)


async def test_nothing_that_a_program_says_is_readable_in_a_sealed_file(tmp_path: Path) -> None:
    await write(tmp_path / "open.sqlite")
    await write(tmp_path / "sealed.sqlite", key=KEY)

    assert (tmp_path / "open.sqlite").read_bytes().count(b"SECRET") > 0
    assert (tmp_path / "sealed.sqlite").read_bytes().count(b"SECRET") == 0


async def test_a_listing_of_a_sealed_file_needs_no_key_for_ids_times_and_statuses(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await write(path, key=KEY)

    with closing(sqlite3.connect(path)) as reader:
        found = reader.execute("SELECT id, state, status, began_at, calls FROM executions").fetchall()

    assert found == [("a", "ended", "finished", 1000.0, 1)]


@pytest.mark.parametrize("key", [KEY, base64.b64encode(KEY).decode(), "correct horse battery staple"])
async def test_the_same_key_reads_it_again(key: bytes | str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await write(path, key=key)

    ledger = SqliteLedger(path, key=key)
    history = await ledger.load("a")
    (line,) = await ledger.list()
    await ledger.close()

    assert history is not None
    assert history.entries == (made(1, it="SECRET-ARGUMENT"), given(1, "SECRET-REPLY"))
    assert line.first_line == "SECRET-PROGRAM"


async def test_a_wrong_key_a_missing_key_and_a_key_too_many_are_one_clear_line_each(tmp_path: Path) -> None:
    sealed, unsealed = tmp_path / "sealed.sqlite", tmp_path / "open.sqlite"
    await write(sealed, key=KEY)
    await write(unsealed)

    assert refusal(sealed, key="another") == (
        f"wrong key for ledger {str(sealed)!r}: it was sealed with key {Seal(KEY).key_id}, "
        f"this is {seal_with('another', salt_of(sealed)).key_id}"
    )
    assert refusal(sealed) == f"ledger {str(sealed)!r} is sealed; give its key"
    assert refusal(unsealed, key=KEY) == (
        f"ledger {str(unsealed)!r} has records that are not sealed; name a new file to use a key"
    )
    assert refusal(sealed, key=b"short") == "a ledger key has 32 bytes, not 5; give a passphrase as text"
    assert refusal(sealed, key="") == "the ledger's key is empty; give 32 bytes as base64, or a passphrase"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("UPDATE pieces SET body = CAST(substr(body, 2) AS BLOB) WHERE piece = 1", "a/1"),
        ("UPDATE pieces SET body = (SELECT body FROM pieces WHERE piece = 1) WHERE piece = -1", "a/-1"),
    ],
    ids=["changed", "moved"],
)
async def test_a_body_that_was_changed_or_moved_does_not_open(change: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await write(path, key=KEY)
    with sqlite3.connect(path) as vandal:
        vandal.execute(change)
    vandal.close()

    ledger = SqliteLedger(path, key=KEY)
    with pytest.raises(SealBroken) as caught:
        await ledger.load("a")
    await ledger.close()

    assert str(caught.value) == f"the ledger's record {where!r} was changed since it was sealed; do not trust it"


def test_the_same_body_is_sealed_anew_each_time() -> None:
    seal = Seal(KEY)

    assert seal.seal(b"body", "a/1") != seal.seal(b"body", "a/1")
    assert seal.open(seal.seal(b"body", "a/1"), "a/1") == b"body"


def test_a_passphrase_gives_another_key_in_each_ledger() -> None:
    assert seal_with("words", SALT).key_id != seal_with("words", b"t" * 16).key_id


def test_the_name_of_a_shared_body_depends_on_the_key() -> None:
    assert Seal(KEY).digest(b"tools") != Seal(KEY[::-1]).digest(b"tools")


def salt_of(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as reader:
        (salt,) = reader.execute("SELECT value FROM facts WHERE name = 'salt'").fetchone()
    return bytes.fromhex(salt)
