"""Pages in a browser on this machine, against a server that asks for no key; and bodies that such pages can send."""

import httpx
import pytest

from tests.interfaces.http.conftest import Served
from tests.interfaces.http.talk import start

ROUTES = [
    ("GET", "/"), ("GET", "/health"), ("GET", "/ready"), ("GET", "/metrics"), ("GET", "/docs"), ("GET", "/openapi.json"),
    ("GET", "/files/s"), ("GET", "/download/s/f"), ("DELETE", "/sessions/s/objects/f"), ("GET", "/nowhere"),
    ("POST", "/exec"), ("POST", "/exec/programmatic"), ("POST", "/exec/programmatic/cancel"), ("POST", "/upload"),
    ("POST", "/upload/batch"), ("POST", "/exec/batch"), ("POST", "/run_code"),
]  # fmt: skip
PAGES = [
    {"Host": "127.evil.example"},
    {"Host": "127.0.0.1.nip.io:8000"},
    {"Host": "evil.example"},
    {"Origin": "http://127.evil.example"},
    {"Origin": "http://127.0.0.1.nip.io"},
    {"Origin": "null"},
]
TEXT = {"error": "without an API key only this machine is served; configure http.keys"}


async def test_every_route_turns_pages_of_other_machines_away(served: Served) -> None:
    async with served(keys={}) as client:
        told = []
        for page in PAGES:
            for method, path in ROUTES:
                answer = await client.request(method, path, headers=page, json={"code": "print(1)"})
                told.append((answer.status_code, answer.json() if answer.status_code == 403 else None))
        refusals = (await client.get("/metrics")).text

    assert told == [(403, TEXT)] * (len(PAGES) * len(ROUTES))
    assert f'toolfold_http_refusals_total{{status="403"}} {len(told)}\n' in refusals


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "[::1]:8000", "127.0.0.2"])
async def test_clients_of_this_machine_are_served(served: Served, host: str) -> None:
    async with served(keys={}) as client:
        answer = await start(client, "print(1)", headers={"Host": host, "Origin": f"http://{host}"})

    assert answer.json()["stdout"] == "1\n"


async def test_with_keys_a_server_may_have_any_name(client: httpx.AsyncClient) -> None:
    answer = await start(client, "print(1)", headers={"Host": "code.example", "Origin": "https://chat.example"})

    assert answer.json()["stdout"] == "1\n"


@pytest.mark.parametrize("path", ["/exec", "/exec/programmatic", "/exec/programmatic/cancel"])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", None])
async def test_json_is_taken_as_application_json_only(client: httpx.AsyncClient, path: str, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = await client.post(path, content=b'{"code": "print(1)"}', headers=headers)

    said = "send the body as application/json, not as {}".format("nothing" if kind is None else repr(kind))
    assert (answer.status_code, answer.json()) == (415, {"error": said})


@pytest.mark.parametrize("kind", ["application/json", "application/JSON; charset=utf-8"])
async def test_a_charset_behind_the_type_does_not_matter(client: httpx.AsyncClient, kind: str) -> None:
    answer = await client.post("/exec", content=b'{"code": "print(1)"}', headers={"Content-Type": kind})

    assert answer.json()["stdout"] == "1\n"


@pytest.mark.parametrize("path", ["/upload", "/upload/batch"])
async def test_uploads_are_taken_as_multipart_only(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, data={"session_id": "s"})

    said = "send the body as multipart/form-data, not as 'application/x-www-form-urlencoded'"
    assert (answer.status_code, answer.json()) == (415, {"error": said})


@pytest.mark.parametrize("base_path", ["", "/v1"])
async def test_the_pages_for_people_are_whole_without_another_host(served: Served, base_path: str) -> None:
    async with served(base_path=base_path) as client:
        root = str(client.base_url).rstrip("/")
        index, docs = await client.get(f"{root}/"), await client.get(f"{root}/docs")
        document = (await client.get(f"{root}/openapi.json")).json()

    assert [page.headers["content-type"] for page in (index, docs)] == ["text/html; charset=utf-8"] * 2
    assert [
        word for word in ("http://", "https://", "<script", " src=") for page in (index, docs) if word in page.text
    ] == []
    assert f'href="{base_path}/docs"' in index.text
    assert [path for path in document["paths"] if f"<code>{path}</code>" not in docs.text] == []
