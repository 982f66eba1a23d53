"""Files that one process has for itself, until it closes them or ends, however it ends."""

from __future__ import annotations

import os
from typing import Final

try:
    import fcntl
except ImportError:  # on Windows nobody else is kept out
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS: Final = os.name == "posix"


def lock(handle: int) -> bool:
    """Whether nobody else has the file behind this handle; then nobody else gets it.

    Raises:
        OSError: Nobody can say, as on a network share without locks.
    """
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
