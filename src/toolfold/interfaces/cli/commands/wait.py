"""`toolfold runs wait`: read along with an execution of any process until it ends, answer what it asks, or end it.

All of it goes through the ledger, so a wait that is stopped changes nothing about the program.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import UsageError
from toolfold.execution.history import end_recorded
from toolfold.interfaces.cli.approval import Terminal, say, terminal_handle
from toolfold.interfaces.cli.commands import detached
from toolfold.interfaces.cli.commands.run import approvals, finish, show_call, stdout_to_stderr
from toolfold.interfaces.cli.inputs import RunOptions, limits_for, read_program
from toolfold.interfaces.cli.load_tools import load_tools
from toolfold.interfaces.cli.output import prepare_folder, shortened, shown_arguments, word
from toolfold.interfaces.cli.process import Exit, until_stopped
from toolfold.interfaces.cli.setup import chosen_engine, configured
from toolfold.interfaces.cli.terminal import Shown, is_live, run_shown
from toolfold.ledger.base import CallEntry, DecisionEntry, ExecutionHistory, Ledger, Moment
from toolfold.ledger.listing import changes_of
from toolfold.ledger.remote_approval import DecisionStore, arguments_digest, decision_seal, lock
from toolfold.models import Call, Outcome
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.config import Config
    from toolfold.ledger.base import Story


_OBEY_SECONDS: Final = 0.7
_SHOWN_ARGUMENTS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOptions:
    """One command line, as it was written."""

    timeout_seconds: float | None = None
    cancel: bool = False
    finish: RunOptions
    """What is done with the outcome."""


def wait_for(open_ledger: Callable[[], Ledger], history: ExecutionHistory, options: WaitOptions) -> int:
    """Wait, show it, and return the exit code."""
    begun, shown, began_at = history.start_record, Shown(1), time.monotonic()
    is_running = history.outcome is None and not options.cancel
    while True:
        if is_running and detached.is_left_alone(begun.execution_id):
            said = detached.go_on(begun.execution_id, begun.program.sent_text, begun.limits)
            if said["text"]:
                say(said["text"])
                return int(said["code"])
        waiting = _Waiting(open_ledger(), history, shown, is_shown=not options.finish.as_json)
        outcome = until_stopped(waiting.until(options, time.monotonic() - began_at))
        if not isinstance(outcome, _LeftAlone):
            return outcome if isinstance(outcome, int) else finish(shown.rest_of(outcome), options.finish)


class _LeftAlone:
    """Its process went away during the wait."""


class _Waiting:
    def __init__(self, ledger: Ledger, history: ExecutionHistory, shown: Shown, *, is_shown: bool) -> None:
        self._shown = shown
        self._ledger = ledger
        # Every ledger of ours carries decisions.
        self._decisive: DecisionStore = ledger  # type: ignore[assignment]
        self._begun = history.start_record
        self._id = history.start_record.execution_id
        self._is_shown = is_shown
        self._open: dict[int, Call] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._terminal: Terminal | None = None

    async def until(self, options: WaitOptions, waited_seconds: float) -> Outcome | int | _LeftAlone:
        """The outcome, or the exit code of a wait that ends before the program."""
        timeout = None if options.timeout_seconds is None else options.timeout_seconds - waited_seconds
        handle = terminal_handle()
        self._terminal = Terminal(handle) if handle is not None else None
        try:
            async with asyncio.timeout(timeout):
                return await self._cancelled() if options.cancel else await self._ended()
        except TimeoutError:
            say(f"toolfold: execution {self._id} is still running; 'toolfold runs wait {self._id}' goes on waiting\n")
            return Exit.OPEN
        finally:
            self._stop_asking()
            await self._ledger.close()
            await asyncio.get_running_loop().shutdown_default_executor()  # a process may be forked from this one

    async def _ended(self) -> Outcome | int | _LeftAlone:
        async for story in changes_of(self._ledger, self._id):
            self._take(story)
            if story.outcome is not None:
                return story.outcome
            if self._open and not self._can_answer:
                call = next(iter(self._open.values()))
                say(f"toolfold: {_signature(call)} waits for {self._who}; the program goes on with it\n")
                return Exit.OPEN
            if story.state == "paused":
                say(f"toolfold: execution {self._id} is paused until its client answers\n")
                return Exit.OPEN
            if detached.is_left_alone(self._id):
                return _LeftAlone()
            if await self._is_abandoned():
                say(f"toolfold: the process of execution {self._id} is gone; {self._next_step}\n")
                return Exit.OPEN
            self._ask(story.epoch)
        raise UsageError(f"execution {self._id!r} is no longer in the ledger")

    async def _is_abandoned(self) -> bool:
        # A ledger on a server cannot tell: the processes of other machines have no locks here.
        look = getattr(self._ledger, "is_abandoned", None)
        # A detached one has a lock of its own, and perhaps a process that is about to take it over.
        return look is not None and not detached.is_detached(self._id) and await look(self._id)

    @property
    def _next_step(self) -> str:
        ends = f"'toolfold runs wait {self._id} --cancel' ends it"
        if self._begun.door == "cli":
            return f"'toolfold runs rerun {self._id}' runs it again with the recorded replies, {ends}"
        return f"its client can go on with it, or {ends}"

    async def _cancelled(self) -> Outcome:
        """Ask its process to end it, which knows what it printed; if that does not, end its record."""
        try:
            async with asyncio.timeout(_OBEY_SECONDS):
                async for story in changes_of(self._ledger, self._id):
                    if story.outcome is not None:
                        return story.outcome
                    await self._decisive.decide(self._id, story.epoch, detached.THE_PROGRAM, b"")
        except TimeoutError:
            pass
        await end_recorded(self._ledger, self._id, "cancelled")
        detached.forget(self._id)
        history = await self._ledger.load(self._id)
        if history is None or history.outcome is None:
            raise UsageError(f"execution {self._id!r} is held by a server; cancel it there")
        return history.outcome

    def _take(self, story: Story) -> None:
        for entry in story.entries:
            match entry:
                case Moment(kind="printed") if self._is_shown:
                    facts = entry.facts
                    self._shown.add(facts["stream"], entry.text, facts.get("place", 0))
                case Moment(kind="asked"):
                    facts = entry.facts
                    call = Call(id=entry.call_id, tool=facts["tool"], arguments=facts["arguments"], line=facts["line"])
                    self._open[entry.call_id] = call
                case DecisionEntry():
                    self._close(entry.call_id)
                case CallEntry():
                    self._close(entry.call.id)
                case _:
                    pass
        if story.state == "ended":
            self._stop_asking()

    # questions

    @property
    def _can_answer(self) -> bool:
        return self._terminal is not None and self._begun.door == "cli"

    @property
    def _who(self) -> str:
        return "an answer at a terminal or in the console" if self._begun.door == "cli" else "an answer of its client"

    def _ask(self, epoch: int) -> None:
        for call in self._open.values():
            if call.id not in self._asking:
                self._asking[call.id] = asyncio.ensure_future(self._answer(call, epoch))

    async def _answer(self, call: Call, epoch: int) -> None:
        assert self._terminal is not None
        decision = await self._terminal.ask(call)
        digest = arguments_digest(call.arguments)
        place = {"execution_id": self._id, "epoch": epoch, "call_id": call.id}
        body = lock(decision, decision_seal(self._ledger), **place, digest=digest)  # type: ignore[arg-type]
        if not await self._decisive.decide(self._id, epoch, call.id, body):
            say(f"toolfold: {_signature(call)} was decided already\n")

    def _close(self, call_id: int) -> None:
        self._open.pop(call_id, None)
        if (asking := self._asking.pop(call_id, None)) is not None and not asking.done():
            asking.cancel()
            os.write(sys.stderr.fileno(), b"\n")  # off the line of the question, which others have answered

    def _stop_asking(self) -> None:
        for call_id in tuple(self._asking):
            self._close(call_id)


def _signature(call: Call) -> str:
    return f"call {call.id}, {word(call.tool)}({shortened(shown_arguments(call.arguments), _SHOWN_ARGUMENTS)}),"


# ----------------------------------------------------------------------------------------------------
# `toolfold runs rerun`: a corrected program beside the record of the earlier one.


def rerun(
    options: RunOptions, ledger: Ledger, earlier: ExecutionHistory, *, repeat: Sequence[str] | None = None,
    config: Config | None = None,
) -> int:  # fmt: skip
    """Run it, print it, say how much came from the record, and return the exit code."""
    begun = earlier.start_record
    output_bytes = limits_for(None, as_json=options.as_json).output_bytes
    limits = replace(begun.limits, output_bytes=output_bytes)
    text = read_program(options.program, limits) if options.program else begun.program.sent_text
    if options.out is not None:
        prepare_folder(options.out)

    async def once(runtime: Runtime) -> Outcome:
        async with runtime:
            given: Any = {"files": begun.files, "limits": limits, "rerun_of": begun.execution_id, "repeat": repeat}
            given |= {"stdin": begun.program.stdin, "clock": begun.program.clock}
            if is_live(stdout, as_json=options.as_json):
                return await run_shown(runtime, ledger, text, stdout, on_call=show_call(), **given)
            return await runtime.run(text, on_call=show_call(), **given)

    with stdout_to_stderr() as stdout:
        runtime = configured(config, text, Runtime)(
            tools=load_tools(options.tools),
            **chosen_engine(config, engine=options.engine, isolation=options.isolation, warm=1),
            **approvals(config, options, ledger),
            limits=limits,
            ledger=ledger,
            door="cli",
        )
        outcome = until_stopped(once(runtime))
    if isinstance(outcome, int):
        return outcome
    code = finish(outcome, options)
    if outcome.calls:
        known = sum(call.from_record and call.error is None for call in outcome.calls)
        whole = len(outcome.calls)
        print(f"toolfold: {known} of {whole} calls came from the record of {begun.execution_id}", file=sys.stderr)
    return code
