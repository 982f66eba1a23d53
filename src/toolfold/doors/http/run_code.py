"""The shapes of SandboxFusion's `POST /run_code`, which verl's sandbox rewards speak. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from toolfold.doors.http import answers, wire
from toolfold.doors.http.refusals import CANCELLED, Refusal
from toolfold.execution.batch import Item
from toolfold.models import MIB, File, Limits, Outcome

_OUTPUT_BYTES: Final = 8 * MIB
"""All that a guest keeps: what is compared with an expected output must not be cut for a model's sake."""
_USUAL_SECONDS: Final = 10.0
_EXIT: Final = re.compile(r"SystemExit: (-?\d{1,9})")
_KILLED: Final = 137
"""What a shell says of a process that was killed."""


def item_of(asked: wire.RunCodeRequest, limits: Limits, *, most_seconds: float) -> Item:
    """What to run.

    Raises:
        Refusal: 400, in one line.
    """
    if asked.language.lower() not in wire.LANGUAGES:
        raise Refusal(400, f"language {asked.language[:20]!r} cannot be run here; write Python and send 'python'")
    seconds = min(_USUAL_SECONDS, most_seconds) if asked.run_timeout is None else asked.run_timeout
    if not 0 < seconds <= most_seconds:
        raise Refusal(400, f"run_timeout is {seconds:g}; give more than 0 and at most {most_seconds:g} seconds")
    memory = limits.memory_bytes
    if asked.memory_limit_mb > 0:
        memory = min(memory, asked.memory_limit_mb * MIB)
    files = [_file(name, data) for name, data in asked.files.items() if data is not None]
    own = replace(
        limits, wall_seconds=seconds, memory_bytes=memory,
        output_bytes=max(_OUTPUT_BYTES, limits.output_bytes),
    )  # fmt: skip
    return Item(text=asked.code, files=files, limits=own, stdin=asked.stdin)


def _file(name: str, data: str) -> File:
    try:
        return File(name=name, data=base64.b64decode(data, validate=True))
    except ValueError as error:
        raise Refusal(400, f"files: the content of {name[:80]!r} is not base64; encode it") from error


def answer(outcome: Outcome, asked: wire.RunCodeRequest, given: Sequence[File]) -> dict[str, Any]:
    """How the program ended, as a process would have."""
    if outcome.status == "cancelled":
        return broken(CANCELLED)
    said = answers.ended(outcome, session="", files=[]).body
    status, code = _end(outcome)
    found = {file.name: file.data for file in (*given, *outcome.files) if file.name not in outcome.deleted_files}
    return {
        "status": "Success" if code == 0 else "Failed",
        "message": "",
        "compile_result": None,
        "run_result": {
            "status": status,
            "execution_time": outcome.seconds,
            "return_code": code,
            "stdout": said["stdout"],
            "stderr": said["stderr"],
        },
        "executor_pod_name": None,
        "files": {name: base64.b64encode(found[name]).decode() for name in asked.fetch_files if name in found},
    }


def broken(message: str) -> dict[str, Any]:
    """The program is not to blame, and is not to be judged by this."""
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
    left = _EXIT.fullmatch(outcome.problem.message) if outcome.problem is not None else None
    # As a process' own: it has eight bits, of which at least one is set.
    return "Finished", (int(left[1]) & 0xFF or 1) if left is not None else 1
