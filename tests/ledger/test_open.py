import stat
from pathlib import Path

import pytest

from toolfold import UsageError
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.open import open_ledger
from toolfold.ledger.sqlite import SqliteLedger


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


@pytest.mark.parametrize("where", ["redis://localhost:6379/0", "rediss://user:secret@host", "valkey://host"])
def test_a_server_is_not_there_yet_and_its_password_is_not_repeated(where: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_ledger(where)

    kind = where.partition(":")[0]
    assert str(caught.value) == f"ledger {kind!r} comes with the HTTP door; name a file for now"


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
        f"the folder {folder!r} for the ledger cannot be made: not a directory; name another with --ledger"
    )
