"""The interface of an adapter: open it with tools, run programs, close it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

Function = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program gave back to whoever sent it."""

    value: Any
    stdout: str = ""


class Adapter:
    """One peer in its best documented set-up, warm. Only `run` must be written."""

    def __init__(self, tools: Sequence[Function], *, with_files: bool = False) -> None:
        """Asked `with_files`, it lets programs write files where it has a way to."""
        self.tools = {tool.__name__: tool for tool in tools}
        self.with_files = with_files

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return

    def spell(self, text: str) -> str:
        """The program with its tool calls and its result written as this peer's documentation writes them."""
        return text

    async def run(self, text: str) -> Ran:
        """A program, in names of its own. Any exception is an honest answer: its text stands in the table."""
        raise NotImplementedError
