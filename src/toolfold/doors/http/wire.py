"""Requests as three generations of clients write them. Unknown fields pass: tool objects carry many."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints

SESSION_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,100}$"
# Part of a session's key behind the tenant's name, so without the sign that stands between the two.
SessionId = Annotated[str, StringConstraints(pattern=SESSION_PATTERN)]
# 300 s is checked by the door, whose limit it is; text is not a number, as in JSON Schema.
Milliseconds = Annotated[float, Field(strict=True, allow_inf_nan=False)]
LANGUAGES: Final = ("py", "python", "python3")
# Any text is read, so that the door can say what to send instead.
Language = Annotated[str, Field(json_schema_extra={"enum": list(LANGUAGES)})]


class Request(BaseModel):
    """A JSON body."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)


class ToolDefinition(Request):
    """A tool that the client answers for."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """A JSON Schema."""


class FileReference(Request):
    """A file of an earlier session."""

    id: str
    name: str | None = None
    session_id: SessionId | None = Field(
        default=None, validation_alias=AliasChoices("storage_session_id", "session_id")
    )


class ToolResult(Request):
    """What became of one tool call."""

    call_id: str
    result: Any = None
    is_error: bool = False
    error_message: str | None = None


class ExecuteRequest(Request):
    """`POST /exec`: a program without tools."""

    code: str
    lang: Language = "py"
    session_id: SessionId | None = None
    timeout: Milliseconds | None = None
    """Milliseconds, 1000 to 300000."""
    files: list[FileReference] | None = None


class ProgrammaticRequest(Request):
    """`POST /exec/programmatic`: `code` and `tools` to start, or `continuation_token` and `tool_results` to go on."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["code"]}, {"required": ["continuation_token", "tool_results"]}]}
    )

    code: str | None = None
    lang: Language = "py"
    tools: list[ToolDefinition] | None = None
    session_id: SessionId | None = None
    timeout: Milliseconds | None = None
    """Milliseconds, 1000 to 300000; of the whole execution, pauses too. For LibreChat of the program's own time."""
    files: list[FileReference] | None = None
    continuation_token: str | None = None
    tool_results: list[ToolResult] | None = None


class CancelRequest(Request):
    """`POST /exec/programmatic/cancel`: by the id that the request had, or by its token."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["request_id"]}, {"required": ["continuation_token"]}]}
    )

    request_id: str | None = None
    continuation_token: str | None = None
