"""Keys of signed tokens from an address that hangs, or is asked for keys that nobody has."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from toolfold.interfaces.http.access.auth import Authenticator
from toolfold.interfaces.http.access.jwt_auth import SigningKeys
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.settings import JwtSettings, Settings

KEY = ed25519.Ed25519PrivateKey.generate()
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def issuer(answer: Answer) -> AsyncIterator[tuple[str, list[int]]]:
    """The address of the keys, and one item for each request."""
    asked: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        await answer(writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks", asked


async def with_key(writer: asyncio.StreamWriter) -> None:
    public = jwt.algorithms.OKPAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    document = json.dumps({"keys": [{**public, "kid": "k1", "alg": "EdDSA", "use": "sig"}]}).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(document) + document)
    await writer.drain()


def token(kid: str) -> str:
    claims = {"iss": "librechat", "aud": "codeapi", "exp": time.time() + 60}
    return jwt.encode(claims, KEY, algorithm="EdDSA", headers={"kid": kid})


async def tenant(auth: Authenticator, kid: str) -> str:
    try:
        return await auth.tenant(httpx.Headers({"authorization": f"Bearer {token(kid)}"}))
    except Refusal as refusal:
        return refusal.text


async def test_many_unknown_keys_cost_one_fetch() -> None:
    async with issuer(with_key) as (url, asked):
        auth = Authenticator(Settings(jwt=JwtSettings(jwks_url=url)))
        good = await tenant(auth, "k1")
        bogus = await asyncio.gather(*(tenant(auth, f"made-up-{number}") for number in range(30)))

    assert (good, set(bogus)) == ("jwt:librechat", {"missing or wrong API key"})
    assert len(asked) == 1


async def test_who_comes_together_waits_for_the_same_fetch() -> None:
    async with issuer(with_key) as (url, asked):
        auth = Authenticator(Settings(jwt=JwtSettings(jwks_url=url)))
        tenants = await asyncio.gather(*(tenant(auth, "k1") for _ in range(20)))

    assert (set(tenants), len(asked)) == ({"jwt:librechat"}, 1)


async def test_an_address_that_hangs_holds_none_of_the_threads_that_others_need() -> None:
    let_go = asyncio.Event()

    async def hang(writer: asyncio.StreamWriter) -> None:
        await let_go.wait()

    async with issuer(hang) as (url, asked):
        auth = Authenticator(Settings(jwt=JwtSettings(jwks_url=url)))
        waiting = [asyncio.create_task(tenant(auth, f"made-up-{number}")) for number in range(60)]
        while not asked:
            await asyncio.sleep(0.01)
        others = await asyncio.gather(*(asyncio.to_thread(str, number) for number in range(60)))
        let_go.set()
        told = await asyncio.gather(*waiting)

    assert (len(others), set(told), len(asked)) == (60, {"missing or wrong API key"}, 1)


async def test_a_new_key_is_found_when_the_time_has_come() -> None:
    now = [1000.0]
    answers: list[Any] = [b'{"keys": []}']

    async def first_none(writer: asyncio.StreamWriter) -> None:
        if answers:
            body = answers.pop()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        else:
            await with_key(writer)

    async with issuer(first_none) as (url, asked):
        keys = SigningKeys(url, clock=lambda: now[0])
        for _ in range(3):
            with pytest.raises(jwt.PyJWTError):
                await keys.of(token("k1"))
        now[0] += 10
        found = await keys.of(token("k1"))

    assert (type(found), len(asked)) == (type(KEY.public_key()), 2)
