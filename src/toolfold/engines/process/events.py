"""What a guest said, or what became of it, as events for the host. Pure: frames and exit statuses in, events out."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from toolfold.engines.base import Called, Died, Ended, Event, Printed, Taped, Waiting
from toolfold.models import Call, Problem, ProblemKind, Status
from toolfold.protocol.codec import CallsFrame, EndedFrame, Frame, UnpackedFrame

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.engines.base import Order
    from toolfold.engines.process.guest import Usage

MESSAGE_CHARACTERS: Final = 10_000
"""Of a problem; an exception's text may be a whole file, and stderr has all of it."""
_CPU_PART: Final = 0.85
_CPU_SLACK_SECONDS: Final = 0.3
"""The kernel enforces the CPU limit by what it finds running at its ticks, and reports what it measured: on a busy
machine these differ by a tenth of a second or two."""
_LARGE_BYTES: Final = 16 * 1024 * 1024
MOST_HINTS: Final = 8
MOST_HINT_CHARACTERS: Final = 400

_ENDS: Final[dict[str, tuple[Status, ProblemKind]]] = {
    "failed": ("failed", "exception"),
    "value": ("failed", "value"),
    "memory": ("limit", "memory"),
    "limit": ("limit", "value"),
}


# Lists, not generators: there is a frame for each batch of calls, and most have one event.
def events_in(frame: Frame, order: Order) -> list[Event]:
    """All that a frame tells, in the order in which it happened."""
    events: list[Event] = []
    if frame.stdout or frame.stderr or (isinstance(frame, EndedFrame) and frame.cut_bytes != (0, 0)):
        events += printed_in(frame)
    if isinstance(frame, CallsFrame):
        if frame.tape is not None:
            events.append(_taped(frame.tape))
        if frame.calls:
            tools = order.tools
            # One event for all of them: an event each would cost a gather of quick tools a tenth of its time.
            events.append(
                Called(
                    *[
                        Call(id=one.id, tool=tools[one.tool].name, arguments=one.arguments, line=one.line)
                        for one in frame.calls
                    ]
                )
            )
        if frame.replies_seen >= 0:
            events.append(Waiting(frame.replies_seen))
    elif isinstance(frame, EndedFrame):
        events += _end(frame, order)
    return events


def printed_in(frame: Frame) -> list[Printed]:
    """The output that a frame carries: it comes before whatever else is in it."""
    if isinstance(frame, UnpackedFrame):
        return []
    cut = frame.cut_bytes if isinstance(frame, EndedFrame) else (0, 0)
    printed = []
    if frame.stdout or cut[0]:
        printed.append(Printed(frame.stdout, "stdout", cut[0]))
    if frame.stderr or cut[1]:
        printed.append(Printed(frame.stderr, "stderr", cut[1]))
    return printed


def _end(frame: EndedFrame, order: Order) -> list[Event]:
    notes = tuple(map(_one_line, frame.hints[:MOST_HINTS])) if frame.hints else ()
    if frame.status == "finished":
        return [Ended(status="finished", value=frame.value, notes=notes)]
    status, kind = _ENDS[frame.status]
    last = Ended(status=status, problem=_problem(frame, kind, order), notes=notes)
    # The traceback belongs to stderr, as under the interpreter alone; other ends have no text of their own.
    if frame.status in ("failed", "memory"):
        return [Printed(frame.error + "\n", "stderr", is_report=True), last]
    return [last]


def _one_line(hint: str) -> str:
    """A hint of the guest's, which the program could have written: one short line, whatever it is."""
    return " ".join(hint[:MOST_HINT_CHARACTERS].split())


def _taped(tape: tuple[list[int], list[int | float]] | int) -> Taped:
    return Taped(is_spoilt=True) if isinstance(tape, int) else Taped(tuple(tape[0]), tuple(tape[1]))


def ended_from_exit(
    exit_status: int, usage: Usage, cpu_seconds: float, has_new_oom_kill: Callable[[], bool]
) -> Ended | Died:
    """An exit status that `waitpid` saw, as the end of a program that said nothing itself.

    The CPU limit, the kernel's memory killer and anybody outside all end a process with SIGKILL: what it had used
    tells them apart from a limit, `cpu_seconds` or what the machine has.
    """
    if exit_status == -signal.SIGKILL:
        if usage.cpu_seconds >= cpu_seconds * _CPU_PART - _CPU_SLACK_SECONDS:
            message = f"the program used its {cpu_seconds} s of CPU time"
            return Ended(status="limit", problem=Problem(kind="cpu", message=message))
        # Of what it had when it was forked, the machine would have gained nothing.
        if has_new_oom_kill() and usage.grown_bytes >= _LARGE_BYTES:
            message = "the kernel killed the program because the machine ran out of memory; use less of it"
            return Ended(status="limit", problem=Problem(kind="memory", message=message))
        return Died("the guest was killed from outside, and reached none of its limits")
    if exit_status < 0:
        name = signal.Signals(-exit_status).name
        message = f"the program crashed the interpreter with {name}"
    else:
        message = f"the program left the interpreter with exit code {exit_status}, before it came to its end"
    return Ended(status="failed", problem=Problem(kind="exception", message=message))


def _problem(frame: EndedFrame, kind: ProblemKind, order: Order) -> Problem:
    """The report's message, or all of it if it has no other, and the program's last line in it."""
    text = frame.error.strip()
    message = (frame.message or text)[:MESSAGE_CHARACTERS]
    line = _last_program_line(text)
    lines = order.program.text.splitlines()
    source = lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""
    # A bare `MemoryError` says neither how much there was nor whose limit it is.
    if kind == "memory":
        message = f"the program used more than its {order.limits.memory_bytes >> 20} MiB of memory"
    return Problem(kind=kind, message=message, line=line, source=source)


def _last_program_line(text: str) -> int | None:
    marker = 'File "<program>", line '
    at = text.rfind(marker)
    digits = text[at + len(marker) :].partition(",")[0] if at >= 0 else ""
    # The program may have printed this itself: a number that no text has lines for is none.
    return int(digits) if digits.isdigit() and len(digits) < 9 else None
