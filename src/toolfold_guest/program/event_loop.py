"""Event loop of the program: made before the fork, re-entrant, and quiet until the guest sleeps."""

import asyncio
import asyncio.selector_events
import asyncio.tasks
import contextlib
import selectors
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from toolfold_guest.calls.channel import QUIET_SECONDS
from toolfold_guest.stdlib_names import thread_count

BUSY_TURNS = 64

_monotonic = time.monotonic  # the real one, whatever the tape puts in its place

# Python 3.12 and later send what did not fit at once with `sendmsg`, which no guest may call; else with `send`.
vars(asyncio.selector_events)["_HAS_SENDMSG"] = False


class GuestSelector(selectors.PollSelector):
    """`poll` holds no kernel object, so the loop can be built once, in the zygote."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: Any = None
        self.channel: Any = None
        self.busy_turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # A replay must look where the first run looked: its tape says what each look saw.
        tape = self.channel.inbox.tape
        if tape is not None and (self.loop is _state["loop"] or _is_main()):
            return self._select_on_tape(tape, timeout)
        if timeout is None or timeout > 0 or self._is_busy_for_long():
            self._before_sleep(timeout)
        return self.look(timeout)

    def look(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """The wait itself."""
        return super().select(timeout)

    def _is_busy_for_long(self) -> bool:
        """True at every 64th turn: a program that spins until a call is done must still send it."""
        self.busy_turns += 1
        return self.busy_turns % BUSY_TURNS == 0

    def _before_sleep(self, timeout: float | None) -> None:
        if timeout is not None and timeout <= 0:
            self.channel.send_unsent()
            return
        # The last moment at which calls can leave together; whoever sleeps now waits for their replies.
        is_guessing = self.channel.before_sleep()
        if thread_count():
            self.loop.make_wakeable()
        if is_guessing and not self.look(QUIET_SECONDS):
            self.channel.unsent.send(waits=True)

    def _select_on_tape(self, tape: Any, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look for replies only where a replay will look too: when idle, and at every 64th busy turn."""
        if timeout is not None and timeout <= 0 and not self._is_busy_for_long():
            self.loop.after_select(slept=False)
            return []
        if timeout is None or timeout > 0:
            self.busy_turns = 0  # timers that ran out in a pause have their turns before the next look
        self._before_sleep(timeout)
        ready: list[tuple[selectors.SelectorKey, int]] = []
        if not tape.is_replaying:
            ready = self._read_already() or self.look(timeout)
            if not ready:
                tape.woke(0)
        elif tape.peek_wake():
            ready = [(self.get_key(self.channel.inbox.fd), selectors.EVENT_READ)]
        else:
            tape.next_wake()
        self.loop.after_select(slept=True)
        return ready

    def _read_already(self) -> list[tuple[selectors.SelectorKey, int]]:
        """A replay gets its replies at once; those past the end of its tape are here, and the socket is silent."""
        if not self.channel.inbox.has_whole_message():
            return []
        key = self.get_map().get(self.channel.inbox.fd)
        return [] if key is None else [(key, selectors.EVENT_READ)]


