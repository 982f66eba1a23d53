"""Request bodies, tool results and continuation tokens as they come over HTTP, also forwarded by another server."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote

import jsonschema_rs
import msgspec
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints

from toolfold.errors import UsageError
from toolfold.execution.recorded_history import BY_CALLER, RecordedExecution
from toolfold.interfaces.http.access.continuation_tokens import Token
from toolfold.interfaces.http.outcome_bodies import INVALID_TOKEN, Hangup, Refusal, call_name
from toolfold.interfaces.http.settings import ALL_ROLES, Role
from toolfold.models import Reply, RunNames, ToolSpec
from toolfold.tools.arguments import bound_schema
from toolfold.tools.tool import Decision, unique_names

SESSION_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,100}$"
# Part of a session's key behind the tenant's name, so without the sign that stands between the two.
SessionId = Annotated[str, StringConstraints(pattern=SESSION_PATTERN)]
# 300 s is checked by the interface, whose limit it is; text is not a number, as in JSON Schema.
Milliseconds = Annotated[float, Field(strict=True, allow_inf_nan=False)]
LANGUAGES: Final = ("py", "python", "python3")
# Any text is read, so that the interface can say what to send instead.
Language = Annotated[str, Field(json_schema_extra={"enum": [*LANGUAGES, "bash"]})]


class RequestBody(BaseModel):
    """A JSON body."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)


class ToolDefinition(RequestBody):
    """A tool that the client answers for."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """A JSON Schema."""


class FileReference(RequestBody):
    """A file of an earlier session."""

    id: str
    name: str | None = None
    session_id: SessionId | None = Field(
        default=None, validation_alias=AliasChoices("storage_session_id", "session_id")
    )


class ToolResult(RequestBody):
    """What became of one tool call."""

    call_id: str
    result: Any = None
    is_error: bool = False
    error_message: str | None = None


class ApprovalDecision(RequestBody):
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


class ExecuteRequest(RequestBody):
    """`POST /exec`: a program without tools."""

    code: str
    lang: Language = "py"
    args: list[str] | None = None
    """Arguments of a bash program: `$1` and so on."""
    session_id: SessionId | None = None
    timeout: Milliseconds | None = None
    """Milliseconds, 1000 to 300000."""
    files: list[FileReference] | None = None


class BatchProgram(RequestBody):
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


class BatchRequest(RequestBody):
    """`POST /exec/batch`."""

    programs: Annotated[list[BatchProgram], Field(min_length=1)]
    """At most 10,000."""


class RunCodeRequest(RequestBody):
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


class ProgrammaticRequest(RequestBody):
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


class CancelRequest(RequestBody):
    """`POST /exec/programmatic/cancel`: by the id that the request had, or by its token."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["request_id"]}, {"required": ["continuation_token"]}]}
    )

    request_id: str | None = None
    continuation_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A request for a new execution, checked."""

    tenant: str
    session: str
    code: str
    language: Literal["python", "bash"] = "python"
    tools: Sequence[ToolSpec] = ()
    files: Sequence[FileReference] = ()
    timeout_seconds: float
    request_id: str = ""
    names: RunNames = field(default_factory=RunNames)
    execution_id: str = ""
    """Fixed where the request may be sent again; empty takes a new one."""
    counts_pauses: bool = True
    """The timeout is of the whole execution; otherwise of the program's own time."""
    hangup: Hangup | None = None
    """Not asked where the request may be sent again."""


# ----------------------------------------------------------------------------------------------------
# Tool definitions and results of a client, as the runtime takes them; each mistake gets its own words.

_CALL: Final = re.compile(r"call_([0-9]{3,9})", re.ASCII)
_SHOWN_CHARACTERS: Final = 80


