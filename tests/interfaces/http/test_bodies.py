"""Bodies: read once it is known whose they are, on that tenant's account, and never decoded where that would be long."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served
from tests.interfaces.http.talk import start

JSON = {"Content-Type": "application/json"}
PATHS = [
    "/exec/programmatic",
    "/exec",
    "/exec/programmatic/cancel",
    "/upload",
    "/upload/batch",
    "/exec/batch",
    "/run_code",
]


class Told:
    """A body that says how much of it was asked for."""

    def __init__(self, pieces: int) -> None:
        self.sent = 0
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._pieces):
            self.sent += 1
            yield b"[" * 10_000


async def unfinished(client: httpx.AsyncClient, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """The answer to a request whose body does not come to its end."""
    url = client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        named = {"Host": "localhost", "Content-Length": "33000000", **JSON, **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        writer.write(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
        return await reader.readuntil(b"}")
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("path", PATHS)
async def test_a_wrong_key_is_told_before_the_body_has_come(client: httpx.AsyncClient, path: str) -> None:
    answer = await unfinished(client, path, {"X-API-Key": "wrong"}, b"")

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.endswith(b'{"error":"missing or wrong API key"}')


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/exec"])
async def test_no_key_is_told_before_the_body_has_come(client: httpx.AsyncClient, path: str) -> None:
    assert (await unfinished(client, path, {}, b"")).startswith(b"HTTP/1.1 401 ")


async def test_a_body_that_may_hold_a_key_is_read_to_64_kib(client: httpx.AsyncClient) -> None:
    answer = await unfinished(client, "/exec", {}, b"[" * 65_537)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(
        b'{"error":"without a key in its headers a request may have 65536 bytes; send the key as X-API-Key"}'
    )


async def test_a_body_with_its_key_may_have_64_kib(client: httpx.AsyncClient) -> None:
    client.headers.pop("X-API-Key")
    body = {"code": "print(1)" + " " * 60_000, "LIBRECHAT_CODE_API_KEY": KEYS["one"]}

    assert (await client.post("/exec", json=body)).json()["stdout"] == "1\n"


async def test_a_forged_word_of_another_replica_is_told_before_the_body_has_come() -> None:
    from toolfold.interfaces.http.outcome_bodies import Refusal
    from toolfold.interfaces.http.replica_forwarding import Forwarder
    from toolfold.interfaces.http.request_models import ForwardedRequest

    ours, request = Forwarder(b"k" * 32), ForwardedRequest(path="/exec", body=b"", tenant="")
    digest = "0" * 64
    told = [f"me.b25l.{digest}.{'0' * 64}", "me.b25l", "", f"me.b25l.{digest}."]

    for signed in told:
        with pytest.raises(Refusal) as caught:
            ours.receive(signed, request, "me")
        assert (caught.value.status, caught.value.text) == (401, "missing or wrong API key")
    await ours.close()


async def test_a_body_of_lists_is_refused_while_it_comes_and_never_decoded(client: httpx.AsyncClient) -> None:
    told = Told(3_000)
    answer = await client.post("/exec", content=told, headers=JSON)

    text = "the body has more than 500000 lists and objects; send less"
    assert (answer.status_code, answer.json()) == (413, {"error": text})


async def test_bodies_of_one_tenant_share_a_budget_and_leave_the_others_theirs(served: Served) -> None:
    async with served(max_held_bytes=1_000_000) as client:
        url = client.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = f"POST /exec HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEYS['one']}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 900000\r\nExpect: 100-continue\r\n\r\n".encode())
        await reader.readuntil(b"100 Continue\r\n\r\n")  # it is taken, and asked for
        code = "print(1)" + " " * 200_000
        mine = await start(client, code)
        theirs = await start(client, code, headers={"X-API-Key": KEYS["two"]})
        writer.close()
        await writer.wait_closed()
        while (again := await start(client, code)).status_code == 429:
            await asyncio.sleep(0.01)

    assert (mine.status_code, mine.json()["error"]) == (429, "rate_limited")
    assert (theirs.json()["stdout"], again.json()["stdout"]) == ("1\n", "1\n")


async def test_a_body_without_a_length_counts_as_it_comes(served: Served) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 10_000

    async with served(max_held_bytes=100_000) as client:
        answer = await client.post("/exec", content=pieces(), headers=JSON)

    assert (answer.status_code, answer.json()["error"]) == (429, "rate_limited")
