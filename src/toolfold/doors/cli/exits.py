"""How an outcome or an error becomes an exit code; scripts rely on these numbers."""

from enum import IntEnum
from typing import Final

from toolfold import errors
from toolfold.errors import ToolfoldError, entry_for
from toolfold.models import Status


class Exit(IntEnum):
    """Exit codes of every command."""

    FINISHED = 0
    FAILED = 1
    USAGE = 2
    """Also a program that the check rejected: nothing ran."""
    NO_ISOLATION = 3
    LIMIT = 4
    """A timeout, or another limit of the program."""
    INTERNAL = 70
    """The sandbox broke, or toolfold did; the program is not to blame."""
    OPEN = 75
    """A wait is over, and the program is not."""
    INTERRUPTED = 130


_OF_STATUS: Final[dict[Status, Exit]] = {
    "finished": Exit.FINISHED,
    "failed": Exit.FAILED,
    "rejected": Exit.USAGE,
    "timeout": Exit.LIMIT,
    "limit": Exit.LIMIT,
    "cancelled": Exit.INTERRUPTED,
}

OF_ERROR: Final[dict[type[ToolfoldError], Exit]] = {
    **dict.fromkeys((errors.UsageError, errors.SealBroken), Exit.USAGE),
    **dict.fromkeys((
        errors.ToolError, errors.ToolNotFound, errors.ToolRefused, errors.ToolArgumentsInvalid, errors.ToolTimedOut,
        errors.ToolFailed, errors.ToolUnreachable, errors.ServerHungUp, errors.AgentUnreachable, errors.ReplyUnfit,
    ), Exit.FAILED),
    errors.EngineUnavailable: Exit.NO_ISOLATION,
    **dict.fromkeys((errors.EngineError, errors.EngineCrashed), Exit.INTERNAL),
    **dict.fromkeys((errors.ToolfoldError, errors.ReplayDiverged), Exit.INTERNAL),
    **dict.fromkeys((errors.Fenced, errors.LedgerFull, errors.LedgerFailed), Exit.INTERNAL),
}  # fmt: skip


def exit_of_status(status: Status) -> Exit:
    """The exit code of an outcome."""
    return _OF_STATUS[status]


def exit_of_error(error: ToolfoldError) -> Exit:
    """The exit code of an exception."""
    return entry_for(error, OF_ERROR)
