"""Clients that never give up: each request is sent again until it is answered, and then once more."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

from tests.doors.http.talk import WEATHER, result
from tests.faults.judge import KILLED, UNKNOWN, End, Operation

AGAIN = (409, 421, 429, 500, 502, 503)
PATIENCE_SECONDS = 60.0
_WITHOUT_CLIENT = """
a = await effect(name="{name}-1")
b = await effect(name="{name}-2")
print("{name}", a, b)
"""
_WITH_CLIENT = """
a = await effect(name="{name}-1")
first = await get_weather(city="{name}")
b = await effect(name="{name}-2")
second = await get_weather(city="{name}!")
c = await effect(name="{name}-3")
print("{name}", a, b, c, first, second)
"""


class Client:
    """Starts programs one after the other until it is told to stop."""

    def __init__(self, number: int, bases: Callable[[], list[str]]) -> None:
        self._number = number
        self._bases = bases
        self._chance = random.Random(number)
        self.operations: list[Operation] = []
        self.requests = 0
        self.refusals: Counter[str] = Counter()
        """After which a request was sent again."""

    async def work(self, until: float) -> None:
        """Operations of both kinds, in turn; the last one is finished after the time."""
        async with httpx.AsyncClient(headers={"X-API-Key": "key-of-one"}, timeout=20) as http:
            for count in itertools.count():
                if time.monotonic() > until:
                    return
                name = f"c{self._number}x{count}"
                has_client = bool(count % 2)
                one = Operation(name, effects=3 if has_client else 2)
                self.operations.append(one)
                await self._do(http, one, (_WITH_CLIENT if has_client else _WITHOUT_CLIENT).format(name=name))

    async def _do(self, http: httpx.AsyncClient, one: Operation, code: str) -> None:
        body = await self._send(http, one, "start", {"code": code, "tools": [WEATHER], "timeout": 240_000})
        while body is not None and body["status"] == "tool_call_required":
            calls = body["tool_calls"]
            replies = [f"reply-{call['input']['city']}" for call in calls]
            one.replies += replies
            results = [result(call, reply) for call, reply in zip(calls, replies, strict=True)]
            request = {"continuation_token": body["continuation_token"], "tool_results": results}
            body = await self._send(http, one, f"round {len(one.replies)}", request)
        if body is None:
            return
        one.stdout, one.said = body.get("stdout", ""), str(body.get("error", ""))
        one.end = _end(body, one.said)

    async def _send(
        self, http: httpx.AsyncClient, one: Operation, what: str, request: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The answer; sent again after each failure, and now and then although it was answered."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        headers = {"Idempotency-Key": one.name} if what == "start" else {}
        times = 2 if self._chance.random() < 0.3 else 1
        while time.monotonic() < deadline:
            self.requests += 1
            try:
                base = self._chance.choice(self._bases())
                answer = await http.post(f"{base}/exec/programmatic", json=request, headers=headers)
            except httpx.TransportError as error:
                self.refusals[type(error).__name__] += 1
                await asyncio.sleep(0.05)
                continue
            if answer.status_code in AGAIN:
                self.refusals[f"{answer.status_code} {answer.json().get('error')}"] += 1
                await asyncio.sleep(0.05)
                continue
            body: dict[str, Any] = answer.json()
            if answer.status_code != 200:
                one.end, one.said = "lost", f"{answer.status_code} {body.get('error')} to {what}"
                return None
            one.answers.setdefault(what, []).append(body)
            if len(one.answers[what]) >= times:
                return one.answers[what][0]
        if one.answers.get(what):
            return one.answers[what][0]
        one.said = f"no answer to {what}"
        return None


def _end(body: dict[str, Any], error: str) -> End:
    if body["status"] == "completed":
        return "completed"
    if UNKNOWN in body.get("stderr", ""):
        return "unknown"
    return "killed" if error.startswith(KILLED) else "lost"
