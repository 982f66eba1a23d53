"""Driver of one program on one Monty worker: the worker, the outbox, the waits. Knows no event loop.

Rules:
1. Monty runs until it wants something, hands over a step, and stands still until the step is resumed.
2. The thread reads the inbox and posts events; besides these only the worker's kill is shared with other threads.
3. To stop is to kill the worker and to say so in the inbox; whichever the thread waits for, it wakes.
4. Every future in the program is the host's: calls, sleeps, deadlines and the tickets of semaphores.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

from toolfold.engines.base import Called, Died, Ended, Event, Order, Printed, Waiting
from toolfold.engines.monty.program_state import (
    CLOCKS,
    MontyCalls,
    MontyClock,
    MontyTape,
    OverLimitError,
    Timers,
    Toolbox,
    ended,
    error_text,
    stub,
    time_for,
    timer_of,
)
from toolfold.engines.monty.source_rewrite import prelude, prepare
from toolfold.engines.monty.values import FOLDER, DataFolder, MediaBox, MontyState, decode, encode, plain
from toolfold.models import MIB, Call, Problem, Program, Reply
from toolfold.tools.sendable_values import json_size
from toolfold_guest.shared.call_style import MOST_NOTES, MOST_UNMADE, describe_calls, parallel_hints

# ----------------------------------------------------------------------------------------------------
# The worker process of one program, which any thread can kill. Knows nothing of what runs there.

_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no other way to end a process


class StoppedError(Exception):
    """The run was stopped; `Worker.last` has the event that says how."""


class Worker:
    """Whether the program may go on, and the process to kill if it may not.

    One lock guards all of it: a process id may be given to another process as soon as the pool has reaped ours,
    so no kill may come after `playing` is left.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._stopped: Ended | None = None
        self._is_over = False

    def stop(self, last: Ended) -> bool:
        """Kill it, from any thread; `False` if the program is over or was stopped before."""
        with self._lock:
            if self._is_over or self._stopped is not None:
                return False
            self._stopped = last
            if self._pid is not None:
                _kill(self._pid)
        return True

    @contextmanager
    def playing(self, pid: int) -> Iterator[None]:
        """As long as this is entered, `stop` kills the process."""
        with self._lock:
            self.refuse_stopped()
            self._pid = pid
        try:
            yield
        finally:
            with self._lock:
                self._pid, self._is_over = None, True

    def refuse_stopped(self) -> None:
        if self._stopped is not None:
            raise StoppedError

    def last(self, event: Ended | Died) -> Ended | Died:
        """The last event of the run: this one, unless it was stopped. Later stops come too late."""
        with self._lock:
            self._is_over = True
        return self._stopped or event


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _KILL)
    except ProcessLookupError:
        return


# ----------------------------------------------------------------------------------------------------
# Events of one program on Monty on their way to its reader. Knows no thread: whoever makes it says how to send.

KEEP_BYTES: Final = 8 * MIB
"""Of each stream, as in the process engine: what the ledger keeps."""


