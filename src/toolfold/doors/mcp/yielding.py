"""When a program answers before it has ended, and by which id it is waited for. Knows neither requests nor runtimes.

An id holds whose program it is, so that it can be told after a restart, too: nobody waits for a program of another.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolfold.errors import UsageError

CLIENT_TIMEOUT: Final = "MCP_TOOL_TIMEOUT"
"""Milliseconds, in the environment of Claude Code and of the servers that it starts: a wall for each tool call."""
_SHARE: Final = 0.8
"""Of a client's timeout: the rest is for the way there and back."""
_LEAST_SECONDS: Final = 0.2
"""For a program to begin, so that there is something to answer."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
_RANDOM_CHARACTERS: Final = 16
_MARK_CHARACTERS: Final = 16
"""So many that nobody can search for a name that has the mark of another client."""


@dataclass(frozen=True, slots=True)
class Yielding:
    """After how long a program that still runs answers with what it has printed so far."""

    after_seconds: float | None = None
    """`None`: only where a request asks for it."""
    most_seconds: float | None = None
    """What the client's own timeout leaves."""

    @property
    def is_on(self) -> bool:
        """Whether the model is told of it."""
        return self.after_seconds is not None

    # Any: an argument of a request.
    def seconds_for(self, asked: Any) -> float | None:
        """What one request gets; `None` for as long as it takes.

        Raises:
            UsageError: It asks for nonsense.
        """
        if asked is None:
            return self.after_seconds
        if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not asked > 0:
            raise UsageError(f"yield_after_seconds must be a number above 0, got {asked!r}")
        return float(asked) if self.most_seconds is None else min(float(asked), self.most_seconds)


def left_of(seconds: float | None, spent_seconds: float) -> float | None:
    """What is left of a request's time after the sandbox and the servers were waited for; never nothing."""
    return None if seconds is None else max(seconds - spent_seconds, min(seconds, _LEAST_SECONDS))


def yielding_of(configured: float | None, environment: Mapping[str, str], wall_seconds: float) -> Yielding:
    """What the config says, or else what is known of the client that started this process."""
    told = environment.get(CLIENT_TIMEOUT, "")
    most = int(told) / 1000 * _SHARE if told.isdecimal() and int(told) > 0 else None
    if configured is not None:
        return Yielding(configured if most is None else min(configured, most), most)
    # A program cannot outlive a client that waits for longer than programs may take.
    return Yielding(most, most) if most is not None and most < wall_seconds else Yielding(None, most)


def new_id(owner: str) -> str:
    """For a program of this owner."""
    drawn = secrets.token_hex(_RANDOM_CHARACTERS // 2)
    return drawn + _mark(drawn, owner)


# Any: an argument of a request.
def checked_id(given: Any, owner: str) -> str:
    """The id of a program of this owner.

    Raises:
        UsageError: It is none, or another owner's.
    """
    if not isinstance(given, str) or not _ID.fullmatch(given):
        shown = repr(given) if len(repr(given)) <= 60 else f"{repr(given)[:60]}…"
        raise UsageError(f"execution_id must be one that execute_program returned, got {shown}")
    if _mark(given[:_RANDOM_CHARACTERS], owner) != given[_RANDOM_CHARACTERS:]:
        raise unknown(given)
    return given


def unknown(execution_id: str) -> UsageError:
    """For a program that nobody knows, or that is not this client's to know."""
    return UsageError(f"no program {execution_id!r} here: it is another client's, or so old that it was forgotten")


def _mark(drawn: str, owner: str) -> str:
    return hashlib.sha256(f"{drawn}\0{owner}".encode()).hexdigest()[:_MARK_CHARACTERS]


class Holds:
    """Which programs a living process goes on with: one locked file each, which the kernel frees when that ends.

    Args:
        folder: Beside a ledger that lasts; `None` where there is none, so that no other process knows the programs.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    @property
    def are_shared(self) -> bool:
        """Whether another process can take what this one drops."""
        return self._folder is not None

    def take(self, execution_id: str, *, is_new: bool) -> bool:
        """Whether this process may go on with it; one that is not new must have been held by a process before."""
        if execution_id in self._held:
            return True
        if self._folder is None:
            return is_new
        try:
            if is_new:
                self._folder.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(self._folder / execution_id, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if is_new else 0), 0o600)
        except OSError:
            return is_new  # a disk that takes no file costs the restart, not the program
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError:
            os.close(fd)
            return is_new  # nor do locks that this disk does not have
        self._held[execution_id] = fd
        return True

    def drop(self, execution_id: str, *, has_ended: bool) -> None:
        """It has ended, or another process may have it."""
        fd = self._held.pop(execution_id, None)
        if fd is None or self._folder is None:
            return
        if has_ended:
            with suppress(OSError):
                os.unlink(self._folder / execution_id)
        os.close(fd)

    def close(self) -> None:
        """This process stops; what it held can be taken by the next."""
        for execution_id in tuple(self._held):
            self.drop(execution_id, has_ended=False)
