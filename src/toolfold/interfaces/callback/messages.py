"""Messages between parent and child, and outcomes as JSON. Both sides import this; it knows neither."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from mcp_types import Request, RequestParams, Result
from pydantic import BaseModel, Field

from toolfold.errors import ToolfoldError
from toolfold.models import Json, Outcome
from toolfold.outcome_views import value_as_json
from toolfold.prompts.wording import first_line

EXTENSION: Final = "dev.toolfold/parent-tools"
TOOL_NAME: Final = "programmatic_tool_calling"
RESUME: Final = "toolfold/resume"
WORKSPACE: Final = "dev.toolfold/workspace"
"""In the request's `_meta`: where to save this program, for a child that several workspaces share."""


class OpenCall(BaseModel):
    """A call that waits for the parent."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolReply(BaseModel):
    """Reply of the parent's executor: gem's five values, of which two only echo."""

    id: str
    parsed: bool
    has_error: bool
    observation: str
    cause: str = ""
    """The traceback of an executor that raised."""


class CallsResult(Result):
    """In place of a tool's result: the program waits for these calls."""

    result_type: Literal["toolfold/calls"] = "toolfold/calls"
    execution_id: str
    calls: list[OpenCall]
    seconds_left: float
    """Until the child ends the program, whatever the parent still does."""


class ResumeParams(RequestParams):
    """Replies to some of the open calls; with none the request waits for the program's end."""

    execution_id: str
    replies: list[ToolReply] = Field(default_factory=list)
    is_given_up: bool = False
    """Nobody waits for the outcome any more: end the program."""


class ResumeRequest(Request[ResumeParams, Literal["toolfold/resume"]]):
    """Request with replies."""

    method: Literal["toolfold/resume"] = "toolfold/resume"
    params: ResumeParams


class ResumeResult(Result):
    """The next calls, or the end."""

    result_type: str = "complete"
    calls: list[OpenCall] = Field(default_factory=list)
    """Those that the parent has not been told of before."""
    seconds_left: float = 0.0
    final: str | None = None
    """The outcome as JSON, once the program has ended."""
    has_failed: bool = False


# ----------------------------------------------------------------------------------------------------
# An outcome as the JSON of `programmatic_tool_calling`.

TRUNCATED: Final = "\n... (truncated)"
NOTHING_CALLED: Final = "no tool was called; correct the program and send it again"
_TRACEBACK: Final = "Traceback (most recent call last):\n"
_CAUSE_SEPARATOR: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_TYPE_OF_STATUS: Final = {"timeout": "TimeoutError", "cancelled": "Cancelled", "limit": "LimitExceeded"}
_TYPE_OF_KIND: Final = {"value": "ValueError", "memory": "MemoryError"}


@dataclass(slots=True)
class ForwardedCall:
    """A call that the parent was told of, and its reply if there is one."""

    call: OpenCall
    reply: ToolReply | None = None
    error: str | None = None
    """What the program read as `ToolError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Fields of the JSON besides the outcome."""

    timeout_seconds: float
    began: float | None = None
    """By `time.perf_counter`; without it no real time is in the answer."""
    file_path: str | None = None


def to_json(outcome: Outcome, entries: Sequence[ForwardedCall], frame: Frame) -> str:
    failing_entry = _failing_entry(outcome, entries)
    stderr = _with_cause(outcome.stderr, failing_entry)
    return _dump(
        frame, entries, success=outcome.status == "finished",
        stdout=f"{first_line(outcome)}\n".lstrip() + outcome.stdout + (TRUNCATED if outcome.stdout_cut_bytes else ""),
        stderr=stderr + (TRUNCATED if outcome.stderr_cut_bytes else ""), return_value=value_as_json(outcome.value),
        error=_error(outcome, stderr),
    )  # fmt: skip


def error_json(error: ToolfoldError, frame: Frame, entries: Sequence[ForwardedCall] = ()) -> str:
    """The error of a program that could not run, or died with its sandbox after these calls, as JSON."""
    return _dump(frame, entries, error={"type": type(error).__name__, "message": str(error), "traceback": ""})


def _dump(
    frame: Frame, entries: Sequence[ForwardedCall], *, success: bool = False, stdout: str = "", stderr: str = "",
    return_value: Json = None, error: Json = None,
) -> str:  # fmt: skip
    limit = frame.timeout_seconds
    return json.dumps(
        {"success": success,
         "execution_time_seconds": 0.0 if frame.began is None else round(time.perf_counter() - frame.began, 3),
         "timeout_limit_seconds": int(limit) if limit == int(limit) else limit, "stdout": stdout, "stderr": stderr,
         "tool_calls": [_call(entry) for entry in entries], "tool_results": [_result(entry) for entry in entries],
         "return_value": return_value, "error": error, "file_path": frame.file_path},
        indent=2,
        ensure_ascii=False,
    )  # fmt: skip


def _call(entry: ForwardedCall) -> Json:
    return {
        "tool_name": entry.call.name, "args": entry.call.arguments, "tool_call_id": entry.call.id,
        "parsed": entry.reply is not None and entry.reply.parsed,
        "has_error": entry.reply is None or entry.error is not None,
    }  # fmt: skip


def _result(entry: ForwardedCall) -> Json:
    observation = entry.reply.observation if entry.reply is not None else "the program ended before the reply"
    return {
        "tool_call_id": entry.call.id,
        "observation": observation,
        "has_error": entry.reply is None or entry.error is not None,
    }


def _error(outcome: Outcome, stderr: str) -> Json:
    problem = outcome.problem
    if outcome.status == "finished":
        return None
    if outcome.status == "rejected":
        kind = "SyntaxError" if problem is not None and problem.kind == "syntax" else "ProgramRejected"
        return {"type": kind, "message": f"{problem}\n{NOTHING_CALLED}", "traceback": ""}
    message = problem.message if problem is not None else "the program was stopped"
    if outcome.status in _TYPE_OF_STATUS:
        return {"type": _TYPE_OF_STATUS[outcome.status], "message": message, "traceback": ""}
    position = stderr.find(_TRACEBACK)
    kind, rest = _parts(message)
    if problem is None or problem.kind != "exception":
        kind, rest = _TYPE_OF_KIND.get(problem.kind if problem is not None else "", "ProgramFailed"), message
    return {"type": kind, "message": rest, "traceback": stderr[position:] if position >= 0 else ""}


def _parts(message: str) -> tuple[str, str]:
    """An exception's type and its text; without a text, notes may follow on further lines."""
    first, _, more = message.partition("\n")
    if ": " not in first:
        return first, more
    kind, _, text = message.partition(": ")
    return kind, text


def _failing_entry(outcome: Outcome, entries: Sequence[ForwardedCall]) -> ForwardedCall | None:
    if outcome.status != "failed":
        return None
    ending = outcome.stderr.rstrip()
    failures = (entry for entry in reversed(entries) if entry.error is not None)
    return next((entry for entry in failures if ending.endswith(f"\nToolError: {entry.error}".rstrip())), None)


def _with_cause(stderr: str, failing_entry: ForwardedCall | None) -> str:
    """Before the traceback of a tool error stands that of the executor which caused it."""
    cause = failing_entry.reply.cause if failing_entry is not None and failing_entry.reply is not None else ""
    position = stderr.rfind(_TRACEBACK)
    return f"{stderr[:position]}{cause}{_CAUSE_SEPARATOR}{stderr[position:]}" if cause and position >= 0 else stderr
