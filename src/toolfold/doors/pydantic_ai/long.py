"""Programs that outlast a run of their agent: each is one deferred call, and a later run gets its result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import CallDeferred, DeferredToolRequests, DeferredToolResults, ToolApproved

from toolfold.doors.pydantic_ai.approvals import NOTE
from toolfold.doors.pydantic_ai.nested import Nested
from toolfold.models import Call, Outcome

_RUNNING: Final = "is_running"


@dataclass(frozen=True, slots=True)
class LongProgram:
    """A program under way, with what its calls go through."""

    nested: Nested
    work: asyncio.Task[Outcome]
    suspend: Callable[[], None]
    """Stops it, so that its record can be gone on with."""


def deferred(execution_id: str, open_calls: tuple[Call, ...]) -> CallDeferred:
    """What `run_code` raises for a program that goes on."""
    names = list(dict.fromkeys(call.tool for call in open_calls))
    return CallDeferred({NOTE: {"execution_id": execution_id, _RUNNING: True, "open_calls": names}})


class LongPrograms:
    """Those of one home, by execution id."""

    def __init__(self) -> None:
        self._by_id: dict[str, LongProgram] = {}

    def add(self, execution_id: str, program: LongProgram) -> None:
        """It goes on without its run."""
        self._by_id[execution_id] = program

    def get(self, execution_id: str) -> LongProgram | None:
        """One that goes on here."""
        return self._by_id.get(execution_id)

    def drop(self, execution_id: str) -> None:
        """A run has its result."""
        self._by_id.pop(execution_id, None)

    async def wait(self, requests: DeferredToolRequests, timeout_seconds: float | None) -> DeferredToolResults:
        """Until they have ended or need an answer, or the time is up: what the next run is to be given."""
        ids = {call.tool_call_id: _running_in(requests.metadata.get(call.tool_call_id)) for call in requests.calls}
        works = [self._by_id[one].work for one in ids.values() if one in self._by_id]
        if works:
            await asyncio.wait(works, timeout=timeout_seconds)
        results = DeferredToolResults()
        for call_id, execution_id in ids.items():
            if execution_id:
                # Not a yes to anything: the metadata has the run go on with the program.
                results.approvals[call_id] = ToolApproved()
                results.metadata[call_id] = {NOTE: {"execution_id": execution_id, "results": {}, "metadata": {}}}
        return results

    async def close(self) -> None:
        """Nobody keeps the home open: their records are left."""
        left = [program for program in self._by_id.values() if not program.work.done()]
        self._by_id.clear()
        for program in left:
            program.suspend()
        for program in left:
            # Whatever it raises, its record says how far it came.
            with contextlib.suppress(Exception):
                await program.work


# Any: the metadata of a deferred call.
def _running_in(metadata: Any) -> str:
    note = metadata.get(NOTE) if isinstance(metadata, dict) else None
    return str(note["execution_id"]) if isinstance(note, dict) and note.get(_RUNNING) else ""
