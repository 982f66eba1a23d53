"""The guest's half of the conversation: calls out, replies in.

Rules:
1. Calls made before the event loop sleeps leave together; many leave in parts, which are still one pause.
2. While nothing else in the guest can run, a call blocks in place: no future, no loop turn.
3. Whoever waits reads for all. The event loop reads when it sleeps; a thread that waits for
   its reply reads if nobody else does, and hands what it reads to those it is for.
4. Whether a program with threads waits cannot be known, only guessed: it does after a quiet
   while. A wrong guess costs the host a round trip, never a reply.
5. The host is trusted, so replies are `marshal`; end of file means that the host is gone.
"""

import _thread
import asyncio
import gc
import itertools
import json.encoder
import marshal
import os
import socket
import threading
import time
from typing import Any

from toolfold_guest.output import Outlet, Stream
from toolfold_guest.patience import Patience
from toolfold_guest.tape import Tape
from toolfold_guest.values import encode, revive
from toolfold_guest.wire import (
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
    text_bytes,
)

BUFFER_BYTES = 64 * 1024
SEND_AT_BYTES = 1024 * 1024
SEND_AT_CALLS = 64  # the host serves them while the program makes the next
QUIET_SECONDS = 0.05
LOOKS_FOR_START = 500
_quote = json.encoder.encode_basestring
_threads = _thread._count  # how many threads besides the first
_monotonic = time.monotonic  # the real one, whatever the tape puts in its place
_BLOCKED = object()
# Rule 4 of `toolfold_guest.zygote`.
_count_from, _ident, _loads = itertools.count, threading.get_ident, marshal.loads
_unpack = HEADER.unpack_from

_buffer = memoryview(bytearray(BUFFER_BYTES))


class ToolError(Exception):
    """A tool call failed; the text says which and why."""

    __module__ = "__main__"


