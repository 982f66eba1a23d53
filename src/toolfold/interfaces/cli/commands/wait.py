"""`toolfold runs wait` and `toolfold runs rerun`: wait for an execution, or run its program again.

All of it goes through the ledger, so a wait that is stopped changes nothing about the program.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from toolfold.errors import UsageError
from toolfold.execution.history import end_recorded
from toolfold.interfaces.cli.approval import Terminal, say, terminal_handle
from toolfold.interfaces.cli.commands import detached
from toolfold.interfaces.cli.commands.run import approver, finish, show_call, stdout_to_stderr
from toolfold.interfaces.cli.inputs import RunOptions, limits_for, read_program
from toolfold.interfaces.cli.load_tools import load_tools
from toolfold.interfaces.cli.output import format_arguments, prepare_folder, printable_name, shorten
from toolfold.interfaces.cli.process import Exit, run_until_stopped
from toolfold.interfaces.cli.setup import choose_engine, runtime_factory
from toolfold.interfaces.cli.terminal import OutputPrinter, is_live, run_and_show
from toolfold.ledger.base import CallEntry, DecisionEntry, ExecutionHistory, Ledger, Moment
from toolfold.ledger.listing import changes_of
from toolfold.ledger.remote_approval import DecisionStore, arguments_digest, decision_seal, lock
from toolfold.models import Call, Outcome, ProgramOptions
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.config import Config
    from toolfold.ledger.base import Story


_OBEY_SECONDS: Final = 0.7
_SHOWN_ARGUMENTS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOptions:
    """Options of the command line, as they were written."""

    timeout_seconds: float | None = None
    cancel: bool = False
    finish: RunOptions
    """What is done with the outcome."""


def wait_for(open_ledger: Callable[[], Ledger], history: ExecutionHistory, options: WaitOptions) -> int:
    """Wait, show it, and return the exit code."""
    start_record, printer, began_at = history.start_record, OutputPrinter(1), time.monotonic()
    is_running = history.outcome is None and not options.cancel
    while True:
        if is_running and detached.is_orphaned(start_record.execution_id):
            report = detached.restart(start_record.execution_id, start_record.program.sent_text, start_record.limits)
            if report["text"]:
                say(report["text"])
                return int(report["code"])
        waiting = _Wait(open_ledger(), history, printer, prints_output=not options.finish.as_json)
        outcome = run_until_stopped(waiting.until(options, time.monotonic() - began_at))
        if not isinstance(outcome, _Orphaned):
            return outcome if isinstance(outcome, int) else finish(printer.rest_of(outcome), options.finish)


class _Orphaned:
    """Its process went away during the wait."""


class _Wait:
    def __init__(
        self, ledger: Ledger, history: ExecutionHistory, printer: OutputPrinter, *, prints_output: bool
    ) -> None:
        self._printer = printer
        self._ledger = ledger
        # Every ledger of ours carries decisions.
        self._decisions: DecisionStore = ledger  # type: ignore[assignment]
        self._start_record = history.start_record
        self._id = history.start_record.execution_id
        self._prints_output = prints_output
        self._open: dict[int, Call] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._terminal: Terminal | None = None

    async def until(self, options: WaitOptions, waited_seconds: float) -> Outcome | int | _Orphaned:
        """The outcome, or the exit code of a wait that ends before the program."""
        timeout = None if options.timeout_seconds is None else options.timeout_seconds - waited_seconds
        handle = terminal_handle()
        self._terminal = Terminal(handle) if handle is not None else None
        try:
            async with asyncio.timeout(timeout):
                return await self._cancel() if options.cancel else await self._wait_for_end()
        except TimeoutError:
            say(f"toolfold: execution {self._id} is still running; 'toolfold runs wait {self._id}' continues to wait\n")
            return Exit.OPEN
        finally:
            self._stop_asking()
            await self._ledger.close()
            await asyncio.get_running_loop().shutdown_default_executor()  # a process may be forked from this one

    async def _wait_for_end(self) -> Outcome | int | _Orphaned:
        async for story in changes_of(self._ledger, self._id):
            self._take(story)
            if story.outcome is not None:
                return story.outcome
            if self._open and not self._can_answer:
                call = next(iter(self._open.values()))
                say(f"toolfold: {_signature(call)} waits for {self._expected_answer}; the program continues with it\n")
                return Exit.OPEN
            if story.state == "paused":
                say(f"toolfold: execution {self._id} is paused until its client answers\n")
                return Exit.OPEN
            if detached.is_orphaned(self._id):
                return _Orphaned()
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
        ends = f"'toolfold runs wait {self._id} --cancel' cancels it"
        if self._start_record.interface == "cli":
            return f"'toolfold runs rerun {self._id}' runs it again with the recorded replies, {ends}"
        return f"its client can continue it, or {ends}"

    async def _cancel(self) -> Outcome:
        """Ask its process to end it, which knows what it printed; if that does not, end its record."""
        try:
            async with asyncio.timeout(_OBEY_SECONDS):
                async for story in changes_of(self._ledger, self._id):
                    if story.outcome is not None:
                        return story.outcome
                    await self._decisions.decide(self._id, story.epoch, detached.THE_PROGRAM, b"")
        except TimeoutError:
            pass
        await end_recorded(self._ledger, self._id, "cancelled")
        detached.forget(self._id)
        history = await self._ledger.load(self._id)
        if history is None or history.outcome is None:
            raise UsageError(f"execution {self._id!r} is running on a server; cancel it there")
        return history.outcome

    def _take(self, story: Story) -> None:
        for entry in story.entries:
            match entry:
                case Moment(kind="printed") if self._prints_output:
                    facts = entry.facts
                    self._printer.add(facts["stream"], entry.text, facts.get("place", 0))
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
        return self._terminal is not None and self._start_record.interface == "cli"

    @property
    def _expected_answer(self) -> str:
        return (
            "an answer at a terminal or in the console"
            if self._start_record.interface == "cli"
            else "an answer from its client"
        )

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
        if not await self._decisions.decide(self._id, epoch, call.id, body):
            say(f"toolfold: {_signature(call)} has already been decided\n")

    def _close(self, call_id: int) -> None:
        self._open.pop(call_id, None)
        if (asking := self._asking.pop(call_id, None)) is not None and not asking.done():
            asking.cancel()
            os.write(sys.stderr.fileno(), b"\n")  # off the line of the question, which others have answered

    def _stop_asking(self) -> None:
        for call_id in tuple(self._asking):
            self._close(call_id)


def _signature(call: Call) -> str:
    return (
        f"call {call.id}, {printable_name(call.tool)}({shorten(format_arguments(call.arguments), _SHOWN_ARGUMENTS)}),"
    )


# ----------------------------------------------------------------------------------------------------
# `toolfold runs rerun`: a corrected program beside the record of the earlier one.


def rerun(
    options: RunOptions, ledger: Ledger, history: ExecutionHistory, *, repeat: Sequence[str] | None = None,
    config: Config | None = None,
) -> int:  # fmt: skip
    """Run it, print it, say how much came from the record, and return the exit code."""
    start_record = history.start_record
    output_bytes = limits_for(None, as_json=options.as_json).output_bytes
    limits = replace(start_record.limits, output_bytes=output_bytes)
    text = read_program(options.program, limits) if options.program else start_record.program.sent_text
    if options.out is not None:
        prepare_folder(options.out)

    async def once(runtime: Runtime) -> Outcome:
        async with runtime:
            program_options = ProgramOptions(
                files=start_record.files, limits=limits, rerun_of=start_record.execution_id, repeat=repeat,
                stdin=start_record.program.stdin, clock=start_record.program.clock, on_call=show_call(),
            )  # fmt: skip
            if is_live(stdout, as_json=options.as_json):
                return await run_and_show(runtime, ledger, text, stdout, program_options)
            return await runtime.run(text, options=program_options)

    with stdout_to_stderr() as stdout:
        runtime = runtime_factory(config, text, Runtime)(
            tools=load_tools(options.tools),
            **choose_engine(config, engine=options.engine, isolation=options.isolation, warm=1),
            approve=approver(config, options, ledger),
            limits=limits,
            ledger=ledger,
            interface="cli",
        )
        outcome = run_until_stopped(once(runtime))
    if isinstance(outcome, int):
        return outcome
    code = finish(outcome, options)
    if outcome.calls:
        recorded_calls = sum(call.from_record and call.error is None for call in outcome.calls)
        total = len(outcome.calls)
        print(
            f"toolfold: {recorded_calls} of {total} calls came from the record of {start_record.execution_id}",
            file=sys.stderr,
        )
    return code
