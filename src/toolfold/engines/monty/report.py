"""Monty's errors as outcomes: limits, refused syntax, and tracebacks in the house form."""

import re
import traceback
from typing import Any, Final

from toolfold.engines.base import Ended
from toolfold.models import Limits, Problem

TOOL_ERROR: Final = "_csv.Error"
"""Monty has no classes of exceptions but Python's own; this one no program raises by itself."""

_PROGRAM: Final = "<python-input-1>"  # the session's first input is the prelude
_UNSUPPORTED: Final = re.compile(r"The monty syntax parser does not yet support (.*)")


# Any: a `MontyRuntimeError` or `MontySyntaxError`, whose classes only `monty.py` may import.
def ended(error: Any, text: str, limits: Limits) -> Ended:
    """How the program ended, from what Monty raised."""
    exception, line = error.exception(), _line(error)
    message = str(exception)
    if isinstance(exception, MemoryError) and "memory limit" in message:
        words = f"the program used more than its {limits.memory_bytes >> 20} MiB of memory"
        return Ended(status="limit", problem=Problem(kind="memory", message=words, line=line, source=_at(text, line)))
    if isinstance(exception, TimeoutError) and message.startswith("feed time limit exceeded"):
        words = f"the program used its {limits.cpu_seconds} s of CPU time"
        return Ended(status="limit", problem=Problem(kind="cpu", message=words))
    if isinstance(exception, SystemExit):
        problem = Problem(kind="exception", message=_last_line(exception))
        return Ended(status="failed", problem=problem) if message not in ("", "0") else Ended(status="finished")
    refused = _refused(exception, message)
    if refused:
        return Ended(
            status="rejected", problem=Problem(kind="syntax", message=refused, line=line, source=_at(text, line))
        )
    problem = Problem(kind="exception", message=_last_line(exception), line=line, source=_at(text, line))
    return Ended(status="failed", problem=problem)


def error_text(error: Any, text: str) -> str:
    """The traceback as the process engine writes it: the program's own lines, no carets."""
    if isinstance(error.exception(), SystemExit):
        return _last_line(error.exception())
    frames = [
        traceback.FrameSummary("<program>", frame.line, _place(frame.function_name), line=_at(text, frame.line))
        for frame in error.traceback()
        if frame.filename == _PROGRAM
    ]
    stack = "".join(traceback.StackSummary.from_list(frames).format())
    return f"Traceback (most recent call last):\n{stack}{_last_line(error.exception())}"


def _place(function_name: str | None) -> str:
    return "__main__" if function_name in (None, "<module>") else str(function_name)


def _refused(exception: BaseException, message: str) -> str:
    unsupported = _UNSUPPORTED.fullmatch(message)
    if unsupported and isinstance(exception, NotImplementedError):
        return f"the monty engine cannot run {unsupported[1]}; write it without, or use the process engine"
    return f"SyntaxError: {message}" if isinstance(exception, SyntaxError) else ""


def _line(error: Any) -> int | None:
    lines = [frame.line for frame in error.traceback() if frame.filename == _PROGRAM]
    return lines[-1] if lines else None


def _last_line(exception: BaseException) -> str:
    text = "".join(traceback.format_exception_only(exception)).rstrip("\n")
    kind = type(exception)
    if f"{kind.__module__}.{kind.__name__}" == TOOL_ERROR:
        return "ToolError" + text.removeprefix(TOOL_ERROR)
    return text


def _at(text: str, line: int | None) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip() if line is not None and line <= len(lines) else ""
