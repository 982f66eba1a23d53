"""The pages of a list, one call after the other; how a page is asked for is an ordinary call of the tool."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

NEXT_PAGE = "next_query"
"""The argument of tools that answer page by page: what their reply, asked for with `with_response`, calls `next`."""


class Pages:
    """For `async for` and for `for`; each page is read when it is asked for.

    `ways` make the tool as a function to await, and as one that waits.
    """

    def __init__(
        self, ways: tuple[Callable[[], Any], Callable[[], Any]], /, *args: Any, max_pages: int = 100, **kwargs: Any
    ) -> None:
        self._awaitable, self._blocking = ways
        self._args, self._kwargs, self._max_pages = args, kwargs, max_pages

    async def __aiter__(self) -> AsyncIterator[Any]:
        call, following = self._awaitable(), dict[str, str]()
        for _ in range(self._max_pages):
            reply = await call(*self._args, **self._kwargs, **following, with_response=True)
            yield reply["body"]
            if not reply["next"]:
                return
            following = {NEXT_PAGE: reply["next"]}

    def __iter__(self) -> Iterator[Any]:
        call, following = self._blocking(), dict[str, str]()
        for _ in range(self._max_pages):
            reply = call(*self._args, **self._kwargs, **following, with_response=True)
            yield reply["body"]
            if not reply["next"]:
                return
            following = {NEXT_PAGE: reply["next"]}
