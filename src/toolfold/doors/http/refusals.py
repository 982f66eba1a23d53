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
        started: Whether tools of this server were called, so that a new start may do the same twice.
        is_contract: Told to LibreChat as 200 and `status: error`, because it hides the text of any other status.
    """

    def __init__(
        self, status: int, text: str, *, is_contract: bool = True, retry_after_seconds: int = 0,
        started: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(text)
        self.started = started
        self.status = status
        self.text = text
        self.is_contract = is_contract
        self.retry_after_seconds = retry_after_seconds


def rate_limited(seconds: float) -> Refusal:
    """Come back later."""
    return Refusal(429, "rate_limited", is_contract=False, retry_after_seconds=max(1, round(seconds + 0.5)))


def client_gone() -> Refusal:
    """Nobody reads this; the status is what proxies write to their logs in this case."""
    return Refusal(499, "the client closed the connection", is_contract=False)


HOST_FAILURES: Final = (EngineError, LedgerFailed, OSError)
"""The program is not to blame, and the ledger knows how far it came."""
_STOPS: Final = "the server stops"


def cut_off(error: Exception, *, started: bool) -> Refusal:
    """The host failed a program that nobody can go on with: whoever sends it again begins anew."""
    hint = (
        "tools of this server were called and may have run, so sending it again may do the same twice"
        if started
        else "no tool of this server was called; try again"
    )
    return Refusal(503, f"{_failure(error)}; {hint}", is_contract=False, started=started)


def put_off(error: Exception) -> Refusal:
    """The host failed a program that is on record: the same request, sent again, goes on with it."""
    return Refusal(503, f"{_failure(error)}; nothing is lost, send the same request again", is_contract=False)


def changes_hands() -> Refusal:
    """No replica had it for long enough."""
    return Refusal(503, "the execution moves from replica to replica; try again", is_contract=False)


def _failure(error: Exception) -> str:
    if isinstance(error, Fenced):
        return _STOPS
    # The text of a foreign error may name a path of this host.
    return str(error) if isinstance(error, ToolfoldError) else f"the server failed ({type(error).__name__})"


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
