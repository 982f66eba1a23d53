"""Call channel of a program: tool calls out to the host, replies back to whoever waits for them.

Rules:
1. Calls made before the event loop sleeps leave together; many leave in parts, which are still one pause.
2. While nothing else in the guest can run, a call blocks in place: no future, no loop turn.
3. Whoever waits reads for all. The event loop reads when it sleeps; a thread that waits for
   its reply reads if nobody else does, and hands what it reads to those it is for.
4. Whether a program with threads waits cannot be known, only guessed: it does after a quiet
   while. A wrong guess costs the host a round trip, never a reply.
"""

import asyncio
import threading
from typing import Any

from toolfold_guest.calls.message_transport import GuestInbox, GuestOutbox
from toolfold_guest.program.compiler import CALL_NAME, FILENAME
from toolfold_guest.program.value_encoder import encode, revive
from toolfold_guest.shared.wire_format import MAX_LINE, text_bytes
from toolfold_guest.stdlib_names import count_from, thread_count, thread_ident

QUIET_SECONDS = 0.05
_BLOCKED = object()
"""Waits for a reply without a future: a thread, or the main thread in place."""
stopped_threads: set[int] = set()
"""Those that end with their current call."""


class ToolError(Exception):
    """A tool call failed; the text says which and why."""

    __module__ = "builtins"  # not the program's own, which `doctest` would look into
    status: int | None = None
    """The HTTP status, where an API answered with an error."""
    body: Any = None
    """The parsed body of that answer."""

    def __reduce__(self) -> Any:
        return _remake_error, (self.args, self.__dict__)


def _remake_error(args: tuple[Any, ...], attributes: dict[str, Any]) -> ToolError:
    error = ToolError(*args)
    error.__dict__.update(attributes)
    return error


class Habits:
    """What the calls of a program suggest to write another way."""

    def reset(self) -> None:
        self.in_place: dict[str, int] = {}
        """How many calls of each tool were made where the program did not await them."""
        self.unmade: list[tuple[str, int]] = []
        """Calls that the program dropped before anything awaited or used them: their names and lines."""
        self.late: list[tuple[str, int]] = []
        """Calls that were made for their value after later ones."""
        self.has_pending = False
        """It may have calls, or coroutines of its own, that nothing has asked for yet."""

    def has_any(self) -> bool:
        return bool(self.in_place or self.late)