class MontyOutbox:
    """Sends events, and remembers whether the reader knows that the program waits."""

    def __init__(self, send: Callable[[Event], None], tape: MontyTape, kept_bytes: Mapping[str, int] | None) -> None:
        self._send = send
        self._tape = tape
        self.kept_bytes = {"stdout": 0, "stderr": 0, **(kept_bytes or {})}
        """How much of each stream was sent."""
        self.has_news = False
        """Something was sent since the last `Waiting`, so a snapshot now might hold what is in no record."""

    def post(self, event: Event) -> None:
        self.has_news = True
        self._send(event)

    def post_tape(self) -> None:
        """Send what a replay needs; call it before the calls that it led to."""
        tape = self._tape.new()
        if tape is not None:
            self.post(tape)

    def post_waiting(self, replies_seen: int) -> None:
        self.post_tape()
        self.post(Waiting(replies_seen))
        self.has_news = False

    def print(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """What the program printed, as far as there is room for it; this is Monty's `print_callback`."""
        data = text.encode()
        room = KEEP_BYTES - self.kept_bytes[stream]
        if len(data) > room:
            data = data[:room]
            text, size = data.decode(errors="ignore"), len(text.encode())
            self.post(Printed(text, stream, size - len(text.encode())))
        else:
            self.post(Printed(text, stream))
        self.kept_bytes[stream] += len(data)


# ----------------------------------------------------------------------------------------------------
# Where a program on Monty stands still: it takes replies, lets timers run out, and can be frozen.
#
# Everything that reaches the program comes through one inbox, which any thread may fill; the thread that drives
# the program is the only one that reads it.

# Any: Monty's classes are known only once the optional package is there.
Step: TypeAlias = Any
"""A moment at which Monty hands control to the host: a snapshot of the program."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """Asks for the program as bytes; answered with `None` if it went on since it last said that it waits."""

    answer: Callable[[bytes | None], None]


Message: TypeAlias = Reply | Freeze | Literal["stop", "look", "due"]
"""`look`: the clock was stopped or started; `due`: it has gone ahead; timers come before later replies."""


class ReplyWaiter:
    """The program's waits for replies and for its clock."""

    def __init__(
        self, calls: MontyCalls, outbox: MontyOutbox, tape: MontyTape, *, snapshot: Callable[[Step, int], bytes],
        report_waiting: bool,
    ) -> None:  # fmt: skip
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.clock = MontyClock()
        self.timers = Timers(self.clock)
        self._calls, self._outbox, self._tape = calls, outbox, tape
        self._snapshot = snapshot
        self._report_waiting = report_waiting
        self._last_report = (-1, -1)
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
            before = self._calls.replies_seen
            while self._calls.replies_seen < before + part:
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
        state = (self._calls.replies_seen, self._calls.call_count)
        if self._report_waiting and self._calls.open and self._last_report != state:
            self._last_report = state
            self._outbox.post_waiting(self._calls.replies_seen)

    def _frozen(self) -> bytes | None:
        if self._at is None:
            self.clock.release()  # it is in the middle of a `time.sleep`
        has_news = self._outbox.has_news or self._tape.has_news or self._tape.is_playing
        if self._at is None or has_news:
            self._last_report = (-1, -1)  # whoever asked must hear again when it waits
            return None
        return self._snapshot(*self._at)


_NO_LIMIT: Final = 2**31 - 1  # of host round trips: sleeps and name lookups count there, calls are counted here
_RESULT: Final = "result if 'result' in locals() else None"

# Any: as for a `Step`.
_Session: TypeAlias = Any


class Driver:
    """One program on one worker: the thread's side."""

    # Any: Monty's pool; its classes are known only once the optional package is there.
    def __init__(self, monty: ModuleType, pool: Any, order: Order, post: Callable[[Event], None]) -> None:
        self._monty, self._pool, self._order = monty, pool, order
        self._before = before = decode(order.snapshot) if order.snapshot else None
        self._tape = MontyTape(order.tape, order.program.clock)
        self._toolbox = Toolbox(order)
        self._media = MediaBox(monty, before.media if before else ())
        self._files = _data_folder(monty, order, before)
        self._calls = MontyCalls(self._media.wrap, before)
        self._outbox = MontyOutbox(post, self._tape, before.kept_bytes if before else None)
        self._worker = Worker()
        self.waits = ReplyWaiter(
            self._calls, self._outbox, self._tape, snapshot=self._snapshot, report_waiting=order.report_waiting
        )
        for timer in before.timers if before else ():
            self.waits.timers.set(timer.seconds_left, timer.call_id, timer.error)

    def stop(self, last: Ended) -> None:
        if self._worker.stop(last):
            self.waits.inbox.put("stop")

    def run(self) -> Ended | Died:
        try:
            with self._pool.checkout(**self._settings()) as session, self._worker.playing(session.worker_pid):
                last: Ended | Died = self._play(session)
        except StoppedError:
            last = Ended(status="cancelled")  # the worker has the real one
        # Whatever broke, the run must have its last event, or its reader waits for ever.
        except Exception as error:  # noqa: BLE001
            last = Died(f"the monty worker failed: {error}")
        last = self._worker.last(last)
        if not isinstance(last, Ended):
            return last
        return replace(last, files=self._files.produced(), deleted=self._files.deleted())

    def _settings(self) -> dict[str, Any]:
        limits, seed = self._order.limits, self._order.seed
        return {
            "script_name": "<program>",
            "assert_message_annotations": False,
            "limits": {
                "max_feed_duration_secs": float(limits.cpu_seconds),
                "max_memory": limits.memory_bytes,
                "max_suspensions": _NO_LIMIT,
            },
            "os_policy": {
                "sleep": "call_host",
                "random_start": "system" if seed is None else {"seed": seed},
                # A round trip per clock read, so only where a replay must see the same time again.
                "datetime": "call_host" if self._tape.has_clock else "system",
            },
            "external_modules": {"tools": lambda: self._toolbox.module(self._monty.ExternalModule)},
        }

    # from the text to the end

    def _play(self, session: _Session) -> Ended:
        text = self._order.program.text
        prepared = prepare(text, self._toolbox.bare_names)
        try:
            value = self._drive(self._first_step(session, prepared.text))
            if value is None and prepared.sets_result:
                value = self._drive(self._start(session, _RESULT))
            return self._finished(value)
        except OverLimitError as over:
            return Ended(status="limit", problem=over.problem)
        except (self._monty.MontyRuntimeError, self._monty.MontySyntaxError) as error:
            last = ended(error, text, self._order.limits)
            if last.status in ("failed", "limit"):
                self._outbox.post(Printed(error_text(error, text) + "\n", "stderr", is_report=True))
            return last

    def _first_step(self, session: _Session, text: str) -> Step:
        if self._before is not None:
            step = session.load_snapshot(self._before.dump, print_callback=self._outbox.print, os=self._files)
            return self._go_on_in_call(step, self._before.waits_for) if self._before.waits_for else step
        session.feed_run(prelude(text) + _imports(self._order.program), external_lookup={})
        return self._start(session, text)

    def _start(self, session: _Session, text: str) -> Step:
        return session.feed_start(text, print_callback=self._outbox.print, os=self._files, cwd=str(FOLDER))

    def _drive(self, step: Step) -> Any:
        while not isinstance(step, self._monty.MontyComplete):
            self._worker.refuse_stopped()
            if isinstance(step, self._monty.FunctionSnapshot):
                step = self._serve_os(step) if step.is_os_function else self._serve_call(step)
            elif isinstance(step, self._monty.FutureSnapshot):
                step = self._settle(step)
            else:
                step = self._look_up(step)
        return step.output

    def _finished(self, output: Any) -> Ended:
        notes: list[str] = []
        value = plain(output, "value", media=self._media.ids, notes=notes)
        size, limit = json_size(value), self._order.limits.value_bytes
        if size > limit:
            message = f"the program's value takes {size} bytes; the limit is {limit}"
            return Ended(status="limit", problem=Problem(kind="value", message=message))
        hints = parallel_hints(self._toolbox.in_place)
        unmade = describe_calls((call.tool, call.line) for call in self._calls.take_unsent())
        return Ended(
            status="finished", value=value, notes=(*notes[:MOST_NOTES], *hints),
            unmade_calls=tuple(unmade[:MOST_UNMADE]),
        )  # fmt: skip

    # what Monty asks for

    def _look_up(self, step: Step) -> Step:
        if step.object_id is None and self._toolbox.find(step.variable_name) is not None:
            return step.resume(value=stub(step.variable_name))
        return step.resume()

    def _serve_os(self, step: Step) -> Step:
        if step.function_name.endswith(".sleep"):
            self._tape.slept(step.args[0])
        if step.function_name == "asyncio.sleep":
            self.waits.timers.set(step.args[0], step.call_id)
            return step.resume({"future": ...})
        if step.function_name == "time.sleep":
            self.waits.sleep(step.args[0])
            return step.resume({"return_value": None})
        if self._tape.has_clock and step.function_name in CLOCKS:
            zone = step.args[0] if step.args else None
            return step.resume({"return_value": time_for(step.function_name, zone, self._tape.clock())})
        return step.resume_auto()

    def _serve_call(self, step: Step) -> Step:
        tool = self._toolbox.find(step.function_name)
        if tool is None or step.object_id is not None:
            return self._serve_prelude(step)
        try:
            arguments = {
                key: plain(value, f"{tool.spec.name} argument [{key!r}]", media=self._media.ids, depth=1)
                for key, value in tool.arguments(step.args, step.kwargs).items()
            }
            call: Call = self._toolbox.call(tool, arguments, self._calls.call_count)
        except (TypeError, ValueError) as error:
            return step.resume({"exception": error})
        self._calls.add(call, step.call_id)
        if self._toolbox.gives_future(tool, is_awaited=step.allow_eager_await):
            return step.resume({"future": ...})
        return self._go_on_in_call(step, call.id)

    def _serve_prelude(self, step: Step) -> Step:
        """What the prelude asks of the host; any other name is nobody's."""
        call_id = _future_id(step.args[0]) if step.args else None
        match step.function_name:
            case "__ticket__":
                return step.resume({"future": ...})
            case "__settle__" if call_id is not None:
                self._calls.settle(call_id)
                return step.resume({"return_value": None})
            case "__deadline__" if call_id is not None:
                self.waits.timers.set(step.args[1], call_id, "TimeoutError")
                return step.resume({"return_value": None})
            case "__deadline__":
                error: Exception = NotImplementedError("the monty engine can time a tool call only, not a coroutine")
            case _:
                error = _no_such(step)
        return step.resume({"exception": error})

    # where it waits

    def _settle(self, step: Step) -> Step:
        pending = set(step.pending_call_ids)
        self.waits.until(step, lambda: bool(self._calls.arrived(pending)))
        return step.resume({call_id: self._calls.give(call_id) for call_id in self._calls.arrived(pending)})

    def _go_on_in_call(self, step: Step, our_id: int) -> Step:
        """The program stands in a synchronous call until its reply is there."""
        self.waits.until(step, lambda: bool(self._calls.arrived((step.call_id,))), our_id)
        return step.resume(self._calls.give(step.call_id))

    def _snapshot(self, step: Step, waits_for: int) -> bytes:
        """The program where it stands; nothing if Monty cannot write it down."""
        try:
            dump = step.dump()
        except self._monty.MontyError:
            return b""
        files, folders = self._files.dump()
        state = MontyState(
            dump=dump, calls=self._calls.call_count, replies_seen=self._calls.replies_seen, open=self._calls.open,
            pending_replies=self._calls.pending_replies, settled=self._calls.settled,
            timers=self.waits.timers.remaining(), waits_for=waits_for, kept_bytes=self._outbox.kept_bytes, files=files,
            folders=folders, media=[str(media_id) for media_id in self._media.ids],
        )  # fmt: skip
        return encode(state)


def _data_folder(monty: ModuleType, order: Order, state: MontyState | None) -> DataFolder:
    if state is None:
        memory_files = [monty.MemoryFile(FOLDER / file.name, file.data) for file in order.files]
    else:
        memory_files = [
            monty.MemoryFile(file.path, file.data.decode() if file.is_text else file.data) for file in state.files
        ]
    folders = state.folders if state is not None else ()
    return DataFolder(monty.OSAccess(memory_files), order.files, order.limits, monty.NOT_HANDLED, folders)


def _imports(program: Program) -> str:
    """A preset that Monty has no module for stays undefined, and a use of it is a `NameError`."""
    names = ("tools", *program.preset_names) if "tools" in program.text else program.preset_names
    return "".join(f"try:\n    import {name}\nexcept ImportError:\n    pass\n" for name in names)


def _future_id(text: object) -> int | None:
    """Monty's id of a host future, from the only place where it shows it: the future's text."""
    match = re.fullmatch(r"<coroutine external_future\((\d+)\)>", str(text))
    return int(match[1]) if match else None


def _no_such(step: Step) -> Exception:
    if step.object_id is not None:
        return AttributeError(f"'Media' object has no attribute {step.function_name!r}")
    return NameError(f"name {step.function_name!r} is not defined")
