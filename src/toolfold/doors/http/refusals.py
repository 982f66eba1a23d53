"""Every way in which a request is turned away, with the words that seed clients know."""

from __future__ import annotations

from typing import Final

from toolfold.errors import EngineError, EngineUnavailable, ToolfoldError, UsageError
from toolfold.ledger.record import Fenced, LedgerFailed, LedgerFull

INVALID_TOKEN: Final = "Invalid continuation token"  # noqa: S105 - the text of an error
EXPIRED: Final = "Execution expired"
TIMED_OUT: Final = "Execution timeout"
CANCELLED: Final = "Execution cancelled"


def too_many_rounds(limit: int) -> str:
    """The text at the round that is one too many."""
    return f"Exceeded maximum round trips ({limit})"


class Refusal(Exception):
    """A request that goes no further.

    Args:
        status: For clients that read HTTP statuses.
        text: What was wrong and what to do.
        is_contract: Told to LibreChat as 200 and `status: error`, because it hides the text of any other status.
    """

    def __init__(self, status: int, text: str, *, is_contract: bool = True, retry_after_seconds: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.is_contract = is_contract
        self.retry_after_seconds = retry_after_seconds


def rate_limited(seconds: float) -> Refusal:
    """Come back later."""
    return Refusal(429, "rate_limited", is_contract=False, retry_after_seconds=max(1, round(seconds + 0.5)))


def to_http(error: ToolfoldError) -> Refusal:
    """The one place where an exception of ours becomes an HTTP status."""
    match error:
        case UsageError():
            return Refusal(400, str(error))
        case EngineUnavailable() | LedgerFailed():
            return Refusal(503, str(error), is_contract=False)
        case LedgerFull():
            return Refusal(413, str(error))
        case Fenced():
            return Refusal(409, str(error))
        case EngineError():
            return Refusal(500, f"the sandbox broke: {error}")
    return Refusal(500, str(error))
