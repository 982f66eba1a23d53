"""A client's answers to the calls of one pause, and whether the record has them already. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from toolfold.doors.http.refusals import INVALID_TOKEN, Refusal
from toolfold.doors.http.results import decisions_of, replies_of
from toolfold.doors.http.tokens import Token
from toolfold.doors.http.wire import ApprovalDecision, ToolResult
from toolfold.execution.history import Recorded
from toolfold.models import Reply
from toolfold.tools.tool import Decision

Standing: TypeAlias = Literal["new", "taken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A token and the replies that came with it; a start that is sent again has none."""

    token: Token
    replies: Sequence[Reply] = ()
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    """By call."""
    digest: bytes = b""
    """Tells the same results, sent again, from others."""
    request_id: str = ""

    @property
    def is_start(self) -> bool:
        """It asks for the first pause, and answers nothing."""
        return not self.replies and not self.decisions


def continuation_of(
    token: Token, results: Sequence[ToolResult], decisions: Sequence[ApprovalDecision], request_id: str
) -> Continuation:
    """What a client sent.

    Raises:
        Refusal: A result is no answer to a call, or a decision is none.
    """
    digest = hashlib.sha256(msgspec.json.encode([one.model_dump() for one in (*results, *decisions)])).digest()
    replies = replies_of(results) if results or not decisions else ()
    decided = decisions_of(decisions, by=token.tenant)
    return Continuation(token=token, replies=replies, decisions=decided, digest=digest, request_id=request_id)


def standing_of(sent: Continuation, recorded: Recorded) -> Standing:
    """Whether these replies are the next that the execution waits for, or the last that it took.

    Raises:
        Refusal: Neither; the token is of an earlier pause, or came with other results before.
    """
    if recorded.said == sent.token.replies:
        return "new"
    is_same = all(recorded.answered.get(reply.call_id) == reply for reply in sent.replies) and all(
        recorded.decided.get(call_id) == (one.approved, one.reason) for call_id, one in sent.decisions.items()
    )
    if is_same and recorded.said == sent.token.replies + len(sent.replies) + len(sent.decisions):
        return "taken"
    raise Refusal(400, INVALID_TOKEN)
