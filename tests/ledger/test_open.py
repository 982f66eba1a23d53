import stat
from pathlib import Path

import pytest

from toolfold import UsageError
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.sqlite.store import SqliteLedger


async def test_nothing_is_a_file_in_the_users_state_folder_that_only_the_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    ledger = open_ledger()
    await ledger.close()

    path = tmp_path / "state/toolfold/ledger.sqlite"
    assert isinstance(ledger, SqliteLedger)
    assert [stat.filemode(one.stat().st_mode) for one in (path.parent, path)] == ["drwx------", "-rw-------"]


async def test_a_word_or_a_path_names_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    ledgers = [open_ledger("memory"), open_ledger(str(tmp_path / "a.sqlite")), open_ledger("~/b.sqlite")]
    for ledger in ledgers:
        await ledger.close()

    assert [type(ledger) for ledger in ledgers] == [MemoryLedger, SqliteLedger, SqliteLedger]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite", "b.sqlite"]


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (
            "redis://user:secret@127.0.0.1:1/3",
            "ledger 'redis://127.0.0.1:1/3' cannot be used: the server cannot be reached; "
            "check the server and the address",
        ),
        (
            "valkey://user:secret@127.0.0.1:1",
            "ledger 'redis://127.0.0.1:1' cannot be used: the server cannot be reached; "
            "check the server and the address",
        ),
        ("redis://user:secret@host:port", "the ledger's 'redis' address is not valid; write redis://host:port/0"),
    ],
)
def test_a_server_that_is_not_there_is_one_clear_line_without_its_password(where: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_ledger(where)

    assert str(caught.value) == reason


def test_a_ledger_in_memory_takes_no_key() -> None:
    with pytest.raises(UsageError) as caught:
        open_ledger("memory", key="x")

    assert str(caught.value) == "a ledger in memory takes no key; name a file to seal it"


def test_a_state_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    with pytest.raises(UsageError) as caught:
        open_ledger()

    folder = str(tmp_path / "file/toolfold")
    assert str(caught.value) == (
        f"the folder {folder!r} for the ledger cannot be created: not a directory; "
        "name another file with --ledger, or record nothing with --ledger memory"
    )