def specs_of(definitions: Sequence[ToolDefinition], *, reserved_names: frozenset[str], most: int) -> list[ToolSpec]:
    """Tools that only the client can answer, under the names that its programs call them by."""
    if len(definitions) > most:
        raise Refusal(400, f"{len(definitions)} tools are more than {most}; send those that the program calls")
    seen_names: set[str] = set()
    for definition in definitions:
        if definition.name in seen_names:
            raise Refusal(400, f"tool {definition.name[:_SHOWN_CHARACTERS]!r} is given twice; give each tool once")
        if definition.name in reserved_names:
            raise Refusal(
                400, f"tool {definition.name[:_SHOWN_CHARACTERS]!r} is one of this server's own; rename yours"
            )
        seen_names.add(definition.name)
    names = unique_names(seen_names)
    return [_spec(definition, names[definition.name]) for definition in definitions]


def _spec(definition: ToolDefinition, python_name: str) -> ToolSpec:
    parameters = definition.parameters or {}
    schema = {"type": "object", **parameters}
    if not _is_usable(schema):
        raise Refusal(
            400, f"the parameters of tool {definition.name[:_SHOWN_CHARACTERS]!r} are no JSON Schema of an object"
        )
    description = (definition.description or "").strip()
    parameters_text = f"Parameters: {json.dumps(parameters, ensure_ascii=False)}" if parameters else ""
    return ToolSpec(
        name=definition.name, python_name=python_name,
        description="\n\n".join(text for text in (description, parameters_text) if text),
        input_schema=bound_schema(schema, definition.name), source="caller",
    )  # fmt: skip


def _is_usable(schema: dict[str, Any]) -> bool:
    if schema["type"] != "object" or not isinstance(schema.get("properties", {}), dict):
        return False
    try:
        return jsonschema_rs.meta.is_valid(schema)
    # A dialect that it does not know, or nested too deep.
    except (ValueError, RecursionError):
        return False


def replies_of(results: Sequence[ToolResult]) -> list[Reply]:
    if not results:
        raise Refusal(400, "tool_results is empty; answer at least one of the open calls")
    replies: dict[int, Reply] = {}
    for result in results:
        short_id = result.call_id[:_SHOWN_CHARACTERS]
        call_id = _call_id(result.call_id)
        if "result" not in result.model_fields_set and not result.is_error:
            raise Refusal(400, f"the result of {short_id!r} is missing; send 'result', or 'is_error' with a message")
        if call_id in replies:
            raise Refusal(400, f"{short_id!r} is answered twice; answer each call once")
        if result.is_error:
            replies[call_id] = Reply(call_id=call_id, error=result.error_message or "the tool failed")
        else:
            replies[call_id] = Reply(call_id=call_id, value=result.result)
    return list(replies.values())


def decisions_of(raw_decisions: Sequence[ApprovalDecision], *, by: str) -> dict[int, Decision]:
    """Decisions by call, with the tenant that made them."""
    decisions: dict[int, Decision] = {}
    for raw in raw_decisions:
        call_id = _call_id(raw.call_id)
        if call_id in decisions:
            raise Refusal(400, f"{raw.call_id!r} is decided twice; decide on each call once")
        try:
            decisions[call_id] = Decision(
                approved=raw.approved, reason=raw.reason, arguments=raw.arguments, covers=raw.covers, calls=raw.calls,
                by=f"{BY_CALLER}{by}",
            )  # fmt: skip
        except UsageError as error:
            raise Refusal(400, f"the decision on {raw.call_id!r} is wrong: {error}") from error
    return decisions


def _call_id(text: str) -> int:
    match = _CALL.fullmatch(text)
    if match is None:
        short_text = text[:_SHOWN_CHARACTERS]
        raise Refusal(400, f"call_id {short_text!r} is none of ours; send back the id of the tool call")
    return int(match[1])


def check_calls(call_ids: Iterable[int], open_calls: frozenset[int], kind: str = "call") -> None:
    for call_id in call_ids:
        if call_id not in open_calls:
            names = ", ".join(call_name(open_id) for open_id in sorted(open_calls)[:20])
            open_ones = f"open are {names}" if names else "none is open"
            raise Refusal(400, f"no open {kind} {call_name(call_id)!r}; {open_ones}")


