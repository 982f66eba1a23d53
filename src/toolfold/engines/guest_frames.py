"""Guest frames: what a guest is told of its program, what it said as events, and the replies on their way to it.

For every engine whose guest is `toolfold_guest`, however its bytes travel.
"""

from __future__ import annotations

import asyncio
import mimetypes
from typing import TYPE_CHECKING, Any, Final

from toolfold.engines.base import Called, Ended, Event, Printed, ReplayTape, Waiting
from toolfold.errors import UsageError
from toolfold.models import MIB, OWN_SETS, Call, Problem, ProblemKind, Reply, Status
from toolfold.prompts.python_stubs import words_for
from toolfold.protocol.codec import (
    CallsFrame,
    EndedFrame,
    Frame,
    UnpackedFrame,
    encode_facts,
    encode_program,
    encode_reply,
    encode_start,
    tool_facts,
)
from toolfold_guest.shared.call_style import MOST_UNMADE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from toolfold.engines.base import Order
    from toolfold.models import File, Limits, ToolSpec


def first_frames(order: Order, *, has_files: bool, is_prepared: bool) -> bytes:
    """All that it needs; one that is prepared knows the program."""
    start = start_frame(order, has_files=has_files)
    return start if is_prepared else program_frame(order.program.text, order.tools) + start


def program_frame(text: str, tools: Sequence[ToolSpec]) -> bytes:
    """All that it needs to make the program ready."""
    return encode_program(text, _facts(tools, words_for(text, tools)))


def start_frame(order: Order, *, has_files: bool) -> bytes:
    """All that it needs to run it then; a session's guest has its files."""
    # All that depends on the execution and not on the text: a guest that knows the program waits for this alone.
    options: dict[str, Any] = {
        "preset": order.program.preset_names,
        "seed": order.seed,
        "report_waiting": order.report_waiting,
        "max_argument_bytes": order.limits.value_bytes,
        "max_value_bytes": order.limits.value_bytes,
        "files": [(file.name, file.data) for file in order.files] if order.files and not has_files else [],
        "session": bool(order.session),
    }
    if order.program.library_set not in OWN_SETS:
        options["library_set"] = order.program.library_set
    if order.program.stdin is not None:
        options["stdin"] = order.program.stdin.encode("utf-8", "surrogatepass")
    if order.program.clock is not None:
        options["clock"] = order.program.clock
    if order.recorded:
        numbers = {spec.name: number for number, spec in enumerate(order.tools)}
        options["recorded"] = [(call.id, numbers[call.tool], dict(call.arguments)) for call in order.recorded]
    if order.tape is not None:
        options["tape"] = (list(order.tape.wakes), list(order.tape.clocks))
    return encode_start(options)


def _facts(tools: Sequence[ToolSpec], words: Mapping[str, tuple[str, str]]) -> bytes:
    global _last_grant  # noqa: PLW0603  # a cache of one; a lost race with another thread costs the work once more
    # Signatures and docstrings are long, and only programs that mention `help` or the like can see them.
    if words:
        return encode_facts(tool_facts(spec, words.get(spec.name)) for spec in tools)
    grant = _last_grant
    if grant[0] is not tools:
        grant = _last_grant = tools, encode_facts(tool_facts(spec) for spec in tools)
    return grant[1]


_last_grant: tuple[Sequence[ToolSpec], bytes] = ((), encode_facts(()))


# ----------------------------------------------------------------------------------------------------
# What a guest said, as events for the host.

MESSAGE_CHARACTERS: Final = 10_000
"""Of a problem; an exception's text may be a whole file, and stderr has all of it."""
MOST_HINTS: Final = 8
MOST_HINT_CHARACTERS: Final = 400

