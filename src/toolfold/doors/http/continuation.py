"""A client's answers to the calls of one pause, and whether the record has them already. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from toolfold.doors.http.refusals import INVALID_TOKEN, Refusal
from toolfold.doors.http.results import replies_of
from toolfold.doors.http.tokens import Token
from toolfold.doors.http.wire import ToolResult
from toolfold.execution.recorded import Recorded
from toolfold.models import Reply

Standing: TypeAlias = Literal["new", "taken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A token and the replies that came with it; a start that is sent again has none."""

    token: Token
    replies: Sequence[Reply] = ()
    digest: bytes = b""
    """Tells the same results, sent again, from others."""
    request_id: str = ""

    @property
    def is_start(self) -> bool:
        """It asks for the first pause, and answers nothing."""
        return not self.replies


def continuation_of(token: Token, results: Sequence[ToolResult], request_id: str) -> Continuation:
    """What a client sent.

    Raises:
        Refusal: A result is no answer to a call.
    """
    digest = hashlib.sha256(msgspec.json.encode([result.model_dump() for result in results])).digest()
    return Continuation(token=token, replies=replies_of(results), digest=digest, request_id=request_id)


def standing_of(sent: Continuation, recorded: Recorded) -> Standing:
    """Whether these replies are the next that the execution waits for, or the last that it took.

    Raises:
        Refusal: Neither; the token is of an earlier pause, or came with other results before.
    """
    taken = recorded.answered
    if len(taken) == sent.token.replies:
        return "new"
    is_same = all(taken.get(reply.call_id) == reply for reply in sent.replies)
    if is_same and len(taken) == sent.token.replies + len(sent.replies):
        return "taken"
    raise Refusal(400, INVALID_TOKEN)
