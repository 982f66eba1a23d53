"""Guest handle on the host: its process, socket and data folder, its memory use and its pauses.

Rules:
1. A guest sends one descriptor, before any program is there; after that plain `recv` drops them.
2. How a guest ended is what the zygote's `waitpid` saw, never the guest's word.
3. Signals go through a pidfd: a number may be another process's by the time it is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import re
import select
import signal
import socket
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from toolfold.engines.process.optimizations import Placement
from toolfold.engines.process.zygote_launch import pid_of
from toolfold.errors import EngineCrashed, EngineError, EngineUnavailable
from toolfold.protocol.codec import HOLD_FRAME, release_frame

if TYPE_CHECKING:
    from toolfold.engines.process.cgroup import Cgroup

_DATA: Final = b"D"
_READY: Final = b"R"
_FAILED: Final = b"F"
_MOVED: Final = b"M"
_MAX_REASON_BYTES: Final = 1000
_WEIGH_AGAIN_SECONDS: Final = 1.0
_DIED: Final = "the guest died while it was being locked down; nothing ran"
_NO_ROOM: Final = "this process cannot open another file, so the guest has no data folder; nothing ran"
_NONSENSE: Final = "the guest broke the protocol before it was locked down; nothing ran"


class Usage(NamedTuple):
    """Resource usage of a guest when it ended."""

    cpu_seconds: float = 0.0
    grown_bytes: int = 0
    """Memory at its most, above what its fork server has."""


class Guest:
    """Forked, locked guest that waits for messages on its socket.

    Args:
        sock: The host's end; the guest inherits the other.
        forget: Tells the zygote that nobody needs the guest any more.
        move: Moves its process into a cgroup, for which a guest that starts processes waits.
    """

    def __init__(
        self, sock: socket.socket, forget: Callable[[], None],
        move: Callable[[int], asyncio.Future[Cgroup | None]] | None = None,
    ) -> None:  # fmt: skip
        self._loop = asyncio.get_running_loop()
        self.sock = sock
        self.data_fd = -1
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.place = Placement(lambda: self.pidfd)
        self._forget = forget
        self._move = move
        self.cgroup: Cgroup | None = None
        """Its own, if the kernel limits the memory of all of its processes."""
        self._pidfd = -1
        self._gauge = MemoryGauge()
        self._is_locked = False
        """It said so itself, before any program could speak for it."""
        self._reason = bytearray()
        self._is_frozen = False
        self._is_closed = False
        self.usage = Usage()
        """Known once it has ended."""
        self._ended: asyncio.Future[int] = self._loop.create_future()
        # The data folder and the word that it is locked come first, and only once.
        self._loop.add_reader(sock.fileno(), self._read_first)

    @property
    def pidfd(self) -> int:
        """Negative until it is forked and after its end: another process may have its number then."""
        return -1 if self._ended.done() else self._pidfd

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def is_gone(self) -> bool:
        """Whether its process has ended, which the zygote may not have said yet; asks the kernel."""
        if self.pidfd < 0:
            return self._ended.done()
        process = select.poll()
        process.register(self.pidfd, select.POLLIN)
        return bool(process.poll(0))

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def warn(self) -> None:
        """Let it say its last words: the kill comes next."""
        self._signal(signal.SIGTERM)
        # A signal that waits for a frozen process would come after the kill.
        self.thaw()

    def ask_for_output(self) -> None:
        """Have it send what the program printed so far; a program hears nothing of it."""
        # SIGURG, because it is ignored where nobody has a handler: a guest that is not there yet does not end of it.
        self._signal(signal.SIGURG)

    def freeze(self) -> None:
        """Have it stand still, with all its threads, until `thaw`; no program can refuse that."""
        self._is_frozen = True
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on. Harmless when it does."""
        if self._is_frozen:
            self._is_frozen = False
            self._signal(signal.SIGCONT)

    def own_bytes(self) -> int:
        """About how much memory it takes, too much rather than too little; quick to ask."""
        return self._gauge.read(self._pidfd) if self.pidfd >= 0 else 0

    def weigh(self, tell: Callable[[int], None]) -> None:
        """Tell in a later turn of the loop how much memory it takes; not if it is closed by then."""
        if self._pidfd < 0:
            return
        try:
            # The number may be another's before a thread comes to it.
            fd = os.dup(self._pidfd)
        except OSError:
            # No descriptor is free: what it holds must be counted all the same, only later.
            self._loop.call_later(_WEIGH_AGAIN_SECONDS, self.weigh, tell)
            return

        def measure() -> int:
            try:
                return held_bytes([fd])
            finally:
                os.close(fd)

        def measured(future: asyncio.Future[int]) -> None:
            if not future.cancelled() and future.exception() is None and not self._is_closed:
                tell(future.result())

        # In a thread: for a guest with pandas the kernel walks tens of thousands of pages.
        self._loop.run_in_executor(None, measure).add_done_callback(measured)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def wait(self) -> int:
        """Its exit status, negative for a signal; -9 if the zygote went first and took it along."""
        return await asyncio.shield(self._ended)

    def close(self) -> None:
        if self._is_closed:
            return
        self.kill()
        # The kill comes first, so that nothing of the guest runs once its descriptors are free for others.
        self._is_closed = True
        self.fail(EngineCrashed("the guest was closed before it was ready"))
        self._loop.remove_reader(self.sock.fileno())
        self.sock.close()
        for fd in (self._pidfd, self.data_fd):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self.data_fd = -1
        self._gauge.close()
        self._forget()

    def disown(self) -> list[int]:
        """In a forked child: never to be killed from here. The descriptors to let go of."""
        fds = [self.sock.fileno(), self._pidfd, self.data_fd, self._gauge.disown()]
        self._is_closed = True
        self._pidfd = self.data_fd = -1
        return fds

    # what the zygote saw of it

    def forked(self, pidfd: int) -> None:
        """There is a process, known by this descriptor, which is the guest's to close."""
        # The zygote opened it in the moment of the fork, so it cannot mean another process.
        self._pidfd = pidfd
        if self._is_closed:  # closed while it was being forked
            self.kill()
            os.close(pidfd)
            self._pidfd = -1
        else:
            self._move_when_separate()
            self._settle()

    def end(self, status: int, usage: Usage = Usage()) -> None:  # noqa: B008  # a tuple
        if not self._ended.done():
            self.usage = usage
            self._ended.set_result(status)
            if self.cgroup is not None:
                self.cgroup.end()

    def fail(self, error: EngineError) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # nobody has to ask for it

    # its first words

    def _read_first(self) -> None:
        """One byte at a time: what follows is for whoever uses the socket next."""
        try:
            text, fds, _, _ = socket.recv_fds(self.sock, 1, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            text, fds = b"", []
        if text == _DATA and len(fds) == 1 and self.data_fd < 0:
            self.data_fd = fds[0]
            self._move_when_separate()
            return
        # A second descriptor, or one without the right byte, is nothing that our code sends.
        for fd in fds:
            os.close(fd)
        if text == _READY and not self._reason and self.data_fd >= 0:
            self._loop.remove_reader(self.sock.fileno())
            self._is_locked = True
            self._settle()
            return
        self._reason += text
        # All but a reason may be a program's own words already: nobody is to read them as ours.
        is_reason = self._reason.startswith(_FAILED)
        if not text or not is_reason or len(self._reason) > _MAX_REASON_BYTES:
            self._loop.remove_reader(self.sock.fileno())
            self.fail(self._failure(text, is_reason=is_reason))

    def _move_when_separate(self) -> None:
        """Into its cgroup, once it has all of its namespaces but the one that is to begin there."""
        if self._move is not None and self.pidfd >= 0 and self.data_fd >= 0:
            self._move(pid_of(self.pidfd)).add_done_callback(self._moved)

    def _moved(self, future: asyncio.Future[Cgroup | None]) -> None:
        self.cgroup = None if future.cancelled() else future.result()
        if self.has_ended and self.cgroup is not None:
            self.cgroup.end()
        elif not self._is_closed:
            with contextlib.suppress(OSError):
                self.sock.send(_MOVED)

    def _failure(self, text: bytes, *, is_reason: bool) -> EngineError:
        if is_reason:
            reason = bytes(self._reason[1:]).decode(errors="replace")
            return EngineUnavailable(f"cannot isolate here: {reason}")
        if not self._reason:
            return EngineCrashed(_DIED)
        return EngineUnavailable(_NO_ROOM) if text == _DATA and self.data_fd < 0 else EngineCrashed(_NONSENSE)

    def _settle(self) -> None:
        # Both must have come, in either order: without its pidfd a guest could not be killed.
        if self._is_locked and self._pidfd >= 0 and not self.ready.done():
            self.ready.set_result(None)


# ----------------------------------------------------------------------------------------------------
# What guests hold, as the kernel counts it. Asked for by whoever measures, never while a program runs.

_SHARE: Final = re.compile(r"^Pss:\s*(\d+) kB$", re.MULTILINE)
_OOM_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_STATM_BYTES: Final = 256
"""Seven numbers."""
PAGE_BYTES: Final = mmap.PAGESIZE


def held_bytes(pidfds: Iterable[int]) -> int:
    return sum(map(_process_bytes, pidfds))


def _process_bytes(pidfd: int) -> int:
    try:
        pid = pid_of(pidfd)
        try:
            # The proportional share: most pages are the zygote's too, and a plain sum would count those often.
            share = _SHARE.search(Path(f"/proc/{pid}/smaps_rollup").read_text("ascii"))
            return int(share[1]) * 1024 if share else 0
        except PermissionError:  # an ordinary user may be refused the parts
            return _without_files(Path(f"/proc/{pid}/statm").read_bytes())
    except OSError:  # it ended meanwhile
        return 0


def oom_kills() -> int:
    """Number of processes that the kernel killed for lack of memory, in any group; 0 if unknown."""
    try:
        count = _OOM_KILLS.search(Path("/proc/vmstat").read_text("ascii"))
    except OSError:
        return 0
    return int(count[1]) if count else 0


class MemoryGauge:
    """Memory gauge of one process, cheap enough to read often.

    All but mapped files, those pages too that it shares: more than it holds. The kernel has this number at hand, while
    for the share it walks all pages.
    """

    _free: ClassVar[int] = 64
    """Of files that may stay open: to open and close one hands the interpreter to other threads twice more."""

    def __init__(self) -> None:
        self._fd = -1

    def read(self, pidfd: int) -> int:
        try:
            fd = self._fd if self._fd >= 0 else os.open(f"/proc/{pid_of(pidfd)}/statm", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return _without_files(os.pread(fd, _STATM_BYTES, 0))
            finally:
                self._keep_or_close(fd)
        except OSError:  # it ended meanwhile
            return 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            MemoryGauge._free += 1

    def disown(self) -> int:
        """In a forked child: the descriptor to let go of, or -1."""
        fd, self._fd = self._fd, -1
        return fd

    def _keep_or_close(self, fd: int) -> None:
        if self._fd >= 0:
            return
        if MemoryGauge._free > 0:
            MemoryGauge._free -= 1
            self._fd = fd
        else:
            os.close(fd)


def _without_files(statm: bytes) -> int:
    _, resident, shared, *_ = statm.split()
    return (int(resident) - int(shared)) * PAGE_BYTES


# ----------------------------------------------------------------------------------------------------
# A pause, as a guest sees it: its timers stand still at once, and soon all of its threads.

FREEZE_AFTER_SECONDS: Final = 0.5
"""How long the threads of a paused program may run on; most callers have answered by then."""
LOOK_AFTER_SECONDS: Final = 0.015
"""When to look how large it is: programs that pause faster than they are weighed could hold all memory."""
LARGE_BYTES: Final = 64 * 1024 * 1024
"""What has more in memory is frozen, and so weighed, at once; a guest with pandas always has."""


TICK_SECONDS: Final = 0.01


class HoldRegistry:
    """All guests of a pool that are held, and one timer for them: most go on before theirs would have come."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # In the order in which they are due, with the time at which they were held.
        self._unseen: dict[Hold, float] = {}
        self._small: dict[Hold, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, hold: Hold) -> None:
        """Look how large its guest is soon, and freeze it then or later."""
        self._unseen[hold] = self._loop.time()
        if self._timer is None:
            self._set_timer()

    def remove(self, hold: Hold) -> None:
        self._unseen.pop(hold, None)
        self._small.pop(hold, None)

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(min(TICK_SECONDS, FREEZE_AFTER_SECONDS), self._tick)

    def _tick(self) -> None:
        self._timer, now = None, self._loop.time()
        for hold in _due(self._unseen, now - min(LOOK_AFTER_SECONDS, FREEZE_AFTER_SECONDS)):
            self._small[hold] = self._unseen.pop(hold)
            if hold.is_large():
                self._freeze(hold)
        for hold in _due(self._small, now - FREEZE_AFTER_SECONDS):
            self._freeze(hold)
        if self._unseen or self._small:
            self._set_timer()

    def _freeze(self, hold: Hold) -> None:
        self.remove(hold)
        hold.freeze()


def _due(holds: dict[Hold, float], until: float) -> list[Hold]:
    return [hold for hold, _ in takewhile(lambda entry: entry[1] <= until, holds.items())]


class Hold:
    """Holds and releases one guest.

    Args:
        guest: The guest.
        write: Sends it a message.
        write_soon: Sends it one together with the next.
        on_frozen: Told how many bytes it takes once it stands still.
        holds: The others of its pool.
    """

    def __init__(
        self, guest: Guest, write: Callable[[bytes], None], write_soon: Callable[[bytes], None],
        on_frozen: Callable[[int], None] | None, holds: HoldRegistry,
    ) -> None:  # fmt: skip
        self._guest = guest
        self._write = write
        self._write_soon = write_soon
        self._on_frozen = on_frozen
        self._holds = holds
        self._is_held = False

    def hold(self) -> None:
        """The execution pauses. Again, if it is held already: each hold is released on its own."""
        self._write(HOLD_FRAME)
        if not self._is_held:
            self._is_held = True
            self._holds.add(self)

    def release(self, counted_seconds: float = 0.0) -> None:
        """The execution goes on; so much of its pause counts for its timers."""
        # First: a frozen guest reads nothing.
        self.thaw()
        # What it waited for comes in the same moment.
        self._write_soon(release_frame(counted_seconds))

    def thaw(self) -> None:
        self.cancel()
        self._guest.thaw()

    def cancel(self) -> None:
        """Freeze it no more; one that is frozen stays so."""
        if self._is_held:
            self._is_held = False
            self._holds.remove(self)

    def is_large(self) -> bool:
        """Whether it must be weighed at once."""
        return self._guest.own_bytes() > LARGE_BYTES

    def freeze(self) -> None:
        # SIGSTOP, because a program with threads goes on working while its main thread waits for the host.
        self._guest.freeze()
        if self._on_frozen is not None:
            self._guest.weigh(self._on_frozen)
