"""Program of an MCP client from its first request to its result: questions, progress, cancellation.

The program runs in its own task, because with newer clients it spans several requests: the result of one
request carries its questions, and the next request brings the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

import mcp_types as types

from toolfold.errors import ToolRefused, UsageError
from toolfold.execution.output import Output
from toolfold.execution.registry import Answers, drive, refuse_approvals
from toolfold.interfaces.mcp.questions import CLIENT_ROUNDS, ClientQuestions, approval_form, decision_of
from toolfold.models import Call, CallRecord, File, Limits, Outcome, Paused, ProgramOptions, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.tool import Decision

CURRENT: Final[ContextVar[McpProgram | None]] = ContextVar("toolfold_running", default=None)
"""The program whose task, or one of whose calls, is running this code."""
_MOST_NEWS: Final = 16
_STOP_SECONDS: Final = 0.7
"""For a program that is to end to say its last words; then it is cut off."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a program has come, for the client to show."""

    step: int
    """Increases with each, as the protocol requires."""
    message: str


class ProgressQueue:
    """What the client has not been told yet; if calls outpace it, only the latest."""

    def __init__(self) -> None:
        self._pending: deque[Progress] = deque(maxlen=_MOST_NEWS)
        self._steps = count(1)

    def add(self, message: str) -> None:
        self._pending.append(Progress(next(self._steps), message))

    def take(self) -> Iterator[Progress]:
        while self._pending:
            yield self._pending.popleft()


