"""What a program kept out of a model's context, against the same calls made directly.

One method for `Outcome.context_saved` and for `make bench-savings`; `docs/savings.md` has it in words.
Sizes are plain numbers here: bytes in an outcome, tokens in the benchmark. Must not know engines or doors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from toolfold.models import CallRecord, ContextSaved
from toolfold.tools.shape import json_size

ENTRY_NAME: Final = "execute_program"
"""What a program is sent to a model's host with, in most doors; its size is counted as such a call."""
BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request in which a model asks for calls, and what it is told then."""

    written: int
    """Size of the calls: each one's name and its arguments as JSON."""
    read: int
    """Size of the replies, or of what a program showed."""

    @property
    def size(self) -> int:
        """What the context grows by."""
        return self.written + self.read


def exchange(calls: Iterable[tuple[int, int]]) -> Exchange:
    """Calls that go out in one request, each as its own size and its reply's."""
    written = read = 0
    for call, reply in calls:
        written += call
        read += reply
    return Exchange(written=written, read=read)


class Conversation:
    """What a provider counts while a model works: each request reads again all that was before it.

    Args:
        opening: Size of the instructions and tool definitions, which every request carries.
    """

    def __init__(self, opening: int) -> None:
        self.requests = 0
        self.read = 0
        """Input of all requests."""
        self.cached = 0
        """The part of `read` that the request before had already, as a prompt cache sees it."""
        self.written = 0
        """Output of all requests."""
        self.context = opening
        self._known = 0

    def say(self, size: int) -> None:
        """A user's message; it is read with the next request."""
        self.context += size

    def ask(self, step: Exchange) -> None:
        """One request for calls, and the replies to them."""
        self._request(step.written)
        self.context += step.read

    def answer(self, size: int) -> None:
        """The request that ends a turn: the model writes to the user."""
        self._request(size)

    def _request(self, written: int) -> None:
        self.requests += 1
        self.read += self.context
        self.cached += self._known
        self.written += written
        self._known = self.context
        self.context += written


def context_saved(
    calls: Iterable[CallRecord], *, code_bytes: int, shown_bytes: int, is_finished: bool = True
) -> ContextSaved:
    """Of one execution. Negative where the program was larger than what it replaced.

    The baseline is the best that direct calls can do: all of them in one parallel request, so that each
    call and each reply enters the context once. A program that did not finish has replaced nothing.
    """
    # Plain sums of what `exchange` keeps apart: there is one of these for every program.
    replaced = sum([len(call.name) + call.bytes_in + call.bytes_out for call in calls]) if is_finished else 0
    saved = replaced - (len(ENTRY_NAME) + code_bytes + shown_bytes)
    return ContextSaved(tokens=round(saved / BYTES_PER_TOKEN), bytes=saved)


def code_size(text: str) -> int:
    """Of a program as the argument of a call, in bytes."""
    try:
        return json_size({"code": text})
    except UnicodeEncodeError:  # lone surrogates: the check has refused it, but it was written all the same
        return json_size({"code": text.encode(errors="replace").decode()})
