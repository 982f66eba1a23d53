"""Stop signals of a server."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on SIGINT and SIGTERM, so that guests and bridged servers end before this process."""
    remove = add_signal_handlers(asyncio.get_running_loop(), lambda _: stop())
    try:
        yield
    finally:
        remove()


def add_signal_handlers(loop: asyncio.AbstractEventLoop, stop: Callable[[int], object]) -> Callable[[], None]:
    """Call `stop` with the number of each SIGINT and SIGTERM, on the loop; what it returns removes the handlers."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    if sys.platform == "win32":  # its loops take no handlers
        earlier = [
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(stop, number)) for number in numbers
        ]
    else:
        for number in numbers:
            loop.add_signal_handler(number, stop, number)

    def remove() -> None:
        for index, number in enumerate(numbers):
            if sys.platform == "win32":
                signal.signal(number, earlier[index])
            else:
                loop.remove_signal_handler(number)

    return remove
