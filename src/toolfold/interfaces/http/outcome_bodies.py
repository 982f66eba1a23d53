"""Response bodies for outcomes and refusals, with the statuses and wording that LibreChat expects."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from toolfold import errors
from toolfold.errors import Fenced, ToolfoldError, entry_for
from toolfold.models import Call, Outcome, Paused
from toolfold.prompts.wording import first_line

# ----------------------------------------------------------------------------------------------------
# Every way in which a request is turned away, with the words that LibreChat's clients know.

INVALID_TOKEN: Final = "Invalid continuation token"  # noqa: S105 - the text of an error
EXPIRED: Final = "Execution expired"
_EXIT_STATUS: Final = re.compile(r"the program exited with status (\d+)")
TIMED_OUT: Final = "Execution timeout"
CANCELLED: Final = "Execution cancelled"


def too_many_rounds(limit: int) -> str:
    return f"Exceeded maximum round trips ({limit})"


class Refusal(Exception):
    """A request that goes no further.

    Args:
        status: For clients that read HTTP statuses.
        text: What was wrong and what to do.
        started: Whether tools of this server were called, so that a new start may do the same twice.
        is_contract: Told to LibreChat as 200 and `status: error`, because it hides the text of any other status.
    """

    def __init__(
        self, status: int, text: str, *, is_contract: bool = True, retry_after_seconds: int = 0,
        started: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(text)
        self.started = started
        self.status = status
        self.text = text
        self.is_contract = is_contract
        self.retry_after_seconds = retry_after_seconds


def rate_limited(seconds: float) -> Refusal:
    """A 429 with the time after which to send the request again."""
    return Refusal(429, "rate_limited", is_contract=False, retry_after_seconds=max(1, round(seconds + 0.5)))


Hangup: TypeAlias = Callable[[], Coroutine[object, None, None]]
"""Returns when the client has closed its connection."""


def hangup_refusal() -> Refusal:
    """The status that proxies log in this case; no client reads it."""
    return Refusal(499, "the client closed the connection", is_contract=False)


_STOPS: Final = "the server stops"


def interruption_refusal(error: Exception, *, started: bool) -> Refusal:
    """The host failed a program that nobody can continue; a client that sends it again starts from scratch."""
    hint = (
        "tools of this server were called and may have run, so sending it again may do the same twice"
        if started
        else "no tool of this server was called; try again"
    )
    return Refusal(503, f"{_failure(error)}; {hint}", is_contract=False, started=started)


def retryable_refusal(error: Exception) -> Refusal:
    """The host failed a program that is on record; the same request, sent again, continues it."""
    return Refusal(503, f"{_failure(error)}; nothing is lost, send the same request again", is_contract=False)


def handover_refusal() -> Refusal:
    """A 503 for an execution that no replica kept for long enough."""
    return Refusal(503, "the execution moves from replica to replica; try again", is_contract=False)


def _failure(error: Exception) -> str:
    if isinstance(error, Fenced):
        return _STOPS
    # The text of a foreign error may name a path of this host.
    return str(error) if isinstance(error, ToolfoldError) else f"the server failed ({type(error).__name__})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ErrorStatus:
    """HTTP status and text for one class of errors."""

    status: int
    is_contract: bool = True
    prefix: str = ""


OF_ERROR: Final[dict[type[ToolfoldError], _ErrorStatus]] = {
    **dict.fromkeys((errors.UsageError, errors.SealBroken), _ErrorStatus(status=400)),
    errors.Fenced: _ErrorStatus(status=409),
    errors.LedgerFull: _ErrorStatus(status=413),
    **dict.fromkeys((errors.EngineError, errors.EngineCrashed), _ErrorStatus(status=500, prefix="the sandbox broke: ")),
    **dict.fromkeys((errors.EngineUnavailable, errors.LedgerFailed), _ErrorStatus(status=503, is_contract=False)),
    **dict.fromkeys((errors.ToolfoldError, errors.ReplayDiverged), _ErrorStatus(status=500)),
    **dict.fromkeys((
        errors.ToolError, errors.ToolNotFound, errors.ToolRefused, errors.ToolArgumentsInvalid, errors.ToolTimedOut,
        errors.ToolFailed, errors.ToolUnreachable, errors.ServerHungUp, errors.AgentUnreachable, errors.ReplyUnfit,
    ), _ErrorStatus(status=500)),
}  # fmt: skip
"""The one place where an exception of ours becomes an HTTP status."""


def to_http(error: ToolfoldError) -> Refusal:
    answer = entry_for(error, OF_ERROR)
    return Refusal(answer.status, f"{answer.prefix}{error}", is_contract=answer.is_contract)


LIBRECHAT: Final = "LibreChat/"
"""How its `User-Agent` starts; it shows an error's text only with status 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """A response before it is rendered for its client."""

    status: int = 200
    body: dict[str, Any] = field(default_factory=dict)
    known_error: str = ""
    """The words among those that LibreChat shows which come nearest to `error`."""


def is_librechat(user_agent: str) -> bool:
    return user_agent.startswith(LIBRECHAT)


