"""Tasks that run at once, up to their first wait: a call that needs no wait then needs no turn of the loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

if sys.version_info >= (3, 12):

    def start(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that has begun, and may have ended."""
        return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), eager_start=True)

else:
    from asyncio.tasks import _current_tasks, _enter_task, _leave_task  # type: ignore[attr-defined]  # not in typeshed

    def start(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that has begun, and may have ended.

        Python 3.11 has no way to ask for that. A new task gives its first step to `call_soon`: it is taken there.
        """
        loop = asyncio.get_running_loop()
        steps: list[tuple[Callable[[], object], Context]] = []

        def take(step: Callable[[], object], *, context: Context) -> None:
            steps.append((step, context))

        loop.call_soon = take  # type: ignore[assignment, method-assign]  # for the next line only
        try:
            task = asyncio.Task(coroutine, loop=loop)
        finally:
            del loop.call_soon  # the class's own again
        around = _current_tasks.get(loop)  # what `current_task` looks up, and this is on the way of every call
        if around is not None:
            _leave_task(loop, around)
        try:
            (step, context), *_ = steps
            context.run(step)
        finally:
            if around is not None:
                _enter_task(loop, around)
        return task
