"""The messages between parent and child. Both sides import this; it knows neither of them."""

from __future__ import annotations

from typing import Any, Final, Literal

from mcp_types import Request, RequestParams, Result
from pydantic import BaseModel, Field

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
    """What the parent's executor made of a call: gem's five values, of which two only echo."""

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
    """Go on, please."""

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