def for_client(answer: ApiResponse, user_agent: str) -> tuple[int, dict[str, Any]]:
    body = answer.body
    if body.get("status") != "error" or not is_librechat(user_agent):
        return answer.status, body
    stderr = body["stderr"]
    if stdout := body.get("stdout"):
        # It never shows the stdout of a failed program, and a model needs it.
        stderr = f"{stderr.rstrip()}\n\nstdout before the error:\n{stdout}"
    return 200, {**body, "error": answer.known_error or body["error"], "stderr": stderr}


def tool_calls(paused: Paused, *, session: str, token: str) -> ApiResponse:
    """Calls for the client to execute, and approvals for it to decide on where the server asks its clients."""
    asks = {"approvals": _call_bodies(paused.approvals)} if paused.approvals else {}
    return ApiResponse(
        body={
            "status": "approval_required" if asks else "tool_call_required", "session_id": session,
            "continuation_token": token, "tool_calls": _call_bodies(paused.calls), **asks,
        }
    )  # fmt: skip


def _call_bodies(calls: Sequence[Call]) -> list[dict[str, Any]]:
    return [{"id": call_name(call.id), "name": call.tool, "input": call.arguments} for call in calls]


def accepted_response(execution_id: str, *, session: str) -> ApiResponse:
    return ApiResponse(status=202, body={"status": "running", "session_id": session, "execution_id": execution_id})


def call_name(call_id: int) -> str:
    return f"call_{call_id:03d}"


def outcome_response(outcome: Outcome, *, session: str, files: list[dict[str, Any]]) -> ApiResponse:
    stdout, stderr = _outputs(outcome)
    if outcome.status == "finished":
        body = {"status": "completed", "session_id": session, "stdout": stdout, "stderr": stderr, "files": files}
        # Not where there are none: other clients know answers without it.
        deleted = {"deleted_files": list(outcome.deleted_files)} if outcome.deleted_files else {}
        unmade = {"unmade_calls": list(outcome.unmade_calls)} if outcome.unmade_calls else {}
        return ApiResponse(body={**body, **deleted, **unmade})
    problem = outcome.problem
    text, status, known_error = f"program {outcome.status}", 200, "Sandbox exited with code 1"
    if problem is not None:
        text = problem.message
        if exit_code := _EXIT_STATUS.fullmatch(text):
            known_error = f"Sandbox exited with code {exit_code[1]}"
        known_error = {"memory": "Out of memory", "cpu": "Time limit exceeded"}.get(problem.kind, known_error)
    match outcome.status:
        case "timeout":
            text, status, known_error = TIMED_OUT, 408, "Time limit exceeded"
        case "cancelled":
            text, status = CANCELLED, 400
        case "rejected" if problem is not None:
            stderr = f"SyntaxError: {problem}\n" if problem.kind == "syntax" else f"{problem}\n"
            text = stderr.partition("\n")[0]
    return error_response(text, status=status, session=session, stdout=stdout, stderr=stderr, known_error=known_error)


def _outputs(outcome: Outcome) -> tuple[str, str]:
    """Standard output and standard error, each with a note of how much is missing."""

    def note(cut_bytes: int) -> str:
        text = f"\n... (truncated) {cut_bytes} more bytes; write long output to a file in /mnt/data"
        return text if cut_bytes else ""

    first = f"{first_line(outcome)}\n".lstrip()
    return first + outcome.stdout + note(outcome.stdout_cut_bytes), outcome.stderr + note(outcome.stderr_cut_bytes)


def stopped_response(text: str, outcome: Outcome | None, *, session: str) -> ApiResponse:
    stdout, stderr = ("", "") if outcome is None else _outputs(outcome)
    return error_response(text, status=400, session=session, stdout=stdout, stderr=stderr)


def error_response(
    text: str, *, status: int, session: str = "", stdout: str = "", stderr: str = "", known_error: str = ""
) -> ApiResponse:
    """An error; its text is the first line of `stderr` too, unless a program's traceback says it anyway."""
    if not stderr.startswith(text) and (status != 200 or text not in stderr):
        stderr = f"{text}\n{stderr}"
    body = {"status": "error", "error": text, "stdout": stdout, "stderr": stderr}
    return ApiResponse(
        status=status, body={**body, "session_id": session} if session else body, known_error=known_error
    )


def refusal_response(refusal: Refusal) -> ApiResponse:
    """Response to a refused request; plain where the HTTP status says it all."""
    if refusal.retry_after_seconds:
        return ApiResponse(
            status=refusal.status, body={"error": refusal.text, "retry_after_seconds": refusal.retry_after_seconds}
        )
    if not refusal.is_contract:
        extra = {} if refusal.started is None else {"started": refusal.started}
        return ApiResponse(status=refusal.status, body={"error": refusal.text, **extra})
    return error_response(refusal.text, status=refusal.status)


def plain_response(answer: ApiResponse) -> ApiResponse:
    """The same for `POST /exec`, whose clients know no `status`: a failed program is its stderr."""
    body = answer.body
    if body.get("status") == "completed" or (body.get("status") == "error" and answer.status == 200):
        fields = {key: value for key, value in body.items() if key not in ("status", "error")}
        return ApiResponse(status=answer.status, body={"files": [], **fields})
    return answer
