"""A start with an `Idempotency-Key` whose server is killed: its program runs once all the same."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interfaces.http.fleet import TOOLS, until
from tests.interfaces.http.talk import WEATHER, finish, go_on, result, start
from tests.interfaces.http.test_restart import CONFIG, ready, server

KEY = {"Idempotency-Key": "order-17"}
WITH_TOOLS = CONFIG + "tools: {modules: [tools.py]}\n"
ENDS = "import random\nprint(await charge(name='a'), random.random())"
PAUSES = "print(await charge(name='a'), await get_weather(city='a'))"
TWICE = "first = await get_weather(city='a')\nprint(await get_weather(city=first))"
HANGS = "print(await charge(name='a'))\nprint(await hang(name='h'))"


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[subprocess.Popen[str], httpx.AsyncClient]]:
    (folder / "tools.py").write_text(TOOLS, "utf-8")
    with server(folder, WITH_TOOLS) as (process, client):
        async with client:
            yield process, client


async def send(client: httpx.AsyncClient, code: str, *, plain: bool = False) -> dict[str, Any]:
    await ready(client)
    if plain:
        return (await client.post("/exec", json={"lang": "py", "code": code}, headers=KEY)).json()
    return (await start(client, code, WEATHER, headers=KEY, session_id="s")).json()


@pytest.mark.parametrize("plain", [False, True], ids=["programmatic", "exec"])
async def test_a_program_that_ended_before_the_kill_is_not_run_again(tmp_path: Path, plain: bool) -> None:
    async with served(tmp_path) as (process, client):
        first = await send(client, ENDS, plain=plain)
        process.kill()
    async with served(tmp_path) as (_, client):
        second = await send(client, ENDS, plain=plain)

    assert first["stdout"].startswith("1 0.")
    assert second == first
    assert (tmp_path / "charged.txt").read_text().split() == ["a"]


async def test_a_program_that_paused_before_the_kill_gives_the_same_token(tmp_path: Path) -> None:
    async with served(tmp_path) as (process, client):
        first = await send(client, PAUSES)
        process.kill()
    async with served(tmp_path) as (_, client):
        second = await send(client, PAUSES)
        ended, _ = await finish(client, first, lambda *_: "sun")

    assert (second, ended["stdout"]) == (first, "1 sun\n")
    assert (tmp_path / "charged.txt").read_text().split() == ["a"]


async def test_a_continuation_that_was_answered_before_the_kill_gets_the_same_answer(tmp_path: Path) -> None:
    first, *others = await continued(tmp_path, TWICE), await continued(tmp_path), await continued(tmp_path)

    assert first["tool_calls"][0]["input"] == {"city": "sun"}
    assert others == [first, first]


async def continued(folder: Path, code: str = "") -> dict[str, Any]:
    """The answer to one continuation, whose server is killed then; without a program, of the one before."""
    kept = folder / "token"
    async with served(folder) as (process, client):
        if code:
            kept.write_text((await send(client, code))["continuation_token"])
        await ready(client)
        answer = (await go_on(client, kept.read_text(), result("call_001", "sun"))).json()
        process.kill()
    return answer


async def test_a_call_that_was_open_at_the_kill_is_not_made_again(tmp_path: Path) -> None:
    async with served(tmp_path) as (process, client):
        sent = asyncio.create_task(send(client, HANGS, plain=True))
        await until((tmp_path / "h.hangs").exists)
        (tmp_path / "h.hangs").unlink()
        process.kill()
        with pytest.raises(httpx.TransportError):
            await sent
    async with served(tmp_path) as (_, client):
        second = await send(client, HANGS, plain=True)

    assert second["stdout"] == "1\n"
    assert "'hang' was called before the host stopped; whether it ran is not known" in second["stderr"]
    assert ((tmp_path / "charged.txt").read_text().split(), (tmp_path / "h.hangs").exists()) == (["a"], False)
