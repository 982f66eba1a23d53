"""Clients that never give up: programs whose calls have effects, files, and each request sent until it is answered."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from tests.doors.http.talk import WEATHER, result
from tests.faults.judge import KILLED, UNKNOWN, End, Operation, Session
from tests.faults.talk import Talk

_TIMEOUT_MILLISECONDS: Final = 3_000_000
_WITHOUT_CLIENT: Final = """
a = await effect(name="{name}-1")
b = await effect(name="{name}-2")
print("{name}", a, b)
"""
_WITH_CLIENT: Final = """
a = await effect(name="{name}-1")
first = await get_weather(city="{name}")
b = await effect(name="{name}-2")
second = await get_weather(city="{name}!")
c = await effect(name="{name}-3")
print("{name}", a, b, c, first, second)
"""
_LONG: Final = """
import asyncio
a = await effect(name="{name}-1")
await asyncio.sleep(2)
first = await get_weather(city="{name}")
await asyncio.sleep(2)
b = await effect(name="{name}-2")
print("{name}", a, b, first)
"""
_PROGRAMS: Final = ((_WITHOUT_CLIENT, 2), (_WITH_CLIENT, 3), (_WITHOUT_CLIENT, 2), (_WITH_CLIENT, 3), (_LONG, 2))
_WRITES: Final = """
a = await effect(name="{name}-1")
first = await get_weather(city="{name}")
with open("{name}.txt", "w") as file:
    file.write("by {name}")
print("{name}", a, first)
"""


class Client:
    """Starts programs one after the other until it is told to stop."""

    def __init__(self, number: int, bases: Callable[[], list[str]]) -> None:
        self._name = f"c{number}"
        self.talk = Talk(number, bases)
        self.operations: list[Operation] = []

    async def work(self, until: float = math.inf, *, most: int = sys.maxsize) -> None:
        """Operations of all kinds, in turn; the last one is finished after the time."""
        self.talk.calm_at = 0.0 if until == math.inf else until
        for count in range(most):
            if time.monotonic() > until:
                return
            text, effects = _PROGRAMS[count % len(_PROGRAMS)]
            one = Operation(f"{self._name}x{count}", effects=effects)
            self.operations.append(one)
            await self.run(one, text.format(name=one.name))

    # Any: more for the body of the start.
    async def run(self, one: Operation, code: str, **more: Any) -> None:
        """One program to its end."""
        start = {"code": code, "tools": [WEATHER], "timeout": _TIMEOUT_MILLISECONDS, **more}
        body = await self._ask(one, "start", start)
        while body is not None and body["status"] == "tool_call_required":
            calls = body["tool_calls"]
            replies = [f"reply-{call['input']['city']}" for call in calls]
            one.replies += replies
            results = [result(call, reply) for call, reply in zip(calls, replies, strict=True)]
            request = {"continuation_token": body["continuation_token"], "tool_results": results}
            body = await self._ask(one, f"round {len(one.replies)}", request)
        if body is None:
            return
        one.stdout, one.said = body.get("stdout", ""), str(body.get("error", ""))
        one.end = _end(body, one.said)

    async def _ask(self, one: Operation, what: str, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; now and then it is asked for although it was answered."""
        headers = {"Idempotency-Key": one.name} if what == "start" else {}
        bodies = one.answers.setdefault(what, [])
        for _ in range(2 if self.talk.chance.random() < 0.3 else 1):
            answer = await self.talk.send("POST", "/exec/programmatic", json=request, headers=headers)
            if answer is None:
                one.said = f"{what}, after {self.talk.last_refusals}"
                return None
            body: dict[str, Any] = answer.json()
            if answer.status_code != 200:
                one.end, one.said = "lost", f"{answer.status_code} {body.get('error')} to {what}"
                return None
            bodies.append(body)
        return bodies[0]


class Uploader(Client):
    """Several uploads at the same time into one session, while a program runs in it; then the next session."""

    def __init__(self, number: int, bases: Callable[[], list[str]]) -> None:
        super().__init__(number, bases)
        self._name = f"u{number}"
        self.sessions: list[Session] = []

    async def work(self, until: float = math.inf, *, most: int = sys.maxsize) -> None:
        self.talk.calm_at = 0.0 if until == math.inf else until
        for count in range(most):
            if time.monotonic() > until:
                return
            session = Session(f"{self._name}s{count}")
            self.sessions.append(session)
            await asyncio.gather(
                self._write(session), *(self._upload(session, f"{session.name}-{at}.txt") for at in range(4))
            )

    async def look(self) -> None:
        """What all sessions have in the end."""
        for session in self.sessions:
            session.found = await self._read(session)

    async def _upload(self, session: Session, name: str) -> None:
        files = {"file": (name, f"of {name}".encode())}
        answer = await self.talk.send("POST", "/upload", files=files, data={"session_id": session.name})
        if answer is not None and answer.status_code == 200:
            session.uploaded[name] = f"of {name}"

    async def _write(self, session: Session) -> None:
        one = Operation(session.name, effects=1)
        self.operations.append(one)
        await self.run(one, _WRITES.format(name=one.name), session_id=session.name)
        if one.end == "completed":
            session.left[f"{one.name}.txt"] = f"by {one.name}"

    async def _read(self, session: Session) -> dict[str, str] | None:
        listing = await self.talk.send("GET", f"/files/{session.name}")
        if listing is None or listing.status_code != 200:
            return None
        found = {}
        for file in listing.json():
            content = await self.talk.send("GET", f"/download/{session.name}/{file['id']}")
            found[file["filename"]] = "" if content is None else content.text
        return found


def _end(body: dict[str, Any], error: str) -> End:
    if body["status"] == "completed":
        return "completed"
    if any(words in body.get("stderr", "") for words in UNKNOWN):
        return "unknown"
    return "killed" if error.startswith(KILLED) else "lost"
