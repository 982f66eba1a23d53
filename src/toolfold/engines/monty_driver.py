"""One program on one Monty worker, from the thread that drives it. Knows no event loop.

Rules:
1. The thread reads the inbox and posts events; besides these only `_pid` and `_stopped` are shared.
2. To stop is to kill the worker and to say so in the inbox; whichever the thread waits for, it wakes.
3. Every future in the program is the host's: calls, sleeps, deadlines and the tickets of semaphores.
"""

from __future__ import annotations

import datetime as dt
import os
import queue
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from toolfold.engines import monty_report, monty_state
from toolfold.engines.base import Called, Died, Ended, Event, Order, Printed, Waiting
from toolfold.engines.monty_clock import Clock, Timers
from toolfold.engines.monty_files import FOLDER, DataFolder
from toolfold.engines.monty_names import Tool, modules_of, tools_by_name
from toolfold.engines.monty_rewrite import prelude, prepare
from toolfold.engines.monty_state import State
from toolfold.engines.monty_tape import MontyTape, timer_of
from toolfold.engines.monty_values import for_guest, plain
from toolfold.models import MIB, Call, Media, Problem, Program, Reply
from toolfold.tools.shape import json_size
from toolfold_guest.hints import MOST_NOTES, parallel_hints
from toolfold_guest.styles import style_of

KEEP_BYTES: Final = 8 * MIB
"""Of each stream, as in the process engine: what the ledger keeps."""

_NO_LIMIT: Final = 2**31 - 1  # of host round trips: sleeps and name lookups count there, calls are counted here
_CLOCKS: Final = frozenset({"time.time", "datetime.now", "date.today"})
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no other way to end a process

_MEDIA_TYPE: Final = UUID("5f1f4c9e-6a53-4b0e-9d3c-7a4f2f1f0c11")
"""The same in every process, so that what a snapshot holds is of the same class as what comes after it."""

# Any: Monty's classes are known only once the optional package is there.
_Snapshot: TypeAlias = Any
_Session: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Freeze:
    """Asks for the program as bytes; answered with `None` if it went on since it last said that it waits."""

    answer: Callable[[bytes | None], None]


