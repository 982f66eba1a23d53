"""Guest connection: whole frames out of its socket, whole messages in, frames and exits as events.

What the bytes mean is none of its business: `toolfold.protocol` says that. It knows two things of a guest that is not
to be trusted: a frame is refused by its header, before any of it is kept, and what the guest does not read has a cap.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolfold.engines.base import Called, Died, Ended, Event, Printed, ReplayTape, Waiting
from toolfold.models import OWN_SETS, Call, Problem, ProblemKind, Status
from toolfold.prompts.python_stubs import words_for
from toolfold.protocol.codec import (
    CallsFrame,
    EndedFrame,
    Frame,
    UnpackedFrame,
    encode_facts,
    encode_program,
    encode_start,
    tool_facts,
)
from toolfold_guest.shared.call_style import MOST_UNMADE
from toolfold_guest.shared.wire_format import HEADER

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from toolfold.engines.base import Order
    from toolfold.engines.process.guest import Usage
    from toolfold.models import ToolSpec
    from toolfold.protocol.state_machine import Conversation


class GuestConnection:
    """Connection of one program to its guest's socket.

    Args:
        sock: The host's end; it does not block.
        buffer: What is read goes here first. Several connections may share it: a frame is used up before the next read.
        max_unread_bytes: How much may wait for a guest that does not read.
    """

    def __init__(self, sock: socket.socket, buffer: memoryview, max_unread_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = sock.fileno()
        self._recv_into, self._send = sock.recv_into, sock.send
        self._buffer = buffer
        self._partial = bytearray()
        self._unsent: deque[bytes | memoryview] = deque()
        self._unsent_bytes = 0
        self._send_buffer = b""
        """To be sent with what comes next, or in the next turn of the loop."""
        self._max_unread_bytes = max_unread_bytes
        self._is_listening = False
        self.is_closed = False
        self.is_reset = False
        """The guest died before it had read all that it was sent."""

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def listen(self, on_readable: Callable[[], None]) -> None:
        """Have the loop call this whenever there is something to read, from now on."""
        if not self._is_listening:
            self._is_listening = True
            self._loop.add_reader(self._fd, on_readable)

    def close(self) -> None:
        """Neither read nor write any more. The socket stays open: it is the guest's handle that closes it."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._is_listening:
            self._loop.remove_reader(self._fd)
        # A writer that stays behind would hit the next guest with this descriptor.
        if self._unsent:
            self._loop.remove_writer(self._fd)

    def receive(self, conversation: Conversation, handle: Callable[[memoryview], None]) -> bool:
        """Read once and hand on each frame that is whole; false if the guest hung up."""
        # `recv`, not `recvmsg`: descriptors that a guest sends along are closed by the kernel and never seen here.
        try:
            size = self._recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            self.is_reset = True
            return False
        if not size:
            return False
        partial = self._partial
        # Nearly always: the frames lie in the buffer, and nothing is copied.
        if not partial:
            position = self._hand_on(self._buffer, size, conversation, handle)
            if position < size:
                partial += self._buffer[position:size]
            return True
        partial += self._buffer[:size]
        with memoryview(partial) as view:
            position = self._hand_on(view, len(partial), conversation, handle)
        # Nothing to move while one large frame grows.
        del partial[:position]
        return True

    def _hand_on(
        self, view: memoryview, size: int, conversation: Conversation, handle: Callable[[memoryview], None]
    ) -> int:
        """Where the first frame begins that is not whole yet."""
        position = 0
        while size - position >= HEADER.size and not self.is_closed:
            length = HEADER.unpack_from(view, position)[0]
            # By its header alone: a guest that claims 4 GiB must not make the host wait for them, or keep any.
            if length > conversation.max_frame_bytes:
                conversation.check_size(length)
            end = position + HEADER.size + length
            if end > size:
                break
            handle(view[position + HEADER.size : end])
            position = end
        return position

    def send_soon(self, message: bytes) -> None:
        """Send it together with the next message, so that the guest wakes up once; alone if none comes at once."""
        if not self._send_buffer:
            self._loop.call_soon(self._send_soon)
        self._send_buffer += message

    def _send_soon(self) -> None:
        if self._send_buffer:
            self.send(b"")

    def send(self, message: bytes) -> bool:
        """Send it, or as much as the guest has room for and the rest later; false if too much waits already."""
        if self.is_closed:
            return True
        if self._send_buffer:
            message, self._send_buffer = self._send_buffer + message, b""
        # Behind what waits already: replies must not overtake each other in the middle of a message.
        if self._unsent:
            return self._queue(message)
        try:
            sent_bytes = self._send(message)
        except (BlockingIOError, InterruptedError):
            sent_bytes = 0
        except OSError:
            self.is_reset = True
            return True  # the reader will see the end
        # The common case first: a reply fits into the socket, and no writer is ever registered.
        if sent_bytes == len(message):
            return True
        self._loop.add_writer(self._fd, self._writable)
        return self._queue(memoryview(message)[sent_bytes:])

    def _queue(self, data: bytes | memoryview) -> bool:
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        return self._unsent_bytes <= self._max_unread_bytes

    def _writable(self) -> None:
        if self.is_closed:
            # Was on its way to be called when the connection was closed.
            return
        while self._unsent:
            data = self._unsent[0]
            try:
                sent_bytes = self._send(data)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._unsent.clear()
                break
            self._unsent_bytes -= sent_bytes
            if sent_bytes == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = memoryview(data)[sent_bytes:]
        self._loop.remove_writer(self._fd)


# ----------------------------------------------------------------------------------------------------
# What a guest is told of the program that it is to run.


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
# What a guest said, or what became of it, as events for the host. Pure: frames and exit statuses in, events out.

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
                        Call(id=call.id, tool=tools[call.tool].name, arguments=call.arguments, line=call.line)
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
