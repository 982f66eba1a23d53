"""One program in one guest, seen from the host: frames in, events out, replies back.

Rules:
1. Not a byte of the guest is trusted; `Conversation` says what is legal, and the first
   breach kills the guest.
2. How a guest ended comes from the zygote's `waitpid`, not from the guest.
3. Nothing here blocks: what the guest does not read waits in a queue with a cap.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from toolfold.engines.base import Called, Died, Ended, Event, Order, Printed, Taped, Waiting
from toolfold.engines.process.files import checked_names, collect
from toolfold.engines.process.frames import program_frame, start_frame
from toolfold.errors import EngineCrashed
from toolfold.models import Call, LibrarySet, Limits, Problem, ProblemKind, Reply, Status
from toolfold.protocol.codec import (
    HOLD_FRAME,
    RELEASE_FRAME,
    CallsFrame,
    EndedFrame,
    UnpackedFrame,
    Violation,
    WireCall,
    decode_frame,
    encode_reply,
)
from toolfold.protocol.machine import Conversation, LimitReached
from toolfold_guest.patience import LOOKS, Patience
from toolfold_guest.wire import ENDED, HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from toolfold.engines.process.kept import KeptGuests
    from toolfold.engines.process.pool import Pool
    from toolfold.engines.process.zygote import Guest

UNREAD_REPLIES_BYTES: Final = 64 * 1024 * 1024
LAST_WORDS_SECONDS: Final = 0.1
"""How long a program that is stopped has to hand over what it printed."""
FREEZE_AFTER_SECONDS: Final = 0.5
"""How long the threads of a paused program may run on; most callers have answered by then."""
HANG_UP_SECONDS: Final = 0.5
"""How long a guest may take to end after its connection did."""
LOOKS_FOR_FIRST: Final = 512
"""Some 400 microseconds: most programs have ended by then, or made their first call."""
MESSAGE_CHARACTERS: Final = 10_000
"""Of a problem; an exception's text may be a whole file, and stderr has all of it."""
MOST_HINTS: Final = 8
MOST_HINT_CHARACTERS: Final = 400
CALLS_AT_A_TIME: Final = 16
"""Then others have their turn of the loop."""

_PLAIN_END: Final = b'[%d,"","","finished",null,"",[0,0]]' % ENDED
_ENDS: Final[dict[str, tuple[Status, ProblemKind]]] = {
    "failed": ("failed", "exception"),
    "value": ("failed", "value"),
    "memory": ("limit", "memory"),
    "limit": ("limit", "value"),
}


