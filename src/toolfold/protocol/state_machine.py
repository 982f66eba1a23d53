"""State machine of one conversation: the legal order of messages, and what a guest may ask for in all.

Rules:
1. Everything that decides whether a guest's message is legal is in this file.
2. The order is a table. Anything that is not in it is a violation.
3. After a violation or an end nothing more is read.
4. A tool is an index into the grant. Call ids rise by one, so none can be replayed or skipped.
"""

from __future__ import annotations

from typing import Final, Literal

from toolfold.models import MIB, Limits, Problem
from toolfold.protocol.codec import (
    FRAME_COST_BYTES,
    LARGE_BYTES,
    MAX_VALUES,
    CallsFrame,
    EndedFrame,
    Frame,
    PrintedFrame,
    UnpackedFrame,
    Violation,
    check_depth,
    decode_frame,
    largest_value,
    weigh,
)
from toolfold_guest.shared.wire_format import MAX_LINE

State = Literal["parked", "unpacking", "running", "ended"]
Kind = Literal["start", "start with files", "unpacked", "calls", "printed", "ended"]

TRANSITIONS: Final[dict[tuple[State, Kind], State]] = {
    ("parked", "start"): "running",
    ("parked", "start with files"): "unpacking",
    # Nothing of the program has run yet: a call or an end from here would be forged.
    ("unpacking", "printed"): "unpacking",  # last words of one that is stopped
    ("unpacking", "unpacked"): "running",
    ("running", "calls"): "running",
    ("running", "printed"): "running",
    ("running", "ended"): "ended",
}
KEPT_OUTPUT_BYTES: Final = 8 * 1024 * 1024
"""Of each stream; the guest cuts there, and one that does not is not ours."""
OUTPUT_SLACK_BYTES: Final = 1024 * 1024
"""Replacing a half character at a cut may add a few bytes."""
FRAME_SLACK_BYTES: Final = 12 * 1024 * 1024
"""What a frame may carry besides one value: calls that have gathered, a part of the output, a traceback. The guest
sends each of them before it has grown beyond that."""
MAX_CUT_BYTES: Final = 2**53
MAX_TAPE_ENTRIES: Final = 10_000
"""The guest stops there too; what comes is kept for a replay, and so must have an end."""
FRAMES_WITHOUT_CALLS: Final = 1000
"""Beyond one for each call that it may make: a guest tells once per reply that it waits."""

_SMALL_BYTES: Final = 4096
"""What is in a smaller frame need not be counted: there are limits on how many there may be."""
_TOO_MANY: Final = (
    f"the program sent a value of more than {MAX_VALUES} parts in one message; send text or a file instead"
)
_TOO_LARGE: Final = (
    "the program's calls, output and value together take more than {}; send less, or fewer and larger parts"
)

_KINDS: Final[dict[type[Frame], Kind]] = {
    CallsFrame: "calls", PrintedFrame: "printed", EndedFrame: "ended", UnpackedFrame: "unpacked",
}  # fmt: skip
_END_STATUSES: Final = frozenset({"finished", "failed", "exit", "value", "memory", "limit"})


