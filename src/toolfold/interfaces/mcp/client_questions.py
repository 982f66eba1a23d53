"""Questions of a program to the person behind the client, each asked and answered once; approval forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import mcp_types as types

from toolfold.errors import ToolRefused
from toolfold.models import Call, Covers, Json
from toolfold.tools.tool import Decision

CLIENT_ROUNDS: Final = 10
"""How often a newer client comes back with answers to one request: the default of the SDKs and of Claude Code."""
NO_MORE_QUESTIONS: Final = (
    f"this client answers at most {CLIENT_ROUNDS} rounds of questions in one program; make calls that need an answer "
    "together with asyncio.gather, or run the rest in another program"
)
_GATHER_SECONDS: Final = 0.05
"""Questions that arrive within this time of each other are one round."""
_MOST_GATHERS: Final = 10

Question: TypeAlias = types.ElicitRequest | types.ListRootsRequest
Answer: TypeAlias = types.ElicitResult | types.ListRootsResult


class ClientQuestions:
    """Questions that wait for an answer, by key; `on_news` is called when there is something to ask."""

    def __init__(self, on_news: Callable[[], None]) -> None:
        self._on_news = on_news
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}
        self._count = 0
        self._sent_keys: set[str] = set()
        self.rounds = 0
        """How often the client has been told to come back with answers to its present request."""

    # the program's side

    async def put(self, request: Question) -> Answer:
        """Ask, and wait for as long as the answer takes; raises `ToolRefused` if it will not come."""
        self._count += 1
        key = f"q{self._count}"
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[key] = request, answer
        self._on_news()
        try:
            return await answer
        finally:
            self._open.pop(key, None)

    # the client's side

    def take(self) -> dict[str, Question]:
        """Questions that the client has not been asked yet."""
        fresh = {key: request for key, request in self.all().items() if key not in self._sent_keys}
        self._sent_keys.update(fresh)
        return fresh

    def give_back(self, keys: Iterable[str]) -> None:
        """Have the next request ask those of these questions that are still open."""
        self._sent_keys.difference_update(keys)

    def all(self) -> dict[str, Question]:
        return {key: request for key, (request, _) in self._open.items()}

    def answer(self, answers: Mapping[str, types.InputResponse]) -> None:
        """Deliver answers; an answer to no open question is ignored."""
        for key, result in answers.items():
            _, answer = self._open.get(key, (None, None))
            if answer is None or answer.done():
                continue
            if isinstance(result, types.ElicitResult | types.ListRootsResult):
                answer.set_result(result)
                del self._open[key]
        if self._open:
            self._on_news()

    async def gather(self) -> None:
        """Wait until no further question arrives, so that one round asks as much as it can."""
        previous_count = 0
        for _ in range(_MOST_GATHERS):
            if self._count == previous_count or not self._open:
                return
            previous_count = self._count
            await asyncio.sleep(_GATHER_SECONDS)

    def refuse(self, why: str = NO_MORE_QUESTIONS) -> None:
        """Fail the calls that wait for an answer."""
        for _, answer in self._open.values():
            if not answer.done():
                answer.set_exception(ToolRefused(why))
        self._open.clear()


# ----------------------------------------------------------------------------------------------------
# Approval forms for the person behind the client, and the decisions in their answers.

_SHOWN_ARGUMENTS_CHARACTERS: Final = 2_000
_FORM: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Your answer",
            "enum": ["call", "arguments", "tool", "refuse", "refuse_tool"],
            "enumNames": [
                "allow this call", "allow calls with these arguments", "allow this tool for the rest of this program",
                "refuse this call", "refuse this tool for the rest of this program",
            ],
            "default": "call",
        },
        "calls": {"type": "integer", "title": "For at most so many calls", "minimum": 1},
        "reason": {"type": "string", "title": "Why not, if you refuse (the program reads it)"},
    },
}  # fmt: skip
"""Nothing in it is required: accepting it as it is shown allows the call."""
_COVERS: Final[Mapping[str, Covers]] = {"arguments": "arguments", "tool": "tool", "refuse_tool": "tool"}
_LAST: Final = (
    "\nThis is the last question that your client takes from this program: what your answer is not for is refused."
)


def approval_form(call: Call, *, is_last: bool = False) -> types.ElicitRequestFormParams:
    """The form that asks whether a call may be made; `is_last` if the client cannot be asked again."""
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    if len(arguments) > _SHOWN_ARGUMENTS_CHARACTERS:
        arguments = arguments[:_SHOWN_ARGUMENTS_CHARACTERS] + "…"
    return types.ElicitRequestFormParams(
        message=f"A program wants to call {call.tool} with {arguments}{_LAST if is_last else ''}",
        requested_schema=_FORM,
    )


def decision_of(result: types.ElicitResult, *, by: str = "") -> Decision:
    """Decision in an answer: an accepted form allows the call, unless a refusal or a reason for one is in it."""
    if result.action != "accept":
        return Decision(approved=False, reason=f"the user answered {result.action!r}", by=by)
    content: Mapping[str, Any] = result.content or {}
    # `approve`, `covers` and `always` are what the form asked in its earlier versions.
    choice = content.get("decision") or ("tool" if content.get("always") is True else content.get("covers"))
    is_refused = choice in ("refuse", "refuse_tool") or content.get("approve", True) is not True
    reason = "" if content.get("approve") is True and not is_refused else str(content.get("reason") or "").strip()
    reason = reason or ("the user said no" if is_refused else "")
    covers = _COVERS.get(choice, "call") if isinstance(choice, str) else "call"
    calls = content.get("calls") if covers != "call" else None
    calls = calls if type(calls) is int and calls > 0 else None
    return Decision(approved=not reason, reason=reason, covers=covers, calls=calls, by=by)


def can_elicit(capabilities: types.ClientCapabilities | None) -> bool:
    """Whether a client shows forms; one that names no mode means them."""
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
