"""Outcome of a program: its call records, what it saved, shapes of recent replies, and hints."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from toolfold.engines.base import Ended
from toolfold.events import Tell, ToolReplied
from toolfold.models import (
    Call,
    CallRecord,
    ContextSaved,
    Language,
    Outcome,
    Problem,
    Reply,
    StartRecord,
    ToolSpec,
    Value,
)
from toolfold.program.check import Checker
from toolfold.program.known_names import tools_behind
from toolfold.tools.reply_shapes import shape_text
from toolfold.tools.sendable_values import json_size

if TYPE_CHECKING:
    from toolfold.execution.calls import ExecutionCalls
    from toolfold.execution.program_output import OutputStreams
    from toolfold.ledger.base import ReplyEntry
    from toolfold.tools.learned_replies import Learning


def outcome_of(
    ended: Ended, start_record: StartRecord, *, isolation: str, notes: tuple[str, ...], began: float, code_bytes: int,
    output: OutputStreams, calls: ExecutionCalls | None,
) -> Outcome:  # fmt: skip
    """The outcome that the caller sees; `output` keeps more than it shows. `None` for a program without calls."""
    stdout, stdout_cut_bytes = output.stdout.cut()
    stderr, stderr_cut_bytes = output.stderr.cut()
    records = calls.records() if calls is not None else ()
    hints = (*start_record.program.notes, *notes, *ended.notes)
    if calls is not None:
        hints += _call_hints(ended, records, calls.accounts.not_repeated)
    if ended.problem is not None:
        hints += host_file_hints(ended.problem, start_record)
    return Outcome(
        execution_id=start_record.execution_id,
        status=ended.status,
        value=ended.value,
        stdout=stdout,
        stderr=stderr,
        stdout_cut_bytes=stdout_cut_bytes,
        stderr_cut_bytes=stderr_cut_bytes,
        problem=ended.problem,
        calls=records,
        files=ended.files,
        engine=start_record.engine,
        isolation=isolation,
        seconds=time.perf_counter() - began,
        context_saved=_saved(records, ended, code_bytes, stdout + stderr),
        hints=hints,
        unmade_calls=ended.unmade_calls,
        stdout_tail=output.stdout.tail() if stdout_cut_bytes else "",
        shapes=calls.accounts.recent_replies.shapes(ended, stdout, start_record.program.text, start_record.tools)
        if calls is not None
        else (),
    )


def isolation_of(language: Language, isolation: str) -> str:
    """The isolation of a program, which for bash is wider: it may start processes."""
    return f"{isolation}, shell profile" if language == "bash" else isolation


def _call_hints(ended: Ended, records: Sequence[CallRecord], not_repeated: Sequence[str]) -> tuple[str, ...]:
    hints: tuple[str, ...] = ()
    if not_repeated:
        names = ", ".join(sorted(set(not_repeated)))
        hints += (f"not called again, because whether they ran before is not on record: {names}",)
    if len(records) == 1 and ended.status == "finished":
        hints += (f"one call only: a direct call of {records[0].name!r} would do",)
    return hints


def _saved(records: Sequence[CallRecord], ended: Ended, code_bytes: int, output_text: str) -> ContextSaved:
    shown_bytes = len(output_text) if output_text.isascii() else len(output_text.encode())
    if ended.value is not None:
        shown_bytes += json_size(ended.value)
    return context_saved(
        records, code_bytes=code_bytes, shown_bytes=shown_bytes, is_finished=ended.status == "finished"
    )


# ----------------------------------------------------------------------------------------------------
# What an outcome says of its calls: their times, their sizes, and how each reply came about.


class Accounts:
    """The calls that were answered, and what may be said of them at the end.

    Args:
        began: When the execution did, by `time.perf_counter`.
        tell: Tells whoever listens; `on_call` is the caller's own.
    """

    def __init__(
        self, execution_id: str, began: float, tell: Tell | None, on_call: Callable[[CallRecord], None] | None
    ) -> None:
        self.began = began
        self.records: list[CallRecord] = []
        self.not_repeated: list[str] = []
        """Tools of calls that may have run before; whether they did is not on record."""
        self.people_seconds: defaultdict[int, float] = defaultdict(float)
        """Time that people took for a call without a record yet, which is not its tool's."""
        self.recent_replies = RecentReplies()
        self._id = execution_id
        self._tell = tell
        self._on_call = on_call

    def record(self, call: Call, reply: Reply, began: float, ended: float) -> CallRecord:
        seconds = ended - began
        if self.people_seconds:
            seconds = max(0.0, seconds - self.people_seconds.pop(call.id, 0.0))
        return record_of(call, reply, began - self.began, seconds)

    def add(self, reply_entry: ReplyEntry) -> None:
        """The program has this reply."""
        record = reply_entry.record
        self.recent_replies.add(record.name, reply_entry.reply)
        self.records.append(record)
        if self._tell is not None:
            self._tell(ToolReplied(self._id, record))
        if self._on_call is not None:
            self._on_call(record)

    def restore(self, reply_entry: ReplyEntry) -> None:
        """The program had this reply before it was replayed; whoever listens was told then."""
        self.recent_replies.add(reply_entry.record.name, reply_entry.reply)
        self.records.append(reply_entry.record)


