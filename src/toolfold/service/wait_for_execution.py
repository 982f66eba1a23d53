"""Waiting for executions that outlive a request: those of this process, and those of others by their record.

1. Waiting is not owning: a wait that times out or is cancelled leaves the program alone.
2. One waiter of an execution at a time has the turn. A later one takes it, so news is delivered once.
3. Between processes the ledger is the only channel: for output, questions, answers and the request to cancel.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import LedgerFailed
from toolfold.execution.program_output import Output
from toolfold.execution.recorded_history import end_recorded
from toolfold.ledger.base import CallEntry, DecisionEntry, Entry, Ledger, Moment, Story
from toolfold.ledger.execution_summaries import changes_of
from toolfold.ledger.remote_approval import DecisionStore, arguments_digest, decide
from toolfold.models import Call, Outcome, Paused

if TYPE_CHECKING:
    from toolfold.execution.registry import BackgroundExecution
    from toolfold.runtime import Runtime
    from toolfold.tools.tool import Decision

_MOST_MESSAGES: Final = 16
"""If calls outpace a waiter, it is told of the latest."""
_STOP_SECONDS: Final = 0.7
"""For a program to end by itself, with what it printed; then it is cut off."""
_RETRY_SECONDS: Final = 0.5
_PROGRAM: Final = 0
"""In place of a call's id: a decision on the whole program, which is to end."""


