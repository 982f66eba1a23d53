"""Replies on their way to a guest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from toolfold.models import Reply
from toolfold.protocol.codec import encode_reply

if TYPE_CHECKING:
    from collections.abc import Callable

_FRAME_SLACK_BYTES: Final = 4096
"""Of a reply's frame, besides its value: the router has measured that as JSON, and this is `marshal`."""


class Replies:
    """The open calls of one program, and their replies: those of one turn of the loop leave together.

    Args:
        write: Takes what is to be sent.
        all_answered: Told when the program waits for nothing any more.
        max_bytes: Of one reply; the program gets an error instead of a larger one.
    """

    def __init__(self, write: Callable[[bytes], None], all_answered: Callable[[], None], max_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._all_answered = all_answered
        self._max_bytes = max_bytes
        self._open_calls = 0
        self.early: list[Reply] = []
        """Those that were there before their calls, in a replay."""
        self._batch: list[bytes] = []

    def expect(self, count: int) -> None:
        """The program made that many calls."""
        self._open_calls += count

    def add(self, reply: Reply) -> None:
        """The reply to one of them."""
        # The router has cut replies to size; this is for engines that are used without it.
        frame = encode_reply(reply)
        if len(frame) > self._max_bytes + _FRAME_SLACK_BYTES:
            text = f"a reply of {len(frame)} bytes; the limit is {self._max_bytes}"
            frame = encode_reply(Reply(call_id=reply.call_id, error=text))
        self._open_calls -= 1
        self._batch.append(frame)
        # Less than none: a replay gives its replies first.
        if self._open_calls <= 0:
            if self._open_calls == 0:
                self._all_answered()
            else:
                self.early.append(reply)
            self._flush()
        elif len(self._batch) == 1:
            self._flush_soon()

    def _flush_soon(self) -> None:
        # More may come in this turn of the loop: one message for all of them is one wake-up.
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._batch:
            batch, self._batch = self._batch, []
            self._write(batch[0] if len(batch) == 1 else b"".join(batch))
