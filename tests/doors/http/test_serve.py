"""`toolfold serve`: what it refuses to do, in one line, and what it has ready."""

import asyncio
import socket
from pathlib import Path

import pytest

from tests.doors.http.talk import metric, start
from tests.doors.http.test_restart import ready, server
from toolfold.doors.cli.app import run_command


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """No config of this repository's."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--base-path", "v1/"], "--base-path 'v1/' must start with a slash and not end in one, as in /v1"),
        (
            ["--host", "0.0.0.0", "--ledger", "memory"],
            "'0.0.0.0' can be reached from elsewhere, and no key is configured; set http.keys, or listen on 127.0.0.1",
        ),
    ],
)
def test_wrong_usage_is_one_line(capsys, arguments: list[str], line: str) -> None:
    code = run_command(["serve", *arguments])

    assert (code, capsys.readouterr().err) == (2, f"toolfold: {line}\n")


def test_a_port_in_use_is_told(capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = run_command(["serve", "--port", str(port), "--ledger", "memory"])

    assert code == 2
    assert capsys.readouterr().err == (
        f"toolfold: 127.0.0.1:{port} cannot be listened on: address already in use; choose another port\n"
    )


@pytest.mark.long
async def test_guests_with_the_data_libraries_wait_from_the_start(tmp_path: Path) -> None:
    config = "http: {port: 0, files: files}\nledger: {where: memory}\n"
    with server(tmp_path, config) as (_, client):
        async with client:
            await ready(client)
            # Two wait with the bare interpreter, so the third one has the libraries.
            while await metric(client, "guests") < 3:
                await asyncio.sleep(0.05)
            body = (await start(client, "print(pd.Series([1, 2]).sum())")).json()

    assert body["stdout"] == "3\n"
