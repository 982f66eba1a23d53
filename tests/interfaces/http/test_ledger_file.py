"""The file of the ledger under a server: deleted, damaged, or another server's."""

import os
import subprocess
import sys
from pathlib import Path

from tests.interfaces.http.conftest import KEYS, serve
from tests.interfaces.http.test_restart import ready, server
from toolfold.interfaces.http import Settings
from toolfold.ledger.sqlite.store import SqliteLedger


async def test_a_server_whose_ledger_was_deleted_is_not_ready(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    async with serve(Settings(keys=KEYS), tmp_path / "files", ledger=ledger) as client:
        before = await client.get("/ready")
        (tmp_path / "ledger.sqlite").unlink()
        after = await client.get("/ready")
    await ledger.close()

    assert (before.status_code, after.status_code, after.json()) == (200, 503, {"status": "not ready"})


async def test_a_second_server_on_one_file_is_refused(tmp_path: Path) -> None:
    with server(tmp_path) as (_, client):
        async with client:
            await ready(client)
            second = subprocess.run(
                [sys.executable, "-m", "toolfold", "serve", "--config", str(tmp_path / "toolfold.yaml")],
                env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
                capture_output=True,
                text=True,
                check=False,
            )

    assert (second.returncode, second.stderr.count("\n")) == (2, 1)
    assert "is served by another process; name another file with --ledger FILE, or share one Redis" in second.stderr


def test_a_damaged_page_is_one_line_and_no_bug(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    command = [sys.executable, "-m", "toolfold", "runs", "--ledger", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)

    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert said.returncode != 0
    assert (said.stderr.count("\n"), "bug in toolfold" in said.stderr) == (1, False)