class GuestLoop(asyncio.SelectorEventLoop):
    """One loop for the guest's life. `run_until_complete` works while it runs, as programs expect."""

    _task_factory: Any
    _debug: bool
    _closed: bool

    selector_type = GuestSelector

    def __init__(self) -> None:
        self._ssock: Any = None
        self._csock: Any = None
        self.held_seconds = 0.0
        self.task_count = 0
        self._now = 0.0
        self._is_after_select = False
        self.poll_selector: Any = None
        selector = self.selector_type()
        super().__init__(selector)
        selector.loop = self
        self.poll_selector = selector

    def create_task(self, coro: Any, *, name: Any = None, **options: Any) -> Any:
        """Named in the order of this program's tasks, whatever ran before it."""
        self.task_count += 1
        name = name or f"Task-{self.task_count}"
        if options or self._task_factory or self._debug or self._closed:
            return super().create_task(coro, name=name, **options)
        return asyncio.Task(coro, loop=self, name=name)  # as there, without what these would need

    def time(self) -> float:
        """The clock of timers: it stands still while the execution is paused."""
        tape = self.poll_selector.channel.inbox.tape if self.poll_selector is not None else None
        if tape is None:
            return _monotonic() - self.held_seconds
        # Asked once in every turn, for timers that are due.
        if self._is_after_select:
            self._is_after_select = False
        else:
            self._read_clock(tape)
        return self._now

    def after_select(self, *, slept: bool) -> None:
        """A turn on tape: read the clock only if there is a timer to read it for."""
        if slept and self._scheduled:  # type: ignore[attr-defined]  # asyncio's heap of timers
            self._read_clock(self.poll_selector.channel.inbox.tape)
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
            if self._ready:  # type: ignore[attr-defined]  # a thread was quicker than the pipe: do not sleep
                self._write_to_self()

    def _close_self_pipe(self) -> None:
        if self._ssock is not None:
            super()._close_self_pipe()  # type: ignore[misc]  # the same

    def _write_to_self(self) -> None:
        if self._csock is not None:
            super()._write_to_self()  # type: ignore[misc]  # the same

    def run_until_complete(self, future: Any) -> Any:
        if not self.is_running():
            return super().run_until_complete(future)
        task = asyncio.ensure_future(future, loop=self)
        self._run_while(lambda: not task.done())
        return task.result()

    def _check_running(self) -> None:
        """Another loop may run in this thread: it stands still while this one runs."""
        if self.is_running():
            raise RuntimeError("This event loop is already running")

    def run_forever(self) -> None:
        """Also where it, or another loop of this thread, runs already."""
        outer = _running_loop()
        # Nearly always: with as few look-ups as can be, see `toolfold_guest.stdlib_names`.
        if outer is None:
            _run_forever(self)
            return
        if outer is self:
            self._run_while(lambda: not self._stopping)
            self._stopping = False
            return
        # asyncio allows one running loop per thread; programs call `asyncio.run` inside of ours all the same.
        with _without_current_task(outer):
            asyncio._set_running_loop(None)
            try:
                super().run_forever()
            finally:
                asyncio._set_running_loop(outer)

    def _run_while(self, goes_on: Callable[[], bool]) -> None:
        with _without_current_task(self):
            while goes_on():
                self._run_once()  # type: ignore[attr-defined]  # a private method of asyncio's loop

    # Of both below: typeshed ties the arguments to the callback's; they are only handed on here.

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """The interpreter wakes the loop through its pipe."""
        self.make_wakeable()
        super().add_signal_handler(sig, callback, *args)

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if self is not _state.get("loop"):
            # Whoever calls may be the first to know that there are threads.
            self.make_wakeable()
        return super().call_soon_threadsafe(*args, **kwargs)

    def close(self) -> None:
        """Programs close the loop they think is theirs; the guest still needs its own."""
        if self is not _state.get("loop"):
            super().close()


@contextlib.contextmanager
def _without_current_task(loop: Any) -> Iterator[None]:
    """The task that waits for an inner run is not the current one while that runs; since Python 3.14 of no loop."""
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    try:
        yield
    finally:
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


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
    for name, ours in {"run": run, "Runner": Runner, "as_completed": _as_completed}.items():
        setattr(asyncio, name, ours)
    asyncio.new_event_loop = asyncio.events.new_event_loop = _new_event_loop
    asyncio.set_event_loop(loop)
    _state["loop"] = loop
    _state["thread"] = threading.get_ident()


_state: dict[str, Any] = {}
_asyncio_run = asyncio.run
_running_loop, _run_forever = asyncio._get_running_loop, asyncio.SelectorEventLoop.run_forever
_asyncio_as_completed = asyncio.as_completed


def _guest_loop() -> GuestLoop:
    loop: GuestLoop = _state["loop"]
    return loop


def _is_main() -> bool:
    return bool(threading.get_ident() == _state["thread"])


def run(main: Coroutine[Any, Any, Any], *, debug: bool | None = None, **_: Any) -> Any:
    """`asyncio.run` that also works where a loop runs already, as it always does here."""
    if not _is_main():
        return _asyncio_run(main, debug=debug)
    if not asyncio.iscoroutine(main):
        raise ValueError(f"a coroutine was expected, got {main!r}")
    loop = _guest_loop()
    if loop.task_count == 1:
        # So far only the program's own, which CPython would not have.
        loop.task_count = 0
    tasks, generators = asyncio.all_tasks(loop), set(loop._asyncgens)  # type: ignore[attr-defined]  # asyncio's own list
    try:
        return loop.run_until_complete(main)
    finally:
        _close_new(loop, tasks, generators)


def _close_new(loop: Any, tasks: set[Any], generators: set[Any]) -> None:
    """Cancel the tasks and close the async generators that a run left behind, and none that were there before."""
    new_tasks = asyncio.all_tasks(loop) - tasks
    for task in new_tasks:
        task.cancel()
    if new_tasks:
        loop.run_until_complete(_finished(new_tasks))
    for generator in set(loop._asyncgens) - generators:
        loop.run_until_complete(generator.aclose())


async def _finished(tasks: set[Any]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of the program's own, which can wait for tool calls as the guest's can."""
    loop = GuestLoop()
    loop.poll_selector.channel = _guest_loop().poll_selector.channel
    return loop


def _as_completed(fs: Any, *, timeout: float | None = None) -> Any:
    """Starts its tasks in the order given; asyncio's own takes them from a set, by address."""
    # Each once, as in asyncio, which puts them into a set; by identity, which no object can have an opinion on.
    once = {id(future): future for future in fs}
    return _asyncio_as_completed([asyncio.ensure_future(future) for future in once.values()], timeout=timeout)
