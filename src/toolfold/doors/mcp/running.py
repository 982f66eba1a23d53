"""One program between the client's first request and its result: questions, progress, cancelling.

The program runs in a task of its own, because in the modern era one program spans several requests
of the client: it asks with the result of one and gets its answer with the next.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Final

import mcp_types as types

from toolfold.doors.mcp.asking import answer_of, approval_form
from toolfold.doors.mcp.questions import Questions
from toolfold.errors import ToolRefused, UsageError
from toolfold.execution.driving import Answers, drive
from toolfold.models import Call, CallRecord, Limits, Outcome, Paused
from toolfold.runtime import Runtime
from toolfold.tools.context import Decision

CURRENT: Final[ContextVar[Running | None]] = ContextVar("toolfold_running", default=None)
"""The program in whose task, or in a call of which, the code runs."""
_MOST_NEWS: Final = 16


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a program is, for the client's eyes."""

    step: int
    """Grows with each, as the protocol wants it."""
    message: str


class Running:
    """A program that has been started for one client.

    Args:
        runtime: Runs it.
        text: Of the program.
        limits: Its own.
        session: The session's whole name; empty for none.
        can_ask: The client can put questions to a person. Without it calls that need a yes are refused.
        before: Done before the program begins; it may ask, too.
    """

    def __init__(
        self, runtime: Runtime, text: str, *, limits: Limits, session: str = "", can_ask: bool,
        before: Callable[[Running], Awaitable[None]] | None = None,
    ) -> None:  # fmt: skip
        self.id = secrets.token_urlsafe(16)
        self.limits = limits
        self.execution_id = ""
        """Known once the program paused, or called a bridged tool."""
        self.can_ask = can_ask
        self.rounds = 0
        """How often the client has been told to come back with answers."""
        self._runtime = runtime
        self._session = session
        self._before = before
        self._always: dict[str, Decision] = {}
        self._progress: deque[Progress] = deque(maxlen=_MOST_NEWS)
        self._steps = count(1)
        self._news = asyncio.Event()
        self.questions = Questions(self._news.set)
        """What the client is to ask, and its answers."""
        self._task = asyncio.create_task(self._run(text, session))
        self._task.add_done_callback(self._end)

    # what the program's side says

    async def ask(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Put a question to the person; waits for as long as that takes.

        Raises:
            ToolRefused: the client takes no more questions of this program.
        """
        if not self.can_ask:
            return types.ElicitResult(action="decline")
        answer = await self.questions.put(types.ElicitRequest(params=params))
        return answer if isinstance(answer, types.ElicitResult) else types.ElicitResult(action="decline")

    async def ask_for_roots(self) -> Sequence[types.Root]:
        """The folders of a client of the newer era, which answers that only in the course of a request.

        Raises:
            ToolRefused: as in `ask`.
        """
        answer = await self.questions.put(types.ListRootsRequest())
        return answer.roots if isinstance(answer, types.ListRootsResult) else ()

    async def ask_within_a_call(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """The same for a bridged server, which asks while a call is on its way; the program's clock stands still."""
        with self._runtime.standing_clock(self.execution_id):
            return await self.ask(params)

    def note(self, message: str) -> None:
        """Something to show while the program runs."""
        self._progress.append(Progress(next(self._steps), message))
        self._news.set()

    # what the client's side reads

    async def wait_for_news(self) -> None:
        """Until there is progress, a question, or the end."""
        await self._news.wait()
        self._news.clear()

    def take_progress(self) -> Iterator[Progress]:
        """Each once; where calls come faster than a client takes the news, only the latest."""
        while self._progress:
            yield self._progress.popleft()

    def park(self) -> None:
        """Nobody works for the program until the client comes back, so nobody waits for its session either."""
        self.rounds += 1
        if self._session:
            self._runtime.sessions.park(self._session, self.execution_id)

    def unpark(self) -> None:
        """The client came back."""
        if self._session:
            self._runtime.sessions.unpark(self._session)

    @property
    def is_done(self) -> bool:
        """Whether `outcome` is there."""
        return self._task.done()

    def outcome(self) -> Outcome:
        """How it ended; raises what the runtime raised."""
        return self._task.result()

    async def cancel(self) -> None:
        """Stop the program and wait until its guest is gone; harmless once it is done."""
        if self._task.done():
            return
        self._task.cancel()
        await asyncio.wait([self._task])

    # the program's task

    def _end(self, _: object) -> None:
        # A server may have asked for its own sake, in no call of the program.
        self.questions.refuse("the program has ended")
        self._news.set()

    async def _run(self, text: str, session: str) -> Outcome:
        CURRENT.set(self)
        if self._before is not None:
            await self._before(self)
        # Without a session nothing is kept, whatever `keep_names` says.
        go = self._runtime.start if self.can_ask else self._runtime.run
        step = await go(text, limits=self.limits, on_call=self._count, session=session, keep_names=True)
        step = await drive(self._runtime, step, self._decide)
        assert isinstance(step, Outcome), "`_decide` answers every pause, or raises"
        return step

    def _count(self, record: CallRecord) -> None:
        ending = " failed" if record.error is not None else ""
        self.note(f"{record.name}{ending} ({record.seconds * 1000:.0f} ms)")

    async def _decide(self, paused: Paused) -> Answers:
        self.execution_id = paused.execution_id
        if not paused.approvals:
            raise UsageError("the program waits for calls that only another door can answer")
        decisions = await asyncio.gather(*(self._decision(call) for call in paused.approvals))
        return Answers(decisions=dict(zip((call.id for call in paused.approvals), decisions, strict=True)))

    async def _decision(self, call: Call) -> Decision:
        if call.tool in self._always:
            return self._always[call.tool]
        try:
            answer = answer_of(await self.ask(approval_form(call)))
        except ToolRefused as error:
            return Decision(approved=False, reason=str(error))
        if answer.is_for_all:
            self._always[call.tool] = answer.decision
        return answer.decision