class WaitableExecution:
    """An execution of this process that requests wait for, each until it has ended or the request's time is up.

    Args:
        runtime: Runs the program.
        execution_id: The same from the start of the program on, in whichever process it runs.
    """

    _task: asyncio.Task[Outcome]

    def __init__(self, runtime: Runtime, execution_id: str) -> None:
        self.id = secrets.token_urlsafe(16)
        """Known to this process and the client of the present request only."""
        self.execution_id = execution_id
        self.is_durable = False
        """Whether another process can continue it from its record."""
        self._runtime = runtime
        self._news = asyncio.Event()
        self._messages: deque[tuple[int, str]] = deque(maxlen=_MOST_MESSAGES)
        self._steps = count(1)
        self._turn = 0
        self._began = time.monotonic()
        self.output = UnreadOutput(runtime, execution_id, self.note)

    def begin(self, work: Coroutine[object, None, Outcome]) -> None:
        """Run to the end in a task of its own, which belongs to no request."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: self.on_end())

    def on_end(self) -> None:
        self._news.set()

    # news

    def note(self, message: str) -> None:
        self._messages.append((next(self._steps), message))
        self._news.set()

    def take_messages(self) -> Iterator[tuple[int, str]]:
        """Progress messages that nobody has taken, numbered in order."""
        while self._messages:
            yield self._messages.popleft()

    async def news(self, seconds: float | None, listen_after: float) -> AsyncIterator[None]:
        """Yield for each message, question or change of turn, until the program has ended or the time is up.

        Args:
            seconds: How long to wait; `None` waits to the end.
            listen_after: When to begin to read the output. Most programs have ended by then, and it costs them time.
        """
        loop = asyncio.get_running_loop()
        deadline = math.inf if seconds is None else loop.time() + seconds
        # Before the time is up in any case, so that there is something to answer.
        listen_at = loop.time() + min(listen_after, (seconds or math.inf) / 2)
        while not self.is_done and loop.time() < deadline:
            wake = deadline if self.output.is_listening else min(deadline, listen_at)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if wake == math.inf else wake):
                    await self._news.wait()
            self._news.clear()
            if loop.time() >= listen_at:
                self.output.listen()
                listen_at = loop.time() + listen_after  # in vain, if it waits for its session
            yield

    def take_turn(self) -> int:
        """Become the waiter who is told the news, in place of any earlier one."""
        self._turn += 1
        self._news.set()
        return self._turn

    def has_turn(self, turn: int) -> bool:
        return self._turn == turn

    # state

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def outcome(self) -> Outcome:
        """The outcome; raises what the runtime raised."""
        return self._task.result()

    @property
    def seconds(self) -> float:
        """Since its start in this process."""
        return time.monotonic() - self._began

    @property
    def open_calls(self) -> tuple[Call, ...]:
        return self._runtime.executions.open_calls(self.execution_id)

    # ends

    async def stop(self) -> Outcome:
        """End the program, with an outcome that has what it printed; harmless if it has ended."""
        outcome = None if self.is_done else await self._runtime.executions.cancel(self.execution_id)
        if outcome is None:  # it runs, and its task gets the outcome; or it has not begun
            await asyncio.wait([self._task], timeout=_STOP_SECONDS)
            if self._task.done() and not self._task.cancelled():
                return self._task.result()
        await self.cancel()
        return outcome or Outcome(execution_id=self.execution_id, status="cancelled")

    async def cancel(self) -> None:
        """Cut the program off and wait until its guest is gone; harmless if it has ended."""
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def release(self) -> None:
        """End its guest and leave its record open: this process stops, and another continues the program."""
        executions = self._runtime.executions
        executions.suspend(self.execution_id)
        await executions.release(self.execution_id)  # where it waits for an answer
        if self.execution_id in executions.ids:
            await asyncio.wait([self._task], timeout=_STOP_SECONDS)
        await self.cancel()
        if not self._task.cancelled():
            self._task.exception()  # marks it as seen: nobody waits here any more


# ----------------------------------------------------------------------------------------------------
# Output while a program runs: its last line as a progress message, and each part in one answer only.

_SHOWN_LINE_CHARACTERS: Final = 200
_CUT_CHARACTERS: Final = 4 * 1024
"""A part this long may have been cut in the middle of a line; a shorter one ends where the program stopped."""


class UnreadOutput:
    """Output of one program that no answer had. It costs nothing until it listens.

    Args:
        note: Given the last line, whenever there is a new one.
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
        return self._listening is not None

    def listen(self) -> None:
        """Read from now on, once the program has begun; what was printed before is not lost."""
        if self._listening is None and self._id in self._runtime.executions.ids:
            self._listening = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for part in self._runtime.executions.output(self._id):
            if part.stream == "stdout":
                self._parts.append(part.text)
                if line := _last_line(part.text):
                    self._note(line[:_SHOWN_LINE_CHARACTERS])

    def take(self, most_bytes: int) -> str:
        """Output since the last call, cut as the output of an outcome is."""
        text = "".join(self._parts)
        self._parts.clear()
        self._taken_characters += len(text)
        head, cut_bytes, tail = _cut(text, most_bytes)
        return f"{head}\n... ({cut_bytes} bytes left out)\n{tail}" if cut_bytes else head

    async def rest_of(self, outcome: Outcome) -> Outcome:
        """The outcome with only the output that was not taken."""
        if not self._taken_characters or self._listening is None:
            return outcome
        await asyncio.wait([self._listening])  # it has ended with the program, or is about to
        # The whole output is here, where the outcome has only its start.
        if not outcome.stdout_cut_bytes:
            return replace(outcome, stdout=outcome.stdout[self._taken_characters :])
        head, cut_bytes, tail = _cut("".join(self._parts), max(1, len(outcome.stdout.encode())))
        return replace(outcome, stdout=head, stdout_cut_bytes=cut_bytes, stdout_tail=tail)


def _cut(text: str, most_bytes: int) -> tuple[str, int, str]:
    output = Output(most_bytes)
    output.add(text)
    return *output.cut(), output.tail()


def _last_line(text: str) -> str:
    whole = text.rpartition("\n")[0] if len(text) >= _CUT_CHARACTERS else ""
    return (whole or text).rstrip().rpartition("\n")[2].strip()


# ----------------------------------------------------------------------------------------------------
# An execution of another process: the waiter's side.


