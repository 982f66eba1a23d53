"""MCP's tasks extension: a program that would yield becomes a task, for clients that declare the extension.

Such a client polls `tasks/get` itself, so that no model spends a turn on waiting. A task's id is that of its program,
and what the program asks is in the task until `tasks/update` brings the answer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from toolfold.doors.mcp.client import is_legacy, owner_of
from toolfold.doors.mcp.running import Running
from toolfold.doors.mcp.yielding import checked_id
from toolfold.errors import ToolfoldError, UsageError
from toolfold.models import Outcome

TASKS: Final = "io.modelcontextprotocol/tasks"
_MISSING_CAPABILITY: Final = -32021
_HEADER_MISMATCH: Final = -32020
_POLL_MILLISECONDS: Final = 1_000
_KEPT_SECONDS: Final = 600.0
"""After the longest that a program may take: the time in which its client comes for the result."""
_MOST_KEPT: Final = 100
_RESPONSES: Final = TypeAdapter(types.InputResponses)

Context = ServerRequestContext[Any, Any]
"""Any: nothing here reads what the lifespan yields or what the transport puts into a request."""


class TaskParams(types.RequestParams):
    """Names a task."""

    task_id: str


class UpdateParams(TaskParams):
    """Answers to what a task asks."""

    # Any: an answer to a question that is not open any more may be anything.
    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Over:
    """A task that has ended: what `tasks/get` says from now on."""

    owner: str
    # Any: a task as JSON.
    told: dict[str, Any]


def has_tasks(context: Context) -> bool:
    """Whether the client of a request polls tasks."""
    declared = context.session.client_capabilities
    return not is_legacy(context) and declared is not None and TASKS in (declared.extensions or {})


# Any: a result as JSON; the SDK has no type for the extension's.
def created(running: Running) -> dict[str, Any]:
    """The answer to a request whose program goes on as a task."""
    running.questions.rounds = 0  # a task may ask as often as it likes
    return {"resultType": "task", **_facts(running, "working")}


class Tasks:
    """The extension's methods.

    Args:
        find: A program that has yielded, if it is here.
        revive: The same from its record.
        stop: Ends one.
        forget: Has no more use for one that has ended.
        result: What its client would have been told.
    """

    def __init__(
        self, *, find: Callable[[str], Running | None],
        revive: Callable[[Context, str], Awaitable[Running | Outcome]],
        stop: Callable[[Running], Awaitable[Outcome]], forget: Callable[[Running], None],
        result: Callable[[Context, Outcome, Running | None], types.CallToolResult],
    ) -> None:  # fmt: skip
        self._find = find
        self._revive = revive
        self._stop = stop
        self._forget = forget
        self._result = result
        self._over: dict[str, _Over] = {}

    def add_to(self, server: Server[Any]) -> None:
        """Declare the extension, and serve its methods."""
        server.extensions[TASKS] = {}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    async def _get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        task = await self._task(context, params)
        if isinstance(task, _Over):
            return task.told
        if task.is_done:
            return self._ended(context, task).told
        questions = task.questions.all()
        if not questions:
            return _facts(task, "working")
        asked = types.InputRequiredResult(input_requests=dict(questions))
        shown = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**_facts(task, "input_required"), "inputRequests": shown["inputRequests"]}

    async def _update(self, context: Context, params: UpdateParams) -> dict[str, Any]:
        task = await self._task(context, params)
        if isinstance(task, Running):
            known = {key: one for key, one in params.input_responses.items() if key in task.questions.all()}
            try:
                answers = _RESPONSES.validate_python(known)
            except ValidationError as error:
                raise MCPError(types.INVALID_PARAMS, "an answer is not what its question asks for") from error
            task.questions.answer(answers)
        return {}

    async def _cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        task = await self._task(context, params)
        if isinstance(task, Running) and not task.is_done:
            await self._stop(task)
        if isinstance(task, Running):
            self._ended(context, task)
        return {}

    async def _task(self, context: Context, params: TaskParams) -> Running | _Over:
        """The task that a request is about.

        Raises:
            MCPError: The client declares no tasks, or this is none of its own.
        """
        if not has_tasks(context):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(_MISSING_CAPABILITY, "Missing required client capability", data=needed)
        if context.request is not None and context.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(_HEADER_MISMATCH, "the header Mcp-Name must have the taskId of the request")
        owner = owner_of(context)
        try:
            execution_id = checked_id(params.task_id, owner)
            over = self._over.get(execution_id)
            if over is not None and over.owner == owner:
                return over
            found = self._find(execution_id) or await self._revive(context, execution_id)
        except UsageError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        if isinstance(found, Running):
            return found
        return self._keep(context, execution_id, self._told(context, found, None))

    def _ended(self, context: Context, running: Running) -> _Over:
        self._forget(running)
        try:
            told = self._told(context, running.outcome(), running)
        except ToolfoldError as error:
            told = {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": str(error)}}
        return self._keep(context, running.execution_id, {**_facts(running, "completed"), **told})

    def _told(self, context: Context, outcome: Outcome, running: Running | None) -> dict[str, Any]:
        """How it ended; what a program did wrong is part of its result, as it is without tasks."""
        facts = {} if running is not None else _recorded(outcome)
        if outcome.status == "cancelled":
            return {**facts, "status": "cancelled"}
        result = self._result(context, outcome, running)
        return {
            **facts,
            "status": "completed",
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    def _keep(self, context: Context, execution_id: str, told: dict[str, Any]) -> _Over:
        over = self._over[execution_id] = _Over(owner_of(context), told)
        while len(self._over) > _MOST_KEPT:
            del self._over[next(iter(self._over))]
        return over


def _facts(running: Running, status: str) -> dict[str, Any]:
    kept = running.limits.wall_seconds + _KEPT_SECONDS
    return _task_of(running.execution_id, status, running.began_at, kept)


def _recorded(outcome: Outcome) -> dict[str, Any]:
    return _task_of(outcome.execution_id, "completed", time.time() - outcome.seconds, _KEPT_SECONDS)


def _task_of(execution_id: str, status: str, began: float, kept_seconds: float) -> dict[str, Any]:
    return {
        "taskId": execution_id,
        "status": status,
        "createdAt": _moment(began),
        "lastUpdatedAt": _moment(time.time()),
        "ttlMs": int(kept_seconds * 1000),
        "pollIntervalMs": _POLL_MILLISECONDS,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