class Channel:
    """One socket to the host, shared by the event loop, blocking calls and threads."""

    def __init__(self, loop: Any, stdout: Outlet, stderr: Outlet, streams: tuple[Stream, Stream]) -> None:
        self.loop = loop
        self._stdout, self._stderr = stdout, stderr
        self._gather_stdout, self._gather_stderr = streams[0].gather, streams[1].gather
        stdout.full = stderr.full = self.send_printed
        self._sending = threading.Lock()
        self._turn = threading.Condition(threading.Lock())
        self._sock: Any = None

    def attach(self, sock: socket.socket) -> None:
        """Begin a conversation. Apart from making one: that happens in the zygote, and guests share its pages."""
        self.report_waiting = False
        self.tape: Tape | None = None
        self.max_argument_bytes = 0
        self.seen = 0
        """Replies taken so far: tells the host whether a `waiting` is stale."""
        self._stdout.reset()
        self._stderr.reset()
        self.fd = sock.fileno()
        if self._sock is not sock:  # else it is the next program of a session: half a late reply may wait here
            self._rest = b""
        self._sock, self._recv_into, self._send = sock, sock.recv_into, sock.send
        self._ids = _count_from(1)
        self._main_thread = _ident()
        self._pending: dict[int, Any] = {}
        self._unsent: list[str] = []
        self._unsent_bytes = 0
        self._patience = Patience(sock)
        self._told_waiting = -1
        self._listening: list[Any] = []
        """The event loops that look for replies: the guest's own, and any other that ran a call in the main thread."""
        self._is_reading = False
        self._arrived: dict[int, Any] = {}
        self.in_place: dict[str, int] = {}
        """How many calls of each tool were made where the program did not await them."""
        self.never_made: list[str] = []
        """The tools of calls that the program dropped before anything needed them."""
        self.has_pending = False

    # calls

    async def call(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        """An awaited call: blocks in place if nothing else could run, else waits as a future."""
        loop: Any = asyncio.get_running_loop()
        if loop is not self.loop and not self._serves(loop):
            return await asyncio.to_thread(self.call_blocking, index, name, arguments, line)
        if not self._pending and not loop._ready and not loop._scheduled and not _threads():
            return self.call_blocking(index, name, arguments, line)
        text = self._encode(name, arguments)
        if loop not in self._listening:
            self._listening.append(loop)
            loop.add_reader(self._sock, self._readable)
        future = loop.create_future()
        if _threads():
            with self._turn:
                self._queue(index, text, line, future)
        else:
            self._queue(index, text, line, future)
        return await future

    def _serves(self, loop: Any) -> bool:
        """Whether a loop that the program made can wait for replies: one of ours, in the main thread."""
        return type(loop) is type(self.loop) and _ident() == self._main_thread

    def call_blocking(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        """A synchronous call, from the program's main thread or any other."""
        text = self._encode(name, arguments)
        if _threads():
            return self._call_among_threads(index, text, line)
        call_id = next(self._ids)
        self._unsent.append(f"[{call_id},{index},{text},{line}]")
        self.send_calls(waits=True)
        self._patience.sees()
        while True:
            own = None
            for reply in self._take_batch():
                if reply[1] == call_id:
                    own = reply
                else:
                    self._settle(reply)
            if own is not None:
                return _open(own)
            if self.report_waiting:
                self.send_calls(waits=True)  # still blocked: the replies were for others

    def call_in_place(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        """A synchronous call where the program could have awaited: counted, for a hint, unless threads run them."""
        if _ident() == self._main_thread:
            self.in_place[name] = self.in_place.get(name, 0) + 1
        return self.call_blocking(index, name, arguments, line)

    def call_together(self, calls: list[tuple[int, str, dict[str, Any], int]]) -> list[tuple[bool, Any]]:
        """Several synchronous calls at once; for each, whether it went well, and its value or error."""
        texts = [(index, self._encode(name, arguments), line) for index, name, arguments, line in calls]
        with self._turn:
            ids = [self._queue(index, text, line, _BLOCKED) for index, text, line in texts]
        replies = []
        for call_id in ids:
            try:
                replies.append((True, self._wait_for(call_id)))
            except ToolError as error:
                replies.append((False, error))
        return replies

    def _wait_for(self, call_id: int) -> Any:
        """The reply to a call that was queued as blocked."""
        if _threads():
            return self._wait_among_threads(call_id)
        if self._unsent:
            self.send_calls(waits=True)
        while call_id not in self._arrived:
            for reply in self._take_batch():
                self._settle(reply)
            if self.report_waiting and call_id not in self._arrived:
                self.send_calls(waits=True)
        return _open(self._arrived.pop(call_id))

    def _call_among_threads(self, index: int, text: str, line: int) -> Any:
        with self._turn:
            call_id = self._queue(index, text, line, _BLOCKED)
        return self._wait_among_threads(call_id)

    def _wait_among_threads(self, call_id: int) -> Any:
        if self.tape is not None:
            self.tape.spoil()  # which thread runs when is nowhere on record
        with self._turn:
            self.send_calls(waits=False)
            while call_id not in self._arrived:
                if self._is_reading:
                    self._turn.wait()
                    continue
                self._is_reading = True
                self._turn.release()
                try:
                    if self.report_waiting and not self._rest and not self._patience.poll(QUIET_SECONDS * 1000):
                        self.send_calls(waits=True)
                    batch = self._take_batch()
                finally:
                    self._turn.acquire()
                    self._is_reading = False
                for reply in batch:
                    self._settle(reply)
                self._turn.notify_all()
            return _open(self._arrived.pop(call_id))

    def _queue(self, index: int, text: str, line: int, waiter: object) -> int:
        # With threads about, only under `_turn`: ids must leave in the order in which they were given.
        call_id = next(self._ids)
        self._pending[call_id] = waiter
        self._unsent.append(f"[{call_id},{index},{text},{line}]")
        self._unsent_bytes += len(text)
        if self._unsent_bytes > SEND_AT_BYTES or len(self._unsent) >= SEND_AT_CALLS:
            self.send_calls(waits=False)
        return call_id

    def _encode(self, name: str, arguments: dict[str, Any]) -> str:
        text = encode(arguments, f"{name} argument ")
        if len(text) * 4 > self.max_argument_bytes and text_bytes(text) > self.max_argument_bytes:
            raise ValueError(
                f"the arguments of {name!r} take {text_bytes(text)} bytes; the limit is {self.max_argument_bytes}"
            )
        return text

    # replies

    def _readable(self) -> None:
        with self._turn:
            if self._is_reading:
                return
            for reply in self._take_batch():
                self._settle(reply)
            self._turn.notify_all()

    def _take_batch(self) -> list[Any]:
        """All replies of one read, as many as came the first time if this is a replay."""
        tape = self.tape
        if tape is not None and tape.is_replaying:
            batch = [self.receive() for _ in range(tape.next_wake())]
        else:
            batch = [self.receive()]
            while self._rest and self.has_whole_message():
                batch.append(self.receive())
            batch = [reply for reply in batch if reply is not None]
            if tape is not None:
                tape.woke(len(batch))
        self.seen += len(batch)
        return batch

    def has_whole_message(self) -> bool:
        """The socket will not say that there is more: it was read already."""
        size = len(self._rest) - HEADER.size
        return size >= 0 and size >= _unpack(self._rest)[0]

    def _settle(self, reply: Any) -> None:
        waiter = self._pending.pop(reply[1], None)
        if waiter is _BLOCKED:
            self._arrived[reply[1]] = reply
        elif waiter is not None:
            if _ident() == self._main_thread:
                _resolve(waiter, reply)
            else:
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter, reply)

    def receive_program(self) -> tuple[str, list[Any]]:
        """The next program and its tools; a late reply to the last one of the session is nobody's."""
        message = self.receive()
        while message is None or message[0] != PROGRAM:
            message = self.receive()
        return message[1], _loads(message[2])

    def receive_start(self) -> dict[str, Any]:
        """What the program is to be run with."""
        message = self.receive()
        while message is None or message[0] != START:
            message = self.receive()
        options: dict[str, Any] = message[1]
        return options

    def receive(self) -> Any:
        """The next message but a hold, which is sat out here, with the loop's clock stopped, and gives none."""
        message = self._next_message()
        while message[0] != REPLY:
            if message[0] == HOLD:
                held_at = _monotonic()
                while self._next_message()[0] != RELEASE:
                    pass
                self.loop.held_seconds += _monotonic() - held_at
                if not self.has_whole_message():
                    return None  # the reply takes its time; the program's timers must not wait for it
            elif message[0] in (PROGRAM, START):
                break
            message = self._next_message()
        return message

    def has_more(self) -> bool:
        """Whether the next message has come, or begun to."""
        return bool(self._rest) or bool(self._patience.poll(0))

    def look_for_start(self) -> None:
        """Stay awake a little while: the host is checking the program."""
        self._patience.sees(LOOKS_FOR_START)

    def _next_message(self) -> Any:
        """One fixed buffer: a fresh one per reply costs twice the call."""
        rest = self._rest
        if not rest:
            size = self._recv_into(_buffer)
            if size >= 4:
                end = _unpack(_buffer)[0] + 4
                if size == end:
                    return _loads(_buffer[4:end])
                if size > end:
                    self._rest = bytes(_buffer[end:size])
                    return _loads(_buffer[4:end])
            elif size == 0:
                os._exit(0)
            rest = bytes(_buffer[:size])
        while True:
            size = len(rest)
            if size >= 4:
                end = _unpack(rest)[0] + 4
                if size >= end:
                    self._rest = rest[end:]
                    return _loads(memoryview(rest)[4:end])
                if end > BUFFER_BYTES:
                    self._rest = b""
                    return self._receive_large(rest, end)
            more = self._recv_into(_buffer)
            if not more:
                os._exit(0)
            rest += _buffer[:more]

    def _receive_large(self, start: bytes, end: int) -> Any:
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
            return _loads(view[4:])
        finally:
            gc.enable()

    # what leaves

    def before_sleep(self) -> bool:
        """The event loop is about to wait: send what has gathered; true if a quiet while would mean a pause."""
        if _threads():
            self.send_unsent()
            return self.report_waiting and bool(self._pending) and self._told_waiting != self.seen
        if self._unsent or (self.report_waiting and self._pending and self._told_waiting != self.seen):
            self.send_calls(waits=True)
        return False

    def send_unsent(self) -> None:
        """Send calls that have gathered, without a word on whether the guest waits."""
        if self._unsent:
            with self._turn:
                self.send_calls(waits=False)

    def send_calls(self, *, waits: bool) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        seen = -1
        if waits and self.report_waiting:
            seen = self._told_waiting = self.seen
        tape = "null" if self.tape is None else self.tape.take()
        self._emit(f"[{CALLS},{self._take_output()},[{','.join(unsent)}],{seen},{tape}]")

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
            return  # in the middle of a frame, which takes the output along
        try:
            self._gather_stdout()
            self._gather_stderr()
        except RuntimeError:
            pass  # in the middle of a print; the lines before it have gathered
        self.send_printed()

    def send_end(self, status: str, value_text: str, error: str, message: str, hints: list[str]) -> None:
        output = self._take_output()
        cut = f"[{self._stdout.cut_bytes},{self._stderr.cut_bytes}]"
        said = f",{_quote(_shortened(message))},[{','.join(map(_quote, hints))}]" if message or hints else ""
        self._emit(f"[{ENDED},{output},{_quote(status)},{value_text},{_quote(_shortened(error))},{cut}{said}]")

    def _take_output(self) -> str:
        self._gather_stdout()
        self._gather_stderr()
        return f"{_quote(self._stdout.take())},{_quote(self._stderr.take())}"

    def _emit(self, text: str) -> None:
        data = text.encode()
        frame = HEADER.pack(len(data)) + data
        with self._sending:
            sent = self._send(frame)
            if sent != len(frame):
                self._sock.sendall(memoryview(frame)[sent:])


def _shortened(text: str) -> str:
    """A program may raise an error with a text of any length."""
    left_out = len(text) - MAX_ERROR_CHARACTERS
    if left_out <= 0:
        return text
    half = MAX_ERROR_CHARACTERS // 2
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def _open(reply: Any) -> Any:
    """A reply's value, or its error raised."""
    _, _, is_ok, value, has_media = reply
    if is_ok:
        return revive(value) if has_media else value
    raise ToolError(value)


def _resolve(future: Any, reply: Any) -> None:
    if future.done():
        return  # the program gave up waiting
    try:
        future.set_result(_open(reply))
    except ToolError as error:
        future.set_exception(error)
