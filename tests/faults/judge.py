"""Verdicts: what clients were told, what tools did, what programs saw and what is on record. Pure.

1. What a program prints at its end must agree with everything that it passed to tools and clients on the way, with the
   tools' own account of their replies, with what the client replied, and with the record.
2. `unknown` excuses one thing: a call that was open while its host was disturbed was made once or not at all. `killed`
   excuses that a program stopped where it was, if it was running while a sandbox process was killed. Everything before
   that point is compared all the same, and nothing may have been done behind it.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.faults.programs import Step

UNKNOWN = ("whether it ran is not known", "may have been called with these arguments")
"""In a program's error: the host was killed while a call was open, and says so instead of making it again."""

KILLED = ("the kernel stopped the program", "was killed")
"""In the error of a program whose sandbox process was killed."""

End = Literal["completed", "unknown", "killed", "cancelled", "unsure", "refused", "open", "lost"]
Cause = Literal["host", "guest", "other"]
_SHOWN_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Violation:
    """Two sides that cannot both be right."""

    kind: str
    name: str
    """Of the operation, the session or the request."""
    expected: object
    actual: object
    where: str = ""
    execution_id: str = ""

    def __str__(self) -> str:
        place = f" at {self.where}" if self.where else ""
        who = f"{self.name} (execution {self.execution_id})" if self.execution_id else self.name
        return f"{self.kind}: {who}{place}: expected {_shown(self.expected)}, got {_shown(self.actual)}"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A fault that was made, by the monotonic clock; what it can excuse depends on its cause."""

    cause: Cause
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Done:
    """One line of what the tools say that they did."""

    name: str
    reply: str
    # Any: JSON values, as the program passed them.
    seen: Any = None


@dataclass(slots=True)
class Operation:
    """One program of one client, from its start to the last answer that the client got."""

    name: str
    steps: tuple[Step, ...]
    seen: str = "whole"
    """Whether its calls carry all that it has seen so far, or only the names of unknown calls."""
    # Any: JSON values, as they were replied and seen.
    replies: dict[str, Any] = field(default_factory=dict)
    """What the client answered, by the name of the call."""
    evidence: list[tuple[str, Any]] = field(default_factory=list)
    """What the program passed to its client with each call: the name of the call, and the lines so far."""
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Bodies of all answers with status 200, by the request that they answer."""
    in_flight: list[tuple[float, float]] = field(default_factory=list)
    """From when to when its client, or its command, waited for it."""
    end: End = "open"
    stdout: str = ""
    said: str = ""
    """The last refusal, where it was lost; the request, where that was never answered."""
    execution_id: str = ""
    reached: int = 0
    """The step at which it stood when it was stopped, where its output does not say."""
    most_executions: int = 1
    """A command that reruns a program makes an execution each time."""
    is_audited: bool = True
    """Its end is in a ledger that is compared afterwards."""
    is_all_on_record: bool = True
    """Whether each call must be on record, also where the process was killed."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One execution as the ledger has it."""

    execution_id: str
    name: str
    state: str
    status: str
    stdout: str
    calls: tuple[tuple[int, str], ...]
    """Id and name of each call that was made."""
    # Any: JSON values.
    replies: tuple[tuple[int, Any], ...]
    """Id and value of each reply, `None` for an error."""


@dataclass(slots=True)
class Session:
    """A folder of files that several write to."""

    name: str
    uploaded: dict[str, str] = field(default_factory=dict)
    """Text by name, of uploads that were acknowledged."""
    left: dict[str, str] = field(default_factory=dict)
    """The same of files that programs wrote which completed."""
    found: dict[str, str] | None = None
    """`None` where it could not be read."""


