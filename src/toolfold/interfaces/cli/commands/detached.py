"""Detached runs: `toolfold run --detach` starts a process that runs one program and exits when it has ended.

1. The ledger is the only channel to the commands that wait: for output, questions, answers and the request to cancel.
2. A file in the state folder has the options, and the process has its lock. A command that finds it unlocked starts
   another process, which continues the program from its record.
3. A ledger that cannot be written, because its disk is full or its server is away, is waited for: no call is made that
   is not on record, and the end is written however long that takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import Fenced, LedgerFailed, ToolfoldError, UsageError
from toolfold.events import ProgramBegan, RuntimeEvent
from toolfold.execution.recorded_history import end_recorded
from toolfold.interfaces.cli.command_process import Exit, exit_of_error, exit_of_status, run_to_end, write_json
from toolfold.interfaces.cli.command_setup import choose_engine, nearest_config, open_for_command, runtime_factory
from toolfold.interfaces.cli.load_tools import load_apis, load_tools
from toolfold.interfaces.cli.program_inputs import RunOptions
from toolfold.interfaces.server.stop_signals import add_signal_handlers
from toolfold.ledger.remote_approval import LedgerApproval
from toolfold.models import NOTHING_RAN, Json, Limits, Outcome, ProgramOptions
from toolfold.runtime import Runtime
from toolfold.service.owners import ExecutionLocks
from toolfold.service.wait_for_execution import PatientLedger, serve_waiters, wait_until_written

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.ledger.base import Ledger

_APPROVALS_WAIT: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedJob:
    """Program to run or to continue in a detached process."""

    options: RunOptions
    text: str
    program_options: ProgramOptions
    """Only the id and the limits, if it is to continue."""
    is_new: bool = True

    @property
    def execution_id(self) -> str:
        return self.program_options.execution_id


def start_detached(options: RunOptions, text: str, program_options: ProgramOptions) -> int:
    """Start it, print the id to wait for, and return the exit code."""
    if options.out is not None:
        raise UsageError("--out applies to the outcome; pass it to 'toolfold runs wait'")
    if options.ledger == "memory":
        raise UsageError("--detach needs a ledger that outlives this command; --ledger memory does not")
    problem, code = start(DetachedJob(options=_absolute(options), text=text, program_options=program_options))
    if problem:
        print(problem, end="", file=sys.stderr)
    elif options.as_json:
        write_json({"execution_id": program_options.execution_id})
    else:
        print(program_options.execution_id)
    return code


def start(job: DetachedJob) -> tuple[str, int]:
    """Start a process for it; the text says why there is none, and the code is that of the command."""
    if sys.platform == "win32":
        raise UsageError("--detach is not available on Windows; leave it out")
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # Forked before any tool is loaded and any thread begun, so the child is as good as new.
    if os.fork() == 0:
        os.close(read_fd)
        _run_in_child(job, write_fd)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as pipe:
        data = pipe.read()
    if not data:
        return "toolfold: the process of the program failed to start\n", Exit.INTERNAL
    text, code = json.loads(data)
    return text, code


def restart(execution_id: str, text: str, limits: Limits) -> tuple[str, int]:
    """Start another process for a program whose own is gone; the result is that of `start`."""
    options = _options(json.loads(detached_locks().read(execution_id)))
    program_options = ProgramOptions(execution_id=execution_id, limits=limits)
    return start(DetachedJob(options=options, text=text, program_options=program_options, is_new=False))


def detached_locks() -> ExecutionLocks:
    """Locks of the detached programs of this user that have not ended."""
    import platformdirs

    return ExecutionLocks(platformdirs.user_state_path("toolfold") / "detached", is_required=True)


# in the process of its own


def _run_in_child(job: DetachedJob, write_fd: int) -> None:
    code = Exit.INTERNAL
    try:
        assert sys.platform != "win32"
        os.setsid()
        null_device = os.open(os.devnull, os.O_RDWR)
        for handle in (0, 1, 2):
            os.dup2(null_device, handle)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        _serve(job, _Starter(write_fd))
        code = Exit.FINISHED
    finally:
        os._exit(code)


class _Starter:
    """The process that started this one, which waits to be told something once."""

    def __init__(self, write_fd: int) -> None:
        self._write_fd: int | None = write_fd

    def tell(self, text: str, code: int) -> None:
        """Tell why there is no process, or nothing; later texts are dropped."""
        if self._write_fd is None:
            return
        with suppress(OSError):
            os.write(self._write_fd, json.dumps([text, int(code)]).encode())
            os.close(self._write_fd)
        self._write_fd = None

    def tell_error(self, error: ToolfoldError) -> None:
        self.tell(f"toolfold: {' '.join(str(error).split())}\n", exit_of_error(error))


def _serve(job: DetachedJob, starter: _Starter) -> None:
    locks = detached_locks()
    try:
        if not _take_lock(job, locks):
            starter.tell("", Exit.OPEN)  # another process was faster
            return
        config = nearest_config(job.options.config)
        make_runtime, ledger = _runtime_for(job, config)
        run_to_end(_run(job, make_runtime, ledger, starter, locks))
    except ToolfoldError as error:
        starter.tell_error(error)
        if job.is_new:
            locks.forget(job.execution_id)


def _take_lock(job: DetachedJob, locks: ExecutionLocks) -> bool:
    options = {**asdict(job.options), "cwd": str(Path.cwd())}
    data = json.dumps(options, default=str).encode() if job.is_new else b""
    try:
        return locks.take(job.execution_id, is_new=job.is_new, data=data)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"the state folder cannot be locked: {reason}; set XDG_STATE_HOME to a local disk") from error


def _runtime_for(job: DetachedJob, config: Config | None) -> tuple[Callable[..., Runtime], Ledger]:
    options = job.options
    engine_arguments = choose_engine(
        config, engine=options.engine, isolation=options.isolation, warm=1,
        accept_no_isolation=options.accept_no_isolation,
    )  # fmt: skip
    tools = [*load_tools(options.tools), *load_apis(options.apis, options.api_urls)]
    ledger = open_for_command(options.ledger, config)
    if not ledger.is_lasting:
        raise UsageError("--detach needs a ledger that outlives this command; name a file or a server")
    # Any: either of two ways to approve.
    approve: Any = LedgerApproval(ledger, wait_seconds=config.approvals_wait if config else _APPROVALS_WAIT)
    if options.yes:
        from toolfold.interfaces.cli.approval import approve_at_terminal

        approve = approve_at_terminal(is_yes=True)
    make_runtime = partial(
        runtime_factory(config, job.text, Runtime), tools=tools, **engine_arguments,
        limits=job.program_options.limits or Limits(), ledger=PatientLedger(ledger), interface="cli", approve=approve,
    )  # fmt: skip
    return make_runtime, ledger


async def _run(
    job: DetachedJob, make_runtime: Callable[..., Runtime], ledger: Ledger, starter: _Starter, locks: ExecutionLocks
) -> None:
    loop, execution_id = asyncio.get_running_loop(), job.execution_id
    task = asyncio.current_task()
    assert task is not None
    # The machine goes down: the record stays open, and a command that waits continues it. This process has no terminal,
    # so an interrupt means the same.
    add_signal_handlers(loop, lambda _: task.cancel())
    start_event = asyncio.Event()

    def listen(event: RuntimeEvent) -> None:
        if isinstance(event, ProgramBegan):
            start_event.set()

    try:
        async with make_runtime(listeners=[listen]) as runtime:
            if job.is_new:
                execution = await runtime.start(job.text, background=True, options=job.program_options)
            else:
                execution = await runtime.executions.attach(execution_id)
            end_task = asyncio.ensure_future(execution.wait())
            start_task = asyncio.ensure_future(start_event.wait())
            await asyncio.wait([end_task, start_task], return_when=asyncio.FIRST_COMPLETED)
            start_task.cancel()
            if not end_task.done() or not _is_refused(end_task, starter):
                await ledger.flush(execution_id)
                starter.tell("", Exit.FINISHED)
                await serve_waiters(execution, ledger)
                await wait_until_written(ledger, execution_id)
            locks.forget(execution_id)
    except Fenced:
        return  # another process has it, or has ended it
    except ToolfoldError as error:
        starter.tell_error(error)
        if job.is_new or start_event.is_set():
            await _end(ledger, execution_id)
            locks.forget(execution_id)
    finally:
        await ledger.close()


# Any: whatever it is waited for.
def _is_refused(end_task: asyncio.Future[Any], starter: _Starter) -> bool:
    """Whether nothing ran; the problem says why."""
    step = end_task.result()
    if not isinstance(step, Outcome) or step.status not in NOTHING_RAN:
        return False
    starter.tell(f"{step.problem}\n", exit_of_status(step.status))
    return True


async def _end(ledger: Ledger, execution_id: str) -> None:
    while True:
        try:
            await end_recorded(ledger, execution_id, "failed")
        except LedgerFailed:
            await wait_until_written(ledger, execution_id)
        else:
            return await wait_until_written(ledger, execution_id)


# its options


def _absolute(options: RunOptions) -> RunOptions:
    """The same from any folder."""

    def path(text: str) -> str:
        return str(Path(text).absolute()) if text.endswith(".py") or "/" in text else text

    ledger = options.ledger
    if ledger is not None and "://" not in ledger:
        ledger = str(Path(ledger).expanduser().absolute())
    config = options.config.absolute() if options.config is not None else None
    tools = tuple(map(path, options.tools))
    return replace(options, program="-", tools=tools, files=(), ledger=ledger, config=config, detach=False)


def _options(values: dict[str, Json]) -> RunOptions:
    os.chdir(values.pop("cwd"))
    paths = {key: Path(values[key]) for key in ("out", "config") if values[key] is not None}
    return RunOptions.of({**values, **paths})
