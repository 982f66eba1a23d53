"""Message transport of a guest: host messages read one at a time or in batches, frames written.

The host is trusted, so messages are `marshal`; end of file means that the host is gone, and the guest goes too.
"""

import gc
import json.encoder
import os
import threading
import time
from typing import Any

from toolfold_guest.program.output_streams import Outlet, Stream
from toolfold_guest.program.replay import GuestTape
from toolfold_guest.shared.adaptive_polling import Patience
from toolfold_guest.shared.wire_format import (
    CALLS,
    ENDED,
    HEADER,
    HOLD,
    MAX_ERROR_CHARACTERS,
    PRINTED,
    PROGRAM,
    RELEASE,
    REPLY,
    START,
    UNPACKED,
)
from toolfold_guest.stdlib_names import load

BUFFER_BYTES = 64 * 1024
LOOKS_FOR_START = 500
"""Some 400 microseconds: the check of most programs is over by then."""
_monotonic = time.monotonic  # the real one, whatever the tape puts in its place
_unpack = HEADER.unpack_from

_buffer = memoryview(bytearray(BUFFER_BYTES))


class GuestInbox:
    """What has come of one conversation, and how many replies of it were taken."""

    make_patience: Any = Patience

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
        self.patience = self.make_patience(sock)
        self.tape: GuestTape | None = None
        self.replies_seen = 0
        """Replies taken so far: tells the host whether a `waiting` is stale."""

    @property
    def has_rest(self) -> bool:
        """Whether more was read than was handed out: the socket will not say so."""
        return bool(self._rest)

    def has_whole_message(self) -> bool:
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
        self.replies_seen += len(batch)
        return batch

    def receive_program(self) -> tuple[str, list[Any]]:
        message = self._receive()
        while message is None or message[0] != PROGRAM:
            message = self._receive()
        return message[1], load(message[2])

    def has_more(self) -> bool:
        return bool(self._rest) or bool(self.patience.poll(0))

    def look_for_start(self) -> None:
        """Stay awake a little while: the host is checking the program."""
        self.patience.sees(LOOKS_FOR_START)

    def receive_start(self) -> dict[str, Any]:
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


# ----------------------------------------------------------------------------------------------------
# Frames to the host: JSON, because the host trusts nothing that comes from here and can parse that strictly.

_quote = json.encoder.encode_basestring
_OWN, _OUTPUTS = globals(), Outlet.write.__globals__
_OWN_FRAMES = 8
"""How deep a signal may find us in our own code, and in what that calls."""


class GuestOutbox:
    """The sending end of one socket. Every frame takes along what the program has printed so far."""

    def __init__(self, stdout: Outlet, stderr: Outlet, streams: tuple[Stream, Stream]) -> None:
        self._stdout, self._stderr = stdout, stderr
        self._gather_stdout, self._gather_stderr = streams[0].gather, streams[1].gather
        stdout.full = stderr.full = self.send_printed
        self._sending = threading.Lock()

    def attach(self, sock: Any) -> None:
        self._stdout.reset()
        self._stderr.reset()
        self._sock, self._send = sock, sock.send

    def send_calls(self, calls: list[str], replies_seen: int, tape: str) -> None:
        """Calls that have gathered; `replies_seen` is -1 unless the guest waits."""
        self._emit(f"[{CALLS},{self._take_output()},[{','.join(calls)}],{replies_seen},{tape}]")

    def send_printed(self) -> None:
        stdout, stderr = self._stdout.take(), self._stderr.take()
        if stdout or stderr:
            self._emit(f"[{PRINTED},{_quote(stdout)},{_quote(stderr)}]")

    def send_unpacked(self) -> None:
        """The program has its files: from here on, one that is not there was deleted by the program."""
        self._emit(f"[{UNPACKED}]")

    def send_last_words(self, *_: object) -> None:
        """The host is about to stop the program: what it printed so far must not go with it."""
        if self._sending.locked():
            # In the middle of a frame, which takes the output along.
            return
        try:
            self._gather_stdout()
            self._gather_stderr()
        except RuntimeError:
            # In the middle of a print; the lines before it have gathered.
            pass
        self.send_printed()

    def send_so_far(self, _: int, frame: Any) -> None:
        """The host has a reader. Not in the middle of our own work on the output, which may send it any moment."""
        for _ in range(_OWN_FRAMES):
            if frame is None:
                break
            if frame.f_globals is _OWN or frame.f_globals is _OUTPUTS:
                return
            frame = frame.f_back
        self.send_last_words()

    def send_end(
        self, status: str, value_text: str, error: str, message: str, hints: list[str], unmade: list[str]
    ) -> None:
        output = self._take_output()
        cut = f"[{self._stdout.cut_bytes},{self._stderr.cut_bytes}]"
        details = (
            f",{_quote(_shortened(message))},[{','.join(map(_quote, hints))}]" if message or hints or unmade else ""
        )
        if unmade:
            details += f",[{','.join(map(_quote, unmade))}]"
        self._emit(f"[{ENDED},{output},{_quote(status)},{value_text},{_quote(_shortened(error))},{cut}{details}]")

    def _take_output(self) -> str:
        self._gather_stdout()
        self._gather_stderr()
        stdout, stderr = self._stdout.take(), self._stderr.take()
        return f"{_quote(stdout)},{_quote(stderr)}" if stdout or stderr else '"",""'

    def _emit(self, text: str) -> None:
        # One write for header and body: two would wake the host for four bytes.
        data = text.encode()
        frame = HEADER.pack(len(data)) + data
        # Threads send too, and half a frame inside of another is a breach.
        with self._sending:
            sent_bytes = self._send(frame)
            if sent_bytes != len(frame):
                self._sock.sendall(memoryview(frame)[sent_bytes:])


def _shortened(text: str) -> str:
    left_out = len(text) - MAX_ERROR_CHARACTERS
    if left_out <= 0:
        return text
    half = MAX_ERROR_CHARACTERS // 2
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"