class ProcessRun:
    """A `Run` on a guest taken from the pool."""

    def __init__(
        self, pool_of: Callable[[LibrarySet], Coroutine[Any, Any, Pool]], order: Order, kept: KeptGuests
    ) -> None:
        checked_names(order.files)
        self._pool_of = pool_of
        self._kept = kept
        self._said_its_end = False
        self._order = order
        self._had = frozenset(file.name for file in order.files) if order.files else frozenset()
        """Files that the program has once it runs; at its end, those that it left."""
        self._loop = asyncio.get_running_loop()
        self._conversation: Conversation
        self._events: deque[Event] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._guest: Guest
        self._partial = bytearray()
        self._open_calls = 0
        self._is_answered = False
        """All open calls were, in this turn of the loop: the guest may be as quick with its next."""
        self._batch: list[bytes] = []
        """Replies of this turn of the loop."""
        self._unsent: deque[bytes | memoryview] = deque()
        self._unsent_bytes = 0
        self._is_listening = False
        self._is_new = True
        self._is_expected = False
        """The guest has made the program ready, and waits for its start."""
        self._taken_in_a_row = 0
        self._is_over = False
        self._stopping: Ended | None = None
        self._last_words_timer: asyncio.TimerHandle | None = None
        self._freeze_timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> ProcessRun:
        for tries_left in (2, 1, 0):
            try:
                await self._take_guest()
                break
            except EngineCrashed:
                # Nothing was heard of the program yet, so that it may begin anew with the next zygote.
                if not tries_left or not self._pool.zygote.closed:
                    raise
        return self

    async def _take_guest(self) -> None:
        self._pool = await self._pool_of(self._order.program.library_set)
        self._conversation = Conversation(len(self._order.tools), self._order.limits)
        self._unsent.clear()
        self._unsent_bytes = 0
        kept = self._kept.take(self._order.session) if self._order.session else None
        if kept is not None:
            self._pool, self._guest, self._had = kept
        else:
            self._guest = self._pool.take(self._limits(), self._order.program.text, self._order.tools)
        sock = self._guest.sock
        self._recv_into, self._send = sock.recv_into, sock.send
        self._buffer = self._pool.buffer
        self._conversation.start(with_files=bool(self._order.files) and kept is None)
        # At once: a guest that finds its program waiting when it is born loses no time with a rehearsal.
        self._is_expected = kept is None and self._guest.was_told
        self._start(is_kept=kept is not None)
        self._patience = Patience(sock)
        if kept is None:
            try:
                await self._pool.until_ready(self._guest)
            except BaseException:
                self._loop.remove_writer(self._guest.sock.fileno())
                raise

    def _start(self, *, is_kept: bool) -> None:
        order = self._order
        frame = start_frame(order, has_files=is_kept)
        if self._is_expected:
            self._write(frame)
            self._guest.set_free()
            return
        frame = program_frame(order.program.text, order.tools) + frame
        if self._pool.is_shared:
            self._guest.set_free()
            self._write(frame)
        else:
            with self._guest.here():  # on other cores, guests of the programs before are still dying
                self._write(frame)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last_words_timer is not None:
            self._last_words_timer.cancel()
        if self._freeze_timer is not None:
            self._freeze_timer.cancel()
        if not self._is_over:  # left while someone may still wait for the next event
            self._push(Ended(status="cancelled"))
        if self._order.session and self._said_its_end and not self._unsent:
            self._kept.keep(self._order.session, self._pool, self._guest, self._had)
        else:
            self._pool.give_back(self._guest)

    def _limits(self) -> Limits:
        """A guest that serves a whole session has CPU time for many programs."""
        limits = self._order.limits
        return replace(limits, cpu_seconds=limits.cpu_seconds * 10) if self._order.session else limits

    # events

    def __aiter__(self) -> ProcessRun:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._is_over:
                raise StopAsyncIteration
            if self._is_near():
                self._readable()
                continue
            if not self._is_listening:  # not before: most programs are quick, and neither this nor its undoing is free
                self._is_listening = True
                self._loop.add_reader(self._guest.sock.fileno(), self._readable)
            self._wake = self._loop.create_future()
            await self._wake
        event = self._events.popleft()
        if type(event) is Called:  # first, because most are
            return event
        if isinstance(event, Ended):
            return await self._with_files(event)
        return await self._explain() if isinstance(event, Died) else event

    def _is_near(self) -> bool:
        """Whether the next frame comes while we look for it: the first, or one after a quick reply."""
        is_first, self._is_new = self._is_new and self._is_expected, False
        is_next, self._is_answered = self._is_answered, False
        if not (is_first or is_next) or self._pool.is_shared:
            return False
        if is_first:
            self._limber()
        self._taken_in_a_row = (self._taken_in_a_row + 1) % CALLS_AT_A_TIME
        return self._taken_in_a_row != 0 and self._patience.sees(LOOKS_FOR_FIRST if is_first else LOOKS)

    def _limber(self) -> None:
        """The guest has just begun: what we need when it ends can come into the caches of this core meanwhile."""
        decode_frame(_PLAIN_END)

    def nudge(self, event: Waiting) -> None:
        """An event of the host's own, in its turn."""
        if not self._is_over:
            self._push(event)

    def _push(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, Ended | Died):
            self._is_over = True
            self._stop_listening()
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)

    def _stop_listening(self) -> None:
        fd = self._guest.sock.fileno()
        if fd >= 0 and self._is_listening:
            self._is_listening = False
            self._loop.remove_reader(fd)
        if fd >= 0 and self._unsent:
            self._loop.remove_writer(fd)

    # from the guest

    def _readable(self) -> None:
        try:
            size = self._recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size:
            self._push(self._stopping or Died("the guest closed its connection"))
            return
        try:
            self._take(size)
        except Violation as breach:
            self._guest.kill()
            self._end("failed", Problem(kind="protocol", message=f"the program broke the guest's protocol: {breach}"))
        except LimitReached as reached:
            self._guest.kill()
            self._end("limit", reached.problem)

    def _take(self, size: int) -> None:
        partial = self._partial
        if partial:
            partial += self._buffer[:size]
            view, size = memoryview(partial), len(partial)
        else:
            view = self._buffer
        position = 0
        try:
            while size - position >= HEADER.size and not self._is_over:
                length = HEADER.unpack_from(view, position)[0]
                self._conversation.check_size(length)
                end = position + HEADER.size + length
                if end > size:
                    break
                self._handle(view[position + HEADER.size : end])
                position = end
        finally:
            if view is not self._buffer:
                view.release()
        if view is self._buffer:
            partial += self._buffer[position:size]
        else:
            del partial[:position]  # nothing to move while one large frame grows

    def _handle(self, body: memoryview) -> None:
        frame = self._conversation.receive(body)
        if isinstance(frame, UnpackedFrame):
            return
        cut = frame.cut_bytes if isinstance(frame, EndedFrame) else (0, 0)
        if frame.stdout or cut[0]:
            self._push(Printed(frame.stdout, "stdout", cut[0]))
        if frame.stderr or cut[1]:
            self._push(Printed(frame.stderr, "stderr", cut[1]))
        if self._stopping is not None:
            self._finish_stop()
            return
        if isinstance(frame, CallsFrame):
            if frame.tape is not None:
                self._push(_taped(frame.tape))
            if frame.calls:
                self._push(self._called(frame.calls))
            if frame.replies_seen >= 0:
                self._push(Waiting(frame.replies_seen))
        elif isinstance(frame, EndedFrame):
            self._ended(frame)

    def _called(self, wanted: list[WireCall]) -> Called:
        """One event for all of them: an event each would cost a gather of quick tools a tenth of its time."""
        self._open_calls += len(wanted)
        tools = self._order.tools
        return Called(
            *[Call(id=one.id, tool=tools[one.tool].name, arguments=one.arguments, line=one.line) for one in wanted]
        )

    def _ended(self, frame: EndedFrame) -> None:
        self._said_its_end = True
        notes = tuple(map(_one_line, frame.hints[:MOST_HINTS])) if frame.hints else ()
        if frame.status == "finished":
            self._push(Ended(status="finished", value=frame.value, notes=notes))
            return
        status, kind = _ENDS[frame.status]
        if frame.status in ("failed", "memory"):
            self._push(Printed(frame.error + "\n", "stderr", is_report=True))
        problem = problem_from(frame.error, frame.message, kind, self._order)
        self._push(Ended(status=status, problem=problem, notes=notes))

    def _end(self, status: Status, problem: Problem) -> None:
        self._push(Ended(status=status, problem=problem))

    # to the guest

    def answer(self, reply: Reply) -> None:
        """Hand a reply to the program; ignored once the run is over."""
        if self._is_over:
            return
        frame = encode_reply(reply)
        if len(frame) > self._order.limits.reply_bytes + 4096:
            text = f"a reply of {len(frame)} bytes; the limit is {self._order.limits.reply_bytes}"
            frame = encode_reply(Reply(call_id=reply.call_id, error=text))
        self._open_calls -= 1
        self._batch.append(frame)
        self._is_answered = self._open_calls == 0
        if self._open_calls <= 0:  # less than none: a replay gives its replies first
            self._send_batch()
        elif len(self._batch) == 1:
            # More may come in this turn of the loop: one message for all of them is one wake-up.
            self._loop.call_soon(self._send_batch)

    def _send_batch(self) -> None:
        if self._batch and not self._is_over:
            batch, self._batch = self._batch, []
            if self._patience.is_retry and not self._pool.is_shared:
                with self._guest.elsewhere():
                    self._write(b"".join(batch))
            else:
                self._write(b"".join(batch))

    def hold(self) -> None:
        """The execution pauses: the program's timers stand still until `release`, and soon all of its threads."""
        self._write(HOLD_FRAME)
        if self._freeze_timer is None:
            self._freeze_timer = self._loop.call_later(FREEZE_AFTER_SECONDS, self._freeze)

    def _freeze(self) -> None:
        if self._is_over:
            return
        self._guest.freeze()
        if self._order.on_frozen is not None:
            self._guest.weigh(self._order.on_frozen)

    def _thaw(self) -> None:
        if self._freeze_timer is not None:
            self._freeze_timer.cancel()
            self._freeze_timer = None
            self._guest.thaw()

    def release(self) -> None:
        """The execution goes on."""
        self._thaw()
        self._write(RELEASE_FRAME)

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        """End the program now; the last event then is an `Ended` with this status."""
        if self._is_over or self._stopping is not None:
            return
        self._stopping = Ended(status=status, problem=problem)
        self._thaw()
        self._guest.warn()
        self._last_words_timer = self._loop.call_later(LAST_WORDS_SECONDS, self._finish_stop)

    def _finish_stop(self) -> None:
        if not self._is_over and self._stopping is not None:
            self._guest.kill()
            self._push(self._stopping)

    def _write(self, frame: bytes) -> None:
        if self._unsent:
            self._queue(frame)
            return
        try:
            sent = self._send(frame)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return  # the reader will see the end
        if sent != len(frame):
            self._queue(memoryview(frame)[sent:])
            if not self._is_over:  # a writer that stays behind would hit the next guest with this descriptor
                self._loop.add_writer(self._guest.sock.fileno(), self._writable)

    def _queue(self, data: bytes | memoryview) -> None:
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > UNREAD_REPLIES_BYTES + self._order.limits.reply_bytes + self._order.limits.data_bytes:
            self._guest.kill()
            self._end("limit", Problem(kind="protocol", message="the program does not read its replies"))

    def _writable(self) -> None:
        if self._is_over:
            return  # was on its way to be called when the run ended
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
        self._loop.remove_writer(self._guest.sock.fileno())

    # how it ended

    async def _with_files(self, ended: Ended) -> Ended:
        """Collect after the kill: a guest that still runs could change what is being read."""
        if self._guest.data_fd < 0 or not self._conversation.has_files:
            return ended  # what lies there is not the program's doing
        if not os.listdir(self._guest.data_fd):
            had, self._had = self._had, frozenset()
            # Nothing to read, so its end need not be hastened before the outcome is out.
            return replace(ended, deleted=had) if had else ended
        if not (self._order.session and self._said_its_end):
            self._guest.kill()
        given = {file.name: file.data for file in self._order.files}
        found = await asyncio.to_thread(collect, self._guest.data_fd, given, self._order.limits)
        had, self._had = self._had, found.names
        return replace(ended, files=found.files, deleted=found.missing(had), notes=ended.notes + found.notes)

    async def _explain(self) -> Event:
        """The connection ended without a last word: ask how the process did."""
        try:
            async with asyncio.timeout(HANG_UP_SECONDS):
                status = await self._guest.wait()
        except TimeoutError:
            # It hung up to be forgotten, and runs on: `_with_files` kills it.
            message = "the program closed its connection to the host and went on"
            return await self._with_files(Ended(status="failed", problem=Problem(kind="protocol", message=message)))
        except Exception as error:  # noqa: BLE001  # whatever broke there, the guest is gone
            return Died(str(error) or "the zygote is gone")
        if self._pool.zygote.closed:  # it took the guest along: no limit of the program's had a part in it
            return Died("the zygote is gone and took the guest along")
        return await self._with_files(ended_from_exit(status, self._order))


