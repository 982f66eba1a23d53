"""`toolfold ledger rekey`: another key for a sealed ledger, whatever happens in between."""

import base64
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import ENVIRONMENT, Cli
from tests.ledger.made_up import begun, given, made, outcome
from toolfold import UsageError
from toolfold.ledger.base import ExecutionHistory, ExecutionSummary, SealedSnapshot
from toolfold.ledger.encryption import Pause, ProgramSnapshot, Seal, lock, unlock
from toolfold.ledger.sqlite.change_key import rekey as again
from toolfold.ledger.sqlite.store import SqliteLedger

pytestmark = pytest.mark.long

OLD, NEW = base64.b64encode(b"o" * 32).decode(), "four other words here"
PAUSE = Pause(execution_id="bb22", tenant="", round=1, engine="monty 1.4.0/1")
SNAPSHOT = ProgramSnapshot(state=b"state" * 100, calls_made=1)

Records = tuple[list[ExecutionSummary], ExecutionHistory | None, ExecutionHistory | None, ProgramSnapshot | None]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in (("TOOLFOLD_LEDGER_KEY", OLD), ("NEW_KEY", NEW)):
        monkeypatch.setitem(ENVIRONMENT, name, key)


@pytest.fixture
async def ledger(folder: Path) -> Path:
    """A sealed file with one execution that ended and one that is paused with a snapshot."""
    path = folder / "ledger.sqlite"
    opened = SqliteLedger(path, key=OLD)
    opened.begin(begun("aa11"))
    opened.note("aa11", made(1, ticker="ACME"), given(1, "x" * 2000, ticker="ACME"))
    await opened.finish("aa11", outcome("aa11", stdout="12.5\n"))
    opened.begin(begun("bb22", began_at=1001.0, tools=()))
    opened.note("bb22", made(1, question="go on?"))
    seal = opened.snapshot_seal()
    assert seal is not None
    await opened.park("bb22", snapshot=SealedSnapshot(round=1, body=lock(SNAPSHOT, PAUSE, seal)))
    await opened.close()
    return path


async def records(path: Path, key: str) -> Records:
    """All that a ledger holds, as whoever has this key reads it."""
    opened = SqliteLedger(path, key=key)
    try:
        kept, seal = await opened.snapshot("bb22"), opened.snapshot_seal()
        assert kept is not None
        assert seal is not None
        snapshot = unlock(kept, PAUSE, seal)
        return await opened.list(), await opened.load("aa11"), await opened.load("bb22"), snapshot
    finally:
        await opened.close()


def rekey(cli: Cli, *more: str) -> tuple[int, str, str]:
    done = cli("ledger", "rekey", "--ledger", "ledger.sqlite", "--new-key-env", "NEW_KEY", *more)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_a_ledger_gets_another_key_and_keeps_every_record(cli: Cli, ledger: Path) -> None:
    before = await records(ledger, OLD)

    code, out, err = rekey(cli)

    (copy,) = ledger.parent.glob("ledger.sqlite.key-*")
    assert (code, out, err) == (0, f"rekeyed 2 executions; the old file is kept as {copy.name!r}\n", "")
    assert before[3] == SNAPSHOT
    assert await records(ledger, NEW) == before
    assert await records(copy, OLD) == before
    assert oct(copy.stat().st_mode & 0o777) == "0o600"
    with pytest.raises(UsageError, match="wrong key for ledger"):
        SqliteLedger(ledger, key=OLD)


