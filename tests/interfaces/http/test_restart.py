"""A server that is killed, or told to stop, and the one that follows it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.interfaces.http.talk import finish, go_on, result, start, until

CONFIG = """
http: {keys: {one: key-of-one}, port: 0, files: files, waiting: 500, preload_data: false}
ledger: {where: ledger.sqlite}
"""
CODE = """
import random, time
x, t = random.random(), time.time()
a = await get_weather(city=f"{x} {t}")
open("a.txt", "a").write(a)
b = await get_weather(city=a + "!")
print(a, b, x, t, random.random(), open("a.txt").read())
"""


@contextmanager
def server(folder: Path, config: str = CONFIG) -> Iterator[tuple[subprocess.Popen[str], httpx.AsyncClient]]:
    (folder / "toolfold.yaml").write_text(config, "utf-8")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, "-m", "toolfold", "serve", "--config", str(folder / "toolfold.yaml")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.fullmatch(r"toolfold: listening on (http://127.0.0.1:\d+)\n", line)
        assert match, line + process.stderr.read()
        limits = httpx.Limits(max_connections=60)
        headers = {"X-API-Key": "key-of-one"}
        yield process, httpx.AsyncClient(base_url=match[1], headers=headers, timeout=60, limits=limits)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


async def ready(client: httpx.AsyncClient) -> None:
    for _ in range(200):
        try:
            if (await client.get("/ready")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.05)
    raise AssertionError("the server did not become ready")


@pytest.mark.long
async def test_fifty_paused_executions_outlive_a_kill(tmp_path: Path) -> None:
    with server(tmp_path) as (process, client):
        async with client:
            await ready(client)
            first = [
                (await start(client, CODE, session_id=f"s{number}", timeout=200_000)).json() for number in range(50)
            ]
            # Every other one is in its second round by then.
            second = [
                (await go_on(client, body["continuation_token"], result("call_001", f"a{at}"))).json()
                if at % 2
                else body
                for at, body in enumerate(first)
            ]
            process.send_signal(signal.SIGKILL)
    with server(tmp_path) as (_, client):
        async with client:
            await ready(client)
            # Sent again after the kill, as a client that lost the answer does: it runs nothing twice.
            again = (await go_on(client, first[1]["continuation_token"], result("call_001", "a1"))).json()
            late = await go_on(
                client, first[3]["continuation_token"], result("call_001", "other"), result("call_002", 1)
            )
            ends = []
            for at, body in enumerate(second):
                replies = iter([f"b{at}"] if at % 2 else [f"a{at}", f"b{at}"])
                ends.append((await finish(client, body, lambda *_, replies=replies: next(replies)))[0])

    assert again["tool_calls"] == second[1]["tool_calls"]
    assert late.json()["error"] == "Invalid continuation token"
    assert [body["status"] for body in ends] == ["completed"] * 50
    # What each printed is what it would have without the kill: its random number and its clock are in its first call.
    asked = [body["tool_calls"][0]["input"]["city"] for body in first]
    shown = [re.sub(r" \S+ (a\d+)$", r" \1", body["stdout"].strip()) for body in ends]
    assert shown == [f"a{at} b{at} {asked[at]} a{at}" for at in range(50)]


@pytest.mark.long
async def test_a_drain_lets_running_programs_end_and_paused_ones_wait(tmp_path: Path) -> None:
    with server(tmp_path) as (process, client):
        async with client:
            await ready(client)
            paused = (await start(client, CODE, timeout=200_000)).json()
            running = asyncio.create_task(start(client, "import time\ntime.sleep(2)\nprint('ended')"))
            await until(client, "running", 1)
            process.send_signal(signal.SIGTERM)
            ended = (await running).json()
            code = await asyncio.to_thread(process.wait, 60)
    with server(tmp_path) as (_, client):
        async with client:
            await ready(client)
            replies = iter(["a", "b"])
            body, rounds = await finish(client, paused, lambda *_: next(replies))

    assert (ended["stdout"], code) == ("ended\n", 0)
    assert (body["status"], rounds) == ("completed", 2)