def violations(
    operations: Sequence[Operation], done: Sequence[Done], sessions: Sequence[Session] = (), *,
    broken: Iterable[str] = (), faults: Sequence[Disturbance] = (), records: Sequence[Recorded] | None = None,
) -> list[Violation]:  # fmt: skip
    """Everything that contradicts what `docs/reliability.md` promises."""
    by_name: dict[str, list[Done]] = {}
    for line in done:
        by_name.setdefault(line.name, []).append(line)
    executions: dict[str, list[Recorded]] = {}
    for record in records or ():
        executions.setdefault(record.name, []).append(record)
    violated: list[Violation] = []
    owners = {call: operation for operation in operations for step in operation.steps for call in step.calls}
    for name, lines in by_name.items():
        if len(lines) > 1:
            owner = owners[name].execution_id if name in owners else ""
            violated.append(Violation("doubled call", name, "done once", f"{len(lines)} times", "", owner))
    for operation in operations:
        own = executions.get(operation.name, [])
        if own and not operation.execution_id:
            operation.execution_id = own[-1].execution_id
        case = _Case(operation, by_name, faults)
        violated += case.violations()
        if records is not None and operation.is_audited:
            violated += case.of_records(own)
    for session in sessions:
        violated += _of_files(session)
    violated += [Violation("not 503", request, "503 with a reason", "500, or no reason") for request in broken]
    return violated