def record_of(call: Call, reply: Reply, started_seconds: float, seconds: float) -> CallRecord:
    """Record of one call for `Outcome.calls`."""
    record = CallRecord(
        id=call.id, name=call.tool, arguments=call.arguments, started_seconds=started_seconds, seconds=seconds,
        error=reply.error, bytes_in=json_size(call.arguments),
        bytes_out=_size(reply) if reply.size_bytes is None else reply.size_bytes, line=call.line,
        within=call.within, traceback=reply.traceback,
    )  # fmt: skip
    meta = reply.meta
    if meta is None:
        return record
    return msgspec.structs.replace(
        record, attempts=meta.attempts, cached=meta.cached, breaker=meta.breaker, from_record=meta.from_record,
        used_arguments=meta.arguments,
    )  # fmt: skip


def _size(reply: Reply) -> int:
    return json_size(reply.value if reply.error is None else reply.error)


# ----------------------------------------------------------------------------------------------------
# What a program kept out of a model's context, against the same calls made directly.
#
# `docs/savings.md` has the method in words. Must not know engines or interfaces.

ENTRY_NAME: Final = "execute_program"
"""What a program is sent to a model's host with, in most interfaces; its size is counted as such a call."""
BYTES_PER_TOKEN: Final = 4


def context_saved(
    calls: Iterable[CallRecord], *, code_bytes: int, shown_bytes: int, is_finished: bool = True
) -> ContextSaved:
    """Context saved by one execution; negative if the program was larger than what it replaced.

    The baseline is the best that direct calls can do: all of them in one parallel request, so that each
    call and each reply enters the context once. A program that did not finish has replaced nothing.
    """
    replaced = sum([len(call.name) + call.bytes_in + call.bytes_out for call in calls]) if is_finished else 0
    saved = replaced - (len(ENTRY_NAME) + code_bytes + shown_bytes)
    return ContextSaved(tokens=round(saved / BYTES_PER_TOKEN), bytes=saved)


def code_size(text: str) -> int:
    """Size of a program as the argument of a call, in bytes."""
    try:
        return json_size({"code": text})
    except UnicodeEncodeError:  # lone surrogates: the check has refused it, but it was written all the same
        return json_size({"code": text.encode(errors="replace").decode()})


# ----------------------------------------------------------------------------------------------------
# What the latest replies looked like, for a program that misread one or said nothing.
#
# It keeps a few small replies until the program ends, and writes nothing down unless it is asked.

_MOST_TOOLS: Final = 8
_MOST_TOLD: Final = 3
_HELD_BYTES: Final = 64 * 1024
"""Of a reply that is held as it is; of a larger one only its shape is."""
_MISREAD: Final = re.compile(
    r"KeyError: (?P<key>.*)|IndexError: .*|AttributeError: .* has no attribute '(?P<attribute>\w+)'.*"
    r"|TypeError: .*(?:subscriptable|indices must be|not iterable|unsupported operand|not supported between"
    r"|concatenate|has no len\(\)|unhashable|required positional|must be .*, not).*",
    re.DOTALL,
)


