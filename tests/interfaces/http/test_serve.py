"""`toolfold serve`: what it refuses to do, in one line, and what it has ready."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.interfaces.http.talk import metric, start
from tests.interfaces.http.test_restart import ready, server
from toolfold.config import parse_config
from toolfold.errors import UsageError
from toolfold.interfaces.cli.app import run_command
from toolfold.interfaces.http.server_setup import open_app
from toolfold.interfaces.server.http_server import listen
from toolfold.ledger.sqlite.store import SqliteLedger


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


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["serve", "--ledger", "memory", "--port", "{port}"], "--port 0"),
        (["console", "--port", "{port}"], "--port 0"),
        (["mcp", "--config", "toolfold.yaml", "--http", "127.0.0.1:{port}"], "--http 127.0.0.1:0"),
    ],
    ids=["serve", "console", "mcp"],
)
def test_a_port_in_use_is_told_with_the_option_that_helps(capsys, command: list[str], advice: str) -> None:
    Path("toolfold.yaml").write_text("ledger: {where: memory}\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = run_command([one.format(port=port) for one in command])

    assert (code, capsys.readouterr().err) == (
        2, f"toolfold: 127.0.0.1:{port} cannot be listened on: address already in use; {advice} picks a free one\n"
    )  # fmt: skip


BOTH = "execution: {languages: [python, bash]}"
SERVE, MCP = ["serve", "--port", "0"], ["mcp", "--http", "127.0.0.1:0"]


@pytest.mark.parametrize(
    ("command", "config", "line"),
    [
        (SERVE, "", "bash programs are on for LibreChat (namespace, shell profile)"),
        (SERVE, BOTH, "bash programs are on (namespace, shell profile)"),
        (SERVE, "execution: {languages: [python]}", None),
        (SERVE, "engine: monty", None),
        (MCP, "", None),
        (MCP, BOTH, "bash programs are on (namespace, shell profile)"),
        (
            MCP,
            f"engine: monty\n{BOTH}",
            "execution.languages has bash, but this engine runs no bash programs here; see 'toolfold doctor'",
        ),
    ],
)
def test_the_start_up_lines_name_the_sandbox_of_bash_programs(
    tmp_path: Path, command: list[str], config: str, line: str | None
) -> None:
    (tmp_path / "toolfold.yaml").write_text(f"ledger: {{where: memory}}\n{config}\n")

    process = subprocess.Popen([sys.executable, "-m", "toolfold", *command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while "listening on" not in said[-1]:
        said.append(process.stderr.readline())
    httpx.get(said[-1].split()[-1], timeout=60)  # it is answered once all is said
    process.send_signal(signal.SIGTERM)
    said += process.communicate(timeout=60)[1].splitlines(keepends=True)

    assert [text for text in said if "bash" in text] == ([] if line is None else [f"toolfold: {line}\n"])


def test_a_host_that_is_not_this_one_is_told() -> None:
    with pytest.raises(UsageError) as told:
        listen("192.0.2.1", 0)

    assert str(told.value) == "192.0.2.1:0 cannot be listened on: cannot assign requested address; choose another host"


def test_a_port_in_use_is_told_before_the_ledger_that_goes_with_it(tmp_path: Path, capsys) -> None:
    path = tmp_path / "ledger.sqlite"
    first = SqliteLedger(path)
    first.hold_alone()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        same_port = run_command(["serve", "--port", str(port), "--ledger", str(path)])
        said = capsys.readouterr().err
    other_port = run_command(["serve", "--port", "0", "--ledger", str(path)])
    asyncio.run(first.close())

    assert (same_port, other_port) == (2, 2)
    assert (
        said == f"toolfold: 127.0.0.1:{port} cannot be listened on: address already in use; --port 0 picks a free one\n"
    )
    assert capsys.readouterr().err == (
        f"toolfold: ledger {str(path)!r} is served by another process; "
        "name another file with --ledger FILE, or share one Redis\n"
    )


async def test_a_server_that_is_refused_leaves_its_ledger_closed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    first = SqliteLedger(path)
    first.hold_alone()

    with pytest.raises(UsageError) as caught:
        await open_app(parse_config(f"ledger: {{where: {path}}}\n"))
    await first.close()  # before it, SQLite keeps descriptors of the other, because closing them would end its locks

    assert str(caught.value).startswith(f"ledger {str(path)!r} is served by another process; ")
    assert open_in(tmp_path) == []


def open_in(folder: Path) -> list[str]:
    """The files that this process has open there."""
    links = [f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")]
    found = [os.readlink(link) for link in links if os.path.lexists(link)]
    return sorted(one for one in found if one.startswith(f"{folder}/"))


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