def _one_line(hint: str) -> str:
    """A hint of the guest's, which the program could have written: one short line, whatever it is."""
    return " ".join(hint[:MOST_HINT_CHARACTERS].split())


def _taped(tape: tuple[list[int], list[int | float]] | int) -> Taped:
    return Taped(is_spoilt=True) if isinstance(tape, int) else Taped(tuple(tape[0]), tuple(tape[1]))


def ended_from_exit(exit_status: int, order: Order) -> Ended:
    """An exit status that `waitpid` saw, as the end of a program that said nothing itself."""
    if exit_status == -signal.SIGKILL:
        seconds = order.limits.cpu_seconds
        message = f"the kernel stopped the program: it used its {seconds} s of CPU time, or the machine's memory"
        return Ended(status="limit", problem=Problem(kind="cpu", message=message))
    if exit_status < 0:
        name = signal.Signals(-exit_status).name
        message = f"the program crashed the interpreter with {name}"
    else:
        message = f"the program left the interpreter with exit code {exit_status}, before it came to its end"
    return Ended(status="failed", problem=Problem(kind="exception", message=message))


def problem_from(error: str, message: str, kind: ProblemKind, order: Order) -> Problem:
    """A problem from a report: its message, or all of it if it has no other, and the program's last line in it."""
    text = error.strip()
    message = (message or text)[:MESSAGE_CHARACTERS]
    line = _last_program_line(text)
    lines = order.program.text.splitlines()
    source = lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""
    if kind == "memory":
        message = f"the program used more than its {order.limits.memory_bytes >> 20} MiB of memory"
    return Problem(kind=kind, message=message, line=line, source=source)


def _last_program_line(text: str) -> int | None:
    marker = 'File "<program>", line '
    at = text.rfind(marker)
    digits = text[at + len(marker) :].partition(",")[0] if at >= 0 else ""
    return int(digits) if digits.isdigit() and len(digits) < 9 else None
