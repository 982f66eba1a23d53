"""Every way in which a request is turned away, with the words that LibreChat's clients know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from toolfold import errors
from toolfold.errors import EngineError, Fenced, LedgerFailed, ToolfoldError, entry_for

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
    """The host failed a program that nobody can continue; a client that sends it again starts from scratch."""
    hint = (
        "tools of this server were called and may have run, so sending it again may do the same twice"
        if started
        else "no tool of this server was called; try again"
    )
    return Refusal(503, f"{_failure(error)}; {hint}", is_contract=False, started=started)


def put_off(error: Exception) -> Refusal:
    """The host failed a program that is on record; the same request, sent again, continues it."""
    return Refusal(503, f"{_failure(error)}; nothing is lost, send the same request again", is_contract=False)


def changes_hands() -> Refusal:
    """No replica had it for long enough."""
    return Refusal(503, "the execution moves from replica to replica; try again", is_contract=False)


def _failure(error: Exception) -> str:
    if isinstance(error, Fenced):
        return _STOPS
    # The text of a foreign error may name a path of this host.
    return str(error) if isinstance(error, ToolfoldError) else f"the server failed ({type(error).__name__})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a client gets for one class of errors."""

    status: int
    is_contract: bool = True
    prefix: str = ""


OF_ERROR: Final[dict[type[ToolfoldError], _Answer]] = {
    **dict.fromkeys((errors.UsageError, errors.SealBroken), _Answer(status=400)),
    errors.Fenced: _Answer(status=409),
    errors.LedgerFull: _Answer(status=413),
    **dict.fromkeys((errors.EngineError, errors.EngineCrashed), _Answer(status=500, prefix="the sandbox broke: ")),
    **dict.fromkeys((errors.EngineUnavailable, errors.LedgerFailed), _Answer(status=503, is_contract=False)),
    **dict.fromkeys((errors.ToolfoldError, errors.ReplayDiverged), _Answer(status=500)),
    **dict.fromkeys((
        errors.ToolError, errors.ToolNotFound, errors.ToolRefused, errors.ToolArgumentsInvalid, errors.ToolTimedOut,
        errors.ToolFailed, errors.ToolUnreachable, errors.ServerHungUp, errors.AgentUnreachable, errors.ReplyUnfit,
    ), _Answer(status=500)),
}  # fmt: skip
"""The one place where an exception of ours becomes an HTTP status."""


def to_http(error: ToolfoldError) -> Refusal:
    """How a request that ended in this error is turned away."""
    answer = entry_for(error, OF_ERROR)
    return Refusal(answer.status, f"{answer.prefix}{error}", is_contract=answer.is_contract)
