"""Adaptive polling: stay awake for a message that is about to come.

To sleep and be woken costs each side more than most tools take. So after a message that the other side answers
quickly, look for its answer a little while before sleeping; whoever looks in vain looks less and less often,
so that a machine with no core to spare, and a program with slow tools, lose next to nothing.
"""

import os
from typing import Any

from toolfold_guest.stdlib_names import POLLIN, new_poll

LOOKS = 128
FEWEST_SKIPS = 2
MOST_SKIPS = 4096
HAS_OTHER_CORE = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
"""Without one, the other side cannot send anything while this one looks."""


class Patience:
    """One end of a socket, and how well it paid of late to look at it."""

    __slots__ = ("_penalty", "_skips", "is_retry", "poll")

    def __init__(self, sock: Any) -> None:
        poll = new_poll()
        poll.register(sock, POLLIN)
        self.poll = poll.poll
        self._skips = 0 if HAS_OTHER_CORE else 1 << 62
        self._penalty = FEWEST_SKIPS
        self.is_retry = False
        """The last look was in vain, and the next message is looked for again."""

    def sees(self, looks: int = LOOKS) -> bool:
        """True as soon as there is something to read; false at once where looking did not pay."""
        # Looking did not pay of late: let some messages pass before the next try.
        if self._skips:
            self._skips -= 1
            self.is_retry = not self._skips
            return False
        poll = self.poll
        for _ in range(looks):
            if poll(0):
                self._penalty = FEWEST_SKIPS
                self.is_retry = False
                return True
        # In vain: pause twice as long as the last time.
        self._skips = self._penalty
        self._penalty = min(2 * self._penalty, MOST_SKIPS)
        self.is_retry = False
        return False
