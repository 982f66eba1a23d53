"""The interface of a runner: open it, run programs, close it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self


class CannotDo(Exception):
    """This runner has no way to do that; the text stands in the table."""


class Runner:
    """Runs programs that call the functions in `bench.tools`.

    Only `run` must be written. Enter and leave are for what lives across programs: pools, servers.
    """

    name: ClassVar[str]
    programs_per_process: ClassVar[int] = 1
    """That are paused in each of the processes that `paused` gives."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return

    async def run(self, text: str) -> Any:
        """The program's value. Any exception is an honest answer: its text stands in the table."""
        raise NotImplementedError

    async def run_bash(self, text: str) -> None:
        """The same for a bash program, which has no value."""
        raise CannotDo("runs no bash")

    @asynccontextmanager
    async def paused(self, text: str, count: int) -> AsyncIterator[list[int]]:
        """About that many programs, each waiting for the reply to its call of `ask`; gives their process ids."""
        raise CannotDo("cannot pause a program")
        yield []  # type: ignore[unreachable]  # makes it a generator
