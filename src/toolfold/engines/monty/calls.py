"""Tool calls of one program on Monty, until Monty takes the result, and its tools. Knows no thread.

A call has two ids: ours, which count from 1 and are in the record, and Monty's, which name the future that the
program holds. Sleeps, deadlines and the tickets of semaphores are futures, too, with an id of Monty's only.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolfold.engines.base import Ended, Order
from toolfold.engines.monty.values import MontyState, for_guest
from toolfold.models import Call, Limits, Media, Problem, Reply, ToolSpec, Value
from toolfold.protocol.codec import tool_facts
from toolfold.tools.sendable_values import json_size
from toolfold_guest.shared.call_style import ASYNC_PREFIX, ToolFacts, bind, style_of
from toolfold_guest.shared.reserved_names import RESERVED


class MontyCalls:
    """Calls that wait for a reply, and results that wait for Monty."""

    def __init__(self, wrap: Callable[[Media], object], before: MontyState | None) -> None:
        self._wrap = wrap
        self.call_count = before.calls if before else 0
        """How many calls the program has made."""
        self.replies_seen = before.replies_seen if before else 0
        """How many replies it has had."""
        self.open = dict(before.open) if before else {}
        """Calls without a reply: our id to Monty's."""
        self._pending_replies = dict(before.pending_replies) if before else {}
        """Calls whose reply came before the snapshot and is still to be taken: our id to Monty's."""
        # Any: what Monty takes as a result is a dict of its own making.
        self._arrived: dict[int, Any] = {}
        """Results that Monty has not been given: its id to the result."""
        self._replied: dict[int, int] = {}
        """Of these, the ones that are replies: Monty's id to ours."""
        self._unsent: list[Call] = []
        """Calls leave when the program waits, as in the process engine; one never awaited never leaves."""
        for call_id, error in before.settled.items() if before else ():
            self.settle(call_id, error)

    def add(self, call: Call, call_id: int) -> None:
        """The program made a call; Monty knows it by `call_id`."""
        self.call_count = call.id
        self.open[call.id] = call_id
        self._unsent.append(call)

    def take_unsent(self) -> list[Call]:
        """Calls that are not on their way yet, and are now."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def take(self, reply: Reply) -> bool:
        """Keep a reply for Monty; whether it is one that the program has not seen before."""
        call_id = self._pending_replies.pop(reply.call_id, None)
        is_new = call_id is None
        if call_id is None:
            call_id = self.open.pop(reply.call_id, None)
            if call_id is None:
                return False  # answered twice, never called, or taken before the snapshot
            self.replies_seen += 1
        if call_id in self._arrived:
            return is_new  # its deadline came first
        self._replied[call_id] = reply.call_id
        if reply.error is None:
            self._arrived[call_id] = {"return_value": for_guest(reply.value, self._wrap)}
        else:
            self._arrived[call_id] = {"exc_type": TOOL_ERROR, "message": reply.error}
        return is_new

    def settle(self, call_id: int, error: str = "") -> None:
        """A future of the host's own is done, with an exception or with nothing."""
        self._arrived.setdefault(call_id, {"exc_type": error} if error else {"return_value": None})

    def arrived(self, call_ids: Collection[int]) -> set[int]:
        return self._arrived.keys() & call_ids

    def give(self, call_id: int) -> Any:
        self._replied.pop(call_id, None)
        return self._arrived.pop(call_id)

    @property
    def pending_replies(self) -> dict[int, int]:
        """For a snapshot: calls whose replies are here but not taken. Our id to Monty's; the replies are on record."""
        return {ours: call_id for call_id, ours in self._replied.items()} | self._pending_replies

    @property
    def settled(self) -> dict[int, str]:
        """For a snapshot: what the host settled and Monty has not taken. Monty's id to the exception, if any."""
        return {
            call_id: result.get("exc_type", "")
            for call_id, result in self._arrived.items()
            if call_id not in self._replied
        }


