"""`toolfold mcp --http`: both eras, sessions that are apart, tokens, addresses."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from tests.interfaces.mcp.conftest import ERAS, run, texts
from tests.interfaces.mcp.test_yielding import TOOLS
from toolfold.errors import UsageError
from toolfold.interfaces.mcp.prompt_texts import parse_address

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "toolfold", "mcp")


@contextmanager
def served(folder: Path, *arguments: str, config: str = "ledger: {where: memory}\n", **extra: str) -> Iterator[str]:
    """The address of a server that ends with the block."""
    (folder / "toolfold.yaml").write_text(config)
    process = subprocess.Popen(
        [*COMMAND, *(arguments or ("--http", "127.0.0.1:0"))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **extra},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        prefix = "toolfold: listening on "
        yield next(line for line in process.stderr if line.startswith(prefix)).strip().removeprefix(prefix)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_runs_over_http(tmp_path, mode) -> None:
    with served(tmp_path) as address:
        async with Client(address, mode=mode) as client:
            result = await run(client, "print(6 * 7)")

    assert texts(result) == ["[Script executed successfully]\n42\n"]


@pytest.mark.long
async def test_sessions_of_two_connections_are_apart(tmp_path) -> None:
    with served(tmp_path) as address:
        async with Client(address, mode="legacy") as one, Client(address, mode="legacy") as other:
            await run(one, "x = 1", session="work")
            mine = await run(one, "print(x)", session="work")
            theirs = await run(other, "print('x' in globals())", session="work")

    assert texts(mine) == ["[Script executed successfully]\n1\n"]
    assert texts(theirs) == ["[Script executed successfully]\nFalse\n"]


@pytest.mark.long
async def test_clients_of_the_newer_era_on_one_address_are_apart(tmp_path) -> None:
    one, other = (Implementation(name=name, version="1") for name in ("one", "other"))
    with served(tmp_path) as address:
        async with Client(address, client_info=one) as first, Client(address, client_info=other) as second:
            await run(first, "x = 1", session="work")
            mine = await run(first, "print(x)", session="work")
            theirs = await run(second, "print('x' in globals())", session="work")

    assert texts(mine) == ["[Script executed successfully]\n1\n"]
    assert texts(theirs) == ["[Script executed successfully]\nFalse\n"]


@pytest.mark.long
async def test_with_a_token_only_who_brings_it_is_let_in(tmp_path) -> None:
    with served(tmp_path, TOOLFOLD_MCP_TOKEN="open sesame") as address:
        async with httpx2.AsyncClient() as plain:
            refused = await plain.post(address, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        headers = {"Authorization": "Bearer open sesame"}
        async with (
            httpx2.AsyncClient(headers=headers) as known,
            Client(streamable_http_client(address, http_client=known)) as client,
        ):
            result = await run(client, "print('in')")

    assert (refused.status_code, refused.text) == (401, "send the token as Authorization: Bearer")
    assert texts(result) == ["[Script executed successfully]\nin\n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--http", "0.0.0.0:8765"),
            "--http 0.0.0.0:8765 is reachable from outside; set TOOLFOLD_MCP_TOKEN to a secret first",
        ),
        (("--http", "localhost"), "--http 'localhost' is not an address; write HOST:PORT, as in 127.0.0.1:8765"),
    ],
)
def test_an_address_that_cannot_be_served_is_one_line_and_exit_2(tmp_path, arguments, message) -> None:
    (tmp_path / "toolfold.yaml").write_text("ledger: {where: memory}\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (2, f"toolfold: {message}\n")


def test_addresses_are_hosts_with_ports_or_bare_ports() -> None:
    assert [parse_address(text) for text in ("127.0.0.1:80", "[::1]:81", "8080", "example.org:1")] == [
        ("127.0.0.1", 80),
        ("::1", 81),
        ("127.0.0.1", 8080),
        ("example.org", 1),
    ]
    with pytest.raises(UsageError):
        parse_address("host:99999")


@pytest.mark.long
@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.0.0.2:0"])
async def test_pages_of_other_machines_are_turned_away(tmp_path, address) -> None:
    pages = [
        {"Host": "127.evil.example"},
        {"Host": "127.0.0.1.nip.io"},
        {"Origin": "http://127.evil.example"},
        {"Origin": "null"},
    ]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with served(tmp_path, "--http", address) as url:
        async with httpx2.AsyncClient() as client:
            answers = [await client.post(url, json=ping, headers=page) for page in pages]
            plain = await client.post(url, content=b"{}", headers={"Content-Type": "text/plain"})

    text = "without a token only this machine is served; set TOOLFOLD_MCP_TOKEN"
    assert [(one.status_code, one.json()) for one in answers] == [(403, {"error": text})] * len(pages)
    assert plain.status_code == 400


@asynccontextmanager
async def client_at(
    address: str, mode: str, name: str, *, version: str = "1", token: str = ""
) -> AsyncIterator[Client]:
    """A client that calls itself so, with a connection of its own."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(address, http_client=http), mode=mode,
            client_info=Implementation(name=name, version=version),
        ) as client,
    ):  # fmt: skip
        yield client


async def waits(client: Client, execution_id: str, **arguments: Any) -> list[str]:
    return texts(await client.call_tool("wait_program", {"execution_id": execution_id, **arguments}))


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
async def test_only_who_has_the_same_identity_waits_for_a_program_or_cancels_it(tmp_path, mode) -> None:
    tools = {"modules": ["tools_here.py"]}
    config = json.dumps({"ledger": {"where": "ledger.sqlite"}, "tools": tools, "mcp": {"yield_after": "60s"}})
    (tmp_path / "tools_here.py").write_text(TOOLS)
    with served(tmp_path, config=config) as address:
        async with (
            client_at(address, mode, "one") as one,
            client_at(address, mode, "one", version="2") as updated,
            client_at(address, mode, "other") as other,
            client_at(address, mode, "one", token="x") as elsewhere,
        ):
            first = texts(await run(one, "await gate()\nprint('end')", yield_after_seconds=0.5))
            [execution_id] = re.findall(r"execution_id '([0-9a-f]{32})'", first[1])
            refused = [await waits(client, execution_id) for client in (other, elsewhere)]
            refused += [await waits(client, execution_id, cancel=True) for client in (other, elsewhere)]
            again = await waits(updated, execution_id, yield_after_seconds=0.5)
    (tmp_path / "open").touch()
    with served(tmp_path, config=config) as address:
        async with client_at(address, mode, "other") as other, client_at(address, mode, "one") as one:
            refused += [await waits(other, execution_id)]
            last = await waits(one, execution_id)

    unknown = f"no program '{execution_id}' here: it is another client's, or so old that it was forgotten"
    assert refused == [[f"[Script execution failed]\nUsageError: {unknown}"]] * 5
    assert [one[0] for one in (first, again)] == ["[Script still running]\n(no output yet)"] * 2
    assert last == ["[Script executed successfully]\nend\n"]
