"""Every exception this package raises, and who is meant to catch it.

* ToolfoldError
  * UsageError           the host called us wrongly; fix the host
    * SealBroken           what the ledger kept does not open: changed, moved, or sealed with another key
  * ToolError            raised inside the program, at the call site; catchable there
    * ToolNotFound         no tool has that name; nothing ran
    * ToolRefused          policy, grant or caller does not allow it; nothing ran
    * ToolArgumentsInvalid the arguments do not fit the schema; nothing ran
    * ToolTimedOut         the tool took too long; it may have run
    * ToolFailed           the tool ran and answered that it failed; trying again would not help
    * ToolUnreachable      where the tool lives is not there now; the text says whether it may have run
      * ServerHungUp         the server ended the connection during the handshake; nothing ran
    * AgentUnreachable     the agent did not show its card; nothing ran
    * ReplyUnfit           the tool ran; what it returned cannot be sent
  * EngineError          the sandbox broke; the program is not to blame
    * EngineUnavailable    nothing ran; retrying is safe
    * EngineCrashed        calls may have run; read `.started` before retrying
  * ReplayDiverged       the program did not do again what its record says; nothing was called
  * Fenced               another process took the execution over; leave it to that one
  * LedgerFull           one execution wants to keep more than the ledger's limit for one
  * LedgerFailed         the store could not be written or read; what was not acknowledged may be lost

Each interface says in one table what becomes of each class, and looks it up with `entry_for`; a test fails when a
class is added here and missing there, or written anywhere else.
"""

import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, TypeVar

__all__ = [
    "AgentUnreachable", "EngineCrashed", "EngineError", "EngineUnavailable", "Fenced", "LedgerFailed", "LedgerFull",
    "ReplayDiverged", "ReplyUnfit", "SealBroken", "ServerHungUp", "ToolArgumentsInvalid", "ToolError", "ToolFailed",
    "ToolNotFound", "ToolRefused", "ToolTimedOut", "ToolUnreachable", "ToolfoldError", "UsageError",
]  # fmt: skip

_Entry = TypeVar("_Entry")


class ToolfoldError(Exception):
    """Root of the tree; catches everything that this package raises on purpose."""

    code: ClassVar[str] = "error"
    started: tuple[str, ...] = ()
    """Tools that were called before it, where it ended an execution: they may have run."""


class UsageError(ToolfoldError):
    """The host called us wrongly. Nothing ran."""

    code = "usage"
    mistakes: tuple[str, ...] = ()
    """One line each, where several were found at once; the message has them all."""


class SealBroken(UsageError):
    """A body does not open: it was changed, moved to another row, or sealed with another key."""

    code = "seal_broken"


class ToolError(ToolfoldError):
    """A tool failed. It may have run: whether a retry is safe depends on the tool."""

    code = "tool_failed"
    nothing_ran: bool = False
    """It failed before it did anything, so another call cannot do a thing twice."""
    retry_after_seconds: float = 0.0
    """How long its side asks callers to wait before the next call."""
    status: int | None = None
    """The HTTP status, where an API answered with an error; programs read it as `error.status`, like the next."""
    body: object = None
    """The parsed body of that answer."""
    tool_unavailable: bool | None = None
    """Whether the tool is down, which the circuit breaker counts; `None`: its cause says so."""


class ToolNotFound(ToolError):
    """No tool has that name. Nothing ran."""

    code = "tool_not_found"


class ToolRefused(ToolError):
    """This caller may not call that tool. Nothing ran."""

    code = "tool_refused"


class ToolArgumentsInvalid(ToolError):
    """The arguments do not fit the tool's schema. Nothing ran."""

    code = "tool_arguments_invalid"


class ToolTimedOut(ToolError):
    """The tool did not answer in time. It may have run, or may still be running."""

    code = "tool_timed_out"
    tool_unavailable = True


class ToolFailed(ToolError):
    """The tool's own answer: it ran, and this is what it has to say. A retry would hear the same."""

    code = "tool_said_no"
    tool_unavailable = False


class ToolUnreachable(ToolError):
    """The server of the tool cannot be reached, or was lost during the call; it may have run unless the text says no.

    Whoever raises it has tried again where that was safe, and looks after the way back.
    """

    code = "tool_unreachable"
    tool_unavailable = True
    is_back: Callable[[], bool] | None = None
    """Says whether the server is there again, where somebody watches it."""


class ServerHungUp(ToolUnreachable):
    """The server ended the connection during the handshake. Nothing ran; another handshake may do better."""


class AgentUnreachable(ToolError):
    """The agent did not show its card. Nothing ran; a retry is safe."""

    code = "agent_unreachable"
    nothing_ran = True
    tool_unavailable = True


class ReplyUnfit(ToolError):
    """The tool ran; what it returned cannot be sent."""


class EngineError(ToolfoldError):
    """The sandbox broke; the program is not to blame."""

    code = "engine"


class EngineUnavailable(EngineError):
    """The engine or its isolation is not available here. Nothing ran; a retry is safe."""

    code = "engine_unavailable"


class EngineCrashed(EngineError):
    """The guest died in the middle. Tools in `started` may have run."""

    code = "engine_crashed"

    def __init__(self, message: str, *, started: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.started = started


class ReplayDiverged(ToolfoldError):
    """The program did not do again what its record says. Nothing was called; a retry will not help."""

    code = "replay_diverged"


class Fenced(ToolfoldError):
    """Another process took this execution over; what this one did since is not recorded. Do not retry here."""

    code = "fenced"


class LedgerFull(ToolfoldError):
    """An execution exceeds the ledger's size limit for one; it cannot be paused durably."""

    code = "ledger_full"


class LedgerFailed(ToolfoldError):
    """The store could not be written or read: disk full, folder gone. What was not acknowledged may be lost."""

    code = "ledger_failed"


def install_extra(name: str) -> str:
    """How to install a missing extra: with pipx, as a tool of uv, or in the environment that has toolfold."""
    extras, command = [name], "pip install" if find_spec("pip") else "uv pip install"
    receipt = Path(sys.prefix, "uv-receipt.toml")
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        command = "pipx inject toolfold"
    elif receipt.is_file():
        # uv installs what the newest command names and removes the rest, so it names the earlier extras again.
        text = receipt.read_text(encoding="utf-8")
        more = re.findall(
            r'name = "(?!toolfold")([^"]+)"(?:, specifier = "([^"]*)")?', text.partition("entrypoints")[0]
        )
        command = " ".join(["uv tool install", *(f"--with '{package}{version}'" for package, version in more)])
        if previous := re.search(r'name = "toolfold", extras = \[([^\]]*)\]', text):
            extras = sorted({name, *re.findall(r'"([^"]+)"', previous[1])})
    return f"install the extra {name!r} of toolfold: {command} 'toolfold[{','.join(extras)}]'"


def entry_for(error: ToolfoldError, table: Mapping[type[ToolfoldError], _Entry]) -> _Entry:
    """What an interface's table says of an error; an unknown subclass takes the entry of its nearest parent."""
    return next(table[kind] for kind in type(error).__mro__ if kind in table)
