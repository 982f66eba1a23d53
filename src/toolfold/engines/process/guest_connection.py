"""Guest connection: whole frames out of its socket, whole messages in, frames and exits as events.

What the bytes mean is none of its business: `toolfold.protocol` says that. It knows two things of a guest that is not
to be trusted: a frame is refused by its header, before any of it is kept, and what the guest does not read has a cap.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from typing import TYPE_CHECKING, Final

from toolfold.engines.base import Died, Ended
from toolfold.models import Problem
from toolfold_guest.shared.wire_format import HEADER

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from toolfold.engines.process.guest import Usage
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
# Exit statuses as ends of programs.

_CPU_PART: Final = 0.85
_CPU_SLACK_SECONDS: Final = 0.3
"""The kernel enforces the CPU limit by what it finds running at its ticks, and reports what it measured: on a busy
machine these differ by a tenth of a second or two."""
_LARGE_BYTES: Final = 16 * 1024 * 1024


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