class McpProgram:
    """A program of one client, from its start to its end, or from where its record ends.

    Args:
        runtime: Runs the program.
        execution_id: The same from its start on, in whichever process it runs.
        limits: The program's own.
        session: The full name of its session; empty for none.
        can_ask: Whether the client can ask a person. If not, calls that need approval are denied.
        asker: What the client calls itself, for the record of what its user approves.
    """

    _task: asyncio.Task[Outcome]

    def __init__(
        self, runtime: Runtime, execution_id: str, *, limits: Limits, session: str = "", can_ask: bool, asker: str = "",
    ) -> None:  # fmt: skip
        self.id = secrets.token_urlsafe(16)
        self.limits = limits
        self.execution_id = execution_id
        self.is_durable = False
        """Whether another process can go on with it from its record."""
        self.text = ""
        self._runtime = runtime
        self._session = session
        self._asker = asker if can_ask else None
        self._progress = ProgressQueue()
        self._news = asyncio.Event()
        self.questions = ClientQuestions(self._news.set)
        """What the client is to ask, and its answers."""
        self.output = PrintedOutput(runtime, execution_id, self.note)
        """What it printed."""
        self._turn = 0
        self._began = time.monotonic()
        """Here."""

    def start(
        self, text: str, before: Callable[[McpProgram], Awaitable[None]] | None = None, *, files: Sequence[File] = (),
        is_durable: bool = False,
    ) -> None:  # fmt: skip
        """Begin the program.

        Args:
            text: The program.
            before: Awaited before it starts; it may ask as well.
            files: In its data folder from its start.
            is_durable: Other processes can go on with it, if it has no session.
        """
        self.text = text
        self.is_durable = is_durable and not self._session
        self._go(self._run(text, before, files, is_driven=is_durable))

    def revive(self) -> None:
        """Go on with a program of which the record is left."""
        self.is_durable = True
        self._go(self._drive(self._runtime.resume(self.execution_id)))

    # Any: what a coroutine yields and is sent is asyncio's business.
    def _go(self, work: Coroutine[Any, Any, Outcome]) -> None:
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._end)

    # what the program's side says

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked."""
        return self._asker is not None

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
        with self._runtime.executions.standing_clock(self.execution_id):
            return await self.ask(params)

    def note(self, message: str) -> None:
        """Report progress to the client."""
        self._progress.add(message)
        self._news.set()

    async def decision_on(self, call: Call) -> Decision | None:
        """What the person says to a call that others may decide on, too; a `cancel` decides nothing."""
        if not self.can_ask:
            return None
        try:
            answer = await self.ask(approval_form(call))
        except ToolRefused:
            return None
        return None if answer.action == "cancel" else decision_of(answer, by=self._asker or "")

    # what the client's side reads

    async def news(self, seconds: float | None, listen_after: float) -> AsyncIterator[None]:
        """Yields for progress, a question, or a turn that was taken, until the program has ended or the time is up."""
        loop = asyncio.get_running_loop()
        until = math.inf if seconds is None else loop.time() + seconds
        # Before it yields in any case, so that there is something to answer.
        listen_at = loop.time() + min(listen_after, (seconds or math.inf) / 2)
        while not self.is_done and loop.time() < until:
            wake = until if self.output.is_listening else min(until, listen_at)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(None if wake == math.inf else wake):
                    await self._news.wait()
            self._news.clear()
            if loop.time() >= listen_at:
                self.output.listen()
                listen_at = loop.time() + listen_after  # in vain, if it waits for its session
            yield

    def take_turn(self) -> int:
        """Of being told the news: whoever waits since earlier is told that a later request has it."""
        self._turn += 1
        self._news.set()
        return self._turn

    def has_turn(self, turn: int) -> bool:
        """Whether no later request waits."""
        return self._turn == turn

    @property
    def began_at(self) -> float:
        """Seconds since 1970."""
        return time.time() - self.seconds

    @property
    def seconds(self) -> float:
        """Since its start here."""
        return time.monotonic() - self._began

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """Those that have no reply yet."""
        return self._runtime.executions.open_calls(self.execution_id)

    def printed(self) -> str:
        """What it has printed since this was last asked for, cut in the middle if that is too much."""
        return self.output.take(self.limits.output_bytes)

    async def rest_of(self, outcome: Outcome) -> Outcome:
        """The outcome without the output that was in earlier answers."""
        return await self.output.rest_of(outcome)

    def take_progress(self) -> Iterator[Progress]:
        """Each item once; if calls outpace the client, only the latest items."""
        return self._progress.take()

    def park(self) -> None:
        """Give up the session's turn until the client comes back: others need not wait for a program that stands."""
        self.questions.rounds += 1
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

    async def stop(self) -> Outcome:
        """End the program, with an outcome that has what it printed; the one that it had, if it has ended."""
        ended = None if self.is_done else await self._runtime.executions.cancel(self.execution_id)
        if ended is None:  # it runs, and its task gets the outcome; or it has not begun
            await asyncio.wait([self._task], timeout=_STOP_SECONDS)
        if ended is None and self._task.done() and not self._task.cancelled():
            return self._task.result()
        await self.cancel()
        return ended or Outcome(execution_id=self.execution_id, status="cancelled")

    async def cancel(self) -> None:
        """Stop the program and wait until its guest is gone; harmless once it is done."""
        if self._task.done():
            return
        self._task.cancel()
        await asyncio.wait([self._task])

    async def release(self) -> None:
        """End its guest and leave its record open: this process stops, and another goes on with the program."""
        self._runtime.executions.suspend(self.execution_id)
        await self._runtime.executions.release(self.execution_id)  # where it waits for an answer
        if self.execution_id in self._runtime.executions.ids:
            await asyncio.wait([self._task], timeout=_STOP_SECONDS)
        await self.cancel()
        if not self._task.cancelled():
            self._task.exception()  # marks it as seen: nobody waits here any more

    # the program's task

    def _end(self, _: object) -> None:
        # A server may have asked for its own sake, in no call of the program.
        self.questions.refuse("the program has ended")
        self._news.set()

    async def _run(
        self,
        text: str,
        before: Callable[[McpProgram], Awaitable[None]] | None,
        files: Sequence[File],
        *,
        is_driven: bool,
    ) -> Outcome:
        CURRENT.set(self)
        if before is not None:
            await before(self)
        # Without a session nothing is kept, whatever `keep_names` says.
        options = ProgramOptions(
            limits=self.limits, on_call=self._count, session=self._session, keep_names=True,
            execution_id=self.execution_id, files=files,
        )  # fmt: skip
        if not self.can_ask and not is_driven:
            return await self._runtime.run(text, options=options)
        return await self._drive(self._runtime.start(text, options=options, durable=self.is_durable))

    # Any: what a coroutine yields and is sent is asyncio's business.
    async def _drive(self, begin: Coroutine[Any, Any, Paused | Outcome]) -> Outcome:
        CURRENT.set(self)
        step = await drive(self._runtime, await begin, self._decide)
        assert isinstance(step, Outcome), "`_decide` answers every pause, or raises"
        return step

    def _count(self, record: CallRecord) -> None:
        ending = " failed" if record.error is not None else ""
        self.note(f"{record.name}{ending} ({record.seconds * 1000:.0f} ms)")

    async def _decide(self, paused: Paused) -> Answers:
        if not paused.approvals:
            raise UsageError("the program waits for calls that only another interface can answer")
        if not self.can_ask:
            return await refuse_approvals(paused)
        calls_by_task = {asyncio.create_task(self._decision(call)): call for call in paused.approvals}
        decisions: dict[int, Decision] = {}
        pending = set(calls_by_task)
        try:
            # Until all are answered, or one of the answers is for more than its own call: what it covers need not be
            # asked, and what it does not is asked again.
            while pending and all(decision.covers == "call" for decision in decisions.values()):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                decisions |= {calls_by_task[task].id: task.result() for task in done}
        finally:
            for task in pending:
                task.cancel()
        return Answers(decisions=decisions)

    async def _decision(self, call: Call) -> Decision:
        is_last = self.questions.rounds >= CLIENT_ROUNDS - 1
        try:
            return decision_of(await self.ask(approval_form(call, is_last=is_last)), by=self._asker or "")
        except ToolRefused as error:
            return Decision(approved=False, reason=str(error))


