"""Memory of answers: repeated for a request that is sent again, until newer ones need the room.

What is forgotten is in the ledger. An answer is whatever an interface renders.
"""

from __future__ import annotations

import asyncio
import hmac
import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

A = TypeVar("A")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedMemory(Generic[K, V]):
    """Values by key; the oldest make room for new ones.

    Args:
        most: Number of values.
        most_bytes: Of all values, as whoever puts them in measures them.
    """

    def __init__(self, most: int, most_bytes: float = math.inf) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: dict[K, tuple[V, int]] = {}

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def values(self) -> list[V]:
        return [value for value, _ in self._entries.values()]

    def put(self, key: K, value: V, size: int = 0) -> list[V]:
        """Add a value as the newest; returns those that had to go."""
        self.pop(key)
        self._entries[key] = value, size
        self._bytes += size
        removed: list[V] = []
        while len(self._entries) > self._most or self._bytes > self._most_bytes:
            oldest, old_size = self._entries.pop(next(iter(self._entries)))
            self._bytes -= old_size
            removed.append(oldest)
        return removed

    def pop(self, key: K) -> V | None:
        value, size = self._entries.pop(key, (None, 0))
        self._bytes -= size
        return value


class RoundAnswer(NamedTuple, Generic[A]):
    """The last answer of an execution, and the request that it answers."""

    round: int
    """0 for a start that may be sent again."""
    digest: bytes
    """Of what the client sent."""
    answer: A


class KeyReused(Exception):
    """The key came with another request before."""


class AnswerInterrupted(Exception):
    """The request that was to make the answer was cut off."""


@dataclass(frozen=True, slots=True)
class _KeyedAnswer(Generic[A]):
    request: str
    answer: asyncio.Future[A]


class KeyedAnswers(Generic[K, A]):
    """One answer per key, made by the first request that has it; the others wait for that one.

    Args:
        size: Bytes of an answer; `None` for one that another process remembers.
    """

    def __init__(self, size: Callable[[A], int | None], *, most: int = 2000, most_bytes: float = math.inf) -> None:
        self._size = size
        self._pending: dict[K, _KeyedAnswer[A]] = {}
        self._answers: BoundedMemory[K, _KeyedAnswer[A]] = BoundedMemory(most, most_bytes)

    async def answer(self, key: K, request: str, make: Callable[[], Awaitable[A]]) -> A:
        """The answer to `request`, made at most once; a failure is not remembered, so the key may be sent again.

        Raises:
            KeyReused: Another request had this key.
            AnswerInterrupted: The first request with this key was cut off.
        """
        entry = self._pending.get(key) or self._answers.get(key)
        if entry is not None:
            if not hmac.compare_digest(entry.request, request):
                raise KeyReused
            return await asyncio.shield(entry.answer)
        entry = self._pending[key] = _KeyedAnswer(request, asyncio.get_running_loop().create_future())
        try:
            answer = await make()
        except BaseException as error:
            entry.answer.set_exception(error if isinstance(error, Exception) else AnswerInterrupted())
            entry.answer.exception()  # nobody has to ask for it
            raise
        finally:
            del self._pending[key]
        entry.answer.set_result(answer)
        if (size := self._size(answer)) is not None:
            self._answers.put(key, entry, size)
        return answer


@dataclass(frozen=True, slots=True)
class AnswerTask(Generic[A]):
    """An answer under way, or given, in a task that belongs to no request."""

    tenant: str
    session: str
    task: asyncio.Task[A]

    @property
    def answer(self) -> A | None:
        """`None` before there is one, and after a failure."""
        task = self.task
        return task.result() if task.done() and not task.cancelled() and task.exception() is None else None


class AnswerTasks(Generic[A]):
    """Answers by execution, each made in a task of its own; the oldest that are given make room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[str, AnswerTask[A]] = {}

    def get(self, execution_id: str) -> AnswerTask[A] | None:
        return self._entries.get(execution_id)

    def begin(self, execution_id: str, tenant: str, session: str, work: Coroutine[object, None, A]) -> AnswerTask[A]:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody has to ask for it
        self._entries.pop(execution_id, None)
        entry = self._entries[execution_id] = AnswerTask(tenant, session, task)
        done = [key for key, other in self._entries.items() if other.task.done()]
        for key in done[: max(0, len(done) - self._most)]:
            del self._entries[key]
        return entry

    def forget(self, execution_id: str) -> None:
        """Drop an answer that is out of date; one under way stays."""
        if (entry := self._entries.get(execution_id)) is not None and entry.task.done():
            del self._entries[execution_id]

    async def close(self) -> None:
        pending = [entry.task for entry in self._entries.values() if not entry.task.done()]
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)
