"""Requests that wait for a program: to its end, to a question, or to the moment in which it yields."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext

from toolfold.errors import UsageError
from toolfold.interfaces.mcp.clients import Clients, ask, is_legacy
from toolfold.interfaces.mcp.program import McpProgram
from toolfold.interfaces.mcp.questions import CLIENT_ROUNDS, Question
from toolfold.interfaces.mcp.render import running_result, superseded_result
from toolfold.interfaces.mcp.tasks import YieldPolicy, has_tasks, task_result
from toolfold.models import Outcome
from toolfold.service.locks import ExecutionLocks

Context = ServerRequestContext[Any, Any]
"""Any: nothing here reads what the lifespan yields or what the transport puts into a request."""
ANSWER_WAIT_SECONDS: Final = 600.0
"""How long a program stands still for a client that was told to come back with an answer."""
_MOST_PARKED: Final = 100
_MOST_UNREAD: Final = 100
"""Programs that have ended and that nobody has waited for since; of older ones the record is left."""
_LISTEN_AFTER_SECONDS: Final = 0.5
"""Most programs have ended by then, and whoever reads along costs them something."""


class ProgramService:
    """The programs of an interface that clients wait for, and those that wait for their clients.

    Args:
        clients: Has those that have not ended.
        spawn: Runs work in the background.
        locks: Of those that a client knows by id.
        yielding: When they answer before they have ended.
    """

    # Any: what a coroutine yields and is sent is asyncio's business.
    def __init__(
        self, clients: Clients, spawn: Callable[[Any], None], locks: ExecutionLocks, yielding: YieldPolicy | None = None
    ) -> None:
        self.yielding = yielding or YieldPolicy()
        self._clients = clients
        self._spawn = spawn
        self.locks = locks
        self._parked: dict[str, asyncio.TimerHandle] = {}
        self._yielded_programs: dict[str, McpProgram] = {}
        """Programs whose clients come back with `wait_program`, by execution id."""

    async def close(self) -> None:
        """End the programs, except those that the next process can continue."""
        for timer in self._parked.values():
            timer.cancel()
        await asyncio.gather(*(self._leave(program) for program in tuple(self._clients.programs.values())))

    async def _leave(self, program: McpProgram) -> None:
        # A client that knows a program by its id comes back for it, to whichever process it meets.
        is_known = program.execution_id in self._yielded_programs
        if is_known and program.is_durable and self.locks.are_shared and not program.is_done:
            await program.release()
            self._clients.programs.pop(program.id, None)
        else:
            await program.cancel()
            self.forget(program)

    def find(self, execution_id: str) -> McpProgram | None:
        """A program that has yielded, if it is here."""
        return self._yielded_programs.get(execution_id)

    def add(self, program: McpProgram) -> None:
        """Add a program that was revived from its record."""
        self._clients.programs[program.id] = program
        self._yielded_programs[program.execution_id] = program

    def come_back(self, params: types.CallToolRequestParams) -> McpProgram:
        """The program that waits for the answers in this request."""
        timer = self._parked.pop(params.request_state or "", None)
        program = self._clients.programs.get(params.request_state or "")
        if timer is None or program is None:
            raise UsageError("the program that asked is gone: it waited too long, or was answered; run it again")
        timer.cancel()
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
                    return self._come_again(program, program.questions.all())
            await _tell_progress(context, program)
            if not program.is_done:
                stays = True
                self._keep(program)
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
                self.forget(program)
        return program.outcome()

    async def stop(self, program: McpProgram) -> Outcome:
        """End a program for its client."""
        program.take_turn()
        outcome = await program.stop()
        self.forget(program)
        return outcome

    def forget(self, program: McpProgram) -> None:
        """Drop a program whose client has its result."""
        self._clients.programs.pop(program.id, None)
        self._yielded_programs.pop(program.execution_id, None)
        self.locks.drop(program.execution_id, has_ended=True)

    def _keep(self, program: McpProgram) -> None:
        self._yielded_programs.setdefault(program.execution_id, program)
        self.locks.take(program.execution_id, is_new=True)
        unread = [candidate for candidate in self._yielded_programs.values() if candidate.is_done]
        for old in unread[: max(0, len(unread) - _MOST_UNREAD)]:
            self.forget(old)

    def _come_again(self, program: McpProgram, questions: Mapping[str, Question]) -> types.InputRequiredResult:
        program.park()
        loop = asyncio.get_running_loop()
        self._parked[program.id] = loop.call_later(ANSWER_WAIT_SECONDS, self._expire, program)
        while len(self._parked) > _MOST_PARKED:
            oldest = next(iter(self._parked))
            self._parked[oldest].cancel()
            self._expire(self._clients.programs[oldest])
        return types.InputRequiredResult(input_requests=dict(questions), request_state=program.id)

    def _expire(self, program: McpProgram) -> None:
        self._parked.pop(program.id, None)
        self.forget(program)
        self._spawn(program.cancel())


def _yield_result(program: McpProgram) -> types.CallToolResult:
    printed = program.output.take(program.limits.output_bytes)
    return running_result(program.execution_id, printed=printed, calls=program.open_calls, seconds=program.seconds)


async def _tell_progress(context: Context, program: McpProgram) -> None:
    for step, message in program.take_messages():
        await context.session.report_progress(step, None, message)


async def _has_questions(program: McpProgram) -> bool:
    """Whether there is something to ask the client of the newer era, which comes back so many times and no more."""
    if program.questions.all() and program.questions.rounds >= CLIENT_ROUNDS:
        program.questions.refuse()
    elif program.questions.all():
        await program.questions.gather()
    return bool(program.questions.all()) and not program.is_done


async def _put(context: Context, program: McpProgram, key: str, question: Question) -> None:
    # In the older era folders are asked for without a program: see `Clients.roots`.
    assert isinstance(question, types.ElicitRequest)
    program.questions.answer({key: await ask(context, question.params)})
