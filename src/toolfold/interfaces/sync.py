"""`run_sync`: one program from code without an event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from toolfold.models import Outcome
    from toolfold.tools.tool import Tool


# Any: a tool may be any function, and each option of the runtime has its own type.
def run_sync(text: str, tools: Iterable[Tool | Callable[..., Any]] = (), **options: Any) -> Outcome:
    """Run one program from code that is not async; `options` are those of `Runtime`.

    Where an event loop runs already, as in a notebook, the program has one of its own in another thread, and this one
    waits. In async code of your own, `await runtime.run(...)` keeps the loop free.
    """

    async def once() -> Outcome:
        async with Runtime(tools, **options) as runtime:
            return await runtime.run(text)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(once())
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="toolfold-run") as threads:
        return threads.submit(context.run, asyncio.run, once()).result()