_ENDS: Final[dict[str, tuple[Status, ProblemKind]]] = {
    "failed": ("failed", "exception"),
    "exit": ("failed", "exception"),
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
            events.append(_replay_tape(frame.tape))
        if frame.calls:
            tools = order.tools
            # One event for all of them: an event each would cost a gather of quick tools a tenth of its time.
            events.append(
                Called(
                    *[
                        Call(
                            id=call.id,
                            tool=tools[call.tool].name,
                            arguments=call.arguments,
                            line=call.line,
                            within=call.within,
                        )
                        for call in frame.calls
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
    unmade_calls = tuple(map(_one_line, frame.unmade[:MOST_UNMADE])) if frame.unmade else ()
    if frame.status == "finished":
        return [Ended(status="finished", value=frame.value, notes=notes, unmade_calls=unmade_calls)]
    status, kind = _ENDS[frame.status]
    last = Ended(status=status, problem=_problem(frame, kind, order), notes=notes, unmade_calls=unmade_calls)
    # The traceback belongs to stderr, as under the interpreter alone; other ends have no text of their own.
    if frame.status in ("failed", "memory"):
        return [Printed(frame.error + "\n", "stderr", is_report=True), last]
    return [last]


def _one_line(hint: str) -> str:
    """A hint of the guest's, which the program could have written: one short line, whatever it is."""
    return " ".join(hint[:MOST_HINT_CHARACTERS].split())


def _replay_tape(tape: tuple[list[int], list[int | float]] | int) -> ReplayTape:
    return ReplayTape(is_spoilt=True) if isinstance(tape, int) else ReplayTape(tuple(tape[0]), tuple(tape[1]))


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


# ----------------------------------------------------------------------------------------------------
# Replies on their way to a guest.

_FRAME_SLACK_BYTES: Final = 4096
"""Of a reply's frame, besides its value: the router has measured that as JSON, and this is `marshal`."""


class Replies:
    """Open calls of one program and their replies; replies of one turn of the loop are sent together.

    Args:
        write: Takes what is to be sent.
        all_answered: Told when the program waits for nothing any more.
        max_bytes: Of one reply; the program gets an error instead of a larger one.
    """

    def __init__(self, write: Callable[[bytes], None], all_answered: Callable[[], None], max_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._all_answered = all_answered
        self._max_bytes = max_bytes
        self._open_calls = 0
        self.early: list[Reply] = []
        """Those that were there before their calls, in a replay."""
        self._batch: list[bytes] = []

    def expect(self, count: int) -> None:
        self._open_calls += count

    def add(self, reply: Reply) -> None:
        # The router has cut replies to size; this is for engines that are used without it.
        frame = encode_reply(reply)
        if len(frame) > self._max_bytes + _FRAME_SLACK_BYTES:
            text = f"a reply of {len(frame)} bytes; the limit is {self._max_bytes}"
            frame = encode_reply(Reply(call_id=reply.call_id, error=text))
        self._open_calls -= 1
        self._batch.append(frame)
        # Less than none: a replay gives its replies first.
        if self._open_calls <= 0:
            if self._open_calls == 0:
                self._all_answered()
            else:
                self.early.append(reply)
            self._flush()
        elif len(self._batch) == 1:
            self._flush_soon()

    def _flush_soon(self) -> None:
        # More may come in this turn of the loop: one message for all of them is one wake-up.
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._batch:
            batch, self._batch = self._batch, []
            self._write(batch[0] if len(batch) == 1 else b"".join(batch))


def most_unread_bytes(limits: Limits) -> int:
    """How much may wait for a program that does not read."""
    return 64 * MIB + limits.reply_bytes + limits.data_bytes


# ----------------------------------------------------------------------------------------------------
# Files of a program.


def mime_of(name: str, data: bytes) -> str:
    """By the name, else text or bytes by a look at the start."""
    guessed = mimetypes.guess_type(name)[0]
    if guessed is not None:
        return guessed
    return "application/octet-stream" if b"\0" in data[:1024] else "text/plain"


def stays_in_folder(name: str) -> bool:
    """Whether it is a plain relative name."""
    return "\0" not in name and {"", ".", ".."}.isdisjoint(name.split("/"))


def checked_names(files: Iterable[File]) -> None:
    """Refuse names that would leave the data folder, before a guest sees them."""
    for file in files:
        if not stays_in_folder(file.name):
            raise UsageError(f"file name {file.name!r} does not stay in the data folder; give a plain relative name")
