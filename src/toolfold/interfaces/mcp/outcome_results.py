"""MCP results of outcomes (a text, then images and links, nothing structured), and the produced files.

Clients that find `structuredContent` show the model only that; so there is none. The first part is
always the documented text alone (`[Script executed successfully]` and its like); anything else
comes in parts of its own.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias
from urllib.parse import quote

import mcp_types as types

from toolfold import errors
from toolfold.errors import EngineCrashed, ToolfoldError, entry_for
from toolfold.interfaces.mcp.client_program import McpProgram
from toolfold.interfaces.mcp.prompt_texts import ENTRY_NAME, WAIT_NAME
from toolfold.models import MIB, File, Outcome, Reply
from toolfold.outcome_views import describe_media, images_in, sounds_in
from toolfold.prompts.wording import first_line, lessons
from toolfold.service.answer_memory import BoundedMemory

# ----------------------------------------------------------------------------------------------------
# Files that programs made, kept for a while so that a client can read them; bounded in number and bytes.

SCHEME: Final = "toolfold"
_MOST_BYTES: Final = 64 * MIB
"""Of all files of one client."""
_MOST_FILES: Final = 200
"""Of one client."""
_MOST_CLIENTS: Final = 100


StoredFile: TypeAlias = tuple[str, File]
"""A file after its address."""


class ClientFiles:
    """The produced files of all clients; each client sees its own. The oldest go first."""

    def __init__(self) -> None:
        self._clients: BoundedMemory[str, BoundedMemory[str, StoredFile]] = BoundedMemory(_MOST_CLIENTS)

    def add(self, client: str, execution_id: str, files: Iterable[File]) -> Sequence[StoredFile]:
        """Keep the files of an execution; gives those that fit."""
        stored = self._clients.get(client) or BoundedMemory(_MOST_FILES, _MOST_BYTES)
        self._clients.put(client, stored)
        added = [(f"{SCHEME}://files/{execution_id}/{quote(file.name)}", file) for file in files]
        for uri, file in added:
            stored.put(uri, (uri, file), file.size)
        return [entry for entry in added if stored.get(entry[0]) is not None]

    def list(self, client: str) -> Sequence[StoredFile]:
        """All files of a client, oldest first."""
        stored = self._clients.get(client)
        return () if stored is None else stored.values()


RUNNING: Final = "[Script still running]"
SUCCESS: Final = "[Script executed successfully]"
FAILURE: Final = "[Script execution failed]"
TRUNCATED: Final = "\n... (truncated)"
NOTHING_CALLED: Final = "The program was not started and no tool was called. Correct it and send it again."

_SHOWN_VALUE_CHARACTERS: Final = 2_000
_SHOWN_CALLS: Final = 5
_REFUSED: Final = re.compile(rf"ToolError: '.*' is not available in {ENTRY_NAME}")

OF_ERROR: Final[dict[type[ToolfoldError], str]] = {
    **dict.fromkeys((errors.UsageError, errors.SealBroken), "UsageError"),
    **dict.fromkeys((
        errors.ToolError, errors.ToolNotFound, errors.ToolRefused, errors.ToolArgumentsInvalid, errors.ToolTimedOut,
        errors.ToolFailed, errors.ToolUnreachable, errors.ServerHungUp, errors.AgentUnreachable, errors.ReplyUnfit,
    ), "ToolError"),
    errors.EngineError: "SandboxError",
    errors.EngineUnavailable: "SandboxUnavailable",
    errors.EngineCrashed: "SandboxCrashed",
    **dict.fromkeys((errors.ToolfoldError, errors.ReplayDiverged), "InternalError"),
    **dict.fromkeys((errors.Fenced, errors.LedgerFull, errors.LedgerFailed), "InternalError"),
}  # fmt: skip
"""The word before the message; a model reads it."""


def to_result(
    outcome: Outcome, *, wall_seconds: float, files: Sequence[StoredFile] = (), notes: Sequence[str] = (),
    has_yielded: bool = False,
) -> types.CallToolResult:  # fmt: skip
    """The documented text for the outcome, then what it cannot hold; with `has_yielded` without the earlier output."""
    has_failed = outcome.status != "finished"
    nothing = "(no further output)" if has_yielded else "(no output)"
    # On the first line, which clients know by its beginning.
    success = f"{SUCCESS} {first_line(outcome)}".rstrip()
    text = f"{FAILURE}\n{_failure(outcome, wall_seconds)}" if has_failed else f"{success}\n{_output(outcome, nothing)}"
    content: list[types.ContentBlock] = [types.TextContent(text=text)]
    content += [types.TextContent(text=line) for line in (*_extra(outcome), *lessons(outcome), *notes)]
    content += [
        types.ImageContent(data=base64.b64encode(data).decode(), mime_type=mime)
        for mime, data in images_in(outcome.value, outcome.files)
    ]
    content += [
        types.AudioContent(data=base64.b64encode(data).decode(), mime_type=mime)
        for mime, data in sounds_in(outcome.value)
    ]
    content += [types.ResourceLink(name=file.name, uri=uri, mime_type=file.mime, size=file.size) for uri, file in files]
    return types.CallToolResult(content=content, is_error=has_failed)


def reply_result(reply: Reply) -> types.CallToolResult:
    """A direct call's reply: text, or JSON as text, and the pictures in it."""
    if reply.error is not None:
        return failed(reply.error)
    value = reply.value
    text = value if isinstance(value, str) else json.dumps(describe_media(value), ensure_ascii=False)
    pictures = [
        types.ImageContent(data=base64.b64encode(data).decode(), mime_type=mime) for mime, data in images_in(value)
    ]
    return types.CallToolResult(content=[types.TextContent(text=text), *pictures])


