"""The program's event loop: made before the fork, re-entrant, and quiet until the guest sleeps."""

import _thread
import asyncio
import asyncio.tasks
import select
import selectors
import threading
import time
from collections.abc import Coroutine
from typing import Any

from toolfold_guest.channel import QUIET_MILLISECONDS

BUSY_TURNS = 64

_threads = _thread._count
_monotonic = time.monotonic  # the real one, whatever the tape puts in its place


class PollSelector(selectors.BaseSelector):
    """`poll` only: it holds no kernel object, so the loop can be built once, in the zygote."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._poll = select.poll()
        self.loop: Any = None
        self.channel: Any = None
        self._busy_turns = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._keys:
            raise KeyError(f"fd {fd} is registered already")
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._poll.register(fd, (select.POLLIN if events & 1 else 0) | (select.POLLOUT if events & 2 else 0))
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys.pop(fd)
        self._poll.unregister(fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self.unregister(fileobj)
        return self.register(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    def get_map(self) -> Any:
        return self._keys

    def close(self) -> None:
        self._keys.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        milliseconds = None if timeout is None else max(0, int(timeout * 1000 + 0.999))
        tape = self.channel.tape
        if tape is not None:
            return self._select_on_tape(tape, milliseconds)
        if milliseconds != 0 or self._is_busy_for_long():
            self._before_sleep(milliseconds)
        return self._ready(milliseconds)

    def _is_busy_for_long(self) -> bool:
        """True at every 64th turn: a program that spins until a call is done must still send it."""
        self._busy_turns += 1
        return self._busy_turns % BUSY_TURNS == 0

    def _before_sleep(self, milliseconds: int | None) -> None:
        if milliseconds == 0:
            self.channel.send_unsent()
            return
        is_guessing = self.channel.before_sleep()
        if _threads():
            self.loop.make_wakeable()
        if is_guessing and not self._poll.poll(QUIET_MILLISECONDS):
            self.channel.send_calls(waits=True)

    def _ready(self, milliseconds: int | None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for fd, mask in self._poll.poll(milliseconds):
            key = self._keys.get(fd)
            if key is not None:
                events = (1 if mask & ~select.POLLOUT else 0) | (2 if mask & ~select.POLLIN else 0)
                ready.append((key, events & key.events))
        return ready

    def _select_on_tape(self, tape: Any, milliseconds: int | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look for replies only where a replay will look too: when idle, and at every 64th busy turn."""
        if milliseconds == 0 and not self._is_busy_for_long():
            self.loop.after_select(slept=False)
            return []
        self._before_sleep(milliseconds)
        ready: list[tuple[selectors.SelectorKey, int]] = []
        if not tape.is_replaying:
            ready = self._ready(milliseconds)
            if not ready:
                tape.woke(0)
        elif tape.peek_wake():
            ready = [(key, 1) for key in self._keys.values() if key.fd == self.channel.fd]
        else:
            tape.next_wake()
        self.loop.after_select(slept=True)
        return ready


class GuestLoop(asyncio.SelectorEventLoop):
    """One loop for the guest's life. `run_until_complete` works while it runs, as programs expect."""

    def __init__(self) -> None:
        self._ssock = self._csock = None
        self.held_seconds = 0.0
        self._now = 0.0
        self._is_after_select = False
        self.poll_selector: Any = None
        selector = PollSelector()
        super().__init__(selector)
        selector.loop = self
        self.poll_selector = selector

    def time(self) -> float:
        """The clock of timers: it stands still while the execution is paused."""
        tape = self.poll_selector.channel.tape if self.poll_selector is not None else None
        if tape is None:
            return _monotonic() - self.held_seconds
        if self._is_after_select:  # asked once in every turn, for timers that are due
            self._is_after_select = False
        else:
            self._read_clock(tape)
        return self._now

    def after_select(self, *, slept: bool) -> None:
        """A turn on tape: read the clock only if there is a timer to read it for."""
        if slept and self._scheduled:  # type: ignore[attr-defined]  # asyncio's heap of timers
            self._read_clock(self.poll_selector.channel.tape)
        self._is_after_select = True

    def _read_clock(self, tape: Any) -> None:
        now = tape.clock(lambda: _monotonic() - self.held_seconds)
        if now < self._now:
            # The first live read after a replay: timers go on from where they stood.
            self.held_seconds -= self._now - now
            now = self._now
        self._now = now

    # The wake-up pipe costs two descriptors and a reader; a program without threads needs none.

    def _make_self_pipe(self) -> None:
        return

    def make_wakeable(self) -> None:
        if self._ssock is None:
            super()._make_self_pipe()  # type: ignore[misc]  # a private method of asyncio's loop

    def _close_self_pipe(self) -> None:
        if self._ssock is not None:
            super()._close_self_pipe()  # type: ignore[misc]

    def _write_to_self(self) -> None:
        if self._csock is not None:
            super()._write_to_self()  # type: ignore[misc]

    def run_until_complete(self, future: Any) -> Any:
        if not self.is_running():
            return super().run_until_complete(future)
        task = asyncio.ensure_future(future, loop=self)
        outer = asyncio.current_task(self)
        if outer is not None:
            asyncio.tasks._leave_task(self, outer)
        try:
            while not task.done():
                self._run_once()  # type: ignore[attr-defined]
        finally:
            if outer is not None:
                asyncio.tasks._enter_task(self, outer)
        return task.result()

    def close(self) -> None:
        """Programs close the loop they think is theirs; the guest still needs it."""


class Runner:
    """`asyncio.Runner` on the guest's loop."""

    def __init__(self, *, debug: bool | None = None, loop_factory: Any = None) -> None:
        self._debug = debug

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *exc: object) -> None:
        return

    def close(self) -> None:
        return

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return _guest_loop()

    def run(self, coro: Coroutine[Any, Any, Any], *, context: Any = None) -> Any:
        return run(coro)


def install(loop: GuestLoop) -> None:
    """Make `asyncio`'s ways to start a loop lead to the guest's, in the main thread."""
    asyncio.run = run  # type: ignore[assignment]
    asyncio.Runner = Runner  # type: ignore[misc, assignment]
    asyncio.new_event_loop = asyncio.events.new_event_loop = _new_event_loop
    asyncio.as_completed = _as_completed
    asyncio.set_event_loop(loop)
    _state["loop"] = loop
    _state["thread"] = threading.get_ident()


_state: dict[str, Any] = {}
_asyncio_run, _asyncio_new_event_loop = asyncio.run, asyncio.new_event_loop
_asyncio_as_completed = asyncio.as_completed


def _guest_loop() -> GuestLoop:
    loop: GuestLoop = _state["loop"]
    return loop


def _is_main() -> bool:
    return threading.get_ident() == _state["thread"]


def run(main: Coroutine[Any, Any, Any], *, debug: bool | None = None, loop_factory: Any = None) -> Any:
    """`asyncio.run` that also works where a loop runs already, as it always does here."""
    if not _is_main():
        return _asyncio_run(main, debug=debug)
    if not asyncio.iscoroutine(main):
        raise ValueError(f"a coroutine was expected, got {main!r}")
    return _guest_loop().run_until_complete(main)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    return _guest_loop() if _is_main() else _asyncio_new_event_loop()


def _as_completed(fs: Any, *, timeout: float | None = None) -> Any:
    """Starts its tasks in the order given; asyncio's own takes them from a set, by address."""
    return _asyncio_as_completed([asyncio.ensure_future(future) for future in fs], timeout=timeout)
