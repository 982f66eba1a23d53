"""How an outcome or an error becomes an exit code; scripts rely on these numbers."""

from enum import IntEnum
from typing import Final

from toolfold.errors import (
    EngineCrashed,
    EngineError,
    EngineUnavailable,
    ToolArgumentsInvalid,
    ToolError,
    ToolfoldError,
    ToolNotFound,
    ToolRefused,
    ToolSaidNo,
    ToolTimedOut,
    ToolUnreachable,
    UsageError,
)
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
    INTERRUPTED = 130


_OF_STATUS: Final[dict[Status, Exit]] = {
    "finished": Exit.FINISHED,
    "failed": Exit.FAILED,
    "rejected": Exit.USAGE,
    "timeout": Exit.LIMIT,
    "limit": Exit.LIMIT,
    "cancelled": Exit.INTERRUPTED,
}

_OF_ERROR: Final[dict[type[ToolfoldError], Exit]] = {
    ToolfoldError: Exit.INTERNAL,
    UsageError: Exit.USAGE,
    ToolError: Exit.FAILED,
    ToolNotFound: Exit.FAILED,
    ToolRefused: Exit.FAILED,
    ToolArgumentsInvalid: Exit.FAILED,
    ToolTimedOut: Exit.FAILED,
    ToolSaidNo: Exit.FAILED,
    ToolUnreachable: Exit.FAILED,
    EngineError: Exit.INTERNAL,
    EngineUnavailable: Exit.NO_ISOLATION,
    EngineCrashed: Exit.INTERNAL,
}


def exit_of_status(status: Status) -> Exit:
    """The exit code of an outcome."""
    return _OF_STATUS[status]


def exit_of_error(error: ToolfoldError) -> Exit:
    """The exit code of an exception; a class without its own entry takes its parent's."""
    return next(_OF_ERROR[kind] for kind in type(error).__mro__ if kind in _OF_ERROR)
