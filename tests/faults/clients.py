"""Clients that never give up: programs whose every value is known, files, and each request sent until it is answered."""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.faults.judge import KILLED, UNKNOWN, End, Operation, Session
from tests.faults.programs import IN_BASH, Kind, Script, Seen, kinds_of, script
from tests.faults.talk import PATIENCE_SECONDS, Talk
from tests.interfaces.http.talk import result

WEATHER: Final = {
    "name": "get_weather",
    "description": "Weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "seen": {"type": "array"}},
        "required": ["city", "seen"],
    },
}
_TIMEOUT_MILLISECONDS: Final = 3_000_000
_AGAIN_SHARE: Final = 0.3
"""Of requests that are sent once more although they were answered."""
_CANCEL_SHARE: Final = 0.15
_CANCELLED: Final = ("400 Execution cancelled", "400 Execution expired")
_UNKEYED_SHARE: Final = 0.15
_BASH_SHARE: Final = 0.3
_LEAVES_FILE: Final = """
with open("{name}.txt", "w") as file:
    file.write("by {name}")
"""


class Client:
    """Starts programs one after the other until it is told to stop.

    Args:
        number: Whose programs they are, and the seed of its choices.
        bases: The addresses of the servers.
        again: How often it sends a request once more that was answered.
        between: Awaited after each answer with a pause, and after the last one.
    """

    def __init__(
        self, number: int, bases: Callable[[], list[str]], *, again: float = _AGAIN_SHARE,
        between: Callable[[], Awaitable[None]] | None = None, patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:  # fmt: skip
        self._name = f"c{number}"
        self._again = again
        self.between = between
        self._chance = random.Random(number)
        self.talk = Talk(number, bases, patience_seconds)
        self.operations: list[Operation] = []
        self.sessions: list[Session] = []
        # Any: JSON values.
        self._last: dict[str, tuple[Operation, str, dict[str, Any], dict[str, str]]] = {}

    async def work(self, until: float = math.inf, *, most: int = sys.maxsize) -> None:
        """Operations of all kinds; the last one is finished after the time."""
        self.talk.calm_at = 0.0 if until == math.inf else until
        for count in range(most):
            if time.monotonic() > until:
                return
            is_bash = self._chance.random() < _BASH_SHARE
            kinds = kinds_of(self._chance, has_client=self._chance.random() < 0.7)
            kinds = self._chance.choice(IN_BASH) if is_bash else kinds
            await self.operate(
                f"{self._name}x{count}", kinds, self._chance.choice(["whole", "unknown"]),
                is_keyed=self._chance.random() >= _UNKEYED_SHARE, may_cancel=self._chance.random() < _CANCEL_SHARE,
                is_bash=is_bash,
            )  # fmt: skip

    async def operate(
        self, name: str, kinds: tuple[Kind, ...], seen: Seen = "whole", *, is_keyed: bool = True,
        may_cancel: bool = False, is_bash: bool = False,
    ) -> Operation:  # fmt: skip
        """One program to its end."""
        made = script(name, kinds, seen, is_bash=is_bash)
        operation = Operation(name, made.steps, seen)
        self.operations.append(operation)
        await self.run(operation, made, is_keyed=is_keyed, may_cancel=may_cancel)
        return operation

    # Any: more for the body.
    def start_of(self, made: Script, key: str, **more: Any) -> tuple[dict[str, Any], dict[str, str]]:
        """The body and the headers of a start."""
        body = {"code": made.text, "tools": [WEATHER], "timeout": _TIMEOUT_MILLISECONDS, **more}
        body |= {"lang": "bash"} if made.is_bash else {}
        return body, {"Idempotency-Key": key} if key else {}

    # Any: more for the body of the start.
    async def run(
        self, operation: Operation, made: Script, *, is_keyed: bool = True, may_cancel: bool = False, **more: Any
    ) -> None:  # fmt: skip
        start, headers = self.start_of(made, operation.name if is_keyed else "", **more)
        headers["X-LibreChat-Code-Request-ID"] = operation.name
        if is_keyed:
            body = await self._ask(operation, "start", start, headers)
        else:
            body = await self._start_once(operation, start, headers)
        while body is not None and body["status"] == "tool_call_required":
            if may_cancel and self._chance.random() < 0.5:
                may_cancel, body = False, await self._cancel(operation, body)
            else:
                body = await self._go_on(operation, body)
        if body is None:
            return
        operation.stdout, operation.said = body.get("stdout", ""), str(body.get("error", ""))
        operation.end = _end(body, operation.said)
        if self.between is not None:
            await self.between()

    async def _go_on(self, operation: Operation, body: dict[str, Any]) -> dict[str, Any] | None:
        if self.between is not None:
            await self.between()
        results = []
        for call in body["tool_calls"]:
            city = call["input"]["city"]
            operation.evidence.append((city, call["input"]["seen"]))
            reply = {"reply": f"reply-{city}", "salt": self._chance.getrandbits(32), "of": [1, 2.5, None, "ü"]}
            results.append(result(call, operation.replies.setdefault(city, reply)))
        request = {"continuation_token": body["continuation_token"], "tool_results": results}
        return await self._ask(operation, f"round {len(operation.replies)}", request, {})

    async def _ask(
        self, operation: Operation, what: str, request: dict[str, Any], headers: dict[str, str]
    ) -> dict[str, Any] | None:
        """The answer; now and then it is asked for although it was answered."""
        self._last[operation.name] = (operation, what, request, headers)
        bodies = operation.answers.setdefault(what, [])
        for _ in range(2 if self._chance.random() < self._again else 1):
            began = time.monotonic()
            answer = await self.talk.send("POST", "/exec/programmatic", json=request, headers=headers)
            operation.in_flight.append((began, time.monotonic()))
            if answer is None:
                operation.said = f"no answer to {what}, after {self.talk.last_refusals}"
                return None
            body: dict[str, Any] = answer.json()
            if answer.status_code != 200:
                operation.end, operation.said = "lost", f"{answer.status_code} {body.get('error')} to {what}"
                return None
            bodies.append(body)
        return bodies[0]

    async def send_last_again(self) -> None:
        """The last request of each program that has completed: whatever happened since, it gets the same answer."""
        for operation, what, request, headers in tuple(self._last.values()):
            if operation.end == "completed":
                await self._ask(operation, what, request, headers)

    async def _start_once(
        self, operation: Operation, request: dict[str, Any], headers: dict[str, str]
    ) -> dict[str, Any] | None:
        """A start without a key: nobody promises what became of it unless it is answered, so it is never repeated."""
        began = time.monotonic()
        answer = await self.talk.try_once("POST", "/exec/programmatic", json=request, headers=headers)
        operation.in_flight.append((began, time.monotonic()))
        body: dict[str, Any] = {} if answer is None else answer.json()
        if answer is not None and answer.status_code == 200:
            operation.answers["start"] = [body]
            return body
        operation.end, operation.said = "unsure", "no answer" if answer is None else str(body.get("error"))
        if answer is not None and body.get("started") is False:
            operation.end = "refused"
        return None

    async def _cancel(self, operation: Operation, body: dict[str, Any]) -> dict[str, Any] | None:
        """Cancel it while it is paused. The next answer says whether: a server that was restarted knows no request ids."""
        named = {"request_id": operation.name}
        if await self.talk.send("POST", "/exec/programmatic/cancel", json=named) is None:
            operation.said = "no answer to a cancel"
            return None
        after = await self._go_on(operation, body)
        if after is None and operation.said.startswith(_CANCELLED):
            city = body["tool_calls"][0]["input"]["city"]
            operation.reached = next(at for at, step in enumerate(operation.steps) if city in step.calls)
            operation.end = "cancelled"
        return after


class Uploader(Client):
    """Several uploads at the same time into one session, while a program runs in it; then the next session."""

    def __init__(self, number: int, bases: Callable[[], list[str]]) -> None:
        super().__init__(number, bases)
        self._name = f"u{number}"

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
        made = script(session.name, ("effect", "ask"), last=_LEAVES_FILE.format(name=session.name))
        operation = Operation(session.name, made.steps)
        self.operations.append(operation)
        await self.run(operation, made, session_id=session.name)
        if operation.end == "completed":
            session.left[f"{operation.name}.txt"] = f"by {operation.name}"

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
    return "killed" if any(words in error for words in KILLED) else "lost"