class RecordedWait:
    """Wait for an execution of any process, by its record.

    Args:
        ledger: Must carry decisions, as all of ours do.
        execution_id: Of an execution in it.
    """

    def __init__(self, ledger: Ledger, execution_id: str) -> None:
        self._ledger = ledger
        self._id = execution_id
        self._decisions: DecisionStore = ledger  # type: ignore[assignment]
        self.questions: dict[int, Call] = {}
        """Calls that wait for approval, by id, as of the last story."""

    async def stories(self) -> AsyncIterator[Story]:
        """What is on record, then what is added, at least every second; ends with the execution."""
        async for story in changes_of(self._ledger, self._id):
            for entry in story.entries:
                match entry:
                    case Moment(kind="asked", facts=facts):
                        self.questions[entry.call_id] = Call(
                            id=entry.call_id, tool=facts["tool"], arguments=facts["arguments"], line=facts["line"],
                            within=facts.get("within", 0),
                        )  # fmt: skip
                    case DecisionEntry():
                        self.questions.pop(entry.call_id, None)
                    case CallEntry():
                        self.questions.pop(entry.call.id, None)
                    case _:
                        pass
            yield story

    async def decide(self, call: Call, decision: Decision, epoch: int) -> bool:
        """Answer a question; false if somebody else has."""
        return await decide(self._ledger, self._id, epoch, call.id, decision, arguments_digest(call.arguments))

    async def cancel(self) -> Outcome | None:
        """Ask its process to end it, which knows what it printed; if that does not answer, end its record.

        `None` if a process goes on with it all the same: it is a server's.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                async for story in changes_of(self._ledger, self._id):
                    if story.outcome is not None:
                        return story.outcome
                    await self._decisions.decide(self._id, story.epoch, _PROGRAM, b"")
        await end_recorded(self._ledger, self._id, "cancelled")
        history = await self._ledger.load(self._id)
        return None if history is None else history.outcome

    async def is_abandoned(self) -> bool:
        """Whether its process is known to be gone. A ledger on a server cannot tell: it sees no locks elsewhere."""
        look = getattr(self._ledger, "is_abandoned", None)
        return look is not None and bool(await look(self._id))


# ----------------------------------------------------------------------------------------------------
# The same from the side of the process that runs it.


async def serve_waiters(execution: BackgroundExecution, ledger: Ledger) -> Paused | Outcome:
    """Wait for the end; meanwhile put the output on record as it is printed, and obey a request to cancel."""
    tasks = [asyncio.ensure_future(_drain_output(execution)), asyncio.ensure_future(_obey_cancel(execution, ledger))]
    try:
        return await execution.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _drain_output(execution: BackgroundExecution) -> None:
    # A guest hands over what it prints only if somebody reads.
    async for _ in execution.output():
        pass


async def _obey_cancel(execution: BackgroundExecution, ledger: Ledger) -> None:
    decisions: DecisionStore = ledger  # type: ignore[assignment]
    async for story in changes_of(ledger, execution.id):
        if await decisions.decision(execution.id, story.epoch, _PROGRAM) is not None:
            await execution.cancel()
            return


async def wait_until_written(ledger: Ledger, execution_id: str) -> None:
    """Wait until the ledger has all that was noted so far, however long it is away."""
    while True:
        try:
            await ledger.find(execution_id)  # whoever reads sees what was noted before
        except LedgerFailed:
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


class PatientLedger:
    """A ledger whose failures are waited out once a program has begun, instead of ending it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    # Any: whatever a ledger has.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def secure(self, execution_id: str, *entries: Entry, epoch: int = 0) -> Awaitable[None] | None:
        waits = self._ledger.secure(execution_id, *entries, epoch=epoch)
        return None if waits is None else self._wait_secured(execution_id, waits)

    async def _wait_secured(self, execution_id: str, waits: Awaitable[None]) -> None:
        while True:
            try:
                return await waits
            except LedgerFailed:
                await asyncio.sleep(_RETRY_SECONDS)
                waits = self._ledger.flush(execution_id)  # it was noted, and is kept

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        try:
            await self._ledger.finish(execution_id, outcome, epoch=epoch, wait=wait)
        except LedgerFailed:
            await wait_until_written(self._ledger, execution_id)  # it is kept, too