class Channel:
    """Shared by the event loop, blocking calls and threads."""

    def __init__(self, loop: Any, inbox: GuestInbox, outbox: GuestOutbox) -> None:
        self.loop = loop
        self.inbox, self.outbox = inbox, outbox
        self.unsent = UnsentCalls(inbox, outbox)
        self.habits = Habits()
        self._turn = threading.Condition(threading.Lock())

    def attach(self, sock: Any) -> None:
        """Begin a conversation. Apart from making one: that happens in the zygote, and guests share its pages."""
        self.inbox.attach(sock)
        self.outbox.attach(sock)
        self.unsent.reset()
        self.habits.reset()
        self.max_argument_bytes = 0
        self._main_thread = thread_ident()
        self._waiting: dict[int, Any] = {}
        """By call id: a future, or `_BLOCKED`."""
        self._arrived: dict[int, Any] = {}
        """Replies to those that are blocked, until they look."""
        self._listening: list[Any] = []
        """The event loops that look for replies: the guest's own, and any other that ran a call in the main thread."""
        self._is_reading = False
        """A thread is in the middle of it, without the lock."""

    # calls

    async def call(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        """An awaited call: blocks in place if nothing else could run, else waits as a future."""
        loop: Any = asyncio.get_running_loop()
        # A loop in another thread cannot wait for a socket that this one reads.
        if loop is not self.loop and not self._serves(loop):
            return await asyncio.to_thread(self.call_blocking, index, name, arguments, line)
        # Rule 2: asyncio's own lists say whether anything else could run.
        if not self._waiting and not loop._ready and not loop._scheduled and not thread_count():
            return self.call_blocking(index, name, arguments, line)
        text = self._encode(name, arguments)
        if loop not in self._listening:
            self._listening.append(loop)
            loop.add_reader(self.inbox.fd, self._readable)
        future = loop.create_future()
        if thread_count():
            with self._turn:
                self._queue(index, text, line, future)
        else:
            self._queue(index, text, line, future)
        return await future

    def _serves(self, loop: Any) -> bool:
        """Whether a loop that the program made can wait for replies: one of ours, in the main thread."""
        return type(loop) is type(self.loop) and thread_ident() == self._main_thread

    def call_blocking(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        """A synchronous call, from the program's main thread or any other."""
        text = self._encode(name, arguments)
        if thread_count():
            with self._turn:
                call_id = self._queue(index, text, line, _BLOCKED)
            return self._wait_among_threads(call_id)
        inbox, unsent = self.inbox, self.unsent
        call_id = unsent.add(index, text, line)
        unsent.send(waits=True)
        inbox.patience.sees()
        while True:
            own = None
            for reply in inbox.take_batch():
                if reply[1] == call_id:
                    own = reply
                else:
                    self._settle(reply)
            if own is not None:
                return _open(own)
            if unsent.reports_waiting:
                # Still blocked: the replies were for others.
                unsent.send(waits=True)

    def call_in_place(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        """A synchronous call where the program could have awaited: counted, for a hint, unless threads run them."""
        if thread_ident() == self._main_thread:
            self.count_in_place(name)
        return self.call_blocking(index, name, arguments, line)

    def count_in_place(self, name: str) -> None:
        in_place = self.habits.in_place
        in_place[name] = in_place.get(name, 0) + 1

    def call_together(self, calls: list[tuple[int, str, dict[str, Any], int]]) -> list[tuple[bool, Any]]:
        """Several synchronous calls at once; for each, whether it went well, and its value or error."""
        texts = [(index, self._encode(name, arguments), line) for index, name, arguments, line in calls]
        with self._turn:
            ids = [self._queue(index, text, line, _BLOCKED) for index, text, line in texts]
        replies = []
        # One after another in the order of the calls; the replies themselves come in any.
        for call_id in ids:
            try:
                replies.append((True, self._wait_for(call_id)))
            except ToolError as error:
                replies.append((False, error))
        return replies

    def _wait_for(self, call_id: int) -> Any:
        if thread_count():
            return self._wait_among_threads(call_id)
        unsent = self.unsent
        if unsent:
            unsent.send(waits=True)
        while call_id not in self._arrived:
            for reply in self.inbox.take_batch():
                self._settle(reply)
            if unsent.reports_waiting and call_id not in self._arrived:
                unsent.send(waits=True)
        return _open(self._arrived.pop(call_id))

    def _wait_among_threads(self, call_id: int) -> Any:
        inbox, unsent = self.inbox, self.unsent
        if inbox.tape is not None:
            # Which thread runs when is nowhere on record.
            inbox.tape.spoil()
        with self._turn:
            unsent.send(waits=False)
            while call_id not in self._arrived:
                if self._is_reading:
                    self._turn.wait()
                    continue
                self._is_reading = True
                self._turn.release()  # others may call meanwhile
                try:
                    is_unsure = unsent.reports_waiting and not inbox.has_rest
                    if is_unsure and not inbox.patience.poll(QUIET_SECONDS * 1000):
                        unsent.send(waits=True)
                    batch = inbox.take_batch()
                finally:
                    self._turn.acquire()
                    self._is_reading = False
                for reply in batch:
                    self._settle(reply)
                self._turn.notify_all()
            reply = self._arrived.pop(call_id)
        if thread_ident() in stopped_threads:
            raise SystemExit
        return _open(reply)

    def _queue(self, index: int, text: str, line: int, waiter: object) -> int:
        call_id = self.unsent.add(index, text, line)
        self._waiting[call_id] = waiter
        self.unsent.send_if_many()
        return call_id

    def _encode(self, name: str, arguments: dict[str, Any]) -> str:
        text = encode(arguments, f"{name} argument ")
        # A character takes at most four bytes: most texts need not be measured.
        if len(text) * 4 > self.max_argument_bytes and text_bytes(text) > self.max_argument_bytes:
            raise ValueError(
                f"the arguments of {name!r} take {text_bytes(text)} bytes; the limit is {self.max_argument_bytes}"
            )
        return text

    # replies

    def _readable(self) -> None:
        with self._turn:
            if self._is_reading:
                # That thread hands on what it reads.
                return
            for reply in self.inbox.take_batch():
                self._settle(reply)
            self._turn.notify_all()

    def _settle(self, reply: Any) -> None:
        waiter = self._waiting.pop(reply[1], None)
        if waiter is _BLOCKED:
            self._arrived[reply[1]] = reply
        elif waiter is not None:
            if thread_ident() == self._main_thread:
                _resolve(waiter, reply)
            else:
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter, reply)

    # before the event loop sleeps

    def before_sleep(self) -> bool:
        """The event loop is about to wait: send what has gathered; true if a quiet while would mean a pause."""
        unsent = self.unsent
        if thread_count():
            self.send_unsent()
            return bool(self._waiting) and unsent.is_waiting_news
        if unsent or (self._waiting and unsent.is_waiting_news):
            unsent.send(waits=True)
        return False

    def send_unsent(self) -> None:
        if self.unsent:
            with self._turn:
                self.unsent.send(waits=False)


def _open(reply: Any) -> Any:
    """A reply's value, or its error raised."""
    _, _, is_ok, value, has_media = reply
    if is_ok:
        return revive(value) if has_media else value
    error = ToolError(value)
    if has_media:  # for an error: its attributes
        error.status, error.body = has_media["status"], has_media["body"]
    raise error


def _resolve(future: Any, reply: Any) -> None:
    if future.done():
        return  # the program gave up waiting
    try:
        future.set_result(_open(reply))
    except ToolError as error:
        future.set_exception(error)


# ----------------------------------------------------------------------------------------------------
# Calls that have not left yet: those made before the event loop sleeps leave together.

SEND_AT_BYTES = 1024 * 1024
SEND_AT_CALLS = 64  # the host serves them while the program makes the next


class CallSite(int):
    """A line, of a saved program's text where `within` names the call that runs it."""

    within: int = 0
    call_id: int = 0
    """Of the call that was made there, once it has one."""


class UnsentCalls:
    """Gives calls their ids, and says with each frame of them whether the guest waits."""

    def __init__(self, inbox: GuestInbox, outbox: GuestOutbox) -> None:
        self._inbox, self._outbox = inbox, outbox

    def reset(self) -> None:
        """Another program begins, and so do its ids."""
        self.reports_waiting = False
        """Whether the host wants to know, because the execution can pause."""
        self._told_waiting = -1
        self._ids = count_from(1)
        self.last_id = 0
        self._calls: list[str] = []
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, index: int, text: str, line: int) -> int:
        """One more call; its id. With threads about, only under their lock: ids must leave in their order."""
        call_id = self.last_id = next(self._ids)
        if type(line) is CallSite:
            line.call_id = call_id
            self._calls.append(f"[{call_id},{index},{text},{line},{line.within}]")
        else:
            self._calls.append(f"[{call_id},{index},{text},{line}]")
        self._bytes += len(text)
        return call_id

    def send_if_many(self) -> None:
        """In parts that the host can serve meanwhile; all of them are still one pause."""
        if self._bytes > SEND_AT_BYTES or len(self._calls) >= SEND_AT_CALLS:
            self.send(waits=False)

    @property
    def is_waiting_news(self) -> bool:
        """Whether the host wants to hear that the guest waits, and has not since the last reply."""
        return self.reports_waiting and self._told_waiting != self._inbox.replies_seen

    def send(self, *, waits: bool) -> None:
        # Taken first: a print while the frame is being made may send another.
        calls, self._calls, self._bytes = self._calls, [], 0
        replies_seen = -1
        if waits and self.reports_waiting:
            replies_seen = self._told_waiting = self._inbox.replies_seen
        tape = self._inbox.tape
        self._outbox.send_calls(calls, replies_seen, "null" if tape is None else tape.take())


# ----------------------------------------------------------------------------------------------------
# Which line of the program makes a call.
#
# It is found when the tool is called, not when the call leaves: by then a task or a thread may run it, and none of the
# program's frames is left on the stack.


def line_of(frame: Any) -> int:
    """The line of the program that a frame, or the nearest of its callers, stands at; 0 if none of them is its own."""
    # A library calls the tool for the program.
    while not frame.f_code.co_filename.startswith(_OWN_FILES):
        frame = frame.f_back
        if frame is None:
            return 0
    line = frame.f_lineno
    # Code that the program compiles itself may have any line, or none.
    line = line if line is not None and 0 < line <= MAX_LINE else 0
    if frame.f_code.co_filename == FILENAME:
        return line
    site = CallSite(line)
    site.within = frame.f_globals.get(CALL_NAME, 0)
    return site


_OWN_FILES = FILENAME.removesuffix(">")
"""The start of its file's name, and of those of the saved programs that it calls."""