async def test_nothing_that_the_old_key_sealed_stays_in_the_file(cli: Cli, ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        sealed = [body for (body,) in connection.execute("SELECT body FROM pieces UNION SELECT body FROM grants")]
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = ledger.read_bytes()

    rekey(cli)

    after = b"".join(file.read_bytes() for file in ledger.parent.glob("ledger.sqlite*") if ".key-" not in file.name)
    assert [body[:64] in before for body in sealed] == [True] * len(sealed)
    assert [body[:64] in after for body in sealed] == [False] * len(sealed)


async def test_a_second_time_there_is_nothing_left_to_do(cli: Cli, ledger: Path) -> None:
    rekey(cli)

    again = rekey(cli)

    assert again == (0, "rekeyed 0 executions; the ledger already has the new key\n", "")


async def test_a_rekeyed_ledger_is_written_as_before(cli: Cli, ledger: Path) -> None:
    rekey(cli)

    opened = SqliteLedger(ledger, key=NEW)
    opened.begin(begun("cc33", began_at=1002.0))
    await opened.finish("cc33", outcome("cc33"))
    ended = await opened.load("cc33")
    await opened.close()

    assert ended is not None
    assert ended.outcome == outcome("cc33")


async def test_a_ledger_that_another_process_has_open_is_refused(cli: Cli, ledger: Path) -> None:
    before = await records(ledger, OLD)
    opened = SqliteLedger(ledger, key=OLD)

    used = rekey(cli)
    opened.hold_alone()
    served = rekey(cli)
    await opened.close()

    said = "toolfold: ledger 'ledger.sqlite' is {} by another process; stop that one first, then run this again\n"
    assert used == (2, "", said.format("in use"))
    assert served == (2, "", said.format("served"))
    assert await records(ledger, OLD) == before
    assert list(ledger.parent.glob("ledger.sqlite.key-*")) == []


async def test_a_ledger_that_a_process_opened_twice_and_closed_once_is_still_in_use(cli: Cli, ledger: Path) -> None:
    opened = SqliteLedger(ledger, key=OLD)
    await SqliteLedger(ledger, key=OLD).close()

    code, _, err = rekey(cli)
    await opened.close()

    said = "toolfold: ledger 'ledger.sqlite' is in use by another process; stop that one first, then run this again\n"
    assert (code, err) == (2, said)


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (
            ["--ledger", "ledger.sqlite", "--new-key-env", "NO_KEY"], {},
            "no environment variable 'NO_KEY'; put the new key there",
        ),
        (
            ["--ledger", "ledger.sqlite", "--new-key-env", "TOOLFOLD_LEDGER_KEY"], {},
            "the new key of ledger 'ledger.sqlite' is its old one; give another in --new-key-env",
        ),
        (
            ["--ledger", "no.sqlite", "--new-key-env", "NEW_KEY"], {},
            "no ledger 'no.sqlite'; check the path",
        ),
        (
            ["--ledger", "memory", "--new-key-env", "NEW_KEY"], {},
            "a ledger in memory has no key; name a file",
        ),
        (
            ["--ledger", "redis://u:pw@localhost:1/0", "--new-key-env", "NEW_KEY"], {},
            "only a ledger in a file can be rekeyed; on a server, begin a new one in another database",
        ),
        (
            ["--ledger", "ledger.sqlite", "--new-key-env", "NEW_KEY"], {"TOOLFOLD_LEDGER_KEY": ""},
            "ledger 'ledger.sqlite' is sealed; give its key",
        ),
    ],
    ids=["no-variable", "same", "no-file", "memory", "server", "no-old-key"],
)  # fmt: skip
async def test_what_cannot_be_rekeyed_is_refused_in_one_line(
    arguments: list[str], variables: dict[str, str], said: str, cli: Cli, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setitem(ENVIRONMENT, name, value)

    done = cli("ledger", "rekey", *arguments)

    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (2, "", f"toolfold: {said}\n")
    assert [file.name for file in ledger.parent.glob("*.sqlite*") if not file.name.endswith("-serve")] == [
        "ledger.sqlite"
    ]


async def test_a_wrong_old_key_and_a_ledger_without_one_are_refused(
    cli: Cli, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await SqliteLedger(ledger.with_name("open.sqlite")).close()
    monkeypatch.setitem(ENVIRONMENT, "TOOLFOLD_LEDGER_KEY", "a wrong one")

    wrong = rekey(cli)
    unsealed = cli("ledger", "rekey", "--ledger", "open.sqlite", "--new-key-env", "NEW_KEY")

    assert wrong[:2] == (2, "")
    assert wrong[2].startswith("toolfold: wrong key for ledger 'ledger.sqlite': it was sealed with key ")
    assert unsealed.returncode == 2
    assert unsealed.stderr.decode() == (
        "toolfold: ledger 'open.sqlite' is not sealed, so it has no key to change; name a new file to use a key\n"
    )


async def test_a_damaged_record_stops_it_and_nothing_is_changed(cli: Cli, ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("UPDATE pieces SET body = zeroblob(99) WHERE execution = 1 AND piece = -1")
        connection.commit()

    code, out, err = rekey(cli)

    said = "toolfold: the ledger's record 'aa11/-1' was changed since it was sealed; do not trust it\n"
    assert (code, out, err) == (2, "", said)
    opened = SqliteLedger(ledger, key=OLD)
    listed = [one.execution_id for one in await opened.list()]
    await opened.close()
    assert listed == ["bb22", "aa11"]


async def test_a_copy_that_cannot_be_kept_stops_it_in_one_line(cli: Cli, ledger: Path) -> None:
    before = await records(ledger, OLD)
    ledger.with_name(f"ledger.sqlite.key-{Seal(b'o' * 32).key_id}").mkdir()

    refused = rekey(cli)

    said = "toolfold: ledger 'ledger.sqlite' cannot be rekeyed: is a directory; check the folder and its disk\n"
    assert refused == (2, "", said)
    assert await records(ledger, OLD) == before


async def test_the_config_names_the_ledger_and_its_old_key(
    cli: Cli, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await records(ledger, OLD)
    (ledger.parent / "toolfold.yaml").write_text("ledger: {where: ledger.sqlite, key: '${OLD_KEY}'}\n")
    monkeypatch.setitem(ENVIRONMENT, "OLD_KEY", OLD)
    monkeypatch.setitem(ENVIRONMENT, "TOOLFOLD_LEDGER_KEY", "of another ledger")

    done = cli("ledger", "rekey", "--new-key-env", "NEW_KEY")

    assert (done.returncode, done.stderr) == (0, b"")
    assert await records(ledger, NEW) == before


# Counts the statements that reach SQLite, and dies right before one of them. Forks, so that Python starts once.
KILLED = """
import json, os, shutil, signal, sys
from pathlib import Path
from toolfold.ledger.sqlite.change_key import rekey

old, new, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
ends = []
while not ends or ends[-1] != 0:
    path = folder / f"{len(ends)}" / "ledger.sqlite"
    path.parent.mkdir()
    shutil.copy(folder / "ledger.sqlite", path)
    child = os.fork()
    if not child:
        left = len(ends)
        def count(frame, event, what):
            global left
            if event == "c_call" and what.__name__ in ("execute", "executemany", "backup", "replace", "close"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.setprofile(count)
        rekey(path, old, new)
        os._exit(0)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(ends))
"""


async def test_killed_at_any_statement_all_is_there_with_one_of_the_keys_and_a_second_try_ends_it(
    cli: Cli, ledger: Path
) -> None:
    before, other = await records(ledger, OLD), base64.b64encode(b"n" * 32).decode()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, OLD, other, str(ledger.parent)], capture_output=True, env=ENVIRONMENT, check=True
    )
    ends = json.loads(done.stdout)

    found: set[str] = set()
    for number in range(len(ends)):
        path = ledger.parent / str(number) / "ledger.sqlite"
        try:
            assert await records(path, OLD) == before
            found.add("old")
        except UsageError:
            assert await records(path, other) == before
            found.add("new")
        again(path, OLD, other)
        assert await records(path, other) == before
        assert [file.name for file in path.parent.iterdir() if file.name.endswith(".part")] == []

    assert ends == [*[-9] * (len(ends) - 1), 0]
    assert len(ends) > 20
    assert found == {"old", "new"}


def test_a_filesystem_without_locks_is_named_and_stops_only_what_needs_one(cli: Cli, folder: Path, monkeypatch) -> None:
    (folder / "sitecustomize.py").write_text(
        "import errno, fcntl, os\n"
        "def flock(*_):\n"
        "    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))\n"
        "fcntl.flock = flock\n"
    )
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", os.pathsep.join((str(folder), ENVIRONMENT["PYTHONPATH"])))
    monkeypatch.setitem(ENVIRONMENT, "XDG_STATE_HOME", str(folder / "state"))
    (folder / "program.py").write_text("print(await price('ACME'))\n")
    (folder / "programs.jsonl").write_text('{"program": "1"}\n')
    tools = ("--tools", "tools.py", "--ledger", "l.sqlite")

    said = {
        arguments[0]: cli(*arguments)
        for arguments in [
            ("serve", "--port", "0", "--ledger", "l.sqlite"),
            ("batch", "programs.jsonl", "--out", "results.jsonl", "--ledger", "l.sqlite"),
            ("run", "--detach", *tools, "program.py"),
        ]
    }
    ran = cli("run", *tools, "program.py")

    assert {name: (done.returncode, done.stderr.decode()) for name, done in said.items()} == {
        "serve": (
            2,
            f"toolfold: ledger {str(folder / 'l.sqlite')!r} cannot be locked: no locks available; "
            "put it on a local disk\n",
        ),
        "batch": (
            2,
            "toolfold: results 'results.jsonl' cannot be locked: no locks available; put them on a local disk\n",
        ),
        "run": (
            2,
            "toolfold: the state folder cannot be locked: no locks available; set XDG_STATE_HOME to a local disk\n",
        ),
    }
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"12.5\n", b"")
