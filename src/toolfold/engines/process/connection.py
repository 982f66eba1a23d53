"""The socket of one guest, as bytes: whole frames come out of it, whole messages go in, and neither waits.

What the bytes mean is none of its business: `toolfold.protocol` says that. It knows two things of a guest that is not
to be trusted: a frame is refused by its header, before any of it is kept, and what the guest does not read has a cap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from toolfold_guest.shared.wire import HEADER

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class Connection:
    """One program's use of its guest's socket.

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
        self._soon = b""
        """To be sent with what comes next, or in the next turn of the loop."""
        self._max_unread_bytes = max_unread_bytes
        self._is_listening = False
        self.is_closed = False
        self.is_reset = False
        """The guest died before it had read all that it was sent."""

    @property
    def has_unsent(self) -> bool:
        """Whether the guest has not read all that it was sent."""
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

    def receive(self, check_size: Callable[[int], None], handle: Callable[[memoryview], None]) -> bool:
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
            position = self._hand_on(self._buffer, size, check_size, handle)
            if position < size:
                partial += self._buffer[position:size]
            return True
        partial += self._buffer[:size]
        with memoryview(partial) as view:
            position = self._hand_on(view, len(partial), check_size, handle)
        # Nothing to move while one large frame grows.
        del partial[:position]
        return True

    def _hand_on(
        self, view: memoryview, size: int, check_size: Callable[[int], None], handle: Callable[[memoryview], None]
    ) -> int:
        """Where the first frame begins that is not whole yet."""
        position = 0
        while size - position >= HEADER.size and not self.is_closed:
            length = HEADER.unpack_from(view, position)[0]
            # By its header alone: a guest that claims 4 GiB must not make the host wait for them, or keep any.
            check_size(length)
            end = position + HEADER.size + length
            if end > size:
                break
            handle(view[position + HEADER.size : end])
            position = end
        return position

    def send_soon(self, message: bytes) -> None:
        """Send it together with the next message, so that the guest wakes up once; alone if none comes at once."""
        if not self._soon:
            self._loop.call_soon(self._send_soon)
        self._soon += message

    def _send_soon(self) -> None:
        if self._soon:
            self.send(b"")

    def send(self, message: bytes) -> bool:
        """Send it, or as much as the guest has room for and the rest later; false if too much waits already."""
        if self.is_closed:
            return True
        if self._soon:
            message, self._soon = self._soon + message, b""
        # Behind what waits already: replies must not overtake each other in the middle of a message.
        if self._unsent:
            return self._queue(message)
        try:
            sent = self._send(message)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.is_reset = True
            return True  # the reader will see the end
        # The common case first: a reply fits into the socket, and no writer is ever registered.
        if sent == len(message):
            return True
        self._loop.add_writer(self._fd, self._writable)
        return self._queue(memoryview(message)[sent:])

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
                sent = self._send(data)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._unsent.clear()
                break
            self._unsent_bytes -= sent
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = memoryview(data)[sent:]
        self._loop.remove_writer(self._fd)
