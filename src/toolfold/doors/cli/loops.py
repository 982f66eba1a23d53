"""Event loops of commands. Not `asyncio.run`: that waits for the threads of tools that do not come back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolfold.doors.cli.exits import Exit

_T = TypeVar("_T")


# Any: what a coroutine yields and is sent is asyncio's business.
def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run this, and then what is left in the loop."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(work)
    finally:
        _close(loop)


# Any: what a coroutine yields and is sent is asyncio's business.
def until_stopped(work: Coroutine[Any, Any, _T]) -> _T | int:
    """Run to the end, or to SIGINT or SIGTERM: then the exit code, with the program cancelled."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    caught: list[int] = []

    def stop(number: int) -> None:
        if caught:
            # The second time means now. The guests end with our side of their sockets.
            os._exit(128 + number)
        caught.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        outcome = loop.run_until_complete(task)
        return 128 + caught[0] if caught else outcome
    except asyncio.CancelledError:
        return 128 + caught[0] if caught else Exit.INTERRUPTED
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
