"""One program on one Monty worker, from the thread that drives it. Knows no event loop.

Rules:
1. The thread reads the inbox and posts events; besides these only `_pid` and `_stopped` are shared.
2. To stop is to kill the worker and to say so in the inbox; whichever the thread waits for, it wakes.
3. Every future in the program is the host's: calls, sleeps, deadlines and the tickets of semaphores.
"""

from __future__ import annotations

import heapq
import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

from toolfold.engines import monty_report
from toolfold.engines.base import Called, Died, Ended, Event, Order, Printed, Taped, Waiting
from toolfold.engines.monty_files import FOLDER, DataFolder
from toolfold.engines.monty_names import Tool, modules_of, tools_by_name
from toolfold.engines.monty_rewrite import PRELUDE, prepare
from toolfold.engines.monty_values import UnsendableError, for_guest, plain
from toolfold.models import MIB, Call, Media, Problem, Program, Reply
from toolfold.tools.shape import json_size

KEEP_BYTES: Final = 8 * MIB
"""Of each stream, as in the process engine: what the ledger keeps."""

_NO_LIMIT: Final = 2**31 - 1  # of host round trips: sleeps and name lookups count there, calls are counted here
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no other way to end a process

# Any: Monty's classes are known only once the optional package is there.
_Snapshot: TypeAlias = Any
_Session: TypeAlias = Any


