"""Whether the host stays awake for the next frame of a guest.

To sleep and be woken costs each side more than most programs and most tools take. So the host looks at the socket a
little while before it sleeps: after the start of a program that is ready to run, and after it has answered all open
calls. While it looks, nothing else in this loop gets its turn: so it looks only if no other guest is taken, and
lets the others have a turn after every 16th frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolfold_guest.shared.polling import LOOKS, Patience

if TYPE_CHECKING:
    import socket

    from toolfold.engines.process.pool import Pool

LOOKS_FOR_FIRST: Final = 512
"""Some 400 microseconds: most programs have ended by then, or made their first call."""
FRAMES_IN_A_ROW: Final = 16
"""Then others have their turn of the loop."""


class LookAhead:
    """What is known of when the next frame of one guest will come.

    Args:
        sock: The guest's.
        pool: Whose other guests would have to wait.
        is_started: Its program was ready and has just been told to run.
    """

    def __init__(self, sock: socket.socket, pool: Pool, *, is_started: bool) -> None:
        self._pool = pool
        self._patience = Patience(sock)
        self._looks = LOOKS_FOR_FIRST if is_started else 0
        """How often to look next time; 0 is to sleep at once."""
        self._in_a_row = 0

    @property
    def is_retry(self) -> bool:
        """Whether the next frame is looked for again after looking did not pay for a while."""
        return self._patience.is_retry and not self._pool.is_shared

    def answered(self) -> None:
        """The program has all its replies: it may be as quick with its next call."""
        self._looks = LOOKS

    def is_turn_over(self) -> bool:
        """Whether others have waited long enough; says so once."""
        if self._in_a_row < FRAMES_IN_A_ROW:
            return False
        self._in_a_row = 0
        return True

    def sees(self) -> bool:
        """Whether there is something to read, now or in a moment."""
        # Once only: whoever looks again without a new reason keeps the loop from everybody else.
        looks, self._looks = self._looks, 0
        # With several guests the next frame is as likely another's, and the loop sees all of them.
        if not looks or self._pool.is_shared:
            return False
        self._in_a_row += 1
        return self._patience.sees(looks)
