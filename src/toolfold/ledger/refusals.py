"""The words in which every store refuses a write, so that they read the same everywhere."""

from toolfold.errors import Fenced, LedgerFailed, LedgerFull, UsageError


def fenced(execution_id: str) -> Fenced:
    """For a write with an old epoch."""
    return Fenced(f"execution {execution_id!r} was taken over by another process; leave it to that one")


def suspended(execution_id: str) -> Fenced:
    """For an execution whose host stops."""
    return Fenced(f"execution {execution_id!r} was cut off because its host stops; it is on record up to there")


def leased(execution_id: str) -> Fenced:
    """For a takeover while another replica is there."""
    return Fenced(f"execution {execution_id!r} is held by another replica; send the request to that one")


def not_taken_over(execution_id: str, error: OSError) -> LedgerFailed:
    """For a takeover whose mark cannot be left for the execution's process."""
    reason = (error.strerror or "unknown reason").lower()
    return LedgerFailed(f"execution {execution_id!r} cannot be taken over: {reason}; check the disk of the ledger")


def full(execution_id: str, max_bytes: int) -> LedgerFull:
    """For an execution that does not fit."""
    return LedgerFull(
        f"execution {execution_id!r} wants to keep more than {max_bytes} bytes; "
        "let its tools return less, or raise the ledger's limit"
    )


def unknown(execution_id: str) -> UsageError:
    """For a write to nothing."""
    return UsageError(f"no execution {execution_id!r} in the ledger; it may have been forgotten since")


def ended(execution_id: str) -> UsageError:
    """For a write after the end."""
    return UsageError(f"execution {execution_id!r} has ended; its record takes no more")


def twice(execution_id: str) -> UsageError:
    """For a second start."""
    return UsageError(f"execution {execution_id!r} is in the ledger already; ids are used once")


def unrecordable(execution_id: str | None, error: Exception) -> LedgerFailed:
    """For a write that no store could take, however healthy it is."""
    what = "a write to the ledger" if execution_id is None else f"execution {execution_id!r}"
    failure = LedgerFailed(f"{what} cannot be recorded: {str(error)[:200]!r}; the log has the details")
    failure.__cause__ = error
    return failure


def invalid_text(error: UnicodeEncodeError) -> UsageError:
    """For a question with text that no record can have."""
    return UsageError(f"the ledger has no record with {error.object[:200]!r}: that is not valid Unicode text")


def closed() -> LedgerFailed:
    """For any use after `close`; a server that stops may still have requests, which can be sent again."""
    return LedgerFailed("the ledger is closed; open it again")