class Driver:
    """One program on one worker: the thread's side."""

    def __init__(self, monty: ModuleType, pool: Any, order: Order, post: Callable[[Event], None]) -> None:
        self.inbox: queue.SimpleQueue[Reply | Freeze | Literal["stop", "look"]] = queue.SimpleQueue()
        self.clock = Clock()
        self._monty, self._pool, self._order, self._send = monty, pool, order, post
        self._before = monty_state.decode(order.snapshot) if order.snapshot else None
        self._tape = MontyTape(order.tape)
        self._tools = tools_by_name(order.tools)
        bare_names = [name for name in self._tools if "." not in name]
        self._calls_in_place = style_of(order.program.text, bare_names) == "in_place"
        self._in_place: Counter[str] = Counter()
        """Calls made where the program did not await them."""
        self._files = _data_folder(monty, order, self._before)
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._stopped: Ended | None = None
        self._is_over = False
        self._kept_bytes = {"stdout": 0, "stderr": 0}
        self._calls = 0
        self._seen = 0
        self._told_waiting = (-1, -1)
        self._has_news = False
        """Something was posted since the last `Waiting`."""
        self._unsent: list[Call] = []
        """Calls leave when the program waits, as in the process engine; one never awaited never leaves."""
        self._open: dict[int, int] = {}
        """Calls without a reply: our id to Monty's."""
        self._kept: dict[int, int] = {}
        """Calls whose reply came before the snapshot and is still to be taken: our id to Monty's."""
        self._arrived: dict[int, Any] = {}
        """Settled results that Monty has not been given: its id to the result."""
        self._replied: dict[int, int] = {}
        """Of these, the ones that are replies: Monty's id to ours."""
        self._timers = Timers(self.clock)
        self._media: set[UUID] = set()
        self._step: _Snapshot | None = None
        """Where the program waits; `None` while it runs."""
        self._waits_for = 0
        if self._before is not None:
            self._restore(self._before)

    def _restore(self, state: State) -> None:
        self._calls, self._seen = state.calls, state.seen
        self._open, self._kept, self._kept_bytes = dict(state.open), dict(state.kept), dict(state.kept_bytes)
        self._arrived = {call_id: _settled(error) for call_id, error in state.settled.items()}
        self._media = {UUID(one) for one in state.media}
        for timer in state.timers:
            self._timers.set(timer.seconds_left, timer.call_id, timer.error)

    def stop(self, last: Ended) -> None:
        """From any thread: end the program now."""
        with self._lock:
            if self._is_over or self._stopped is not None:
                return
            self._stopped = last
            if self._pid is not None:
                _kill(self._pid)
        self.inbox.put("stop")

    def run(self) -> Ended | Died:
        """The whole life of the program; its last event."""
        try:
            with self._pool.checkout(**self._settings()) as session:
                with self._lock:
                    self._pid = session.worker_pid
                    if self._stopped is not None:
                        raise _StoppedError
                try:
                    last: Ended | Died = self._play(session)
                finally:
                    with self._lock:
                        self._pid, self._is_over = None, True
        except _StoppedError:
            last = Ended(status="cancelled")  # `_stopped` has the real one
        # Whatever broke, the run must have its last event, or its reader waits for ever.
        except Exception as error:  # noqa: BLE001
            last = Died(f"the monty worker failed: {error}")
        with self._lock:
            self._is_over = True
        last = self._stopped or last
        if not isinstance(last, Ended):
            return last
        return replace(last, files=self._files.produced(), deleted=self._files.deleted())

    def _settings(self) -> dict[str, Any]:
        limits = self._order.limits
        seed = self._order.seed
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
                "datetime": "call_host" if self._tape.is_on else "system",
            },
            "external_modules": {"tools": partial(self._module, "tools", modules_of(self._tools))},
        }

    def _module(self, path: str, modules: dict[str, set[str]]) -> Any:
        attributes: dict[str, Any] = {name: _stub(name) for name in modules[path]}
        inside = {dotted for dotted in modules if dotted.rpartition(".")[0] == path}
        attributes.update({dotted.rpartition(".")[2]: self._module(dotted, modules) for dotted in inside})
        return self._monty.ExternalModule(attributes)

    def _play(self, session: _Session) -> Ended:
        text = self._order.program.text
        prepared = prepare(text, {name for name in self._tools if "." not in name})
        try:
            value = self._drive(self._first_step(session, prepared.text))
            if value is None and prepared.sets_result:
                value = self._drive(self._start(session, "result if 'result' in locals() else None"))
            return self._finished(value)
        except _OverLimitError as over:
            return Ended(status="limit", problem=over.problem)
        except (self._monty.MontyRuntimeError, self._monty.MontySyntaxError) as error:
            last = monty_report.ended(error, text, self._order.limits)
            if last.status in ("failed", "limit"):
                self._post(Printed(monty_report.error_text(error, text) + "\n", "stderr", is_report=True))
            return last

    def _finished(self, output: Any) -> Ended:
        notes: list[str] = []
        value = plain(output, "value", media=self._media, notes=notes)
        size, limit = json_size(value), self._order.limits.value_bytes
        if size > limit:
            message = f"the program's value takes {size} bytes; the limit is {limit}"
            return Ended(status="limit", problem=Problem(kind="value", message=message))
        return Ended(status="finished", value=value, notes=(*notes[:MOST_NOTES], *parallel_hints(self._in_place)))

    def _first_step(self, session: _Session, text: str) -> _Snapshot:
        if self._before is not None:
            step = session.load_snapshot(self._before.dump, print_callback=self._print, os=self._files)
            return self._go_on_in_call(step, self._before.waits_for) if self._before.waits_for else step
        session.feed_run(prelude(text) + _imports(self._order.program), external_lookup={})
        return self._start(session, text)

    def _start(self, session: _Session, text: str) -> _Snapshot:
        return session.feed_start(text, print_callback=self._print, os=self._files, cwd=str(FOLDER))

    def _drive(self, step: _Snapshot) -> Any:
        while not isinstance(step, self._monty.MontyComplete):
            if self._stopped is not None:
                raise _StoppedError
            if isinstance(step, self._monty.FunctionSnapshot):
                step = self._serve_os(step) if step.is_os_function else self._serve_call(step)
            elif isinstance(step, self._monty.FutureSnapshot):
                step = self._settle(step)
            else:
                step = self._look_up(step)
        return step.output

    def _look_up(self, step: _Snapshot) -> _Snapshot:
        if step.object_id is None and step.variable_name in self._tools:
            return step.resume(value=_stub(step.variable_name))
        return step.resume()

    def _serve_os(self, step: _Snapshot) -> _Snapshot:
        if step.function_name == "asyncio.sleep":
            self._timers.set(step.args[0], step.call_id)
            return step.resume({"future": ...})
        if step.function_name == "time.sleep":
            self._sleep(step.args[0])
            return step.resume({"return_value": None})
        if self._tape.is_on and step.function_name in _CLOCKS:
            return step.resume({"return_value": _time(step, self._tape.clock())})
        return step.resume_auto()

    def _serve_call(self, step: _Snapshot) -> _Snapshot:
        tool = self._tools.get(step.function_name)
        if tool is None or step.object_id is not None:
            return self._serve_prelude(step)
        try:
            call = self._call(tool, step)
        except (TypeError, ValueError) as error:
            return step.resume({"exception": error})
        self._open[call.id] = step.call_id
        self._unsent.append(call)
        if (tool.is_awaitable and not self._calls_in_place) or step.allow_eager_await:
            return step.resume({"future": ...})
        if "tools." not in self._order.program.text:
            self._in_place[tool.spec.name] += 1
        return self._go_on_in_call(step, call.id)

    def _go_on_in_call(self, step: _Snapshot, our_id: int) -> _Snapshot:
        """The program stands in a synchronous call until its reply is there."""
        self._wait_until(step, lambda: step.call_id in self._arrived, our_id)
        return step.resume(self._taken(step.call_id))

    def _serve_prelude(self, step: _Snapshot) -> _Snapshot:
        """What the prelude asks of the host; any other name is nobody's."""
        call_id = _future_id(step.args[0]) if step.args else None
        match step.function_name:
            case "__ticket__":
                return step.resume({"future": ...})
            case "__settle__" if call_id is not None:
                self._arrived[call_id] = {"return_value": None}
                return step.resume({"return_value": None})
            case "__deadline__" if call_id is not None:
                self._timers.set(step.args[1], call_id, "TimeoutError")
                return step.resume({"return_value": None})
            case "__deadline__":
                error: Exception = NotImplementedError("the monty engine can time a tool call only, not a coroutine")
            case _:
                error = _no_such(step)
        return step.resume({"exception": error})

    def _call(self, tool: Tool, step: _Snapshot) -> Call:
        name, limits = tool.spec.name, self._order.limits
        arguments = {
            key: plain(value, f"{name} argument [{key!r}]", media=self._media)
            for key, value in tool.arguments(step.args, step.kwargs).items()
        }
        size = json_size(arguments)
        if size > limits.value_bytes:
            raise ValueError(f"the arguments of {name!r} take {size} bytes; the limit is {limits.value_bytes}")
        if self._calls >= limits.calls:
            message = f"the program made more than {limits.calls} tool calls"
            raise _OverLimitError(Problem(kind="calls", message=message))
        self._calls += 1
        return Call(id=self._calls, tool=name, arguments=arguments)

    def _settle(self, step: _Snapshot) -> _Snapshot:
        pending = set(step.pending_call_ids)
        self._wait_until(step, lambda: not pending.isdisjoint(self._arrived))
        return step.resume({call_id: self._taken(call_id) for call_id in pending & self._arrived.keys()})

    def _taken(self, call_id: int) -> Any:
        self._replied.pop(call_id, None)
        return self._arrived.pop(call_id)

    def _wait_until(self, step: _Snapshot, is_ready: Callable[[], bool], waits_for: int = 0) -> None:
        """Take replies and let timers run out until there is something to go on with."""
        self._tell_tape()  # before the calls that it led to
        for call in self._unsent:
            self._post(Called(call))
        self._unsent.clear()
        self._step, self._waits_for = step, waits_for
        if self._tape.is_playing:
            self._wake_as_before()
        else:
            self._take_what_is_there()
        while not is_ready():
            self._tell_waiting()
            self._take(self._timers.next)
            self._take_what_is_there()
        self._step = None
        self._tape.woke()

    def _wake_as_before(self) -> None:
        for part in self._tape.next_parts():
            timer = timer_of(part)
            if timer is not None:
                self._arrived.setdefault(timer, _settled(self._timers.take(timer)))
                continue
            before = self._seen
            while self._seen < before + part:
                self._take(None)

    def _sleep(self, seconds: float) -> None:
        until = self.clock.now() + seconds
        while self.clock.now() < until and not self._tape.is_playing:
            self._take(until)

    def _take_what_is_there(self) -> None:
        while not self.inbox.empty():
            self._take(None)
        while (due := self._timers.due()) is not None:
            call_id, error = due
            self._tape.timed(call_id)
            self._arrived.setdefault(call_id, _settled(error))

    def _take(self, until: float | None) -> None:
        """The next message, or nothing if the clock gets there first."""
        try:
            message = self.inbox.get(timeout=self.clock.seconds_to(until))
        except queue.Empty:
            return
        if message == "stop":
            raise _StoppedError
        if isinstance(message, Freeze):
            message.answer(self._frozen())
        elif isinstance(message, Reply):
            self._take_reply(message)
        # Else the clock was stopped or started: look at it again.

    def _take_reply(self, reply: Reply) -> None:
        call_id = self._kept.pop(reply.call_id, None)
        if call_id is None:
            call_id = self._open.pop(reply.call_id, None)
            if call_id is None:
                return  # answered twice, never called, or taken before the snapshot
            self._seen += 1
            self._tape.replied()
        if call_id in self._arrived:
            return  # its deadline came first
        self._replied[call_id] = reply.call_id
        if reply.error is None:
            self._arrived[call_id] = {"return_value": for_guest(reply.value, self._wrap)}
        else:
            self._arrived[call_id] = {"exc_type": monty_report.TOOL_ERROR, "message": reply.error}

    def _frozen(self) -> bytes | None:
        if self._step is None:
            self.clock.release()  # it is in the middle of a `time.sleep`
        if self._step is None or self._has_news or self._tape.has_news or self._tape.is_playing:
            self._told_waiting = (-1, -1)  # whoever asked must hear again when it waits
            return None
        try:
            dump = self._step.dump()
        except self._monty.MontyError:
            return b""
        files, folders = self._files.dump()
        state = State(
            dump=dump,
            calls=self._calls,
            seen=self._seen,
            open=self._open,
            kept={ours: call_id for call_id, ours in self._replied.items()} | self._kept,
            settled={
                call_id: result.get("exc_type", "")
                for call_id, result in self._arrived.items()
                if call_id not in self._replied
            },
            timers=self._timers.left(),
            waits_for=self._waits_for,
            kept_bytes=self._kept_bytes,
            files=files,
            folders=folders,
            media=[str(one) for one in self._media],
        )
        return monty_state.encode(state)

    def _tell_waiting(self) -> None:
        state = (self._seen, self._calls)
        if self._order.report_waiting and self._open and self._told_waiting != state:
            self._told_waiting = state
            self._tell_tape()
            self._post(Waiting(self._seen))
            self._has_news = False

    def _tell_tape(self) -> None:
        taped = self._tape.new()
        if taped is not None:
            self._post(taped)

    def _post(self, event: Event) -> None:
        self._has_news = True
        self._send(event)

    def _wrap(self, media: Media) -> object:
        kind = self._monty.ClassType(Media, id=_MEDIA_TYPE)
        wrapped = self._monty.ClassInstance(media, eager_attrs="all", class_type=kind)
        self._media.add(wrapped.id)
        return wrapped

    def _print(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        data = text.encode()
        room = KEEP_BYTES - self._kept_bytes[stream]
        if len(data) > room:
            data = data[:room]
            text, size = data.decode(errors="ignore"), len(text.encode())
            self._post(Printed(text, stream, size - len(text.encode())))
        else:
            self._post(Printed(text, stream))
        self._kept_bytes[stream] += len(data)


class _StoppedError(Exception):
    """`stop` was called; `last` is the event that says so."""


class _OverLimitError(Exception):
    """The program went over a limit that the host counts."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _data_folder(monty: ModuleType, order: Order, state: State | None) -> DataFolder:
    if state is None:
        there = [monty.MemoryFile(FOLDER / file.name, file.data) for file in order.files]
    else:
        there = [monty.MemoryFile(file.path, file.data.decode() if file.is_text else file.data) for file in state.files]
    folders = state.folders if state is not None else ()
    return DataFolder(monty.OSAccess(there), order.files, order.limits, monty.NOT_HANDLED, folders)


def _settled(error: str) -> dict[str, Any]:
    return {"exc_type": error} if error else {"return_value": None}


def _time(step: _Snapshot, seconds: float) -> float | dt.datetime | dt.date:
    """What a clock of the program's says; its zone is UTC."""
    if step.function_name == "time.time":
        return seconds
    now = dt.datetime.fromtimestamp(seconds, dt.UTC)
    if step.function_name == "date.today":
        return now.date()
    zone = step.args[0] if step.args else None
    return now.replace(tzinfo=None) if zone is None else now.astimezone(zone)


def _imports(program: Program) -> str:
    """A preset that Monty has no module for stays undefined, and a use of it is a `NameError`."""
    names = ("tools", *program.preset_names) if "tools" in program.text else program.preset_names
    return "".join(f"try:\n    import {name}\nexcept ImportError:\n    pass\n" for name in names)


def _future_id(text: object) -> int | None:
    """Monty's id of a host future, from the only place where it shows it: the future's text."""
    found = re.fullmatch(r"<coroutine external_future\((\d+)\)>", str(text))
    return int(found[1]) if found else None


def _stub(name: str) -> Any:
    """A host function as far as Monty is concerned; its name is what comes back in a call."""

    def tool() -> None:
        return None

    tool.__name__ = tool.__qualname__ = name
    return tool


def _no_such(step: _Snapshot) -> Exception:
    if step.object_id is not None:
        return AttributeError(f"'Media' object has no attribute {step.function_name!r}")
    return NameError(f"name {step.function_name!r} is not defined")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _KILL)
    except ProcessLookupError:
        return
