"""`toolfold runs wait` and `toolfold runs rerun`: wait for an execution, or run its program again.

All of it goes through the ledger, so a wait that is stopped changes nothing about the program.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toolfold.errors import UsageError
from toolfold.interfaces.cli.approval import Terminal, say, terminal_handle
from toolfold.interfaces.cli.command_process import Exit, run_until_stopped
from toolfold.interfaces.cli.command_setup import choose_engine
from toolfold.interfaces.cli.commands.detached import detached_locks, restart
from toolfold.interfaces.cli.commands.run import RunSetup, execute, finish
from toolfold.interfaces.cli.live_terminal import OutputPrinter
from toolfold.interfaces.cli.outcome_output import format_call, prepare_folder
from toolfold.interfaces.cli.program_inputs import RunOptions, limits_for, read_program
from toolfold.ledger.base import ExecutionHistory, Ledger, Moment, Story
from toolfold.models import Call, Outcome, ProgramOptions
from toolfold.service.wait_for_execution import RecordedWait

if TYPE_CHECKING:
    from toolfold.config import Config


def wait_for(
    open_ledger: Callable[[], Ledger], history: ExecutionHistory, options: RunOptions, *,
    timeout_seconds: float | None, is_cancel: bool,
) -> int:  # fmt: skip
    """Wait, show it, and return the exit code; `options` say what is done with the outcome."""
    start_record, printer = history.start_record, OutputPrinter(1)
    deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
    is_running = history.outcome is None and not is_cancel
    while True:
        if is_running and detached_locks().is_orphaned(start_record.execution_id):
            text, code = restart(start_record.execution_id, start_record.program.sent_text, start_record.limits)
            if text:
                say(text)
                return code
        waiting = _TerminalWait(open_ledger(), history, printer, prints_output=not options.as_json)
        result = run_until_stopped(waiting.until(deadline, is_cancel=is_cancel))
        if result is not None:
            return result if isinstance(result, int) else finish(printer.rest_of(result), options)


class _TerminalWait:
    def __init__(
        self, ledger: Ledger, history: ExecutionHistory, printer: OutputPrinter, *, prints_output: bool
    ) -> None:
        self._printer = printer
        self._ledger = ledger
        self._id = history.start_record.execution_id
        self._is_ours = history.start_record.interface == "cli"
        self._prints_output = prints_output
        self._wait = RecordedWait(ledger, self._id)
        self._asking: dict[int, asyncio.Task[None]] = {}
        handle = terminal_handle()
        self._terminal = Terminal(handle) if handle is not None and self._is_ours else None

    async def until(self, deadline: float, *, is_cancel: bool) -> Outcome | int | None:
        """The outcome, or the exit code of a wait that ends before the program; `None` if its process is gone."""
        try:
            async with asyncio.timeout(None if deadline == math.inf else deadline - time.monotonic()):
                return await self._cancel() if is_cancel else await self._wait_for_end()
        except TimeoutError:
            say(f"toolfold: execution {self._id} is still running; 'toolfold runs wait {self._id}' continues to wait\n")
            return Exit.OPEN
        finally:
            self._stop_asking(self._asking)
            await self._ledger.close()
            await asyncio.get_running_loop().shutdown_default_executor()  # a process may be forked from this one

    async def _wait_for_end(self) -> Outcome | int | None:
        locks, questions = detached_locks(), self._wait.questions
        async for story in self._wait.stories():
            self._print(story)
            self._stop_asking(self._asking if story.state == "ended" else self._asking.keys() - questions.keys())
            if story.outcome is not None:
                return story.outcome
            if questions and self._terminal is None:
                answer = "at a terminal or in the console" if self._is_ours else "from its client"
                signature = _signature(next(iter(questions.values())))
                return _leave_open(f"{signature} waits for an answer {answer}; the program continues with it")
            if story.state == "paused":
                return _leave_open(f"execution {self._id} is paused until its client answers")
            if locks.is_orphaned(self._id):
                return None
            # A detached one has a lock of its own, and perhaps a process that is about to take it over.
            if not locks.exists(self._id) and await self._wait.is_abandoned():
                return _leave_open(f"the process of execution {self._id} is gone; {self._next_step}")
            for call in questions.values():
                if call.id not in self._asking:
                    self._asking[call.id] = asyncio.ensure_future(self._answer(call, story.epoch))
        raise UsageError(f"execution {self._id!r} is no longer in the ledger")

    @property
    def _next_step(self) -> str:
        ends = f"'toolfold runs wait {self._id} --cancel' cancels it"
        if self._is_ours:
            return f"'toolfold runs rerun {self._id}' runs it again with the recorded replies, {ends}"
        return f"its client can continue it, or {ends}"

    async def _cancel(self) -> Outcome:
        outcome = await self._wait.cancel()
        if outcome is None:
            raise UsageError(f"execution {self._id!r} is running on a server; cancel it there")
        detached_locks().forget(self._id)
        return outcome

    def _print(self, story: Story) -> None:
        for entry in story.entries if self._prints_output else ():
            if isinstance(entry, Moment) and entry.kind == "printed":
                self._printer.add(entry.facts["stream"], entry.text, entry.facts.get("place", 0))

    async def _answer(self, call: Call, epoch: int) -> None:
        assert self._terminal is not None
        decision = await self._terminal.ask(call)
        if not await self._wait.decide(call, decision, epoch):
            say(f"toolfold: {_signature(call)} has already been decided\n")

    def _stop_asking(self, call_ids: Iterable[int]) -> None:
        for call_id in tuple(call_ids):
            task = self._asking.pop(call_id)
            if not task.done():
                task.cancel()
                os.write(sys.stderr.fileno(), b"\n")  # off the line of the question, which others have answered


def _leave_open(reason: str) -> int:
    say(f"toolfold: {reason}\n")
    return Exit.OPEN


def _signature(call: Call) -> str:
    return f"call {call.id}, {format_call(call)},"


# ----------------------------------------------------------------------------------------------------
# `toolfold runs rerun`: a corrected program beside the record of the earlier one.


def rerun(
    options: RunOptions, history: ExecutionHistory, *, repeat: Sequence[str] | None = None, config: Config | None = None
) -> int:
    """Run it, print it, say how much came from the record, and return the exit code."""
    start_record = history.start_record
    limits = replace(start_record.limits, output_bytes=limits_for(None, as_json=options.as_json).output_bytes)
    text = read_program(options.program, limits) if options.program else start_record.program.sent_text
    if options.out is not None:
        prepare_folder(options.out)
    program_options = ProgramOptions.to_rerun(
        start_record, limits=limits, repeat=repeat, execution_id=secrets.token_hex(8)
    )
    engine = choose_engine(config, engine=options.engine, isolation=options.isolation, warm=1)
    outcome = execute(RunSetup(config, engine, limits, text, program_options), options)
    if isinstance(outcome, int):
        return outcome
    code = finish(outcome, options)
    if outcome.calls:
        recorded_calls = sum(call.from_record and call.error is None for call in outcome.calls)
        total, execution_id = len(outcome.calls), start_record.execution_id
        say(f"toolfold: {recorded_calls} of {total} calls came from the record of {execution_id}\n")
    return code
