"""Questions to the person behind the client: what is asked before a call, and what the answer means. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types

from toolfold.models import Call
from toolfold.tools.context import Decision

_SHOWN_ARGUMENTS_CHARACTERS: Final = 2_000
# Any: a JSON Schema, in the subset that forms may have.
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Allow this call", "default": False},
        "always": {
            "type": "boolean",
            "title": "The same answer for all further calls of this tool in this program",
            "default": False,
        },
        "reason": {"type": "string", "title": "Why not (the program reads it)"},
    },
    "required": ["approve"],
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person said of one call."""

    decision: Decision
    is_for_all: bool = False
    """It also counts for further calls of the same tool."""


def approval_form(call: Call) -> types.ElicitRequestFormParams:
    """The form that asks whether a call may be made."""
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    if len(arguments) > _SHOWN_ARGUMENTS_CHARACTERS:
        arguments = arguments[:_SHOWN_ARGUMENTS_CHARACTERS] + "…"
    return types.ElicitRequestFormParams(
        message=f"A program wants to call {call.tool} with {arguments}", requested_schema=_FORM
    )


def answer_of(result: types.ElicitResult) -> Answer:
    """Anything but a clear yes is a no."""
    if result.action != "accept":
        return Answer(Decision(approved=False, reason=f"the user answered {result.action!r}"))
    said: Mapping[str, Any] = result.content or {}
    is_for_all = said.get("always") is True
    if said.get("approve") is True:
        return Answer(Decision(approved=True), is_for_all)
    return Answer(Decision(approved=False, reason=str(said.get("reason") or "the user said no")), is_for_all)


def can_elicit(capabilities: types.ClientCapabilities | None, mode: str = "form") -> bool:
    """Whether a client shows forms, or opens addresses; one that names no mode means forms."""
    offered = None if capabilities is None else capabilities.elicitation
    if offered is None:
        return False
    if mode == "url":
        return offered.url is not None
    return offered.form is not None or offered.url is None
