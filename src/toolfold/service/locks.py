"""Owners of executions on one machine: a locked file for each, which other processes can take over.

The kernel releases a lock when its process ends. So a file that nobody has locked belongs to an execution whose process
is gone, and the next process that locks it continues the execution from its record.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from toolfold.file_locks import has_lost_owner, open_locked


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
        """The data that it was started with."""
        return self._path(execution_id).read_bytes()

    def forget(self, execution_id: str) -> None:
        """Remove the file of an execution that has ended."""
        if self._folder is not None:
            with suppress(OSError):
                self._path(execution_id).unlink()

    def _path(self, execution_id: str) -> Path:
        assert self._folder is not None
        # An id may be anything that somebody wrote on a command line.
        name = "".join(letter if letter.isalnum() else "_" for letter in execution_id)[:64]
        return self._folder / name
