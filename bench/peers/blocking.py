"""Async tools for peers that only know blocking ones."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from bench.peers.adapters.base import Function


def blocking(tool: Function) -> Callable[..., Any]:
    """The same tool without `await`. One that never waits costs no event loop, which would be unfair."""

    @functools.wraps(tool)
    def call(*args: Any, **kwargs: Any) -> Any:
        coroutine: Any = tool(*args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        except RuntimeError as error:  # it wants an event loop: begin again, with one
            if "no running event loop" not in str(error):
                raise
        coroutine.close()
        again: Any = tool(*args, **kwargs)
        return asyncio.run(again)

    return call