def refuse_large(results: Sequence[ToolResult], limit: int) -> None:
    for result in results:
        size = len(msgspec.json.encode(result.result))
        if size > limit:
            raise Refusal(400, f"the result of {result.call_id[:40]!r} has {size} bytes, more than {limit}")


# ----------------------------------------------------------------------------------------------------
# A client's answers to the calls of one pause, and whether the record has them already. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A token and the replies that came with it; a start that is sent again has none."""

    token: Token
    replies: Sequence[Reply] = ()
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    """By call."""
    digest: bytes = b""
    """Tells the same results, sent again, from others."""
    request_id: str = ""

    @property
    def is_start(self) -> bool:
        """Whether it only asks for the next pause."""
        return not self.replies and not self.decisions


def continuation_of(
    token: Token, results: Sequence[ToolResult], decisions: Sequence[ApprovalDecision], request_id: str
) -> Continuation:
    """A client's answers; `Refusal` if a result is no answer to a call, or a decision is none."""
    digest = hashlib.sha256(msgspec.json.encode([part.model_dump() for part in (*results, *decisions)])).digest()
    replies = replies_of(results) if results or not decisions else ()
    decided = decisions_of(decisions, by=token.tenant)
    return Continuation(token=token, replies=replies, decisions=decided, digest=digest, request_id=request_id)


def is_new(continuation: Continuation, recorded: RecordedExecution) -> bool:
    """Whether these replies are the next that the execution waits for, and not the last that it took.

    `Refusal` if neither: the token is of an earlier pause, or came with other results before.
    """
    if recorded.answer_count == continuation.token.replies:
        return True
    is_same = all(recorded.answered.get(reply.call_id) == reply for reply in continuation.replies) and all(
        recorded.decided.get(call_id) == (decision.approved, decision.reason)
        for call_id, decision in continuation.decisions.items()
    )
    if is_same and recorded.answer_count == continuation.token.replies + len(continuation.replies) + len(
        continuation.decisions
    ):
        return False
    raise Refusal(400, INVALID_TOKEN)


# ----------------------------------------------------------------------------------------------------
# A request that one replica forwards to another, and the response to it. Plain data.

HEADER: Final = "x-toolfold-forwarded"
"""Has a request that comes from another replica."""
REQUEST_ID: Final = "x-librechat-code-request-id"
NAME_HEADERS: Final = {field: f"x-toolfold-{field}" for field in ("title", "tags", "user", "conversation", "model")}
FORWARDED_HEADERS: Final = ("user-agent", "idempotency-key", REQUEST_ID, *NAME_HEADERS.values())


def names_in(headers: Mapping[str, str]) -> RunNames:
    """Names of a run in its headers, percent-encoded where they are not ASCII; tags are separated by commas."""
    texts = {field: unquote(headers[header]) for field, header in NAME_HEADERS.items() if header in headers}
    tags = tuple(tag for part in texts.pop("tags", "").split(",") if (tag := part.strip()))
    return RunNames(tags=tags, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest:
    """A client's request, as it can be forwarded to the replica that holds its execution."""

    path: str
    """Behind the base path."""
    body: bytes = b""
    tenant: str
    """Whose it is: found out where it came in, and not again."""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    roles: frozenset[Role] = ALL_ROLES
    """Of the caller; another replica has looked at them already."""
    is_from_replica: bool = False
    """Another replica forwarded it, so it goes no further."""

    @property
    def request_id(self) -> str:
        """Id by which a cancel may name it; may be empty."""
        return self.headers.get(REQUEST_ID, "")


@dataclass(frozen=True, slots=True)
class ForwardedResponse:
    """Another replica's response."""

    status: int
    body: bytes
    headers: Mapping[str, str]
