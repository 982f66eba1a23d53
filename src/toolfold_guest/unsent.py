"""Calls that have not left yet: those made before the event loop sleeps leave together."""

from toolfold_guest.aliases import count_from
from toolfold_guest.inbox import Inbox
from toolfold_guest.outbox import Outbox

SEND_AT_BYTES = 1024 * 1024
SEND_AT_CALLS = 64  # the host serves them while the program makes the next


class UnsentCalls:
    """Gives calls their ids, and says with each frame of them whether the guest waits."""

    def __init__(self, inbox: Inbox, outbox: Outbox) -> None:
        self._inbox, self._outbox = inbox, outbox

    def reset(self) -> None:
        """Another program begins, and so do its ids."""
        self.reports_waiting = False
        """Whether the host wants to know, because the execution can pause."""
        self._told_waiting = -1
        self._ids = count_from(1)
        self._calls: list[str] = []
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, index: int, text: str, line: int) -> int:
        """One more call; its id. With threads about, only under their lock: ids must leave in their order."""
        call_id = next(self._ids)
        self._calls.append(f"[{call_id},{index},{text},{line}]")
        self._bytes += len(text)
        return call_id

    def send_if_many(self) -> None:
        """In parts that the host can serve meanwhile; all of them are still one pause."""
        if self._bytes > SEND_AT_BYTES or len(self._calls) >= SEND_AT_CALLS:
            self.send(waits=False)

    @property
    def is_waiting_news(self) -> bool:
        """Whether the host wants to hear that the guest waits, and has not since the last reply."""
        return self.reports_waiting and self._told_waiting != self._inbox.seen

    def send(self, *, waits: bool) -> None:
        """All of them in one frame, with what a replay needs to know."""
        # Taken first: a print while the frame is being made may send another.
        calls, self._calls, self._bytes = self._calls, [], 0
        seen = -1
        if waits and self.reports_waiting:
            seen = self._told_waiting = self._inbox.seen
        tape = self._inbox.tape
        self._outbox.send_calls(calls, seen, "null" if tape is None else tape.take())
