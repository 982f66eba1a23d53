"""Synchronous use: `run_sync`, one program from code without an event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from pathlib import Path

    from toolfold.engines.base import Engine
    from toolfold.events import Listener
    from toolfold.ledger.base import Ledger
    from toolfold.models import Limits, Outcome
    from toolfold.tools.policy import Policy
    from toolfold.tools.tool import Approve, Tool


# Any: a tool may be any function, and each engine has options of its own.
def run_sync(
    text: str, tools: Iterable[Tool | Callable[..., Any]] = (), *, engine: str | Engine = "auto",
    engine_options: Mapping[str, Any] | None = None, limits: Limits | None = None,
    ledger: Ledger | str | Path | None = None, policy: Policy | None = None, approve: Approve | None = None,
    listeners: Sequence[Listener] = (), type_check: bool | None = None,
) -> Outcome:  # fmt: skip
    """Run one program from code that is not async; the keywords are those of `Runtime`.

    Where an event loop runs already, as in a notebook, the program has one of its own in another thread, and this one
    waits. In async code of your own, `await runtime.run(...)` keeps the loop free.
    """

    async def once() -> Outcome:
        runtime = Runtime(
            tools, engine=engine, engine_options=engine_options, limits=limits, ledger=ledger, policy=policy,
            approve=approve, listeners=listeners, type_check=type_check,
        )  # fmt: skip
        async with runtime:
            return await runtime.run(text)

    if running_loop() is None:
        return asyncio.run(once())
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="toolfold-run") as threads:
        return threads.submit(context.run, asyncio.run, once()).result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
