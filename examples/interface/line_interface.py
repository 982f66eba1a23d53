"""An interface: programs come in as lines of JSON, and questions and outcomes go out the same way."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import toolfold
from toolfold import Answers, Call, Decision, Outcome, Paused, Reply, Runtime, ToolfoldError, ToolSpec, value_as_json
from toolfold.tools import python_name


class LineInterface:
    """Serves one client, program by program; `read` gives its next line, and an empty one at the end."""

    def __init__(self, runtime: Runtime, read: Callable[[], Awaitable[str]], write: Callable[[str], object]) -> None:
        self._runtime = runtime
        self._read = read
        self._write = write

    async def serve(self) -> None:
        """Until the client has left; `drive` cancels a program that still waits for it."""
        try:
            while True:
                self._say(await self._run(await self._hear()))
        except EOFError:
            return

    async def _run(self, asked: dict[str, Any]) -> dict[str, Any]:
        tools = [ToolSpec(name=name, python_name=python_name(name)) for name in asked.get("tools", ())]
        try:
            step = await self._runtime.start(str(asked.get("program", "")), tools=tools)
            outcome = await toolfold.drive(self._runtime, step, self._answer)
        except ToolfoldError as error:  # the host's mistakes; those of the program are in its outcome
            return _refusal(error.code, str(error))
        assert isinstance(outcome, Outcome), "`_answer` leaves no pause to somebody else"
        problem = None if outcome.problem is None else outcome.problem.message
        shown = {"status": outcome.status, "value": value_as_json(outcome.value), "stdout": outcome.stdout}
        return {**shown, "problem": problem}

    async def _answer(self, paused: Paused) -> Answers:
        """All that the program waits for goes out in one line; some or all of it is answered in the next."""
        while True:
            self._say({"calls": [*map(_shown, paused.calls)], "approvals": [*map(_shown, paused.approvals)]})
            said = await self._hear()
            values, yeses = said.get("replies", {}), said.get("decisions", {})
            replies = [
                Reply(call_id=one.id, value=values[str(one.id)]) for one in paused.calls if str(one.id) in values
            ]
            decided = [one.id for one in paused.approvals if str(one.id) in yeses]
            if replies or decided:
                decisions = {number: Decision(approved=yeses[str(number)] is True) for number in decided}
                return Answers(replies=replies, decisions=decisions)

    async def _hear(self) -> dict[str, Any]:
        while line := await self._read():
            try:
                said = json.loads(line)
            except ValueError:
                said = None
            if isinstance(said, dict):
                return said
            self._say(_refusal("usage", "send one JSON object in each line"))
        raise EOFError

    def _say(self, said: dict[str, Any]) -> None:
        self._write(json.dumps(said, ensure_ascii=False) + "\n")


def _shown(call: Call) -> dict[str, Any]:
    return {"id": call.id, "tool": call.tool, "arguments": value_as_json(call.arguments)}


def _refusal(code: str, text: str) -> dict[str, Any]:
    return {"status": "error", "code": code, "error": text}
