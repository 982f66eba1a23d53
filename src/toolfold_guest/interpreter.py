"""What a program finds changed in its interpreter so that it notices nothing of ours. Called once, in the zygote."""

import functools
import signal
import sys
from typing import Any

from toolfold_guest.output import Stream

OWN_FRAMES = 11
"""Below the first frame of a program that awaits nothing."""


def heed_signals(streams: tuple[Stream, Stream]) -> None:
    """The host asks for last words with SIGTERM: a program that will not hear it is heard at once instead."""
    block, handle = signal.pthread_sigmask, signal.signal

    def print_at_once() -> None:
        for stream in streams:
            stream.flush()
            stream.reconfigure(line_buffering=True)

    def pthread_sigmask(how: Any, mask: Any) -> Any:
        before = block(how, mask)
        if signal.SIGTERM in block(signal.SIG_BLOCK, ()):
            print_at_once()
        return before

    def set_handler(signalnum: Any, handler: Any) -> Any:
        before = handle(signalnum, handler)
        if signalnum == signal.SIGTERM:
            print_at_once()
        return before

    signal.pthread_sigmask = functools.update_wrapper(pthread_sigmask, block)
    signal.signal = functools.update_wrapper(set_handler, handle)


def count_own_frames() -> None:
    """A program may go as deep as under the interpreter alone, and is told the limit that it knows."""
    get, put = sys.getrecursionlimit, sys.setrecursionlimit

    def getrecursionlimit() -> int:
        return get() - OWN_FRAMES

    def setrecursionlimit(limit: int, /) -> None:
        put(limit + OWN_FRAMES if limit > 0 else limit)

    # The real limit is higher by what our own frames take, so a program gets all that it is promised.
    put(get() + OWN_FRAMES)
    sys.getrecursionlimit = functools.update_wrapper(getrecursionlimit, get)
    sys.setrecursionlimit = functools.update_wrapper(setrecursionlimit, put)
