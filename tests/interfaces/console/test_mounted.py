"""`toolfold serve --console`: the console beside the HTTP interface, for its operator and for tenants with keys."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

CONFIG = """
http:
  port: 0
  files: files
  keys: {one: key-of-one, two: key-of-two}
ledger: {where: ledger.sqlite}
"""


ROLES = """
http:
  port: 0
  files: files
  keys:
    one: key-of-one
    two:
      - {key: agent, roles: [run]}
      - {key: person, roles: [read, approve]}
    three: {key: guest, roles: [read]}
ledger: {where: ledger.sqlite}
"""


@contextmanager
def server(folder: Path, *options: str, config: str = CONFIG) -> Iterator[tuple[str, str]]:
    """A real server; its address, and the link to its console."""
    (folder / "toolfold.yaml").write_text(config)
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, "-m", "toolfold", "serve", *options]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        listening = re.fullmatch(r"toolfold: listening on (http://\S+)\n", process.stderr.readline())
        assert listening is not None
        link = re.search(r"console at (http://\S+)", process.stderr.readline()) if options else None
        yield listening[1], link[1] if link else ""
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.long
async def test_the_operator_sees_all_and_each_tenant_its_own(tmp_path: Path) -> None:
    with server(tmp_path, "--console") as (url, link):
        async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
            for key in ("key-of-one", "key-of-two"):
                body = {"code": f"print('{key}')", "tools": [], "session_id": key}
                ended = await client.post(
                    "/exec/programmatic", json=body, headers={"x-api-key": key, "x-toolfold-tags": f"eu,{key}"}
                )
                assert ended.status_code == 200, ended.text
            page = await client.get("/console/")
            document = (await client.get("/openapi.json")).json()
            stranger = await client.get("/console/api/executions")
            one = await client.get("/console/api/executions", headers={"x-api-key": "key-of-one"})
            signed_in = await client.post("/console/login", content=b"key-of-two")
            two = await client.get("/console/api/executions")
            foreign = await client.get("/console/api/executions", params={"tag": "key-of-one"})
            refused = await client.post(
                "/exec",
                json={"code": "1", "lang": "py"},
                headers={"x-api-key": "key-of-one", "x-toolfold-user": "a%0Ab"},
            )
        async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as operator:
            opened = await operator.get(link)
            everything = await operator.get(f"{url}/console/api/executions")

    def lines(answer: httpx2.Response) -> list[str]:
        return [row["first_line"] for row in answer.json()["executions"]]

    assert (page.status_code, stranger.status_code, signed_in.status_code, opened.status_code) == (200, 401, 200, 200)
    assert [row["tags"] for row in two.json()["executions"]] == [["eu", "key-of-two"]]
    assert foreign.json()["executions"] == []
    assert (refused.status_code, "user must be text of at most 200 characters" in refused.text) == (400, True)
    assert (lines(one), lines(two)) == (["print('key-of-one')"], ["print('key-of-two')"])
    assert lines(everything) == ["print('key-of-two')", "print('key-of-one')"]
    assert {"/exec/programmatic", "/console/api/executions", "/console/api/approvals"} <= set(document["paths"])
    assert "path=/console" in signed_in.headers["set-cookie"].lower()


@pytest.mark.long
async def test_without_the_option_there_is_no_console(tmp_path: Path) -> None:
    with server(tmp_path) as (url, _):
        async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
            answer = await client.get("/console/", headers={"x-api-key": "key-of-one"})

    assert answer.status_code == 404


@pytest.mark.long
async def test_each_key_may_do_what_its_roles_say(tmp_path: Path) -> None:
    with server(tmp_path, "--console", config=ROLES) as (url, _):
        async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
            allowed = {}
            for key in ("key-of-one", "agent", "person", "guest"):
                body = {"code": "print(1)", "tools": [], "session_id": key}
                headers = {"x-api-key": key}
                ran = await client.post("/exec/programmatic", json=body, headers=headers)
                await client.post("/console/login", content=key.encode())
                decided = await client.post("/console/api/approvals", json={"decisions": []})
                checked = await client.post("/console/api/check", json={"text": "1"})
                roles = (await client.get("/console/api/overview")).json()["roles"]
                allowed[key] = (ran.status_code, decided.status_code, checked.status_code, roles)

    assert allowed == {
        "key-of-one": (200, 400, 200, ["approve", "read", "run"]),
        "agent": (200, 403, 200, ["run"]),
        "person": (403, 400, 403, ["approve", "read"]),
        "guest": (403, 403, 403, ["read"]),
    }