class Driver:
    """One program on one worker: the thread's side."""

    def __init__(self, monty: ModuleType, pool: Any, order: Order, post: Callable[[Event], None]) -> None:
        self.inbox: queue.SimpleQueue[Reply | Literal["stop", "look"]] = queue.SimpleQueue()
        self.clock = Clock()
        self._monty, self._pool, self._order, self._post = monty, pool, order, post
        self._tools = tools_by_name(order.tools)
        self._files = _data_folder(monty, order)
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._stopped: Ended | None = None
        self._is_over = False
        self._kept_bytes = {"stdout": 0, "stderr": 0}
        self._calls = 0
        self._seen = 0
        self._told_waiting = (-1, -1)
        self._unsent: list[Call] = []
        """Calls leave when the program waits, as in the process engine; one never awaited never leaves."""
        self._open: dict[int, int] = {}
        """Calls without a reply: our id to Monty's."""
        self._arrived: dict[int, Any] = {}
        """Settled results that Monty has not been given: its id to the result."""
        self._timers: list[tuple[float, int, str]] = []
        """When, Monty's call id, and the exception that then settles it; none for a sleep."""

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
        if self._order.tape is not None:
            self._post(Taped(is_spoilt=True))
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
        return replace(last, files=self._files.produced()) if isinstance(last, Ended) else last

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
            "os_policy": {"sleep": "call_host", "random_start": "system" if seed is None else {"seed": seed}},
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
            session.feed_run(PRELUDE + _imports(self._order.program), external_lookup={})
            value = self._feed(session, prepared.text)
            if value is None and prepared.sets_result:
                value = self._feed(session, "result if 'result' in locals() else None")
            return self._finished(value)
        except _OverLimitError as over:
            return Ended(status="limit", problem=over.problem)
        except (self._monty.MontyRuntimeError, self._monty.MontySyntaxError) as error:
            last = monty_report.ended(error, text, self._order.limits)
            if last.status in ("failed", "limit"):
                self._print("stderr", monty_report.error_text(error, text) + "\n")
            return last

    def _finished(self, output: Any) -> Ended:
        try:
            value = plain(output, "value")
        except UnsendableError as error:
            return Ended(status="failed", problem=Problem(kind="value", message=str(error)))
        size, limit = json_size(value), self._order.limits.value_bytes
        if size > limit:
            message = f"the program's value takes {size} bytes; the limit is {limit}"
            return Ended(status="limit", problem=Problem(kind="value", message=message))
        return Ended(status="finished", value=value)

    def _feed(self, session: _Session, text: str) -> Any:
        step = session.feed_start(text, print_callback=self._print, os=self._files, cwd=str(FOLDER))
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
            self._set_timer(step.args[0], step.call_id)
            return step.resume({"future": ...})
        if step.function_name == "time.sleep":
            self._sleep(step.args[0])
            return step.resume({"return_value": None})
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
        if tool.is_awaitable or step.allow_eager_await:
            return step.resume({"future": ...})
        self._wait_until(lambda: step.call_id in self._arrived)
        return step.resume(self._arrived.pop(step.call_id))

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
                self._set_timer(step.args[1], call_id, "TimeoutError")
                return step.resume({"return_value": None})
            case "__deadline__":
                error: Exception = NotImplementedError("the monty engine can time a tool call only, not a coroutine")
            case _:
                error = _no_such(step)
        return step.resume({"exception": error})

    def _set_timer(self, seconds: float, call_id: int, error: str = "") -> None:
        heapq.heappush(self._timers, (self.clock.now() + max(0.0, seconds), call_id, error))

    def _call(self, tool: Tool, step: _Snapshot) -> Call:
        name, limits = tool.spec.name, self._order.limits
        arguments = {
            key: plain(value, f"{name} argument [{key!r}]")
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
        self._wait_until(lambda: not pending.isdisjoint(self._arrived))
        return step.resume({call_id: self._arrived.pop(call_id) for call_id in pending & self._arrived.keys()})

    def _wait_until(self, is_ready: Any) -> None:
        """Take replies and let timers run out until there is something to go on with."""
        for call in self._unsent:
            self._post(Called(call))
        self._unsent.clear()
        self._take_what_is_there()
        while not is_ready():
            self._tell_waiting()
            self._take(self._timers[0][0] if self._timers else None)
            self._take_what_is_there()

    def _sleep(self, seconds: float) -> None:
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            self._take(until)

    def _take_what_is_there(self) -> None:
        while not self.inbox.empty():
            self._take(None)
        while self._timers and self._timers[0][0] <= self.clock.now():
            _, call_id, error = heapq.heappop(self._timers)
            self._arrived.setdefault(call_id, {"exc_type": error} if error else {"return_value": None})

    def _take(self, until: float | None) -> None:
        """The next message, or nothing if the clock gets there first."""
        try:
            reply = self.inbox.get(timeout=self.clock.seconds_to(until))
        except queue.Empty:
            return
        if reply == "stop":
            raise _StoppedError
        if not isinstance(reply, Reply):
            return  # the clock was stopped or started: look at it again
        call_id = self._open.pop(reply.call_id, None)
        if call_id is None:
            return  # answered twice, or never called
        self._seen += 1
        if call_id in self._arrived:
            return  # its deadline came first
        if reply.error is None:
            self._arrived[call_id] = {"return_value": for_guest(reply.value, self._wrap)}
        else:
            self._arrived[call_id] = {"exc_type": monty_report.TOOL_ERROR, "message": reply.error}

    def _tell_waiting(self) -> None:
        state = (self._seen, self._calls)
        if self._order.report_waiting and self._open and self._told_waiting != state:
            self._told_waiting = state
            self._post(Waiting(self._seen))

    def _wrap(self, media: Media) -> object:
        return self._monty.ClassInstance(media, eager_attrs="all")

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


class Clock:
    """The program's time, which stands still while its execution is paused."""

    def __init__(self) -> None:
        self._lost_seconds = 0.0
        self._held_at: float | None = None

    def now(self) -> float:
        """Seconds since some moment, without the pauses."""
        at = self._held_at
        return (time.monotonic() if at is None else at) - self._lost_seconds

    def seconds_to(self, moment: float | None) -> float | None:
        """How long to wait for a moment; `None` for ever, as long as the clock stands still."""
        return None if moment is None or self._held_at is not None else max(0.0, moment - self.now())

    def hold(self) -> None:
        """Stand still."""
        self._held_at = self._held_at or time.monotonic()

    def release(self) -> None:
        """Go on."""
        if self._held_at is not None:
            self._lost_seconds, self._held_at = self._lost_seconds + time.monotonic() - self._held_at, None


class _StoppedError(Exception):
    """`stop` was called; `last` is the event that says so."""


class _OverLimitError(Exception):
    """The program went over a limit that the host counts."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _data_folder(monty: ModuleType, order: Order) -> DataFolder:
    given = [monty.MemoryFile(FOLDER / file.name, file.data) for file in order.files]
    return DataFolder(monty.OSAccess(given), order.files, order.limits, monty.NOT_HANDLED)


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
