"""How messages get to a node and back. Knows nothing of Ray, nor of what the messages say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_ON_THEIR_WAY: Final = 4
LISTENERS: Final = 2
"""While one message comes in, the next may be on its way."""


class Mailbox(Protocol):
    """Brings messages by itself, and takes them without a wait."""

    is_full: bool
    """Further messages should be gathered, until there is room."""

    def attach(self, hear: Callable[[bytes], None], lose: Callable[[str], None], has_room: Callable[[], None]) -> None:
        """From now on messages go to `hear`; `lose` is told why none comes any more."""

    def write(self, number: int, body: bytes) -> None:
        """Send one."""

    def detach(self) -> None:
        """Bring nothing more."""


class Asked(Protocol):
    """A way that has to be asked for each message. Raises whatever it likes: the node is lost then."""

    async def send(self, number: int, body: bytes) -> None: ...
    async def listen(self) -> bytes: ...


class AskingMailbox:
    """A `Mailbox` out of a way that has to be asked."""

    def __init__(self, asked: Asked) -> None:
        self.is_full = False
        self._asked = asked
        self._on_their_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._lose: Callable[[str], None] | None = None
        self._has_room: Callable[[], None] | None = None

    def attach(self, hear: Callable[[bytes], None], lose: Callable[[str], None], has_room: Callable[[], None]) -> None:
        """Ask for messages, again and again."""
        self._lose, self._has_room = lose, has_room
        for _ in range(LISTENERS):
            self._begin(self._listen(hear, lose))

    def write(self, number: int, body: bytes) -> None:
        """Send one."""
        self._on_their_way += 1
        self.is_full = self._on_their_way >= MOST_ON_THEIR_WAY
        self._begin(self._send(number, body))

    def detach(self) -> None:
        """Bring nothing more."""
        self._lose = self._has_room = None
        for task in self._tasks:
            task.cancel()

    # a coroutine of any kind
    def _begin(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[call-overload]  # see above
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, hear: Callable[[bytes], None], lose: Callable[[str], None]) -> None:
        try:
            while self._lose is not None:
                hear(await self._asked.listen())
        # Whatever the transport raises means one thing.
        except Exception as error:  # noqa: BLE001
            lose(_said(error))

    async def _send(self, number: int, body: bytes) -> None:
        try:
            await self._asked.send(number, body)
        # As above.
        except Exception as error:  # noqa: BLE001
            if self._lose is not None:
                self._lose(_said(error))
            return
        self._on_their_way -= 1
        self.is_full = False
        if self._has_room is not None:
            self._has_room()


def _said(error: BaseException) -> str:
    # Ray's texts are pages long; the first line says what happened.
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
