"""Detached runs: `toolfold run --detach` starts a process that runs one program and exits when it has ended.

1. The ledger is the only way between it and the commands that wait: output, questions, answers, and the word to stop.
2. A file in the state folder says how the program was started. The process holds a lock on it, so who finds it unlocked
   knows that the process is gone, and starts another one that goes on with the program from its record.
3. A ledger that cannot be written, because its disk is full or its server is away, is waited for: no call is made that
   is not on record, and the end is written however long that takes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import Fenced, LedgerFailed, ToolfoldError, UsageError
from toolfold.events import ProgramBegan, RuntimeEvent
from toolfold.execution.history import end_recorded
from toolfold.interfaces.cli.inputs import RunOptions
from toolfold.interfaces.cli.load_tools import load_apis, load_tools
from toolfold.interfaces.cli.process import Exit, exit_of_error, exit_of_status, run_to_end
from toolfold.interfaces.cli.setup import choose_engine, nearest_config, open_for_command, runtime_factory
from toolfold.ledger.listing import changes_of
from toolfold.ledger.remote_approval import DecisionStore, LedgerApproval
from toolfold.models import NOTHING_RAN, Limits, Outcome, ProgramOptions
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.execution.registry import BackgroundExecution
    from toolfold.ledger.base import Entry, Ledger

THE_PROGRAM: Final = 0
"""Where a decision names a call, this is the program: it shall end."""
_APPROVALS_WAIT: Final = 3600.0
_RETRY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedJob:
    """Program to run or to continue in a detached process."""

    execution_id: str
    options: RunOptions
    text: str
    program_options: ProgramOptions = field(default_factory=ProgramOptions)
    """Of one that is new."""
    limits: Limits
    is_new: bool = True


def start_detached(options: RunOptions, text: str, program_options: ProgramOptions, limits: Limits) -> int:
    """Start it, print the id to wait for, and return the exit code."""
    if options.out is not None or options.as_json:
        option = "--out" if options.out is not None else "--json"
        raise UsageError(f"{option} applies to the outcome; pass it to 'toolfold runs wait'")
    if options.ledger == "memory":
        raise UsageError("--detach needs a ledger that outlives this command; --ledger memory does not")
    job = DetachedJob(
        execution_id=program_options.execution_id, options=_absolute(options), text=text,
        program_options=program_options, limits=limits,
    )  # fmt: skip
    report = start(job)
    if report["text"]:
        print(report["text"], end="", file=sys.stderr)
    else:
        print(job.execution_id)
    return int(report["code"])


# Any: JSON values.
def start(job: DetachedJob) -> dict[str, Any]:
    """A process for it; what became of its start: `text` says why there is none, with its exit `code`."""
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
    return (
        json.loads(data)
        if data
        else {"text": "toolfold: the process of the program failed to start\n", "code": Exit.INTERNAL}
    )


# Any: JSON values.
def restart(execution_id: str, text: str, limits: Limits) -> dict[str, Any]:
    """Another process for a program whose own is gone; as `start`."""
    options = _options(json.loads(_path(execution_id).read_bytes()))
    return start(DetachedJob(execution_id=execution_id, options=options, text=text, limits=limits, is_new=False))


def is_orphaned(execution_id: str) -> bool:
    """Whether it was detached, and its process is gone."""
    try:
        handle = os.open(_path(execution_id), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def is_detached(execution_id: str) -> bool:
    """Whether it was, and has not ended."""
    return _path(execution_id).exists()


def forget(execution_id: str) -> None:
    """It has ended."""
    _path(execution_id).unlink(missing_ok=True)


# in the process of its own


def _run_in_child(job: DetachedJob, write_fd: int) -> None:
    code = Exit.INTERNAL
    try:
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
    """Whoever started us waits until it is told something, once."""

    def __init__(self, write_fd: int) -> None:
        self._write_fd: int | None = write_fd

    def tell(self, text: str, code: int) -> None:
        """Why there is no process, or nothing; what comes later goes nowhere."""
        if self._write_fd is None:
            return
        with suppress(OSError):
            os.write(self._write_fd, json.dumps({"text": text, "code": int(code)}).encode())
            os.close(self._write_fd)
        self._write_fd = None

    def tell_error(self, error: ToolfoldError) -> None:
        """The same of an exception."""
        self.tell(f"toolfold: {' '.join(str(error).split())}\n", exit_of_error(error))


def _serve(job: DetachedJob, starter: _Starter) -> None:
    try:
        lock = _lock(job)
        if lock is None:
            starter.tell("", Exit.OPEN)  # another process was faster
            return
        config = nearest_config(job.options.config)
        make_runtime, ledger = _runtime_for(job, config)
        run_to_end(_run(job, make_runtime, ledger, starter))
        del lock
    except ToolfoldError as error:
        starter.tell_error(error)
        if job.is_new:
            forget(job.execution_id)


def _lock(job: DetachedJob) -> int | None:
    path = _path(job.execution_id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError as error:
        os.close(handle)
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"the state folder cannot be locked: {reason}; set XDG_STATE_HOME to a local disk") from error
    if job.is_new:
        # Without the program's own options: its record has them.
        values = {key: value for key, value in asdict(job.options).items() if key != "program_options"}
        os.write(handle, json.dumps({**values, "cwd": str(Path.cwd())}, default=str).encode())
    return handle


def _runtime_for(job: DetachedJob, config: Config | None) -> tuple[Callable[..., Runtime], Ledger]:
    options = job.options
    engine_arguments = choose_engine(
        config, engine=options.engine, isolation=options.isolation, warm=1,
        accept_no_isolation=options.accept_no_isolation,
    )  # fmt: skip
    tools = [*load_tools(options.tools), *load_apis(options.apis)]
    ledger = open_for_command(options.ledger, config)
    if not ledger.is_lasting:
        raise UsageError("--detach needs a ledger that outlives this command; name a file or a server")
    # Any: either of two ways to approve.
    approve: Any = LedgerApproval(ledger, wait_seconds=config.approvals_wait if config else _APPROVALS_WAIT)
    if options.yes:
        # Imported here: few programs ask.
        from toolfold.interfaces.cli.approval import approve_at_terminal  # noqa: PLC0415

        approve = approve_at_terminal(is_yes=True)
    make_runtime = partial(
        runtime_factory(config, job.text, Runtime), tools=tools, **engine_arguments, limits=job.limits,
        ledger=_PatientLedger(ledger), interface="cli", approve=approve,
    )  # fmt: skip
    return make_runtime, ledger


async def _run(job: DetachedJob, make_runtime: Callable[..., Runtime], ledger: Ledger, starter: _Starter) -> None:
    loop, execution_id = asyncio.get_running_loop(), job.execution_id
    task = asyncio.current_task()
    assert task is not None
    # The machine goes down: the record stays open, and whoever waits for it goes on with it. Nobody sits at a terminal
    # of this process, so an interrupt asks for no more than that.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    start_event = asyncio.Event()

    def listen(event: RuntimeEvent) -> None:
        if isinstance(event, ProgramBegan):
            start_event.set()

    try:
        async with make_runtime(listeners=[listen]) as runtime:
            execution = await _begin(job, runtime)
            end_task = asyncio.ensure_future(execution.wait())
            start_task = asyncio.ensure_future(start_event.wait())
            await asyncio.wait([end_task, start_task], return_when=asyncio.FIRST_COMPLETED)
            start_task.cancel()
            if end_task.done() and _is_refused(end_task, starter):
                forget(execution_id)
                return
            await ledger.flush(execution_id)
            starter.tell("", Exit.FINISHED)
            await _wait_for_end(execution, end_task, ledger)
            await _wait_until_written(ledger, execution_id)
            forget(execution_id)
    except Fenced:
        return  # another process has it, or has ended it
    except ToolfoldError as error:
        starter.tell_error(error)
        if job.is_new or start_event.is_set():
            await _end(ledger, execution_id)
            forget(execution_id)
    finally:
        await ledger.close()


async def _begin(job: DetachedJob, runtime: Runtime) -> BackgroundExecution:
    if not job.is_new:
        return await runtime.executions.attach(job.execution_id)
    return await runtime.start(job.text, background=True, options=job.program_options)


# Any: whatever it is waited for.
def _is_refused(end_task: asyncio.Future[Any], starter: _Starter) -> bool:
    """Whether nothing ran; the problem says why."""
    step = end_task.result()
    if not isinstance(step, Outcome) or step.status not in NOTHING_RAN:
        return False
    starter.tell(f"{step.problem}\n", exit_of_status(step.status))
    return True


async def _end(ledger: Ledger, execution_id: str) -> None:
    """Its record says that it failed."""
    while True:
        try:
            await end_recorded(ledger, execution_id, "failed")
        except LedgerFailed:
            await _wait_until_written(ledger, execution_id)
        else:
            return await _wait_until_written(ledger, execution_id)


async def _wait_until_written(ledger: Ledger, execution_id: str) -> None:
    """All that was noted of it so far, however long that takes."""
    while True:
        try:
            await ledger.find(execution_id)  # whoever reads sees what was noted before
        except LedgerFailed:
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


class _PatientLedger:
    """A ledger whose failures are waited for where a program has begun, instead of ending it."""

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
            await _wait_until_written(self._ledger, execution_id)  # it is kept, too


# Any: whatever it is waited for.
async def _wait_for_end(execution: BackgroundExecution, end_task: asyncio.Future[Any], ledger: Ledger) -> None:
    output_task = asyncio.ensure_future(_drain_output(execution))
    cancel_task = asyncio.ensure_future(_watch_for_cancel(execution, ledger))
    try:
        await end_task
    finally:
        for task in (output_task, cancel_task):
            task.cancel()
        await asyncio.wait([output_task, cancel_task])


async def _drain_output(execution: BackgroundExecution) -> None:
    """So that the guest hands over what it prints, and it is on record for those who wait."""
    async for _ in execution.output():
        pass


async def _watch_for_cancel(execution: BackgroundExecution, ledger: Ledger) -> None:
    # Every ledger of ours carries decisions.
    decisive: DecisionStore = ledger  # type: ignore[assignment]
    async for story in changes_of(ledger, execution.id):
        if await decisive.decision(execution.id, story.epoch, THE_PROGRAM) is not None:
            await execution.cancel()
            return


# the file


def _path(execution_id: str) -> Path:
    # Imported here: only these commands need it.
    import platformdirs  # noqa: PLC0415

    # The id may be whatever somebody wrote on a command line.
    name = "".join(letter if letter.isalnum() else "_" for letter in execution_id)[:64]
    return platformdirs.user_state_path("toolfold") / "detached" / f"{name}.json"


def _absolute(options: RunOptions) -> RunOptions:
    """The same from any folder."""

    def path(text: str) -> str:
        return str(Path(text).absolute()) if text.endswith(".py") or "/" in text else text

    ledger = options.ledger
    if ledger is not None and "://" not in ledger:
        ledger = str(Path(ledger).expanduser().absolute())
    config = options.config.absolute() if options.config is not None else None
    return replace(
        options,
        program="-",
        tools=tuple(map(path, options.tools)),
        files=(),
        ledger=ledger,
        config=config,
        detach=False,
    )


# Any: JSON values.
def _options(values: dict[str, Any]) -> RunOptions:
    os.chdir(values.pop("cwd"))
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    paths = {key: Path(values[key]) for key in ("out", "config") if values[key] is not None}
    return RunOptions(**{**values, **lists, **paths})