class _Case:
    """One operation, and everything that is known of it."""

    def __init__(
        self, operation: Operation, done: Mapping[str, list[Done]], faults: Sequence[Disturbance]
    ) -> None:  # fmt: skip
        self._of = operation
        self._done = done
        self._faults = faults
        self._transcript: list[Any] = []
        self._violated: list[Violation] = []

    def violations(self) -> list[Violation]:
        end = self._of.end
        if end == "lost":
            self._add("lost execution", "an end, or another pause", self._of.said)
        if end == "open":
            self._add("never answered", "an answer", self._of.said)
        self._of_answers()
        self._read()
        self._of_order()
        for at, line in enumerate(self._transcript[: len(self._of.steps)]):
            self._of_line(self._of.steps[at], line)
        self._of_clocks()
        self._of_evidence()
        self._of_rest()
        self._of_end()
        return self._violated

    def _add(self, kind: str, expected: object, actual: object, where: str = "") -> None:
        self._violated.append(Violation(kind, self._of.name, expected, actual, where, self._of.execution_id))

    def _of_answers(self) -> None:
        for request, bodies in self._of.answers.items():
            for body in bodies[1:]:
                if body != bodies[0]:
                    self._add("second answer", bodies[0], body, request)

    def _read(self) -> None:
        for line in self._of.stdout.splitlines():
            try:
                self._transcript.append(json.loads(line))
            except ValueError:
                self._add("wrong output", "a line of JSON", line)

    def _of_order(self) -> None:
        order = [[step.kind, step.name] for step in self._of.steps]
        actual = [line[:2] for line in self._transcript]
        expected = order if self._of.end == "completed" else order[: len(actual)]
        if actual != expected:
            self._add("wrong output", expected, actual, "the order of steps")

    # Any: a line of JSON.
    def _of_line(self, step: Step, line: Any) -> None:
        value = line[2]
        if step.kind in ("effect", "plain effect"):
            self._of_reply(step.name, value)
        elif step.kind == "gather":
            for name, one in zip(step.calls, value, strict=False):
                self._of_reply(name, one)
        elif step.is_asked:
            expected = [self._of.replies.get(name) for name in step.calls]
            actual = value if step.kind == "ask both" else [value]
            if actual != expected:
                self._add("wrong reply", expected, actual, f"the client's reply to {step.name}")

    # Any: JSON.
    def _of_reply(self, name: str, value: Any) -> None:
        """What a program says that a tool of the host replied."""
        lines = self._done.get(name, [])
        if isinstance(value, dict):
            text = value.get("unknown", value)
            if not any(words in str(text) for words in UNKNOWN):
                self._add("wrong reply", [line.reply for line in lines], value, f"the host's reply to {name}")
            elif not self._is_excused("host", "guest"):
                self._add("unknown without a cause", [line.reply for line in lines], text, name)
        elif not lines:
            self._add("lost call", "done once", f"never done, and answered with {value!r}", name)
        elif value not in [line.reply for line in lines]:
            self._add("wrong reply", lines[0].reply, value, f"the host's reply to {name}")

    def _of_clocks(self) -> None:
        reads = [line for line in self._transcript if line[0] == "clock"]
        for earlier, later in itertools.pairwise(reads):
            if any(before > after for before, after in zip(earlier[2], later[2], strict=True)):
                self._add("clock ran backwards", f"not before {earlier}", later)

    def _of_evidence(self) -> None:
        """What was passed on the way is the beginning of what came out."""
        places = {name: at for at, step in enumerate(self._of.steps) for name in step.calls}
        passed = [*self._of.evidence]
        passed += [(name, line.seen) for name in places for line in self._done.get(name, [])]
        for name, lines in passed:
            if name not in places:
                self._add("unknown call", sorted(places), name)
                continue
            if self._of.end in ("lost", "open", "cancelled", "unsure", "refused"):
                continue  # nothing came out that could differ
            past = self._transcript[: places[name]]
            expected = past if self._of.seen == "whole" else [line[1] for line in past if "unknown" in json.dumps(line)]
            if lines != expected:
                self._add("changed past", lines, expected, f"what was seen before {name}")

    def _of_rest(self) -> None:
        """The step that was not printed may have begun; nothing behind it has."""
        if self._of.end in ("lost", "open", "unsure", "refused"):
            return
        reached = max(len(self._transcript), self._of.reached)
        for step in self._of.steps[reached + 1 :]:
            for name in step.calls:
                if name in self._done:
                    self._add("effect behind the end", f"nothing behind step {reached + 1}", self._done[name], name)

    def _of_end(self) -> None:
        if self._of.end == "refused":  # it was told that no tool was called
            names = [name for step in self._of.steps for name in step.calls if name in self._done]
            if names:
                self._add("effect of a refused start", "no call", names)
        if self._of.end == "killed" and not self._is_excused("guest"):
            self._add("killed without a cause", "an end", self._of.said)
        if self._of.end == "unknown":
            at = len(self._transcript)
            step = self._of.steps[at] if at < len(self._of.steps) else None
            if step is None or step.kind != "plain effect":
                self._add("wrong end", "an error at a call that it does not catch", self._of.said)
            elif not self._is_excused("host", "guest"):
                self._add("unknown without a cause", "a reply", self._of.said, step.name)

    def _is_excused(self, *causes: Cause) -> bool:
        return any(
            fault.cause in causes and fault.began <= until and fault.ended >= since
            for fault in self._faults
            for since, until in self._of.in_flight
        )

    # the ledger

    def of_records(self, own: Sequence[Recorded]) -> list[Violation]:
        """Whether the ledger tells the same."""
        self._violated = []
        operation = self._of
        if len(own) > operation.most_executions:
            self._add("second execution", f"{operation.most_executions} in the ledger", [x.execution_id for x in own])
        if operation.end in ("completed", "unknown", "killed", "cancelled") and not own:
            self._add("not on record", "one execution in the ledger", "none")
        for record in own:
            self._of_record(record)
        ended = own[-1:] if operation.end in ("completed", "unknown", "killed") else ()
        for record in ended:
            if record.state != "ended":
                self._add("end not on record", "ended", record.state)
            elif record.stdout != operation.stdout:
                self._add("other output on record", record.stdout, operation.stdout)
        if operation.end == "cancelled" and own and own[-1].status != "cancelled":
            self._add("end not on record", "cancelled", own[-1].status or own[-1].state)
        on_record = {name for record in own for _, name in record.calls}
        if operation.is_all_on_record:
            for step in operation.steps:
                for name in step.calls:
                    if own and name in self._done and name not in on_record:
                        self._add("call not on record", "its call in the ledger", "none", name)
        return self._violated

    def _of_record(self, record: Recorded) -> None:
        for what, ids in (("calls", record.calls), ("replies", record.replies)):
            twice = [call_id for call_id, count in Counter(call_id for call_id, _ in ids).items() if count > 1]
            if twice:
                self._add("entry written twice", f"each of the {what} once", f"ids {twice}")
        names = dict(record.calls)
        for call_id, value in record.replies:
            name = names.get(call_id, "")
            known = [line.reply for line in self._done.get(name, [])]
            if name in self._of.replies:
                known = [self._of.replies[name]]
            if value is not None and known and value not in known:
                self._add("other reply on record", known[0], value, name)


def _of_files(session: Session) -> list[Violation]:
    if session.found is None:
        return [Violation("never answered", session.name, "the files of the session", None)]
    return [
        *_missing("lost upload", session.name, session.uploaded, session.found),
        *_missing("wiped file", session.name, session.left, session.found),
    ]


def _missing(what: str, session: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> list[Violation]:
    return [
        Violation(what, f"{session}/{name}", text, found.get(name))
        for name, text in wanted.items()
        if found.get(name) != text
    ]


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
