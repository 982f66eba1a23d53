"""Questions to the person behind the client: what is asked before a call, and what the answer means. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types

from toolfold.models import Call, Covers
from toolfold.tools.tool import Decision

_SHOWN_ARGUMENTS_CHARACTERS: Final = 2_000
# Any: a JSON Schema, in the subset that forms may have.
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Allow this call", "default": False},
        "covers": {
            "type": "string",
            "title": "Your answer is for",
            "enum": ["call", "arguments", "tool"],
            "enumNames": ["this call", "calls with these arguments", "this tool for the rest of this program"],
            "default": "call",
        },
        "calls": {"type": "integer", "title": "For at most so many calls", "minimum": 1},
        "reason": {"type": "string", "title": "Why not (the program reads it)"},
    },
    "required": ["approve"],
}
_LAST: Final = (
    "\nThis is the last question that your client takes from this program: what your answer is not for is refused."
)


def approval_form(call: Call, *, is_last: bool = False) -> types.ElicitRequestFormParams:
    """The form that asks whether a call may be made.

    Args:
        call: The call.
        is_last: The client cannot be asked again.
    """
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    if len(arguments) > _SHOWN_ARGUMENTS_CHARACTERS:
        arguments = arguments[:_SHOWN_ARGUMENTS_CHARACTERS] + "…"
    return types.ElicitRequestFormParams(
        message=f"A program wants to call {call.tool} with {arguments}{_LAST if is_last else ''}",
        requested_schema=_FORM,
    )


def answer_of(result: types.ElicitResult, *, by: str = "") -> Decision:
    """Anything but a clear yes is a no, and anything but a clear choice is for this call alone."""
    if result.action != "accept":
        return Decision(approved=False, reason=f"the user answered {result.action!r}", by=by)
    said: Mapping[str, Any] = result.content or {}
    # `always` is what the form asked in its earlier version.
    covers: Covers = "tool" if said.get("always") is True or said.get("covers") == "tool" else "call"
    covers = "arguments" if said.get("covers") == "arguments" else covers
    calls = said.get("calls") if covers != "call" else None
    calls = calls if type(calls) is int and calls > 0 else None
    if said.get("approve") is True:
        return Decision(approved=True, covers=covers, calls=calls, by=by)
    return Decision(
        approved=False, reason=str(said.get("reason") or "the user said no"), covers=covers, calls=calls, by=by
    )


def can_elicit(capabilities: types.ClientCapabilities | None) -> bool:
    """Whether a client shows forms; one that names no mode means them."""
    offered = None if capabilities is None else capabilities.elicitation
    return offered is not None and (offered.form is not None or offered.url is None)