# ----------------------------------------------------------------------------------------------------
# Tools as Monty knows them: by dotted name, each either awaitable or synchronous.


class OverLimitError(Exception):
    """The program went over a limit that the host counts."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Toolbox:
    """The tools of one program, and how its text calls them."""

    def __init__(self, order: Order) -> None:
        self._tools = tools_by_name(order.tools)
        self._limits: Limits = order.limits
        self.bare_names = frozenset(name for name in self._tools if "." not in name)
        """What programs call without a module."""
        self._calls_in_place = style_of(order.program.text, list(self.bare_names)) == "in_place"
        self._says_tools = "tools." in order.program.text
        self.in_place: Counter[str] = Counter()
        """Calls that were made where the program did not await them; the outcome has a hint for it."""

    def find(self, name: str) -> MontyTool | None:
        return self._tools.get(name)

    # Any: Monty's classes are known only once the optional package is there.
    def module(self, external_module: Callable[[dict[str, Any]], Any]) -> Any:
        """The module `tools`, with one module inside for each domain."""
        return _module("tools", modules_of(self._tools), external_module)

    def gives_future(self, tool: MontyTool, *, is_awaited: bool) -> bool:
        """Whether a call is awaited; else the program stands in it until its reply is there."""
        if is_awaited or (tool.is_awaitable and not self._calls_in_place):
            return True
        if not self._says_tools:
            self.in_place[tool.spec.name] += 1
        return False

    def call(self, tool: MontyTool, arguments: dict[str, Value], call_count: int) -> Call:
        """The next call of a program that has made `call_count` calls.

        Raises:
            ValueError: its arguments are too large.
            OverLimitError: it is one too many.
        """
        name, limits = tool.spec.name, self._limits
        size = json_size(arguments)
        if size > limits.value_bytes:
            raise ValueError(f"the arguments of {name!r} take {size} bytes; the limit is {limits.value_bytes}")
        if call_count >= limits.calls:
            raise OverLimitError(Problem(kind="calls", message=f"the program made more than {limits.calls} tool calls"))
        return Call(id=call_count + 1, tool=name, arguments=arguments)


@dataclass(frozen=True, slots=True)
class MontyTool:
    """One spelling of a tool."""

    spec: ToolSpec
    is_awaitable: bool

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Positional arguments and one positional dict as named ones, by the rule of every engine."""
        return dict(bind(ToolFacts(*tool_facts(self.spec)), args, kwargs)) if args else kwargs


def tools_by_name(specs: Sequence[ToolSpec]) -> dict[str, MontyTool]:
    """Every name under which a program can reach a tool: `price`, `tools.price`, `tools.hr.async_price`, ..."""
    tools: dict[str, MontyTool] = {}
    for spec in specs:
        if spec.domain and spec.short_name:
            tools.setdefault(f"tools.{spec.domain}.{spec.short_name}", MontyTool(spec, is_awaitable=False))
            tools.setdefault(f"tools.{spec.domain}.{ASYNC_PREFIX}{spec.short_name}", MontyTool(spec, is_awaitable=True))
        for name in (spec.python_name, *spec.aliases):
            if name not in RESERVED:
                tools[name] = MontyTool(spec, is_awaitable=True)
            for module in ("tools", f"tools.{spec.domain}") if spec.domain else ("tools",):
                tools[f"{module}.{name}"] = MontyTool(spec, is_awaitable=False)
                tools[f"{module}.{ASYNC_PREFIX}{name}"] = MontyTool(spec, is_awaitable=True)
    return tools


def modules_of(names: Mapping[str, MontyTool]) -> dict[str, set[str]]:
    """The names in each module: `{"tools": {...}, "tools.hr": {...}}`."""
    modules: dict[str, set[str]] = {"tools": set()}
    for dotted in names:
        module, _, name = dotted.rpartition(".")
        if module:
            modules.setdefault(module, set()).add(name)
    return modules


