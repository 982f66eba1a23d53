"""Owners of executions on one machine: a locked file for each, and the executions that clients come back for.

The kernel releases a lock when its process ends. So a file that nobody has locked belongs to an execution whose process
is gone, and the next process that locks it continues the execution from its record.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from toolfold.file_locks import has_lost_owner, open_locked
from toolfold.service.wait_for_execution import WaitableExecution

_E = TypeVar("_E", bound=WaitableExecution)
_MOST_PARKED: Final = 100
_MOST_UNREAD: Final = 100
"""Executions that have ended and that nobody has waited for since; of older ones the record is left."""


class ExecutionLocks:
    """Locks of the executions that this process owns.

    Args:
        folder: Shared by all processes with the same ledger; `None` where no other process knows the executions.
        is_required: Raise an `OSError` where locks are not available. Otherwise an execution runs without one, and
            cannot be continued after a restart.
    """

    def __init__(self, folder: Path | None, *, is_required: bool = False) -> None:
        self._folder = folder
        self._is_required = is_required
        self._fds: dict[str, int] = {}

    @property
    def are_shared(self) -> bool:
        """Whether another process can take over what this one drops."""
        return self._folder is not None

    def take(self, execution_id: str, *, is_new: bool, data: bytes = b"") -> bool:
        """Become the owner, unless another live process is; an execution that is not new must have had one before.

        Args:
            execution_id: Of the execution.
            is_new: It starts here.
            data: For `read`: what another process needs to continue it.
        """
        if execution_id in self._fds:
            return True
        if self._folder is None:
            return is_new
        try:
            if is_new:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = open_locked(self._path(execution_id), create=is_new)
        except OSError:
            if self._is_required and is_new:
                raise
            return is_new
        if fd is None:
            return False
        self._fds[execution_id] = fd
        os.write(fd, data)
        return True

    def drop(self, execution_id: str, *, has_ended: bool) -> None:
        """Let other processes have it, or forget it because it has ended."""
        fd = self._fds.pop(execution_id, None)
        if fd is None:
            return
        if has_ended:
            self.forget(execution_id)
        os.close(fd)

    def close(self) -> None:
        """Drop all: this process stops, and another may continue them."""
        for execution_id in tuple(self._fds):
            self.drop(execution_id, has_ended=False)

    # executions of any process

    def is_orphaned(self, execution_id: str) -> bool:
        """Whether it has not ended and its process is gone."""
        return self._folder is not None and has_lost_owner(self._path(execution_id))

    def exists(self, execution_id: str) -> bool:
        """Whether it was started with a lock and has not ended."""
        return self._folder is not None and self._path(execution_id).exists()

    def read(self, execution_id: str) -> bytes:
        return self._path(execution_id).read_bytes()

    def forget(self, execution_id: str) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._path(execution_id).unlink()

    def _path(self, execution_id: str) -> Path:
        assert self._folder is not None
        # An id may be anything that somebody wrote on a command line.
        name = "".join(letter if letter.isalnum() else "_" for letter in execution_id)[:64]
        return self._folder / name


class ClientExecutions(Generic[_E]):
    """Executions of this process that clients come back for. The durable ones among them outlive it.

    Args:
        locks: Of those that a client knows by their execution id.
        spawn: Runs work in the background.
    """

    def __init__(self, locks: ExecutionLocks, spawn: Callable[[Coroutine[object, None, object]], object]) -> None:
        self.locks = locks
        self._spawn = spawn
        self._parked: dict[str, tuple[_E, asyncio.TimerHandle]] = {}
        self._known: dict[str, _E] = {}
        """Executions whose clients know the execution id, by that."""
        self.live: dict[str, _E] = {}
        """All, by their own ids."""

    def find(self, execution_id: str) -> _E | None:
        return self._known.get(execution_id)

    def keep(self, execution: _E) -> None:
        """Wait for its client, which knows the execution id."""
        self.live[execution.id] = self._known[execution.execution_id] = execution
        self.locks.take(execution.execution_id, is_new=True)
        unread = [candidate for candidate in self._known.values() if candidate.is_done]
        for old in unread[: max(0, len(unread) - _MOST_UNREAD)]:
            self.forget(old)

    def park(self, execution: _E, seconds: float) -> None:
        """Wait for its client's answer; without one it is cancelled when the time is up or others need the room."""
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, execution)
        self._parked[execution.id] = execution, timer
        while len(self._parked) > _MOST_PARKED:
            self._expire(next(iter(self._parked.values()))[0])

    def unpark(self, id: str) -> _E | None:
        """The execution whose client has answered, if it is still here."""
        execution, timer = self._parked.pop(id, (None, None))
        if timer is not None:
            timer.cancel()
        return execution if id in self.live else None

    def forget(self, execution: _E) -> None:
        self.live.pop(execution.id, None)
        if self._known.pop(execution.execution_id, None) is not None:
            self.locks.drop(execution.execution_id, has_ended=True)

    async def close(self) -> None:
        """End the executions, except those that the next process can continue; their locks are closed separately."""
        for _, timer in self._parked.values():
            timer.cancel()
        await asyncio.gather(*(self._leave(execution) for execution in tuple(self.live.values())))

    async def _leave(self, execution: _E) -> None:
        # A client that knows the execution id comes back for it, to whichever process it meets.
        is_known = execution.execution_id in self._known
        if is_known and execution.is_durable and self.locks.are_shared and not execution.is_done:
            await execution.release()
            self.live.pop(execution.id, None)
        else:
            await execution.cancel()
            self.forget(execution)

    def _expire(self, execution: _E) -> None:
        self.unpark(execution.id)
        self.forget(execution)
        self._spawn(execution.cancel())
