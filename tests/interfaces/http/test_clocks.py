"""Servers whose clock is set, or is wrong: deadlines mean the same to all, and only time that passed counts."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interfaces.http.fleet import Fleet, running_fleet
from tests.interfaces.http.talk import go_on, result, start
from tests.interfaces.http.test_restart import ready, server
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401

pytestmark = pytest.mark.long

KEY = {"Idempotency-Key": "order-17"}
CODE = """
async with asyncio.timeout(50):
    a = await get_weather(city="a")
b = await get_weather(city="b")
print(a, b)
"""
SITE = """
import pathlib, time
seconds, real = pathlib.Path(__file__).with_name("seconds"), time.time
time.time = lambda: real() + float(seconds.read_text())
"""


class WallClock:
    """The clock of processes that are started while its folder is on their path."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SITE, "utf-8")
        self.folder = folder
        self.set_ahead(0)

    def set_ahead(self, seconds: float) -> None:
        """At once, and also where those processes run already."""
        part = self.folder / "part"
        part.write_text(str(seconds), "utf-8")
        os.replace(part, self.folder / "seconds")


@pytest.fixture
def wall_clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path / "clock")


@pytest.fixture
async def fleet(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Fleet]:
    with running_fleet(tmp_path, redis_server) as fleet:
        yield fleet
        for replica in fleet.replicas:
            await replica.client.aclose()


@pytest.mark.parametrize("jump", [61, 86_400 * 40, -86_400])
async def test_a_pause_outlives_a_clock_that_is_set_and_a_restart_after_it(
    jump: int, wall_clock: WallClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(wall_clock.folder))
    with server(tmp_path) as (_, client):
        async with client:
            await ready(client)
            first = (await start(client, CODE, timeout=60_000)).json()
            other = (await start(client, CODE, timeout=60_000)).json()
            wall_clock.set_ahead(jump)
            second = (await go_on(client, first["continuation_token"], result("call_001", "sun"))).json()
    with server(tmp_path) as (_, client):
        async with client:
            await ready(client)
            last = (await go_on(client, second["continuation_token"], result("call_002", "rain"))).json()
            other = (await go_on(client, other["continuation_token"], result("call_001", "fog"))).json()
            end = (await go_on(client, other["continuation_token"], result("call_002", "snow"))).json()

    assert [(one["status"], one["stdout"]) for one in (last, end)] == [
        ("completed", "sun rain\n"),
        ("completed", "fog snow\n"),
    ]


@pytest.mark.parametrize("ahead", [-3600, -1200, 3600])
async def test_replicas_with_wrong_clocks_keep_the_deadlines_of_the_redis_that_they_share(
    ahead: int, wall_clock: WallClock, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    (right,) = fleet.add(1)
    wall_clock.set_ahead(ahead)
    monkeypatch.setenv("PYTHONPATH", str(wall_clock.folder))
    (wrong,) = fleet.add(1)
    await fleet.ready()

    first = (await start(wrong.client, CODE, timeout=60_000, headers=KEY)).json()
    again = (await start(right.client, CODE, timeout=60_000, headers=KEY)).json()
    second = (await go_on(right.client, first["continuation_token"], result("call_001", "sun"))).json()
    # Whoever begins a program also forgets what has expired.
    other = (await start(right.client, CODE, timeout=60_000)).json()
    last = (await go_on(wrong.client, second["continuation_token"], result("call_002", "rain"))).json()
    other = (await go_on(wrong.client, other["continuation_token"], result("call_001", "fog"))).json()
    end = (await go_on(right.client, other["continuation_token"], result("call_002", "snow"))).json()

    assert again == first
    assert [(one["status"], one["stdout"]) for one in (last, end)] == [
        ("completed", "sun rain\n"),
        ("completed", "fog snow\n"),
    ]
