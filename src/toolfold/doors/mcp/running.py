"""One program from the client's first request to its result: questions, progress, cancellation.

The program runs in its own task, because with newer clients it spans several requests: the result of one
request carries its questions, and the next request brings the answers.
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
"""The program whose task, or one of whose calls, is running this code."""
_MOST_NEWS: Final = 16


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a program has come, for the client to show."""

    step: int
    """Increases with each, as the protocol requires."""
    message: str


class Running:
    """A program that has been started for one client.

    Args:
        runtime: Runs the program.
        text: The program.
        limits: The program's own.
        session: The full name of its session; empty for none.
        can_ask: Whether the client can ask a person. If not, calls that need approval are denied.
        before: Awaited before the program starts; it may ask as well.
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
        """Ask the person, and wait as long as it takes.

        Raises:
            ToolRefused: the client takes no more questions from this program.
        """
        if not self.can_ask:
            return types.ElicitResult(action="decline")
        answer = await self.questions.put(types.ElicitRequest(params=params))
        return answer if isinstance(answer, types.ElicitResult) else types.ElicitResult(action="decline")

    async def ask_for_roots(self) -> Sequence[types.Root]:
        """The folders of a newer client, which only names them during a request.

        Raises:
            ToolRefused: as in `ask`.
        """
        answer = await self.questions.put(types.ListRootsRequest())
        return answer.roots if isinstance(answer, types.ListRootsResult) else ()

    async def ask_within_a_call(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask for a bridged server in the middle of a call; the program's clock stops meanwhile."""
        with self._runtime.standing_clock(self.execution_id):
            return await self.ask(params)

    def note(self, message: str) -> None:
        """Report progress to the client."""
        self._progress.append(Progress(next(self._steps), message))
        self._news.set()

    # what the client's side reads

    async def wait_for_news(self) -> None:
        """Wait for progress, a question, or the end."""
        await self._news.wait()
        self._news.clear()

    def take_progress(self) -> Iterator[Progress]:
        """Each item once; if calls outpace the client, only the latest items."""
        while self._progress:
            yield self._progress.popleft()

    def park(self) -> None:
        """Give up the session's turn until the client comes back: others need not wait for a program that stands."""
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