class RecentReplies:
    """The last reply of each of a few tools."""

    def __init__(self) -> None:
        self._replies: dict[str, Value] = {}
        self._texts: dict[str, str] = {}

    def add(self, tool: str, reply: Reply) -> None:
        if reply.error is not None:
            return
        self._replies.pop(tool, None)
        self._texts.pop(tool, None)
        if (reply.size_bytes or 0) > _HELD_BYTES:
            self._replies[tool], self._texts[tool] = None, shape_text(reply.value)
        else:
            self._replies[tool] = reply.value
        if len(self._replies) > _MOST_TOOLS:
            oldest = next(iter(self._replies))
            del self._replies[oldest]
            self._texts.pop(oldest, None)

    def shapes(self, ended: Ended, stdout: str, text: str, specs: Sequence[ToolSpec]) -> tuple[str, ...]:
        """Reply shapes that help to write the next program; empty if this one succeeded."""
        if ended.status == "failed":
            return self._misread(ended.problem, text, specs)
        is_quiet = ended.status == "finished" and ended.value is None and not stdout.strip()
        return tuple(map(self._line, list(self._replies)[-_MOST_TOLD:])) if is_quiet else ()

    def _misread(self, problem: Problem | None, text: str, specs: Sequence[ToolSpec]) -> tuple[str, ...]:
        """The shapes of the replies that the line which failed worked on."""
        match = _MISREAD.fullmatch(problem.message) if problem is not None and self._replies else None
        if match is None or problem is None or problem.line is None:
            return ()
        names = {name: spec for spec in specs for name in (spec.python_name, *spec.aliases, spec.short_name) if name}
        at = (match["key"] or match["attribute"] or "").strip("'\"")
        behind = [tool for tool in tools_behind(text, problem.line, names, at=at) if tool in self._replies]
        return tuple(self._line(tool) for tool in behind[:_MOST_TOLD])

    def _line(self, tool: str) -> str:
        return f"{tool} returned {self._texts.get(tool) or shape_text(self._replies[tool])}"


# ----------------------------------------------------------------------------------------------------
# Hints for a failed program from what tools were seen to return; a tool may always return something else.


def unseen_key_hints(start_record: StartRecord, learning: Learning) -> tuple[str, ...]:
    """Hints for keys that the program reads and no reply of the tool has had so far."""
    specs = learning.with_learned_schemas(start_record.tools, start_record.tenant, is_closed=True)
    if specs is start_record.tools:
        return ()
    problem = Checker(specs).check(start_record.program.text, limits=start_record.limits)
    if not isinstance(problem, Problem) or problem.kind != "reply":
        return ()
    return (f"line {problem.line}: {problem.message}, as far as was seen",)


# ----------------------------------------------------------------------------------------------------
# A hint for programs that open a file of the host by its name: they see the data folder and nothing else.

_NOT_FOUND: Final = re.compile(
    r"FileNotFoundError: \[Errno (?:2|44)\] No such file or directory: (?P<name>'[^']+'|\"[^\"]+\")"
)
_WRITES: Final = re.compile(r"""["'][rbt]*[wax+][rbt+]*["']""")
_MOST_NAMES: Final = 5
_HOW: Final = {
    "cli": "--file {name} puts it there", "library": "files=[File(name=..., data=...)] of run() puts one there",
    "http": "name it under 'files' of the request, after an upload", "mcp": "read it with a tool",
}  # fmt: skip
"""By the interface that the program came through; others have their own ways."""


def host_file_hints(problem: Problem, start_record: StartRecord) -> tuple[str, ...]:
    """At most one: where a program ended because a file that it wanted to read is not in the data folder."""
    if problem.kind != "exception":
        return ()
    match = _NOT_FOUND.match(problem.message)
    if match is None or _WRITES.search(problem.source or ""):
        return ()
    how = _HOW.get(start_record.interface, "")
    file_names = sorted(file.name for file in start_record.files)
    more = ", …" if len(file_names) > _MOST_NAMES else ""
    has = f"has {', '.join(file_names[:_MOST_NAMES])}{more}" if file_names else "is empty"
    text = f"{match['name']} is not in the data folder, which {has}; programs do not see files of the host"
    return (f"{text}; {how.format(name=match['name'][1:-1])}" if how else text,)
