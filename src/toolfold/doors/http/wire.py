"""Requests as three generations of clients write them. Unknown fields pass: tool objects carry many."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

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


class ApprovalDecision(Request):
    """What a person said to a call that needs a yes."""

    call_id: str
    approved: bool
    reason: str = ""
    """Why not; the program reads it."""
    covers: Literal["call", "arguments", "tool"] = "call"
    """This call, calls with equal arguments, or the tool for the rest of the program."""
    calls: int | None = None
    """For at most so many calls, this one included."""
    arguments: dict[str, Any] | None = None
    """Instead of those that the program gave; only for this call."""


class ExecuteRequest(Request):
    """`POST /exec`: a program without tools."""

    code: str
    lang: Language = "py"
    session_id: SessionId | None = None
    timeout: Milliseconds | None = None
    """Milliseconds, 1000 to 300000."""
    files: list[FileReference] | None = None


class BatchProgram(Request):
    """One program of a batch."""

    code: str
    id: (
        Annotated[str, StringConstraints(max_length=200)]
        | Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
        | None
    ) = None
    """Comes back in its line."""
    lang: Language = "py"
    timeout: Milliseconds | None = None
    """Milliseconds, 1000 to 300000."""
    files: list[FileReference] | None = None
    """Each with the `session_id` that it was uploaded to."""
    stdin: str | None = None
    """What it reads from standard input; without it there is none, and `input()` is refused."""
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**64)] | None = None
    """Of its randomness."""
    clock: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, lt=1e11)] | None = None
    """What its clocks say at its start, in seconds since 1970; with a seed it says the same each time."""


class BatchRequest(Request):
    """`POST /exec/batch`."""

    programs: Annotated[list[BatchProgram], Field(min_length=1)]
    """At most 10,000."""


class RunCodeRequest(Request):
    """`POST /run_code`, as SandboxFusion has it."""

    code: str
    language: Language
    stdin: str | None = None
    compile_timeout: Annotated[float, Field(strict=True, allow_inf_nan=False)] | None = None
    """Not used: Python needs none."""
    run_timeout: Annotated[float, Field(strict=True, allow_inf_nan=False)] | None = None
    """Seconds, 10 unless given."""
    memory_limit_mb: Annotated[int, Field(strict=True, alias="memory_limit_MB")] = -1
    """At most what the server allows; 0 or less takes that."""
    files: dict[str, str | None] = Field(default_factory=dict)
    """Contents in base64, by name."""
    fetch_files: list[str] = Field(default_factory=list)
    """Names of files to send back."""


class ProgrammaticRequest(Request):
    """`POST /exec/programmatic`: `code` and `tools` to start, or `continuation_token` and `tool_results` to go on."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["code"]}, {"required": ["continuation_token"]}]}
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
    decisions: list[ApprovalDecision] | None = None
    """On the `approvals` of the pause, where the server asks its clients."""


class CancelRequest(Request):
    """`POST /exec/programmatic/cancel`: by the id that the request had, or by its token."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["request_id"]}, {"required": ["continuation_token"]}]}
    )

    request_id: str | None = None
    continuation_token: str | None = None
