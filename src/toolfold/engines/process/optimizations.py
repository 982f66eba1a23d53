"""Optimizations of the process engine, each optional: every program ends the same without them.

* `prepare`: a waiting guest compiles a program while the host checks it.
* `Placement`: a waiting guest wakes up on another core than the host's.
* `LookAhead`: the host stays awake for a frame that is about to come.

The modules that talk to guests know only these objects, never how or when they pay. `bench/tricks.py` measures
each of them with and without it, in one run.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from toolfold.engines.guest_frames import program_frame, start_frame
from toolfold.engines.process.zygote_launch import pid_of
from toolfold_guest.shared.adaptive_polling import LOOKS, Patience

if TYPE_CHECKING:
    import socket

    from toolfold.engines.base import Order
    from toolfold.engines.process.guest import Guest
    from toolfold.engines.process.zygote import Pool
    from toolfold.models import Limits, ToolSpec


# ----------------------------------------------------------------------------------------------------
# A guest compiles a program while the host checks it.
#
# To compile a program and to fill its names takes a guest about as long as the check takes the host. Nothing of it
# runs before the start. A guest that was told of a program is for no other: if that does not come, the guest ends.
#
# The start is sent by `open`, before anything is built that the host needs to listen to the program.

MOST_PREPARED_BYTES: Final = 64 * 1024
"""Fits into the buffer of an idle socket; and what takes longer to check gains little from it."""


class PreparedGuest:
    """Guest that was taken from its pool and told of a program; `prepare` makes it."""

    def __init__(self, pool: Pool, guest: Guest, text: str, tools: Sequence[ToolSpec]) -> None:
        self._pool = pool
        self._guest: Guest | None = guest
        self._text = text
        self._tools = tools
        self.is_started = False

    def fits(self, pool: Pool | None, order: Order, limits: Limits) -> bool:
        """Whether the order is for this program, with a guest of this pool and of these limits."""
        # The grant by identity: to compare thousands of tools takes longer than to begin anew.
        is_same = self._text == order.program.text and self._tools is order.tools
        return is_same and pool is self._pool and pool.is_usual(limits)

    def start(self, order: Order) -> None:
        """Let the program run, if the socket takes all of the start at once."""
        # Files may be more than that, and a session may have a guest of its own.
        if self._guest is None or order.files or order.session:
            return
        frame = start_frame(order, has_files=False)
        # Its standard input may be long.
        if len(frame) <= MOST_PREPARED_BYTES and _send_whole(self._guest, frame):
            self._guest.place.set_free()
            self.is_started = True
        else:
            self.discard()

    def take(self, pool: Pool) -> Guest | None:
        """The guest, once, if it is still one of this pool."""
        if pool is not self._pool:
            self.discard()
        guest, self._guest = self._guest, None
        return guest

    def discard(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            self._pool.give_back(guest)


def prepare(pool: Pool | None, text: str, tools: Sequence[ToolSpec], limits: Limits) -> PreparedGuest | None:
    """Tell a parked guest of a program, if there is a core with nothing else to do."""
    # With another program on its way the cores have better things to do.
    if pool is None or pool.zygote.closed or not pool.is_quiet:
        return None
    if len(text) > MOST_PREPARED_BYTES or not pool.is_usual(limits):
        return None
    frame = program_frame(text, tools)
    if len(frame) > MOST_PREPARED_BYTES:
        return None
    guest = pool.take(limits)
    # Before it is woken: on our core it would wait until the check is over, which is what this is to avoid.
    guest.place.stay_away()
    if _send_whole(guest, frame):
        return PreparedGuest(pool, guest, text, tools)
    pool.give_back(guest)
    return None


def _send_whole(guest: Guest, frame: bytes) -> bool:
    try:
        return guest.sock.send(frame) == len(frame)
    except OSError:  # it has just died, or its buffer is full
        return False


# ----------------------------------------------------------------------------------------------------
# Whether the host stays awake for the next frame of a guest.
#
# To sleep and be woken costs each side more than most programs and most tools take. So the host looks at the socket a
# little while before it sleeps: after the start of a program that is ready to run, and after it has answered all open
# calls. While it looks, nothing else in this loop gets its turn: so it looks only if no other guest is taken, and
# lets the others have a turn after every 16th frame.

LOOKS_FOR_FIRST: Final = 512
"""Some 400 microseconds: most programs have ended by then, or made their first call."""
FRAMES_IN_A_ROW: Final = 16
"""Then others have their turn of the loop."""


class LookAhead:
    """Estimate of when the next frame of one guest will arrive.

    Args:
        sock: The guest's.
        pool: Whose other guests would have to wait.
        is_started: Its program was ready and has just been told to run.
    """

    def __init__(self, sock: socket.socket, pool: Pool, *, is_started: bool) -> None:
        self._pool = pool
        self._patience = Patience(sock)
        self._looks = LOOKS_FOR_FIRST if is_started else 0
        """How often to look next time; 0 is to sleep at once."""
        self._in_a_row = 0

    @property
    def is_retry(self) -> bool:
        """Whether the next frame is looked for again after looking did not pay for a while."""
        return self._patience.is_retry and not self._pool.is_shared

    def answered(self) -> None:
        """The program has all its replies: it may be as quick with its next call."""
        self._looks = LOOKS

    def is_turn_over(self) -> bool:
        """Whether others have waited long enough; says so once."""
        if self._in_a_row < FRAMES_IN_A_ROW:
            return False
        self._in_a_row = 0
        return True

    def sees(self) -> bool:
        """Whether there is something to read, now or in a moment."""
        # Once only: whoever looks again without a new reason keeps the loop from everybody else.
        looks, self._looks = self._looks, 0
        # With several guests the next frame is as likely another's, and the loop sees all of them.
        if not looks or self._pool.is_shared:
            return False
        self._in_a_row += 1
        return self._patience.sees(looks)


# ----------------------------------------------------------------------------------------------------
# The core on which a waiting guest wakes up.
#
# The kernel wakes a process where it slept, or near whoever wakes it, and there the host has work to do just then:
# the guest would have to wait for it. So the host's core is not for a guest that is about to be woken.


class Placement:
    """Cores on which one guest may run.

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
        ours = current_core()
        if ours != self._avoided and self._process_id():
            self._avoided = ours
            self._confine(ours, is_kept_off=True)

    @contextmanager
    def here(self) -> Iterator[None]:
        """What the guest is sent in this block wakes it on our core, where it runs as soon as we sleep.

        Right after another program: on the other cores its guest is still dying.
        """
        self._confine(current_core(), is_kept_off=False)
        try:
            yield
        finally:
            self.set_free()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """What the guest is sent in this block wakes it on another core than ours, so that both can look at once."""
        self._confine(current_core(), is_kept_off=True)
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
            self._allowed = allowed(pid)
        put(pid, self._allowed - {core} if is_kept_off else self._allowed & {core})

    def set_free(self) -> None:
        put(self._process_id(), self._allowed)

    def _process_id(self) -> int:
        pidfd = self._pidfd()
        if pidfd < 0:
            return 0
        if not self._pid:
            self._pid = pid_of(pidfd)
        return self._pid


# ----------------------------------------------------------------------------------------------------
# The cores that a process may run on, asked and set; `placement` says why. Nothing here fails: a core is a wish.


def allowed(pid: int) -> set[int]:
    """Where that process may run; nothing if it cannot be told, and then it is left alone."""
    try:
        return os.sched_getaffinity(pid) if pid else set()
    except (AttributeError, OSError):  # not Linux; or it is gone, or not ours to ask
        return set()


def put(pid: int, cores: set[int]) -> None:
    """It wakes up on one of these from now on, and stays where it runs if it may."""
    # An empty set would be refused by the kernel; on a machine with one core there is no other to choose.
    try:
        if pid and cores:
            os.sched_setaffinity(pid, cores)
    except OSError:
        # Gone, or not ours to move: then it wakes where the kernel wants.
        return


def _find() -> Callable[[], int]:
    try:
        function: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError, TypeError):  # a C library without it
        return lambda: -1
    return function


current_core = _find()
"""The core that we run on now; the kernel may move us at any time."""
