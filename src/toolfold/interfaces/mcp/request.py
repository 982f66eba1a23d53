"""Requests that wait for a program: to its end, to a question, or to the moment in which it yields."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext

from toolfold.errors import UsageError
from toolfold.interfaces.mcp.clients import ask, is_legacy
from toolfold.interfaces.mcp.program import McpProgram
from toolfold.interfaces.mcp.questions import CLIENT_ROUNDS, Question
from toolfold.interfaces.mcp.render import running_result, superseded_result
from toolfold.interfaces.mcp.tasks import YieldPolicy, has_tasks, task_result
from toolfold.models import Outcome
from toolfold.service.locks import ClientExecutions

Context = ServerRequestContext[Any, Any]
"""Any: nothing here reads what the lifespan yields or what the transport puts into a request."""
ANSWER_WAIT_SECONDS: Final = 600.0
"""How long a program stands still for a client that was told to come back with an answer."""
_LISTEN_AFTER_SECONDS: Final = 0.5
"""Most programs have ended by then, and whoever reads along costs them something."""


class ProgramService:
    """Requests for programs, and the programs that wait for their clients.

    Args:
        programs: Those that have not ended.
        yielding: When they answer before they have ended.
    """

    def __init__(self, programs: ClientExecutions[McpProgram], yielding: YieldPolicy) -> None:
        self.programs = programs
        self.yielding = yielding

    def come_back(self, params: types.CallToolRequestParams) -> McpProgram:
        """The program that waits for the answers in this request."""
        program = self.programs.unpark(params.request_state or "")
        if program is None:
            raise UsageError("the program that asked is gone: it waited too long, or was answered; run it again")
        program.unpark()
        program.questions.answer(params.input_responses or {})
        return program

    async def serve(
        self, context: Context, program: McpProgram, *, yield_seconds: float | None, is_wait: bool
    ) -> Outcome | types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        """Wait until it has ended, has a question for a client that comes back, or yields; perhaps as a task.

        Args:
            context: Of the request.
            program: To wait for.
            yield_seconds: When to answer although the program runs; `None` is never.
            is_wait: The program stays if the client leaves.
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
                    self.programs.park(program, ANSWER_WAIT_SECONDS)
                    questions = program.questions.all()
                    return types.InputRequiredResult(input_requests=dict(questions), request_state=program.id)
            await _tell_progress(context, program)
            if not program.is_done:
                stays = True
                self.programs.keep(program)
                return task_result(program) if has_tasks(context) and not is_wait else _yield_result(program)
        finally:
            for task in question_tasks.values():
                task.cancel()
            program.questions.give_back(question_tasks)
            if not stays and not program.is_done:
                # The client cancelled: the program must be gone before the answer is.
                with anyio.CancelScope(shield=True):
                    await program.cancel()
            if program.is_done and (not stays or program.has_turn(turn)):
                self.programs.forget(program)
        return program.outcome()

    async def stop(self, program: McpProgram) -> Outcome:
        """End a program for its client."""
        program.take_turn()
        outcome = await program.stop()
        self.programs.forget(program)
        return outcome


def _yield_result(program: McpProgram) -> types.CallToolResult:
    printed = program.output.take(program.limits.output_bytes)
    return running_result(program.execution_id, printed=printed, calls=program.open_calls, seconds=program.seconds)


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