def running_result(program: McpProgram) -> types.CallToolResult:
    """A program that has not ended yet: what it printed since the last answer, and how to get the rest."""
    printed = program.output.take(program.limits.output_bytes)
    names = list(dict.fromkeys(call.tool for call in program.open_calls))
    waits = f"; it waits for {', '.join(names[:_SHOWN_CALLS])}" if names else ""
    waits += f" and {len(names) - _SHOWN_CALLS} more" if len(names) > _SHOWN_CALLS else ""
    how = f"Call {WAIT_NAME} with execution_id {program.execution_id!r}; do not run it again."
    text = f"Running for {program.seconds:.0f} s{waits}. {how}"
    return types.CallToolResult(
        content=[
            types.TextContent(text=f"{RUNNING}\n{printed if printed.strip() else '(no output yet)'}"),
            types.TextContent(text=text),
        ]
    )


def superseded_result(execution_id: str) -> types.CallToolResult:
    text = f"{RUNNING}\nA later {WAIT_NAME} waits for program {execution_id!r} and gets its output."
    return types.CallToolResult(content=[types.TextContent(text=text)])


def to_mcp(error: ToolfoldError) -> types.CallToolResult:
    """An error of the host, in the form of a failed program: the model reads that, and not a protocol error."""
    text = f"{FAILURE}\n{entry_for(error, OF_ERROR)}: {error}"
    if isinstance(error, EngineCrashed) and error.started:
        text += f"\nTools that were called and may have run: {', '.join(error.started)}"
    return failed(text)


def failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _output(outcome: Outcome, nothing: str = "(no output)") -> str:
    text = outcome.stdout if outcome.stdout.strip() else nothing
    return text + TRUNCATED if outcome.stdout_cut_bytes else text


def _failure(outcome: Outcome, wall_seconds: float) -> str:
    problem = outcome.problem
    match outcome.status:
        case "timeout":
            return f"TimeoutError: Execution exceeded {wall_seconds:g}s limit"
        case "cancelled":
            return "Cancelled: the program was stopped"
        case "rejected":
            return f"{problem}\n{NOTHING_CALLED}"
    message = problem.message if problem is not None else ""
    if _REFUSED.fullmatch(message):
        return message
    traceback = outcome.stderr.rstrip("\n")
    if outcome.stderr_cut_bytes:
        return f"{traceback}{TRUNCATED}\n{problem}"
    if not traceback or outcome.status == "limit":
        return f"{traceback}\n{message}".strip("\n")
    return traceback if message in traceback else f"{traceback}\n{message}"


def _extra(outcome: Outcome) -> Iterator[str]:
    if outcome.status != "finished":
        if outcome.stdout.strip():
            yield f"Output before the failure:\n{_output(outcome)}"
    elif not outcome.stdout.strip() and outcome.value is not None:
        text = json.dumps(describe_media(outcome.value), ensure_ascii=False)
        cut = f"{text[:_SHOWN_VALUE_CHARACTERS]}{TRUNCATED}" if len(text) > _SHOWN_VALUE_CHARACTERS else text
        yield f"Nothing was printed. The value of the last line: {cut}"
