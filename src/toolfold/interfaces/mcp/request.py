"""A request's share of a program's life: to its end, to a question, or to the moment in which it yields."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext

from toolfold.errors import UsageError
from toolfold.interfaces.mcp.clients import Clients, ask, is_legacy
from toolfold.interfaces.mcp.program import Running
from toolfold.interfaces.mcp.questions import CLIENT_ROUNDS, Question
from toolfold.interfaces.mcp.render import still_running, taken_over
from toolfold.interfaces.mcp.tasks import Holds, Yielding, created, has_tasks
from toolfold.models import Outcome

Context = ServerRequestContext[Any, Any]
"""Any: nothing here reads what the lifespan yields or what the transport puts into a request."""
ANSWER_WAIT_SECONDS: Final = 600.0
"""How long a program stands still for a client that was told to come back with an answer."""
_MOST_PARKED: Final = 100
_MOST_UNREAD: Final = 100
"""Programs that have ended and that nobody has waited for since; of older ones the record is left."""
_LISTEN_AFTER_SECONDS: Final = 0.5
"""Most programs have ended by then, and whoever reads along costs them something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one request gets of a program."""

    yield_seconds: float | None = None
    """After which it answers although the program runs; `None` is never."""
    is_wait: bool = False
    """Its client may leave: the program stays."""


class Serving:
    """The programs of a door that clients wait for, and those that wait for their clients.

    Args:
        clients: Has those that have not ended.
        spawn: Runs work in the background.
        holds: Those that a client knows by id.
        yielding: When they answer before they have ended.
    """

    # Any: what a coroutine yields and is sent is asyncio's business.
    def __init__(
        self, clients: Clients, spawn: Callable[[Any], None], holds: Holds, yielding: Yielding | None = None
    ) -> None:
        self.yielding = yielding or Yielding()
        self._clients = clients
        self._spawn = spawn
        self._holds = holds
        self._parked: dict[str, asyncio.TimerHandle] = {}
        self._yielded: dict[str, Running] = {}
        """By execution id: those whose clients come back with `wait_program`."""

    async def close(self) -> None:
        """The door is being left: end the programs, but for those that the next process can go on with."""
        for timer in self._parked.values():
            timer.cancel()
        await asyncio.gather(*(self._leave(running) for running in tuple(self._clients.running.values())))

    def drop_holds(self) -> None:
        """The record has all of what was left to other processes, so that they may have it."""
        self._holds.close()

    async def _leave(self, running: Running) -> None:
        """A client that knows a program by its id comes back for it, to whichever process it meets."""
        is_known = running.execution_id in self._yielded
        if is_known and running.is_durable and self._holds.are_shared and not running.is_done:
            await running.release()
            self._clients.running.pop(running.id, None)
        else:
            await running.cancel()
            self.forget(running)

    def find(self, execution_id: str) -> Running | None:
        """A program that has yielded, if it is here."""
        return self._yielded.get(execution_id)

    def may_revive(self, execution_id: str) -> bool:
        """Whether no living process goes on with a program that is not here, so that this one may."""
        return self._holds.take(execution_id, is_new=False)

    def add(self, running: Running) -> None:
        """One that was brought back from its record."""
        self._clients.running[running.id] = running
        self._yielded[running.execution_id] = running

    def come_back(self, params: types.CallToolRequestParams) -> Running:
        """The program that waits for the answers in this request."""
        timer = self._parked.pop(params.request_state or "", None)
        running = self._clients.running.get(params.request_state or "")
        if timer is None or running is None:
            raise UsageError("the program that asked is gone: it waited too long, or was answered; run it again")
        timer.cancel()
        running.unpark()
        running.questions.answer(params.input_responses or {})
        return running

    async def serve(
        self, context: Context, running: Running, share: Share
    ) -> Outcome | types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        """Until it has ended, has a question for a client that comes back, or yields; perhaps as a task."""
        stays = share.is_wait
        asking: dict[str, asyncio.Task[None]] = {}
        turn = running.take_turn()
        try:
            async for _ in running.news(share.yield_seconds, _LISTEN_AFTER_SECONDS):
                await _tell_progress(context, running)
                if not running.has_turn(turn):
                    stays = True
                    return taken_over(running.execution_id)
                if is_legacy(context):
                    fresh = running.questions.take().items()
                    asking |= {key: asyncio.create_task(_put(context, running, key, one)) for key, one in fresh}
                elif await _has_questions(running):
                    stays = True
                    return self._come_again(running, running.questions.all())
            await _tell_progress(context, running)
            if not running.is_done:
                stays = True
                self._keep(running)
                return created(running) if has_tasks(context) and not share.is_wait else _yielded(running)
        finally:
            for task in asking.values():
                task.cancel()
            running.questions.give_back(asking)
            if not stays and not running.is_done:
                # The client cancelled: the program must be gone before the answer is.
                with anyio.CancelScope(shield=True):
                    await running.cancel()
            if running.is_done and (not stays or running.has_turn(turn)):
                self.forget(running)
        return running.outcome()

    async def stop(self, running: Running) -> Outcome:
        """End a program, as its client asked for, with what it printed since the last answer."""
        running.take_turn()
        outcome = await running.stop()
        self.forget(running)
        return outcome

    def forget(self, running: Running) -> None:
        """Its client has all of it."""
        self._clients.running.pop(running.id, None)
        self._yielded.pop(running.execution_id, None)
        self._holds.drop(running.execution_id, has_ended=True)

    def _keep(self, running: Running) -> None:
        self._yielded.setdefault(running.execution_id, running)
        self._holds.take(running.execution_id, is_new=True)
        unread = [one for one in self._yielded.values() if one.is_done]
        for old in unread[: max(0, len(unread) - _MOST_UNREAD)]:
            self.forget(old)

    def _come_again(self, running: Running, questions: Mapping[str, Question]) -> types.InputRequiredResult:
        """The program stands still until the client asks again, with answers; for so long and no longer."""
        running.park()
        loop = asyncio.get_running_loop()
        self._parked[running.id] = loop.call_later(ANSWER_WAIT_SECONDS, self._expire, running)
        while len(self._parked) > _MOST_PARKED:
            oldest = next(iter(self._parked))
            self._parked[oldest].cancel()
            self._expire(self._clients.running[oldest])
        return types.InputRequiredResult(input_requests=dict(questions), request_state=running.id)

    def _expire(self, running: Running) -> None:
        """Nobody came back with an answer."""
        self._parked.pop(running.id, None)
        self.forget(running)
        self._spawn(running.cancel())


def _yielded(running: Running) -> types.CallToolResult:
    return still_running(
        running.execution_id, printed=running.printed(), calls=running.open_calls, seconds=running.seconds
    )


async def _tell_progress(context: Context, running: Running) -> None:
    for progress in running.take_progress():
        await context.session.report_progress(progress.step, None, progress.message)


async def _has_questions(running: Running) -> bool:
    """Whether there is something to ask the client of the newer era, which comes back so many times and no more."""
    if running.questions.all() and running.questions.rounds >= CLIENT_ROUNDS:
        running.questions.refuse()
    elif running.questions.all():
        await running.questions.gather()
    return bool(running.questions.all()) and not running.is_done


async def _put(context: Context, running: Running, key: str, question: Question) -> None:
    # In the older era folders are asked for without a program: see `Clients.roots`.
    assert isinstance(question, types.ElicitRequest)
    running.questions.answer({key: await ask(context, question.params)})