class LimitReached(Exception):
    """The guest behaved, but asked for more than the program may have."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Conversation:
    """What one guest has said so far, and what it may say next."""

    def __init__(self, granted: int, limits: Limits) -> None:
        self._state: State = "parked"
        self._granted = granted
        self._limits = limits
        self._last_call_id = 0
        self._output_bytes = {"stdout": 0, "stderr": 0}
        self._tape_entries = 0
        self._frames_without_calls = 0
        self._left_bytes = limits.sent_bytes
        self.max_frame_bytes = limits.value_bytes + FRAME_SLACK_BYTES

    @property
    def has_begun(self) -> bool:
        """The guest has said something."""
        return self._left_bytes < self._limits.sent_bytes  # every frame costs

    @property
    def has_ended(self) -> bool:
        """The guest said its last word."""
        return self._state == "ended"

    @property
    def has_files(self) -> bool:
        """The guest has all files that it was sent: what it lacks from then on, its program deleted."""
        return self._state in ("running", "ended")

    def start(self, *, with_files: bool = False) -> None:
        """The host sends the program, and perhaps files to unpack before it runs."""
        self._move("start with files" if with_files else "start")

    def check_size(self, frame_bytes: int) -> None:
        """Refuse a frame by its header alone, before a byte of it is kept."""
        if frame_bytes > self.max_frame_bytes:
            raise Violation(f"a frame of {frame_bytes} bytes")

    def receive(self, body: bytes | memoryview) -> Frame:
        """One frame, decoded and found legal.

        Raises:
            Violation: The guest is not to be trusted any more.
            LimitReached: The program asked for too much.
        """
        # Every frame costs something, however small: a million empty ones must come to an end too.
        if len(body) <= _SMALL_BYTES:
            self._left_bytes -= FRAME_COST_BYTES + len(body)
        else:
            self._weigh(bytes(body))
        if self._left_bytes < 0:
            count = self._limits.sent_bytes
            size = f"{count >> 20} MiB" if count >= MIB else f"{count} bytes"
            raise LimitReached(Problem(kind="value", message=_TOO_LARGE.format(size)))
        # Only now is anything built from it; its order is checked before its contents are looked at.
        frame = decode_frame(body)
        self._move(_KINDS[type(frame)])
        if frame.stdout:
            self._count("stdout", frame.stdout)
        if frame.stderr:
            self._count("stderr", frame.stderr)
        if isinstance(frame, CallsFrame):
            self._check_calls(frame)
            self._check_tape(frame)
        elif isinstance(frame, EndedFrame):
            _check_end(frame)
        elif isinstance(frame, PrintedFrame) and not frame.stdout and not frame.stderr:
            raise Violation("output without a character")
        return frame

    def _weigh(self, raw: bytes) -> None:
        """Count what the frame would take, and refuse it before it does."""
        # Whether it is too much is known before a single value of it exists.
        weight = weigh(raw)
        self._left_bytes -= FRAME_COST_BYTES + len(raw) + weight.memory_bytes
        if weight.is_too_much:
            raise LimitReached(Problem(kind="value", message=_TOO_MANY))
        if len(raw) > LARGE_BYTES:
            check_depth(weight.depth)
        if len(raw) > self._limits.value_bytes and largest_value(raw) > self._limits.value_bytes:
            raise Violation("a larger value than a guest sends")

    def _move(self, kind: Kind) -> None:
        # What is not in the table is a breach: there is no default.
        following = TRANSITIONS.get((self._state, kind))
        if following is None:
            raise Violation(f"a message {kind!r} while {self._state}")
        self._state = following

    def _count(self, stream: str, text: str) -> None:
        self._output_bytes[stream] += len(text.encode())
        if self._output_bytes[stream] > KEPT_OUTPUT_BYTES + OUTPUT_SLACK_BYTES:
            raise Violation(f"more {stream} than a guest sends")

    def _check_calls(self, frame: CallsFrame) -> None:
        for call in frame.calls:
            # An id that was used would answer another call; one that is skipped would leave a gap in the ledger.
            if call.id != self._last_call_id + 1:
                raise Violation(f"call id {call.id} after {self._last_call_id}")
            self._last_call_id = call.id
            # Python takes -1 as the last tool of the host, granted or not.
            if not 0 <= call.tool < self._granted:
                raise Violation(f"a call of tool {call.tool} of {self._granted}")
            # Observers look the line up in the program, and the ledger keeps it as a number of its own size.
            if not 0 <= call.line <= MAX_LINE:
                raise Violation(f"a call from line {call.line}")
            if not 0 <= call.within < call.id:
                raise Violation(f"call {call.id} within call {call.within}")
        # A limit, not a breach: an honest program may reach it, and its author must hear which one.
        if self._last_call_id > self._limits.calls:
            limit = self._limits.calls
            raise LimitReached(Problem(kind="calls", message=f"the program made more than {limit} tool calls"))

    def _check_tape(self, frame: CallsFrame) -> None:
        if frame.tape is None and frame.calls:
            return
        if isinstance(frame.tape, tuple):
            self._tape_entries += len(frame.tape[0]) + len(frame.tape[1])
        # Such a frame wakes the host for nothing; an honest guest sends one after each reply at most.
        self._frames_without_calls += not frame.calls
        if self._tape_entries > MAX_TAPE_ENTRIES:
            raise Violation("a longer tape than a guest sends")
        if self._frames_without_calls > self._limits.calls + FRAMES_WITHOUT_CALLS:
            raise Violation("more frames without a call than a guest sends")


def _check_end(frame: EndedFrame) -> None:
    # The status chooses what the host does next, so only those that it knows can be said.
    if frame.status not in _END_STATUSES:
        raise Violation(f"an end of kind {frame.status[:40]!r}")
    stdout_cut, stderr_cut = frame.cut_bytes
    if not (0 <= stdout_cut <= MAX_CUT_BYTES and 0 <= stderr_cut <= MAX_CUT_BYTES):
        raise Violation("an impossible size of cut output")
