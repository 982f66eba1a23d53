"""Waits of MCP requests for programs, and the tasks extension, with yield times and program ids.

A request waits to the end of its program, to a question, or to the moment in which the program yields. A client with
the extension then polls `tasks/get` itself, so that no model spends a turn on waiting. A task's id is that of its
program, and what the program asks is in the task until `tasks/update` brings the answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from toolfold.errors import ToolfoldError, UsageError
from toolfold.interfaces.mcp.client_program import McpProgram
from toolfold.interfaces.mcp.client_questions import CLIENT_ROUNDS, Question
from toolfold.interfaces.mcp.client_sessions import Context, ask, is_legacy, owner_of
from toolfold.interfaces.mcp.outcome_results import running_result, superseded_result
from toolfold.models import Json, Outcome
from toolfold.service.answer_memory import BoundedMemory
from toolfold.service.owners import ClientExecutions

ANSWER_WAIT_SECONDS: Final = 600.0
"""How long a program stands still for a client that was told to come back with an answer."""
_LISTEN_AFTER_SECONDS: Final = 0.5
"""Most programs have ended by then, and whoever reads along costs them something."""


async def wait_for_program(
    context: Context, program: McpProgram, programs: ClientExecutions[McpProgram], *, yield_seconds: float | None,
    is_wait: bool,
) -> Outcome | types.CallToolResult | types.InputRequiredResult | dict[str, Json]:  # fmt: skip
    """Wait until it has ended, has a question for a client that comes back, or yields; perhaps as a task.

    After `yield_seconds` it answers although the program runs; with `is_wait` a client that leaves ends nothing.
    """
    stays = is_wait
    question_tasks: dict[str, asyncio.Task[None]] = {}
    turn = program.take_turn()
    try:
        async for _ in program.news(yield_seconds, _LISTEN_AFTER_SECONDS):
            await _tell_progress(context, program)
            if not program.has_turn(turn):
                stays = True
                return superseded_result(program.execution_id)
            if is_legacy(context):
                fresh = program.questions.take().items()
                question_tasks |= {
                    key: asyncio.create_task(_put(context, program, key, question)) for key, question in fresh
                }
            elif await _has_questions(program):
                stays = True
                program.park()
                programs.park(program, ANSWER_WAIT_SECONDS)
                questions = program.questions.all()
                return types.InputRequiredResult(input_requests=dict(questions), request_state=program.id)
        await _tell_progress(context, program)
        if not program.is_done:
            stays = True
            programs.keep(program)
            return task_result(program) if has_tasks(context) and not is_wait else running_result(program)
    finally:
        for task in question_tasks.values():
            task.cancel()
        program.questions.give_back(question_tasks)
        if not stays and not program.is_done:
            # The client cancelled: the program must be gone before the answer is.
            with anyio.CancelScope(shield=True):
                await program.cancel()
        if program.is_done and (not stays or program.has_turn(turn)):
            programs.forget(program)
    return program.outcome()


async def stop_program(program: McpProgram, programs: ClientExecutions[McpProgram]) -> Outcome:
    program.take_turn()
    outcome = await program.stop()
    programs.forget(program)
    return outcome


async def _tell_progress(context: Context, program: McpProgram) -> None:
    for step, message in program.take_messages():
        await context.session.report_progress(step, None, message)


async def _has_questions(program: McpProgram) -> bool:
    # A client of the newer era comes back with answers only so many times.
    if program.questions.all() and program.questions.rounds >= CLIENT_ROUNDS:
        program.questions.refuse()
    elif program.questions.all():
        await program.questions.gather()
    return bool(program.questions.all()) and not program.is_done


async def _put(context: Context, program: McpProgram, key: str, question: Question) -> None:
    # In the older era folders are asked for without a program: see `Clients.roots`.
    assert isinstance(question, types.ElicitRequest)
    program.questions.answer({key: await ask(context, question.params)})


# ----------------------------------------------------------------------------------------------------
# The tasks extension.

TASKS: Final = "io.modelcontextprotocol/tasks"
_MISSING_CAPABILITY: Final = -32021
_HEADER_MISMATCH: Final = -32020
_POLL_MILLISECONDS: Final = 1_000
_RESULT_TTL_SECONDS: Final = 600.0
"""After the longest that a program may take: the time in which its client comes for the result."""
_MOST_ENDED_TASKS: Final = 100
_RESPONSES: Final = TypeAdapter(types.InputResponses)


class TaskParams(types.RequestParams):
    """Names a task."""

    task_id: str


class UpdateParams(TaskParams):
    """Answers to what a task asks."""

    # Any: an answer to a question that is not open any more may be anything.
    input_responses: dict[str, Json]


def has_tasks(context: Context) -> bool:
    """Whether the client of a request polls tasks."""
    declared = context.session.client_capabilities
    return not is_legacy(context) and declared is not None and TASKS in (declared.extensions or {})


def task_result(program: McpProgram) -> dict[str, Json]:
    """The answer to a request whose program goes on as a task."""
    program.questions.rounds = 0  # a task may ask as often as it likes
    return {"resultType": "task", **_task_of_program(program, "working")}


class Tasks:
    """The extension's methods.

    Args:
        programs: All that have not ended.
        find: A program, from its record if need be; its outcome, if it has ended elsewhere.
        result: What its client would have been told.
    """

    def __init__(
        self, programs: ClientExecutions[McpProgram],
        find: Callable[[Context, str], Awaitable[McpProgram | Outcome]],
        result: Callable[[Context, Outcome, McpProgram | None], types.CallToolResult],
    ) -> None:  # fmt: skip
        self._programs = programs
        self._find = find
        self._result = result
        self._ended_tasks: BoundedMemory[tuple[str, str], dict[str, Json]] = BoundedMemory(_MOST_ENDED_TASKS)

    def add_to(self, server: Server[Any]) -> None:
        server.extensions[TASKS] = {}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    async def _get(self, context: Context, params: TaskParams) -> dict[str, Json]:
        task = await self._task(context, params)
        if isinstance(task, dict):
            return task
        if task.is_done:
            return self._end_task(context, task)
        questions = task.questions.all()
        if not questions:
            return _task_of_program(task, "working")
        input_required = types.InputRequiredResult(input_requests=dict(questions))
        payload = input_required.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**_task_of_program(task, "input_required"), "inputRequests": payload["inputRequests"]}

    async def _update(self, context: Context, params: UpdateParams) -> dict[str, Json]:
        task = await self._task(context, params)
        if isinstance(task, McpProgram):
            open_responses = {
                key: response for key, response in params.input_responses.items() if key in task.questions.all()
            }
            try:
                answers = _RESPONSES.validate_python(open_responses)
            except ValidationError as error:
                raise MCPError(types.INVALID_PARAMS, "an answer is not what its question asks for") from error
            task.questions.answer(answers)
        return {}

    async def _cancel(self, context: Context, params: TaskParams) -> dict[str, Json]:
        task = await self._task(context, params)
        if isinstance(task, McpProgram):
            if not task.is_done:
                await stop_program(task, self._programs)
            self._end_task(context, task)
        return {}

    async def _task(self, context: Context, params: TaskParams) -> McpProgram | dict[str, Json]:
        """The program of the task that a request is about; the task, if it has ended."""
        if not has_tasks(context):
            needed: dict[str, Json] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(_MISSING_CAPABILITY, "Missing required client capability", data=needed)
        if context.request is not None and context.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(_HEADER_MISMATCH, "the header Mcp-Name must have the taskId of the request")
        owner = owner_of(context)
        try:
            execution_id = check_id(params.task_id, owner)
            if (task := self._ended_tasks.get((owner, execution_id))) is not None:
                return task
            program = await self._find(context, execution_id)
        except UsageError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        if isinstance(program, McpProgram):
            return program
        task = _task_of(execution_id, "completed", program.seconds, _RESULT_TTL_SECONDS)
        return self._keep(context, execution_id, {**task, **self._result_of(context, program, None)})

    def _end_task(self, context: Context, program: McpProgram) -> dict[str, Json]:
        self._programs.forget(program)
        try:
            payload = self._result_of(context, program.outcome(), program)
        except ToolfoldError as error:
            payload = {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": str(error)}}
        return self._keep(context, program.execution_id, {**_task_of_program(program, "completed"), **payload})

    def _result_of(self, context: Context, outcome: Outcome, program: McpProgram | None) -> dict[str, Json]:
        """A program's own failure is part of its result, as it is without tasks."""
        if outcome.status == "cancelled":
            return {"status": "cancelled"}
        result = self._result(context, outcome, program)
        return {"status": "completed", "result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}

    def _keep(self, context: Context, execution_id: str, task: dict[str, Json]) -> dict[str, Json]:
        self._ended_tasks.put((owner_of(context), execution_id), task)
        return task


def _task_of_program(program: McpProgram, status: str) -> dict[str, Json]:
    return _task_of(program.execution_id, status, program.seconds, program.limits.wall_seconds + _RESULT_TTL_SECONDS)


def _task_of(execution_id: str, status: str, seconds: float, ttl_seconds: float) -> dict[str, Json]:
    now = time.time()
    return {
        "taskId": execution_id, "status": status, "createdAt": _moment(now - seconds), "lastUpdatedAt": _moment(now),
        "ttlMs": int(ttl_seconds * 1000), "pollIntervalMs": _POLL_MILLISECONDS,
    }  # fmt: skip


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ----------------------------------------------------------------------------------------------------
# When a program answers before it has ended, and by which id it is waited for. Knows neither requests nor runtimes.
#
# An id holds whose program it is, so that it can be told after a restart, too: nobody waits for a program of another.

CLIENT_TIMEOUT: Final = "MCP_TOOL_TIMEOUT"
"""Milliseconds, in the environment of Claude Code and of the servers that it starts: a wall for each tool call."""
_SHARE: Final = 0.8
"""Of a client's timeout: the rest is for the way there and back."""
_LEAST_SECONDS: Final = 0.2
"""For a program to begin, so that there is something to answer."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
_RANDOM_CHARACTERS: Final = 16
_MARK_CHARACTERS: Final = 16
"""So many that nobody can search for a name that has the mark of another client."""


@dataclass(frozen=True, slots=True)
class YieldPolicy:
    """When a program that still runs answers with what it has printed so far."""

    after_seconds: float | None = None
    """`None`: only where a request asks for it."""
    most_seconds: float | None = None
    """What the client's own timeout leaves."""

    def seconds_for(self, requested_seconds: Json) -> float | None:
        """Time of one request; `None` for as long as it takes."""
        if requested_seconds is None:
            return self.after_seconds
        seconds = positive_seconds("yield_after_seconds", requested_seconds)
        return seconds if self.most_seconds is None else min(seconds, self.most_seconds)


def positive_seconds(name: str, value: Json, note: str = "") -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise UsageError(f"{name} must be a number above 0, got {value!r}{note}")
    return float(value)


def remaining_seconds(seconds: float | None, spent_seconds: float) -> float | None:
    """The rest of a request's time after waiting for the sandbox and the servers; never nothing."""
    return None if seconds is None else max(seconds - spent_seconds, min(seconds, _LEAST_SECONDS))


def yield_policy_of(configured: float | None, environment: Mapping[str, str], wall_seconds: float) -> YieldPolicy:
    """Policy of the config, or else of the client that started this process."""
    timeout_text = environment.get(CLIENT_TIMEOUT, "")
    most = int(timeout_text) / 1000 * _SHARE if timeout_text.isdecimal() and int(timeout_text) > 0 else None
    if configured is not None:
        return YieldPolicy(configured if most is None else min(configured, most), most)
    # A program cannot outlive a client that waits for longer than programs may take.
    return YieldPolicy(most, most) if most is not None and most < wall_seconds else YieldPolicy(None, most)


def new_id(owner: str) -> str:
    random_part = secrets.token_hex(_RANDOM_CHARACTERS // 2)
    return random_part + _mark(random_part, owner)


def check_id(value: Json, owner: str) -> str:
    """The id, if it is that of a program of this owner."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        text = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"
        raise UsageError(f"execution_id must be one that execute_program returned, got {text}")
    if _mark(value[:_RANDOM_CHARACTERS], owner) != value[_RANDOM_CHARACTERS:]:
        raise unknown_program(value)
    return value


def unknown_program(execution_id: str) -> UsageError:
    return UsageError(f"no program {execution_id!r} here: it is another client's, or so old that it was forgotten")


def _mark(random_part: str, owner: str) -> str:
    return hashlib.sha256(f"{random_part}\0{owner}".encode()).hexdigest()[:_MARK_CHARACTERS]
