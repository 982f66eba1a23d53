"""Messages from the host: read from the socket, cut apart, and handed out one at a time or as a batch of replies.

The host is trusted, so messages are `marshal`; end of file means that the host is gone, and the guest goes too.
"""

import gc
import os
import time
from typing import Any

from toolfold_guest.aliases import load
from toolfold_guest.patience import Patience
from toolfold_guest.tape import Tape
from toolfold_guest.wire import HEADER, HOLD, PROGRAM, RELEASE, REPLY, START

BUFFER_BYTES = 64 * 1024
LOOKS_FOR_START = 500
"""Some 400 microseconds: the check of most programs is over by then."""
_monotonic = time.monotonic  # the real one, whatever the tape puts in its place
_unpack = HEADER.unpack_from

_buffer = memoryview(bytearray(BUFFER_BYTES))


class Inbox:
    """What has come of one conversation, and how many replies of it were taken."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._sock: Any = None

    def attach(self, sock: Any) -> None:
        """Begin a conversation. Apart from making one: that happens in the zygote, and guests share its pages."""
        # Else it is the next program of a session: half a late reply may wait here.
        if self._sock is not sock:
            self._rest = b""
        self._sock, self._recv_into = sock, sock.recv_into
        self.fd = sock.fileno()
        self.patience = Patience(sock)
        self.tape: Tape | None = None
        self.seen = 0
        """Replies taken so far: tells the host whether a `waiting` is stale."""

    @property
    def has_rest(self) -> bool:
        """Whether more was read than was handed out: the socket will not say so."""
        return bool(self._rest)

    def has_whole_message(self) -> bool:
        """The same, and it is enough for a message."""
        size = len(self._rest) - HEADER.size
        return size >= 0 and size >= _unpack(self._rest)[0]

    def take_batch(self) -> list[Any]:
        """All replies of one read, as many as came the first time if this is a replay."""
        tape = self.tape
        if tape is not None and tape.is_replaying:
            batch = [self._receive() for _ in range(tape.next_wake())]
        else:
            # At least one: the caller knows that something is there, or wants to wait for it.
            batch = [self._receive()]
            while self._rest and batch[-1] is not None and self.has_whole_message():
                batch.append(self._receive())
            batch = [reply for reply in batch if reply is not None]
            if tape is not None:
                tape.woke(len(batch))
        self.seen += len(batch)
        return batch

    def receive_program(self) -> tuple[str, list[Any]]:
        """The next program and its tools; a late reply to the last one of the session is nobody's."""
        message = self._receive()
        while message is None or message[0] != PROGRAM:
            message = self._receive()
        return message[1], load(message[2])

    def has_more(self) -> bool:
        """Whether the next message has come, or begun to."""
        return bool(self._rest) or bool(self.patience.poll(0))

    def look_for_start(self) -> None:
        """Stay awake a little while: the host is checking the program."""
        self.patience.sees(LOOKS_FOR_START)

    def receive_start(self) -> dict[str, Any]:
        """What the program is to be run with."""
        message = self._receive()
        while message is None or message[0] != START:
            message = self._receive()
        options: dict[str, Any] = message[1]
        return options

    def _receive(self) -> Any:
        """The next message but a hold, which is sat out here, with the loop's clock stopped, and gives none."""
        message = self._next_message()
        while message[0] != REPLY:
            if message[0] == HOLD:
                held_at = _monotonic()
                message = self._next_message()
                while message[0] != RELEASE:
                    message = self._next_message()
                self._loop.held_seconds += _monotonic() - held_at
                # A timer that has just run out is among those that are ready.
                has_timers = self._loop._scheduled or self._loop._ready
                if message[1] and has_timers and self.tape is not None:
                    # The caller took its time: timers run out before its reply is seen, which the tape has on record.
                    self._loop.held_seconds -= message[1]
                    return None
                if not self.has_whole_message():
                    # The reply takes its time; the program's timers must not wait for it.
                    return None
            elif message[0] in (PROGRAM, START):
                break
            message = self._next_message()
        return message

    def _next_message(self) -> Any:
        """One fixed buffer: a fresh one per reply costs twice the call."""
        rest = self._rest
        if not rest:
            size = self._recv_into(_buffer)
            if size >= 4:
                end = _unpack(_buffer)[0] + 4
                # Nearly always: one reply, and all of it.
                if size == end:
                    return load(_buffer[4:end])
                if size > end:
                    self._rest = bytes(_buffer[end:size])
                    return load(_buffer[4:end])
            elif size == 0:
                os._exit(0)
            rest = bytes(_buffer[:size])
        while True:
            size = len(rest)
            if size >= 4:
                end = _unpack(rest)[0] + 4
                if size >= end:
                    self._rest = rest[end:]
                    return load(memoryview(rest)[4:end])
                if end > BUFFER_BYTES:
                    self._rest = b""
                    return self._receive_large(rest, end)
            more = self._recv_into(_buffer)
            if not more:
                os._exit(0)
            rest += _buffer[:more]

    def _receive_large(self, start: bytes, end: int) -> Any:
        """Into one block of its size, instead of a text that grows with each read."""
        whole = bytearray(end)
        size = len(start)
        whole[:size] = start
        view = memoryview(whole)
        while size < end:
            more = self._recv_into(view[size:])
            if not more:
                os._exit(0)
            size += more
        # A collection in the middle finds only live objects, at a third of the decoding time.
        gc.disable()
        try:
            return load(view[4:])
        finally:
            gc.enable()
