"""Every exception this package raises, and who is meant to catch it.

* ToolfoldError
  * UsageError           the host called us wrongly; fix the host
  * ToolError            raised inside the program, at the call site; catchable there
    * ToolNotFound         no tool has that name; nothing ran
    * ToolRefused          policy, grant or caller does not allow it; nothing ran
    * ToolArgumentsInvalid the arguments do not fit the schema; nothing ran
    * ToolTimedOut         the tool took too long; it may have run
    * ToolSaidNo           the tool ran and answered that it failed; trying again would not help
    * ToolUnreachable      where the tool lives is not there now; the text says whether it may have run
  * EngineError          the sandbox broke; the program is not to blame
    * EngineUnavailable    nothing ran; retrying is safe
    * EngineCrashed        calls may have run; read `.started` before retrying
"""

from typing import ClassVar


class ToolfoldError(Exception):
    """Root of the tree; catches everything that this package raises on purpose."""

    code: ClassVar[str] = "error"
    started: tuple[str, ...] = ()
    """Tools that were called before it, where it ended an execution: they may have run."""


class UsageError(ToolfoldError):
    """The host called us wrongly. Nothing ran."""

    code = "usage"


class ToolError(ToolfoldError):
    """A tool failed. It may have run: whether a retry is safe depends on the tool."""

    code = "tool_failed"


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


class ToolSaidNo(ToolError):
    """The tool's own answer: it ran, and this is what it has to say. A retry would hear the same."""

    code = "tool_said_no"


class ToolUnreachable(ToolError):
    """The server of the tool cannot be reached, or was lost during the call; it may have run unless the text says no.

    Whoever raises it has tried again where that was safe, and looks after the way back.
    """

    code = "tool_unreachable"


class EngineError(ToolfoldError):
    """The sandbox broke; the program is not to blame."""

    code = "engine"


class EngineUnavailable(EngineError):
    """The engine or its isolation cannot be had here. Nothing ran; a retry is safe."""

    code = "engine_unavailable"


class EngineCrashed(EngineError):
    """The guest died in the middle. Tools in `started` may have run."""

    code = "engine_crashed"

    def __init__(self, message: str, *, started: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.started = started
