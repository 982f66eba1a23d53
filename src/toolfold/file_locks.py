"""File locks: a file that one process has for itself until it closes it or ends, however it ends.

A lock belongs to an open file, not to a path or a process id. The kernel releases it with the last descriptor, so a
file that can be locked has no live owner. Windows has no such locks: there nobody is kept out.
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


def try_lock(fd: int) -> bool:
    """Lock an open file unless another process has it; whether that succeeded.

    Raises:
        OSError: The filesystem has no locks, as some network shares do not.
    """
    if fcntl is not None:
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
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600)
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
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if fcntl is not None:
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
            fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # deleted since: there is a new folder to lock
        try:
            if fcntl is not None:
                fcntl.flock(fd, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(fd), os.stat(folder / name)):
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
