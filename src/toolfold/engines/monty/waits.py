"""Where a program on Monty stands still: it takes replies, lets timers run out, and can be frozen.

Everything that reaches the program comes through one inbox, which any thread may fill; the thread that drives
the program is the only one that reads it.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from toolfold.engines.base import Called
from toolfold.engines.monty.calls import Calls
from toolfold.engines.monty.clock import Clock, Timers
from toolfold.engines.monty.outbox import Outbox
from toolfold.engines.monty.tape import MontyTape, timer_of
from toolfold.engines.monty.worker import StoppedError
from toolfold.models import Reply

# Any: Monty's classes are known only once the optional package is there.
Step: TypeAlias = Any
"""A moment at which Monty hands control to the host: a snapshot of the program."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """Asks for the program as bytes; answered with `None` if it went on since it last said that it waits."""

    answer: Callable[[bytes | None], None]


Message: TypeAlias = Reply | Freeze | Literal["stop", "look", "due"]
"""`look`: the clock was stopped or started; `due`: it has gone ahead; timers come before later replies."""


class Waits:
    """The program's waits for replies and for its clock."""

    def __init__(
        self,
        calls: Calls,
        outbox: Outbox,
        tape: MontyTape,
        *,
        snapshot: Callable[[Step, int], bytes],
        report_waiting: bool,
    ) -> None:
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self._calls, self._outbox, self._tape = calls, outbox, tape
        self._snapshot = snapshot
        self._report_waiting = report_waiting
        self._told = (-1, -1)
        """The replies and calls at the last `Waiting`, which is said once for each standstill."""
        self._at: tuple[Step, int] | None = None
        """Where the program stands, and our id of the synchronous call that it stands in; `None` while it runs."""

    def until(self, step: Step, is_ready: Callable[[], bool], call_id: int = 0) -> None:
        """Take replies and let timers run out until there is something to go on with."""
        self._outbox.post_tape()
        if unsent := self._calls.take_unsent():
            self._outbox.post(Called(*unsent))
        self._at = (step, call_id)
        if self._tape.is_playing:
            self._wake_as_before()
        else:
            self._take_what_is_there()
        while not is_ready():
            self._tell()
            self._take(self.timers.next)
            self._take_what_is_there()
        self._at = None
        self._tape.woke()

    def sleep(self, seconds: float) -> None:
        """`time.sleep`: nothing in the program goes on meanwhile; in a replay it takes no time."""
        until = self.clock.now() + seconds
        while self.clock.now() < until and not self._tape.is_playing:
            self._take(until)

    def _wake_as_before(self) -> None:
        """Take exactly what woke the program when it was recorded, so that it goes on in the same order."""
        for part in self._tape.next_parts():
            timer = timer_of(part)
            if timer is not None:
                self._calls.settle(timer, self.timers.take(timer))
                continue
            before = self._calls.seen
            while self._calls.seen < before + part:
                self._take(None)

    def _take_what_is_there(self) -> None:
        while not self.inbox.empty():
            self._take(None)
        self._let_run_out()

    def _let_run_out(self) -> None:
        while (due := self.timers.due()) is not None:
            call_id, error = due
            self._tape.timed(call_id)
            self._calls.settle(call_id, error)

    def _take(self, until: float | None) -> None:
        """The next message, or nothing if the clock gets there first."""
        try:
            message = self.inbox.get(timeout=self.clock.seconds_to(until))
        except queue.Empty:
            return
        if message == "stop":
            raise StoppedError
        if message == "due":
            self._let_run_out()
        elif isinstance(message, Freeze):
            message.answer(self._frozen())
        elif isinstance(message, Reply) and self._calls.take(message):
            self._tape.replied()

    def _tell(self) -> None:
        state = (self._calls.seen, self._calls.made)
        if self._report_waiting and self._calls.open and self._told != state:
            self._told = state
            self._outbox.post_waiting(self._calls.seen)

    def _frozen(self) -> bytes | None:
        if self._at is None:
            self.clock.release()  # it is in the middle of a `time.sleep`
        has_news = self._outbox.has_news or self._tape.has_news or self._tape.is_playing
        if self._at is None or has_news:
            self._told = (-1, -1)  # whoever asked must hear again when it waits
            return None
        return self._snapshot(*self._at)