async def ask_client(call: Call, _: ToolSpec) -> Decision | None:
    """Asks the client whose program makes the call."""
    program = CURRENT.get()
    return None if program is None else await program.decision_on(call)


# ----------------------------------------------------------------------------------------------------
# What a program has printed so far, for its client: the last line as progress, and each part in one answer only.

_SHOWN_LINE_CHARACTERS: Final = 200
_MUCH_CHARACTERS: Final = 4 * 1024
"""A part of so many may have been cut in the middle of a line; a shorter one ends where the program stopped."""


class PrintedOutput:
    """The output of one program. Until it listens, it costs nothing.

    Args:
        note: Told of the last line, when there is a new one.
    """

    def __init__(self, runtime: Runtime, execution_id: str, note: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._id = execution_id
        self._note = note
        self._listening: asyncio.Task[None] | None = None
        self._parts: list[str] = []
        self._taken_characters = 0

    @property
    def is_listening(self) -> bool:
        """Whether it reads along."""
        return self._listening is not None

    def listen(self) -> None:
        """From here on, once the program has begun; what was printed before is not lost."""
        if self._listening is None and self._id in self._runtime.executions.ids:
            self._listening = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for part in self._runtime.executions.output(self._id):
            if part.stream != "stdout":
                continue
            self._parts.append(part.text)
            if line := _last_line(part.text):
                self._note(line[:_SHOWN_LINE_CHARACTERS])

    def take(self, most_bytes: int) -> str:
        """What came since this was last called, cut as the output of an outcome is."""
        text = "".join(self._parts)
        self._parts.clear()
        self._taken_characters += len(text)
        output = Output(most_bytes)
        output.add(text)
        head, cut_bytes = output.cut()
        return f"{head}\n... ({cut_bytes} bytes left out)\n{output.tail()}" if cut_bytes else head

    async def rest_of(self, outcome: Outcome) -> Outcome:
        """The outcome with only the output that no answer had."""
        if not self._taken_characters or self._listening is None:
            return outcome
        await asyncio.wait([self._listening])  # it has ended with the program, or is about to
        # The whole output is here, where the outcome has only its start.
        rest = outcome.stdout[self._taken_characters :] if not outcome.stdout_cut_bytes else "".join(self._parts)
        output = Output(max(1, len(outcome.stdout.encode())) if outcome.stdout_cut_bytes else len(rest) * 4 + 1)
        output.add(rest)
        head, cut_bytes = output.cut()
        return replace(outcome, stdout=head, stdout_cut_bytes=cut_bytes, stdout_tail=output.tail())


def _last_line(text: str) -> str:
    whole = text.rpartition("\n")[0] if len(text) >= _MUCH_CHARACTERS else ""
    return (whole or text).rstrip().rpartition("\n")[2].strip()
