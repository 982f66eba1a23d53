"""Who is let in, who is whom, and how much each may do."""

import asyncio
import json
import time
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.interfaces.http.conftest import KEYS, Served
from tests.interfaces.http.talk import start, until
from toolfold.config import parse_config
from toolfold.errors import UsageError
from toolfold.interfaces.http.access.auth import Authenticator
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.server_setup import open_app
from toolfold.interfaces.http.settings import JwtSettings, Settings


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": "key-of-two"},
        {"Authorization": "Bearer key-of-two"},
        {"Authorization": "ApiKey key-of-two"},
        {"authorization": "bearer  key-of-two"},
        {"Authorization": "Basic YW55b25lOmtleS1vZi10d28="},
    ],
)
async def test_a_key_is_read_from_every_header(headers: dict[str, str]) -> None:
    assert await Authenticator(Settings(keys=KEYS)).tenant(httpx.Headers(headers)) == "two"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": "wrong"},
        {"Authorization": "Basic key-of-two"},
        {"Authorization": "Basic a2V5LW9mLXR3bw=="},
        {"Authorization": "Basic 4oKs"},
        {"Authorization": "Bearer a.b.c"},
    ],
)
async def test_without_a_good_key_there_is_401_on_every_path(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    client.headers.pop("X-API-Key")
    paths = ["/exec/programmatic", "/exec", "/exec/programmatic/cancel", "/upload", "/upload/batch"]
    paths += ["/exec/batch", "/run_code"]

    posted = [(await client.post(path, json={"code": "1"}, headers=headers)).status_code for path in paths]
    got = [
        (await client.get(path, headers=headers)).status_code
        for path in ("/files/s", "/download/s/f", "/sessions/s/objects/f", "/metrics")
    ]
    answer = await client.post("/exec", json={"code": "1"}, headers=headers)

    assert (posted, got) == ([401] * 7, [401] * 4)
    assert answer.json() == {"error": "missing or wrong API key"}


async def test_the_older_clients_key_in_the_body_counts(client: httpx.AsyncClient) -> None:
    client.headers.pop("X-API-Key")
    answer = await client.post("/exec", json={"code": "print(1)", "LIBRECHAT_CODE_API_KEY": KEYS["one"]})

    assert answer.json()["stdout"] == "1\n"


def signed(key: Any, algorithm: str, **claims: Any) -> dict[str, str]:
    usual = {"iss": "librechat", "aud": "codeapi", "sub": "ann", "exp": time.time() + 60}
    return {"authorization": f"Bearer {jwt.encode({**usual, **claims}, key, algorithm=algorithm)}"}


@pytest.mark.parametrize("algorithm", ["EdDSA", "RS256"])
async def test_signed_tokens_of_librechat_are_checked(algorithm: str) -> None:
    key: Any = ed25519.Ed25519PrivateKey.generate() if algorithm == "EdDSA" else rsa.generate_private_key(65537, 2048)
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    auth = Authenticator(Settings(jwt=JwtSettings(public_key=pem)))
    split = Authenticator(Settings(jwt=JwtSettings(public_key=pem, tenant_claim="sub")))
    wrong = [
        signed(key, algorithm, exp=time.time() - 60),
        signed(key, algorithm, aud="other"),
        signed(key, algorithm, iss="other"),
        signed(ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
        signed("secret" * 8, "HS256"),
        {"authorization": "Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJsaWJyZWNoYXQifQ."},
    ]

    good = await auth.tenant(httpx.Headers(signed(key, algorithm)))
    ann = await split.tenant(httpx.Headers(signed(key, algorithm)))
    bob = await split.tenant(httpx.Headers(signed(key, algorithm, sub="bob")))
    for headers in wrong:
        with pytest.raises(Refusal) as caught:
            await auth.tenant(httpx.Headers(headers))
        assert (caught.value.status, caught.value.text) == (401, "missing or wrong API key")

    assert good == "jwt:librechat"
    assert len({good, ann, bob}) == 3


async def test_without_keys_only_this_machine_is_served(served: Served) -> None:
    async with served(keys={}) as client:
        here = await client.post("/exec", json={"code": "print(1)"})
        page = await client.post("/exec", json={"code": "print(1)"}, headers={"Origin": "https://evil.example"})
        rebound = await client.post("/exec", json={"code": "print(1)"}, headers={"Host": "evil.example"})

    assert (here.status_code, page.status_code, rebound.status_code) == (200, 403, 403)


async def test_without_keys_no_other_address_is_listened_on() -> None:
    with pytest.raises(UsageError) as caught:
        await open_app(parse_config("http: {host: 0.0.0.0}\nledger: {where: memory}\n"))

    assert str(caught.value) == (
        "'0.0.0.0' can be reached from elsewhere, and no key is configured; set http.keys, or listen on 127.0.0.1"
    )


async def test_starts_beyond_the_rate_are_told_when_to_come_back(served: Served) -> None:
    async with served(starts_per_minute=2) as client:
        answers = [await client.post("/exec", json={"code": "1"}) for _ in range(3)]
        other = await client.post("/exec", json={"code": "1"}, headers={"X-API-Key": KEYS["two"]})

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    last = answers[-1].json()
    assert last == {"error": "rate_limited", "retry_after_seconds": last["retry_after_seconds"]}
    assert 1 <= last["retry_after_seconds"] <= 31
    assert answers[-1].headers["retry-after"] == str(last["retry_after_seconds"])
    assert other.status_code == 200


async def test_programs_beyond_a_tenants_turns_wait_and_those_beyond_the_queue_are_refused(served: Served) -> None:
    async with served(running=1, waiting=1) as client:
        loop = asyncio.create_task(
            start(client, "while True:\n    pass", timeout=60000, headers={"X-LibreChat-Code-Request-ID": "loop"})
        )
        await until(client, "running", 1)
        waiting = {asyncio.create_task(start(client, "print(1)", timeout=60000)) for _ in range(3)}
        refused = []
        while len(waiting) > 1:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused += [task.result().status_code for task in done]
        other = await start(client, "print(2)", headers={"X-API-Key": KEYS["two"]})
        await client.post("/exec/programmatic/cancel", json={"request_id": "loop"})
        [last] = waiting
        statuses = [(await loop).status_code, (await last).status_code]

    assert (refused, statuses) == ([429, 429], [400, 200])
    assert other.json()["stdout"] == "2\n"


async def test_only_so_many_executions_of_a_tenant_are_paused(served: Served) -> None:
    async with served(paused=2) as client:
        answers = [await start(client, 'await get_weather(city="a")') for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]


async def test_signing_keys_are_fetched_from_a_jwks_address() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    public = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    document = json.dumps({"keys": [{**public, "kid": "k1", "alg": "EdDSA", "use": "sig"}]}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(document) + document)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    claims = {"iss": "librechat", "aud": "codeapi", "exp": time.time() + 60}
    known = jwt.encode(claims, key, algorithm="EdDSA", headers={"kid": "k1"})
    unknown = jwt.encode(claims, key, algorithm="EdDSA", headers={"kid": "k2"})
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        auth = Authenticator(Settings(jwt=JwtSettings(jwks_url=f"http://127.0.0.1:{port}/jwks")))
        tenant = await auth.tenant(httpx.Headers({"authorization": f"Bearer {known}"}))
        with pytest.raises(Refusal):
            await auth.tenant(httpx.Headers({"authorization": f"Bearer {unknown}"}))

    assert tenant == "jwt:librechat"
