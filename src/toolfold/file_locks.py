"""File locks: a file that one process has for itself until it closes it or ends, however it ends.

A lock belongs to an open file, not to a path or a process id. The kernel releases it with the last descriptor, so a
file that can be locked has no live owner. On Windows the lock is one of a byte far behind the end of the file.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

O_CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0)
O_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""Flags that Windows does not have; there, no child inherits a descriptor anyway."""

if sys.platform == "win32":
    import msvcrt

    _PLACE: Final = 1 << 30

    def try_lock(fd: int) -> bool:
        """Lock an open file unless another process has it; whether that succeeded."""
        os.lseek(fd, _PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Lock an open file unless another process has it; whether that succeeded.

        Raises:
            OSError: The filesystem has no locks, as some network shares do not.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def open_locked(path: Path, *, create: bool) -> int | None:
    """Descriptor of a file that is locked while it is open; `None` if another process has the lock.

    Raises:
        OSError: The file cannot be opened, or its filesystem has no locks.
    """
    fd = os.open(path, os.O_RDWR | O_CLOEXEC | O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600)
    try:
        if try_lock(fd):
            return fd
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def has_lost_owner(path: Path) -> bool:
    """Whether the file exists and no live process has its lock; false if that cannot be determined."""
    try:
        fd = os.open(path, (os.O_RDWR if sys.platform == "win32" else os.O_RDONLY) | O_CLOEXEC | O_NOFOLLOW)
    except OSError:
        return False
    try:
        if sys.platform == "win32":
            return try_lock(fd)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others may look at the same time
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def lock_folder(folder: Path, name: str) -> int:
    """Descriptor that locks a folder by the file `name` in it; waits for the lock, and creates what is missing."""
    while True:
        folder.mkdir(exist_ok=True, mode=0o700)
        try:
            fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # deleted since: there is a new folder to lock
        try:
            if sys.platform == "win32":
                while not try_lock(fd):
                    time.sleep(0.01)
            else:
                fcntl.flock(fd, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(fd), os.stat(folder / name)):
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
