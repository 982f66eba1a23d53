"""Process life cycle of commands: error lines, event loops, signals and exit codes."""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NoReturn, TextIO, TypeVar

from typing_extensions import Buffer

from toolfold import errors
from toolfold.errors import ToolfoldError, UsageError, entry_for
from toolfold.models import Json, Status

if TYPE_CHECKING:
    import asyncio


def run_guarded(work: Callable[[], int]) -> int:
    """Exit code of the work; every error, and each mistake in a config, is one line on stderr."""
    try:
        return work()
    except ToolfoldError as error:
        mistakes = error.mistakes if isinstance(error, UsageError) else ()
        return complain(*(mistakes or [str(error)]), code=exit_of_error(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    # The last line of defence: whatever else is wrong is our mistake, and still one line.
    except Exception as error:
        if os.environ.get("TOOLFOLD_DEBUG"):
            raise
        hint = "this is a bug in toolfold; set TOOLFOLD_DEBUG=1 to see where"
        return complain(f"{type(error).__name__}: {error} ({hint})", code=Exit.INTERNAL)


def complain(*messages: str, code: int) -> int:
    """Print one line on stderr for each message, and return the code."""
    for message in messages:
        print(f"toolfold: {' '.join(message.split())}", file=sys.stderr)
    return code


def write_json(value: Json) -> None:
    """Print one JSON document on stdout, the result of a command: indented on a terminal, in one line otherwise."""
    indent = 2 if sys.stdout.isatty() else None
    write(sys.stdout, json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, default=str) + "\n")


def write(stream: TextIO, text: str) -> None:
    # Around Python's text layer: its encoding is the terminal's, the program's output is UTF-8.
    stream.buffer.write(text.encode("utf-8", "backslashreplace"))
    stream.buffer.flush()


def leave(code: int) -> NoReturn:
    """Run the exit handlers and end the process."""
    # Python would wait for threads, but a tool that does not come back cannot be stopped, and the outcome is out.
    # Even without threads: tearing the interpreter down takes as long as a small program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    failure = getattr(getattr(sys.stdout.buffer, "raw", None), "failure", None)
    if failure is not None and not isinstance(failure, BrokenPipeError):
        code = complain(f"stdout cannot be written: {failure.strerror.lower()}", code=code or Exit.NO_OUTPUT)
    sys.stderr.flush()
    os._exit(code)


class OutputFile(io.FileIO):
    """Stdout or stderr. After the first failure, such as a full disk or a reader that has left, the rest is dropped."""

    failure: OSError | None = None

    def write(self, data: Buffer, /) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def prepare_streams() -> None:
    """Keep a closed or full stream from failing the command: the next file opened would take a closed one's number."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            stream = io.TextIOWrapper(io.FileIO(descriptor, closefd=False), encoding="utf-8")
        if descriptor:
            stream = io.TextIOWrapper(
                io.BufferedWriter(OutputFile(descriptor, "w", closefd=False)),
                encoding=stream.encoding, errors=stream.errors,
                line_buffering=stream.line_buffering, write_through=stream.write_through,
            )  # fmt: skip
        setattr(sys, name, stream)


# ----------------------------------------------------------------------------------------------------
# Event loops of commands. `asyncio` is imported where a loop runs: it takes a tenth of the time of `--help`.

_T = TypeVar("_T")


def handle_interrupts() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt`: there is something to clean up from now on; before, it just ends us."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run_async(work: Coroutine[object, None, _T]) -> _T:
    """`asyncio.run`, loaded when it is needed."""
    import asyncio

    handle_interrupts()
    return asyncio.run(work)


def run_to_end(work: Coroutine[object, None, None]) -> None:
    """Run this, then cancel what is left; unlike `asyncio.run`, without waiting for threads of tools that hang."""
    import asyncio

    handle_interrupts()
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(work)
    finally:
        _close(loop)


def run_until_stopped(work: Coroutine[object, None, _T]) -> _T | int:
    """Run to the end, or until SIGINT or SIGTERM cancels it: then the exit code."""
    import asyncio

    from toolfold.interfaces.server.stop_signals import add_signal_handlers

    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    signal_numbers: list[int] = []

    def stop(number: int) -> None:
        if signal_numbers:
            # The second time means now. The guests end with our side of their sockets.
            os._exit(128 + number)
        signal_numbers.append(number)
        task.cancel()

    add_signal_handlers(loop, stop)
    try:
        outcome = loop.run_until_complete(task)
        return 128 + signal_numbers[0] if signal_numbers else outcome
    except asyncio.CancelledError:
        return 128 + signal_numbers[0] if signal_numbers else Exit.INTERRUPTED
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


# ----------------------------------------------------------------------------------------------------
# Exit codes of outcomes and errors; scripts rely on these numbers.


class Exit(IntEnum):
    """Exit codes of every command."""

    FINISHED = 0
    FAILED = 1
    USAGE = 2
    """Also a program that the check rejected: nothing ran."""
    NO_ISOLATION = 3
    LIMIT = 4
    """A timeout, or another limit of the program."""
    NO_OUTPUT = 74
    """Stdout cannot be written, such as to a full disk; the command itself did its work."""
    INTERNAL = 70
    """The sandbox broke, or toolfold did; the program is not to blame."""
    OPEN = 75
    """A wait is over, and the program is not."""
    INTERRUPTED = 130


_OF_STATUS: Final[dict[Status, Exit]] = {
    "finished": Exit.FINISHED, "failed": Exit.FAILED, "rejected": Exit.USAGE, "timeout": Exit.LIMIT,
    "limit": Exit.LIMIT, "cancelled": Exit.INTERRUPTED,
}  # fmt: skip

OF_ERROR: Final[dict[type[ToolfoldError], Exit]] = {
    **dict.fromkeys((errors.UsageError, errors.SealBroken), Exit.USAGE),
    **dict.fromkeys((
        errors.ToolError, errors.ToolNotFound, errors.ToolRefused, errors.ToolArgumentsInvalid, errors.ToolTimedOut,
        errors.ToolFailed, errors.ToolUnreachable, errors.ServerHungUp, errors.AgentUnreachable, errors.ReplyUnfit,
    ), Exit.FAILED),
    errors.EngineUnavailable: Exit.NO_ISOLATION,
    **dict.fromkeys((errors.EngineError, errors.EngineCrashed), Exit.INTERNAL),
    **dict.fromkeys((errors.ToolfoldError, errors.ReplayDiverged), Exit.INTERNAL),
    **dict.fromkeys((errors.Fenced, errors.LedgerFull, errors.LedgerFailed), Exit.INTERNAL),
}  # fmt: skip


def exit_of_status(status: Status) -> Exit:
    return _OF_STATUS[status]


def exit_of_error(error: ToolfoldError) -> Exit:
    return entry_for(error, OF_ERROR)
