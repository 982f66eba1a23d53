"""One-shot programs for trainers: `POST /exec/batch`, and SandboxFusion's `POST /run_code`.

They have no session and do not pause, so that nothing of them is held once their client has its answer or has gone.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final

from fastapi import Request, Response

from toolfold.errors import ToolfoldError
from toolfold.execution.batch import Item, map_programs
from toolfold.interfaces.http import outcome_bodies, request_models
from toolfold.interfaces.http.access.rate_limits import Gate, while_connected
from toolfold.interfaces.http.body_reader import wait_for_hangup
from toolfold.interfaces.http.file_routes import SessionFiles
from toolfold.interfaces.http.outcome_bodies import CANCELLED, Hangup, Refusal, interruption_refusal
from toolfold.interfaces.http.responses import json_response, refusal_of, stream_response
from toolfold.interfaces.http.settings import HttpContext
from toolfold.models import MIB, File, Limits, Outcome, ProgramOptions, ToolSpec
from toolfold.runtime import Runtime
from toolfold.service.executions import HOST_FAILURES
from toolfold.service.owners import spawn

_STOPS: Final = "the server stops; send what has no answer again"
_FAILED: Final = "internal error"
NDJSON: Final = "application/x-ndjson"
_MOST_PROGRAMS: Final = 10_000
_log: Final = logging.getLogger(__name__)


class OneShotRoutes:
    """The two routes, and the programs that they run in turns of their tenants."""

    def __init__(self, context: HttpContext) -> None:
        self._runtime = context.runtime
        self._settings = context.settings
        self._limits = context.limits
        self._gate = context.gate
        self._metrics = context.metrics
        self._reader = context.reader
        self._files = SessionFiles(context.runtime.sessions)
        # Any: a batch gives nothing, a single program its outcome.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    async def run(self, text: str, *, options: ProgramOptions, hangup: Hangup | None = None) -> Outcome:
        """One program, in a turn of its tenant; cancelled when `hangup` says that its client has left."""
        async with self._gate.turn(options.tenant, hangup), while_connected(hangup):
            outcome = await self._runtime.run(text, options=options)
        self._metrics.end(outcome.status)
        if outcome.problem is not None:
            self._metrics.add("problems", kind=outcome.problem.kind)
        return outcome

    def suspend(self) -> None:
        """The server does not wait any longer: clients are told, and may send again what has no answer."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # routes

    async def run_code(self, request: Request) -> Response:
        """One program in the shapes of SandboxFusion."""
        received = await self._reader.received(request, is_start=True)
        body = await self._reader.read(request, received, request_models.RunCodeRequest)
        options = options_of(body, self._limits, received.tenant, most_seconds=self._settings.max_timeout_seconds)
        self._gate.start(received.tenant)
        running = self.run(body.code, options=options, hangup=partial(wait_for_hangup, request))
        try:
            outcome = await spawn(running, self._tasks)
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            return json_response(200, broken(_STOPS))
        except HOST_FAILURES as error:
            self._metrics.add("executions", status="broken")
            started = bool(error.started) if isinstance(error, ToolfoldError) else False
            return json_response(200, broken(interruption_refusal(error, started=started).text))
        return json_response(200, run_code_response(outcome, body, options.files))

    async def batch(self, request: Request) -> Response:
        """Many programs; each has its line in the answer as soon as it has ended."""
        received = await self._reader.received(request, is_start=True)
        body = await self._reader.read(request, received, request_models.BatchRequest)
        tenant = received.tenant
        if len(body.programs) > _MOST_PROGRAMS:
            text = f"programs: {len(body.programs)} are more than {_MOST_PROGRAMS}; send them in several requests"
            raise Refusal(400, text)
        for number, program in enumerate(body.programs):
            self._check(number, program)
        # Before the first program runs: a name that is wrong must not be found in the middle.
        await asyncio.to_thread(self._find_files, body, tenant)
        lines = self._lines(self._items(body, tenant))
        return stream_response(lines, NDJSON)

    # its parts

    def _check(self, number: int, program: request_models.BatchProgram) -> None:
        if program.lang.lower() not in request_models.LANGUAGES:
            raise Refusal(400, f"programs.{number}.lang: {program.lang[:20]!r} cannot be run here; send 'py'")
        most = self._settings.max_timeout_seconds
        if program.timeout is not None and not 1 <= program.timeout / 1000 <= most:
            problem = f"{program.timeout:g}; give 1000 to {most * 1000:g} milliseconds"
            raise Refusal(400, f"programs.{number}.timeout: is {problem}")
        if any(file.session_id is None for file in program.files or ()):
            raise Refusal(400, f"programs.{number}.files: a batch has no session; name the session_id of each file")

    def _find_files(self, body: request_models.BatchRequest, tenant: str) -> None:
        for program in body.programs:
            for file in program.files or ():
                self._files.find(tenant, file.session_id or "", file.id)

    async def _items(self, body: request_models.BatchRequest, tenant: str) -> AsyncIterator[Item]:
        for program in body.programs:
            files = (
                await asyncio.to_thread(self._files.read_references, tenant, "", program.files) if program.files else ()
            )
            seconds = self._settings.timeout_seconds if program.timeout is None else program.timeout / 1000
            limits = replace(self._limits, wall_seconds=seconds)
            yield Item(
                text=program.code, tag=program.id, stdin=program.stdin, seed=program.seed, clock=program.clock,
                files=files, limits=limits, tenant=tenant,
            )  # fmt: skip

    async def _lines(self, items: AsyncIterator[Item]) -> AsyncIterator[bytes]:
        lines: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)
        # In a task of its own: the request's is cancelled again and again when its client leaves, also in the midst
        # of tidying up.
        task = spawn(self._fill(lines.put, items), self._tasks)
        try:
            while line := await lines.get():
                yield line
        finally:
            task.cancel()

    async def _fill(self, put: Callable[[bytes], Awaitable[None]], items: AsyncIterator[Item]) -> None:
        """Put a line for each program, one for an error that stops the batch, and an empty one at the end."""
        runner = _BatchRunner(self, self._runtime, self._gate)
        try:
            async with aclosing(map_programs(runner, items, in_flight=2 * self._settings.running)) as outcomes:
                async for result in outcomes:
                    await put(_line({"index": result.index, "id": result.tag, **result.outcome.to_dict()}))
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            await put(_line({"status": "error", "error": _STOPS}))
        except (Refusal, ToolfoldError, OSError) as error:
            text = refusal_of(error).text
            _log.error("POST /exec/batch: %s", text)
            await put(_line({"status": "error", "error": text}))
        # A mistake of ours: without an end, the client would wait for ever.
        except Exception:  # noqa: BLE001
            _log.exception("POST /exec/batch failed")
            await put(_line({"status": "error", "error": _FAILED}))
        await put(b"")