# Any: as in `Toolbox.module`.
def _module(path: str, modules: dict[str, set[str]], external_module: Callable[[dict[str, Any]], Any]) -> Any:
    attributes: dict[str, Any] = {name: stub(name) for name in modules[path]}
    for dotted in modules:
        outside, _, name = dotted.rpartition(".")
        if outside == path:
            attributes[name] = _module(dotted, modules, external_module)
    return external_module(attributes)


def stub(name: str) -> Callable[[], None]:
    """A host function as far as Monty is concerned; its name is what comes back in a call."""

    def tool() -> None:
        return None

    tool.__name__ = tool.__qualname__ = name
    return tool


# ----------------------------------------------------------------------------------------------------
# Monty's errors as outcomes: limits, refused syntax, and tracebacks in the house form.

TOOL_ERROR: Final = "_csv.Error"
"""Monty has no classes of exceptions but Python's own; this one no program raises by itself."""

_PROGRAM: Final = "<python-input-1>"  # the session's first input is the prelude
_UNSUPPORTED: Final = re.compile(r"The monty syntax parser does not yet support (.*)")


# Any: a `MontyRuntimeError` or `MontySyntaxError`, whose classes only `monty.py` may import.
def ended(error: Any, text: str, limits: Limits) -> Ended:
    exception, line = error.exception(), _line(error)
    message = str(exception)
    if isinstance(exception, MemoryError) and "memory limit" in message:
        words = f"the program used more than its {limits.memory_bytes >> 20} MiB of memory"
        return Ended(status="limit", problem=Problem(kind="memory", message=words, line=line, source=_at(text, line)))
    if isinstance(exception, TimeoutError) and message.startswith("feed time limit exceeded"):
        words = f"the program used its {limits.cpu_seconds} s of CPU time"
        return Ended(status="limit", problem=Problem(kind="cpu", message=words))
    if isinstance(exception, SystemExit):
        problem = Problem(kind="exception", message=_last_line(exception))
        return Ended(status="failed", problem=problem) if message not in ("", "0") else Ended(status="finished")
    refused = _refused(exception, message)
    if refused:
        return Ended(
            status="rejected", problem=Problem(kind="syntax", message=refused, line=line, source=_at(text, line))
        )
    problem = Problem(kind="exception", message=_last_line(exception), line=line, source=_at(text, line))
    return Ended(status="failed", problem=problem)


def error_text(error: Any, text: str) -> str:
    """The traceback as the process engine writes it: the program's own lines, no carets."""
    if isinstance(error.exception(), SystemExit):
        return _last_line(error.exception())
    frames = [
        traceback.FrameSummary("<program>", frame.line, _place(frame.function_name), line=_at(text, frame.line))
        for frame in error.traceback()
        if frame.filename == _PROGRAM
    ]
    stack = "".join(traceback.StackSummary.from_list(frames).format())
    return f"Traceback (most recent call last):\n{stack}{_last_line(error.exception())}"


def _place(function_name: str | None) -> str:
    return "__main__" if function_name in (None, "<module>") else str(function_name)


def _refused(exception: BaseException, message: str) -> str:
    unsupported = _UNSUPPORTED.fullmatch(message)
    if unsupported and isinstance(exception, NotImplementedError):
        return f"the monty engine cannot run {unsupported[1]}; write it without, or use the process engine"
    return f"SyntaxError: {message}" if isinstance(exception, SyntaxError) else ""


def _line(error: Any) -> int | None:
    lines = [frame.line for frame in error.traceback() if frame.filename == _PROGRAM]
    return lines[-1] if lines else None


def _last_line(exception: BaseException) -> str:
    text = "".join(traceback.format_exception_only(exception)).rstrip("\n")
    kind = type(exception)
    if f"{kind.__module__}.{kind.__name__}" == TOOL_ERROR:
        return "ToolError" + text.removeprefix(TOOL_ERROR)
    return text


def _at(text: str, line: int | None) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip() if line is not None and line <= len(lines) else ""
