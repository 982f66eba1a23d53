"""The core on which a waiting guest wakes up.

The kernel wakes a process where it slept, or near whoever wakes it, and there the host has work to do just then:
the guest would have to wait for it. So the host's core is not for a guest that is about to be woken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolfold.engines.process.pidfd import pid_of
from toolfold.engines.process.speed import cores


class Placement:
    """Where one guest may run.

    Args:
        pidfd: Gives the guest's descriptor, or a negative number once another process may have its number.
    """

    def __init__(self, pidfd: Callable[[], int]) -> None:
        self._pidfd = pidfd
        self._pid = 0
        self._allowed: set[int] = set()
        """What it was given by whoever started the host; a program must find all of it again."""
        self._avoided = -1

    def stay_away(self) -> None:
        """Wait for the program on another core than ours. To be repeated: the kernel may have moved us meanwhile."""
        ours = cores.current_core()
        if ours != self._avoided and self._process_id():
            self._avoided = ours
            self._confine(ours, is_kept_off=True)

    @contextmanager
    def here(self) -> Iterator[None]:
        """What the guest is sent in this block wakes it on our core, where it runs as soon as we sleep.

        Right after another program: on the other cores its guest is still dying.
        """
        self._confine(cores.current_core(), is_kept_off=False)
        try:
            yield
        finally:
            self.set_free()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """What the guest is sent in this block wakes it on another core than ours, so that both can look at once."""
        self._confine(cores.current_core(), is_kept_off=True)
        try:
            yield
        finally:
            self.set_free()

    def _confine(self, core: int, *, is_kept_off: bool) -> None:
        pid = self._process_id()
        if not pid:
            return
        # Asked once: after the first change the kernel only knows what we made of it.
        if not self._allowed:
            self._allowed = cores.allowed(pid)
        cores.put(pid, self._allowed - {core} if is_kept_off else self._allowed & {core})

    def set_free(self) -> None:
        """It may run on every core that it had."""
        cores.put(self._process_id(), self._allowed)

    def _process_id(self) -> int:
        pidfd = self._pidfd()
        if pidfd < 0:
            return 0
        if not self._pid:
            self._pid = pid_of(pidfd)
        return self._pid
