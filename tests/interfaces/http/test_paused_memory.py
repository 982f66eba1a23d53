"""Paused executions whose guests had to make room go on as if nothing had been."""

import pytest

from tests.interfaces.http.conftest import Served
from tests.interfaces.http.talk import finish, metric, start, until
from toolfold.engines.process import guest
from toolfold.execution.pauses import PausedLimits
from toolfold.models import MIB
from toolfold.runtime import RuntimeSettings

CODE = """
x = b"x" * 90_000_000
a = await get_weather(city="Bonn")
print(a, len(x))
"""


@pytest.mark.long
async def test_requests_that_pause_with_much_memory_are_all_answered_and_hold_little(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "FREEZE_AFTER_SECONDS", 0.0)
    limits = PausedLimits(tenant_bytes=200 * MIB, total_bytes=200 * MIB)
    options = {"engine": "process", "engine_options": {"warm": 0}, "settings": RuntimeSettings(paused_limits=limits)}
    async with served(options=options, preload_data=False) as client:
        paused = [(await start(client, CODE)).json() for _ in range(4)]

        await until(client, "guests", 2)
        ended = [await finish(client, one, lambda *_: "sunny") for one in paused]

    assert [(one["status"], one["stdout"]) for one, _ in ended] == [("completed", "sunny 90000000\n")] * 4


@pytest.mark.long
async def test_the_gauge_comes_back_below_the_limit_after_many_large_pauses(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "FREEZE_AFTER_SECONDS", 0.0)
    limits = PausedLimits(tenant_bytes=128 * MIB, total_bytes=2048 * MIB)
    options = {"engine": "process", "engine_options": {"warm": 0}, "settings": RuntimeSettings(paused_limits=limits)}
    async with served(options=options, preload_data=False) as client:
        statuses = [(await start(client, CODE)).json()["status"] for _ in range(8)]
        await until(client, "paused", 8)
        while await metric(client, "guest_memory_bytes") > limits.tenant_bytes:
            pass
        await until(client, "guests", 1)

    assert statuses == ["tool_call_required"] * 8
