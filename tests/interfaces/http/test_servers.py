"""The `servers` of a config over HTTP: only for the tenants that `http.tools` names."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from toolfold.config import parse_config
from toolfold.errors import UsageError
from toolfold.interfaces.http.server_setup import open_app

ECHO = str(Path(__file__).parents[1] / "cli" / "echo_server.py")
SERVERS = f"""
servers:
  - {{name: db, command: {sys.executable}, args: [-S, -E, {ECHO}, --db]}}
  - {{name: crm, command: {sys.executable}, args: [-S, -E, {ECHO}, --crm]}}
ledger: {{where: memory}}
"""
KEYS = "keys: {one: key-of-one, two: key-of-two, three: key-of-three}"


@asynccontextmanager
async def opened(http: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = parse_config(f"{SERVERS}http: {{{KEYS}, files: {tmp_path}, preload_data: false, {http}}}\n")
    app, ledger = await open_app(config)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client,
    ):
        yield client
    await ledger.close()


async def ran(client: httpx.AsyncClient, tenant: str, code: str) -> tuple[Any, Any]:
    answer = await client.post(
        "/exec/programmatic", json={"code": code, "tools": []}, headers={"X-API-Key": f"key-of-{tenant}"}
    )
    return answer.json().get("stdout"), answer.json().get("error")


@pytest.mark.long
async def test_the_servers_tools_reach_the_tenants_that_are_named_and_nobody_else(tmp_path) -> None:
    db, crm = "print((await mcp__db__started())['args'])", "print((await mcp__crm__started())['args'])"
    async with opened('tools: {one: ["*"], two: ["mcp__crm__*"]}', tmp_path) as client:
        said = {
            (tenant, name): await ran(client, tenant, code)
            for tenant in ("one", "two", "three")
            for name, code in (("db", db), ("crm", crm))
        }
        found = [await ran(client, one, FIND) for one in ("one", "two", "three")]

    assert said == {
        ("one", "db"): ("['--db']\n", None),
        ("one", "crm"): ("['--crm']\n", None),
        ("two", "db"): ("", "line 1: no tool 'mcp__db__started'; did you mean 'mcp__crm__started'?"),
        ("two", "crm"): ("['--crm']\n", None),
        ("three", "db"): ("", "line 1: no tool 'mcp__db__started'; the tools are: search_tools"),
        ("three", "crm"): ("", "line 1: no tool 'mcp__crm__started'; the tools are: search_tools"),
    }
    assert found == [
        ("['mcp__crm__started', 'mcp__db__started']\n", None),
        ("['mcp__crm__started']\n", None),
        ("[]\n", None),
    ]


FIND = "print(sorted(one['name'] for one in await search_tools('how was this server started')))"


@pytest.mark.long
async def test_a_name_in_a_variable_reaches_no_tool_that_is_hidden(tmp_path) -> None:
    code = "t = tools\nname = 'mcp__db__' + 'started'\nprint(hasattr(t, name), dir(t))"
    async with opened('tools: {one: ["*"]}', tmp_path) as client:
        await ran(client, "one", "await mcp__db__started(), await mcp__crm__started()")
        told = [await ran(client, tenant, code) for tenant in ("one", "two")]

    assert told == [
        ("True ['mcp__crm__started', 'mcp__db__started', 'search_tools']\n", None),
        ("False ['search_tools']\n", None),
    ]


async def test_servers_that_nobody_may_call_are_not_started_and_it_is_said(tmp_path, caplog) -> None:
    async with opened("waiting: 9", tmp_path) as client:
        said = await ran(client, "one", "print('fine')")

    assert said == ("fine\n", None)
    assert [
        record.getMessage() for record in caplog.records if record.name == "toolfold.interfaces.http.server_setup"
    ] == ["no tenant may call the tools of 'servers', so none is started; name tenants in http.tools"]


@pytest.mark.parametrize(
    ("http", "message"),
    [
        ("keys: {one: k}, tools: {two: [x]}", "is not a tenant; the tenants are 'one'"),
        ("tools: {one: [x]}", "is not a tenant; the tenants are 'local'"),
        ("jwt: {jwks_url: 'http://x'}, tools: {one: [x]}", "is not a tenant; the tenants are 'librechat'"),
    ],
)
def test_a_tenant_that_there_is_not_is_a_mistake(http: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_config(f"http: {{{http}}}\n")

    name = "two" if "two" in http else "one"
    assert str(error.value) == f"toolfold.yaml:1: http.tools.{name}: {message}"


@pytest.mark.long
async def test_a_batch_has_the_tools_of_its_tenant(tmp_path) -> None:
    programs = [{"code": "(await mcp__crm__started())['args']"}, {"code": "await mcp__db__started()"}, {"code": "1"}]
    async with opened('tools: {one: ["*"], two: ["mcp__crm__*"]}', tmp_path) as client:
        answer = await client.post("/exec/batch", json={"programs": programs}, headers={"X-API-Key": "key-of-two"})
        single = await client.post(
            "/run_code",
            json={"code": "print((await mcp__crm__started())['args'])", "language": "python"},
            headers={"X-API-Key": "key-of-two"},
        )

    lines = sorted(map(json.loads, answer.text.splitlines()), key=lambda line: line["index"])
    assert [(line["status"], line["value"]) for line in lines] == [
        ("finished", ["--crm"]),
        ("rejected", None),
        ("finished", 1),
    ]
    assert single.json()["run_result"]["stdout"] == "['--crm']\n"