class _BatchRunner:
    """Programs of a batch, which wait where a single one would be refused for now."""

    def __init__(self, shots: OneShotRoutes, runtime: Runtime, gate: Gate) -> None:
        self._shots = shots
        self._runtime = runtime
        self._gate = gate

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._runtime.tools

    async def run(self, text: str, *, options: ProgramOptions) -> Outcome:
        await self._gate.wait_for_start(options.tenant)
        while True:
            try:
                return await self._shots.run(text, options=options)
            except Refusal as refusal:
                if not refusal.retry_after_seconds:
                    raise
                await asyncio.sleep(refusal.retry_after_seconds)


def _line(value: dict[str, Any]) -> bytes:
    # Not msgspec: a program's value may be an integer of any size.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"


# ----------------------------------------------------------------------------------------------------
# The shapes of SandboxFusion's `POST /run_code`, which verl's sandbox rewards speak. Pure.

_OUTPUT_BYTES: Final = 8 * MIB
"""All that a guest keeps: what is compared with an expected output must not be cut for a model's sake."""
_USUAL_SECONDS: Final = 10.0
_EXIT: Final = re.compile(r"SystemExit: (-?\d{1,9})")
_KILLED: Final = 137
"""What a shell says of a process that was killed."""


def options_of(
    body: request_models.RunCodeRequest, limits: Limits, tenant: str, *, most_seconds: float
) -> ProgramOptions:
    """Options of the program; `Refusal` 400 for those that cannot be."""
    if body.language.lower() not in request_models.LANGUAGES:
        raise Refusal(400, f"language {body.language[:20]!r} cannot be run here; write Python and send 'python'")
    seconds = min(_USUAL_SECONDS, most_seconds) if body.run_timeout is None else body.run_timeout
    if not 0 < seconds <= most_seconds:
        raise Refusal(400, f"run_timeout is {seconds:g}; give more than 0 and at most {most_seconds:g} seconds")
    memory = limits.memory_bytes
    if body.memory_limit_mb > 0:
        memory = min(memory, body.memory_limit_mb * MIB)
    files = [_file(name, data) for name, data in body.files.items() if data is not None]
    own = replace(
        limits, wall_seconds=seconds, memory_bytes=memory,
        output_bytes=max(_OUTPUT_BYTES, limits.output_bytes),
    )  # fmt: skip
    return ProgramOptions(stdin=body.stdin, files=files, limits=own, tenant=tenant)


def _file(name: str, data: str) -> File:
    try:
        return File(name=name, data=base64.b64decode(data, validate=True))
    except ValueError as error:
        raise Refusal(400, f"files: the content of {name[:80]!r} is not base64; encode it") from error


def run_code_response(
    outcome: Outcome, body: request_models.RunCodeRequest, input_files: Sequence[File]
) -> dict[str, Any]:
    if outcome.status == "cancelled":
        return broken(CANCELLED)
    response = outcome_bodies.outcome_response(outcome, session="", files=[]).body
    status, code = _end(outcome)
    contents = {
        file.name: file.data for file in (*input_files, *outcome.files) if file.name not in outcome.deleted_files
    }
    return {
        "status": "Success" if code == 0 else "Failed",
        "message": "",
        "compile_result": None,
        "run_result": {
            "status": status, "execution_time": outcome.seconds, "return_code": code, "stdout": response["stdout"],
            "stderr": response["stderr"],
        },
        "executor_pod_name": None,
        "files": {name: base64.b64encode(contents[name]).decode() for name in body.fetch_files if name in contents},
    }  # fmt: skip


def broken(message: str) -> dict[str, Any]:
    return {
        "status": "SandboxError", "message": message, "compile_result": None, "run_result": None,
        "executor_pod_name": None, "files": {},
    }  # fmt: skip


def _end(outcome: Outcome) -> tuple[str, int | None]:
    """The status of the run, and what its process would have returned."""
    kind = outcome.problem.kind if outcome.problem is not None else ""
    match outcome.status:
        case "finished":
            return "Finished", 0
        case "timeout":
            return "TimeLimitExceeded", None
        case "limit":
            return ("TimeLimitExceeded", None) if kind == "cpu" else ("Finished", _KILLED)
    exit_match = _EXIT.fullmatch(outcome.problem.message) if outcome.problem is not None else None
    # As a process' own: it has eight bits, of which at least one is set.
    return "Finished", (int(exit_match[1]) & 0xFF or 1) if exit_match is not None else 1
