"""Run of one program in one guest, seen from the host: frames in, events out, replies back.

Rules:
1. Not a byte of the guest is trusted; `Conversation` says what is legal, and the first
   breach kills the guest.
2. How a guest ended comes from the zygote's `waitpid`, not from the guest.
3. Nothing here blocks: what the guest does not read waits in a queue with a cap.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from typing import TYPE_CHECKING, Final, Literal

from toolfold.engines.base import Called, Died, Ended, Event, Order, Waiting
from toolfold.engines.guest_frames import Replies, checked_names, events_in, first_frames, most_unread_bytes, printed_in
from toolfold.engines.process.guest import Hold
from toolfold.engines.process.optimizations import LookAhead
from toolfold.errors import EngineCrashed, EngineError
from toolfold.models import Problem, Reply, Status
from toolfold.protocol.codec import CallsFrame, Violation
from toolfold.protocol.state_machine import Conversation, LimitReached
from toolfold_guest.shared.wire_format import HEADER

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import TracebackType

    from toolfold.engines.process.engine import GuestLease
    from toolfold.engines.process.guest import Usage
    from toolfold.engines.process.resource_watch import TreeWatch


LAST_WORDS_SECONDS: Final = 0.1
"""How long a program that is stopped has to hand over what it printed."""
HANG_UP_SECONDS: Final = 0.5
"""How long a guest may take to end after its connection did."""
TREE_HANG_UP_SECONDS: Final = 10.0
"""The same where its processes end before it: the kernel takes its time for them."""
_LAST: Final = (Ended, Died)
_TRIES: Final = 3
"""How many guests may be gone before the program has begun."""


class ProcessRun:
    """A `Run` on a guest that is taken when the run is entered."""

    def __init__(self, order: Order, lease: GuestLease) -> None:
        # Before anything is taken: names that leave the data folder are the caller's mistake, not the guest's.
        checked_names(order.files)
        self._order = order
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._stopping: Ended | None = None
        self._tries_left = _TRIES
        self._is_beginning_again = False
        self._last_words_timer: asyncio.TimerHandle | None = None
        self._watch: TreeWatch | None = None

    async def __aenter__(self) -> ProcessRun:
        while True:
            try:
                await self._begin()
                return self
            except EngineCrashed:
                # Nothing was heard of the program yet, so that it may begin anew with the next guest.
                if not self._tries_left:
                    raise

    async def _begin(self) -> None:
        order, lease = self._order, self._lease
        self._tries_left -= 1
        await lease.take()
        # What it is sent before it is in its cgroup would be taken for the word that it is.
        if order.program.language == "bash" and not lease.is_ready:
            await lease.until_ready()
        sock, limits = lease.guest.sock, order.limits
        # All anew with each try: bytes of a guest that is gone must not be read as those of the next.
        self._connection = GuestConnection(sock, lease.pool.buffer, most_unread_bytes(limits))
        # At once: a guest that finds its program waiting when it is born loses no time with a rehearsal, and while
        # one that waited begins, there is time for the rest.
        if not lease.is_started:
            self._send_first(first_frames(order, has_files=lease.is_kept, is_prepared=lease.is_prepared))
        self._conversation = Conversation(len(order.tools), limits)
        self._conversation.start(with_files=bool(order.files) and not lease.is_kept)
        self._hold = Hold(lease.guest, self._write, self._connection.send_soon, order.on_frozen, lease.pool.holds)
        self._look_ahead = LookAhead(sock, lease.pool, is_started=lease.is_prepared)
        self._replies = Replies(self._reply, self._look_ahead.answered, limits.reply_bytes)
        if order.program.language == "bash":
            from toolfold.engines.process.resource_watch import TreeWatch  # noqa: PLC0415  # for bash programs alone

            self._watch = TreeWatch(lease.guest, limits, self._stop_tree)
        if lease.is_ready:  # as nearly always, and then there is nothing to await
            return
        try:
            await lease.until_ready()
        except BaseException:
            self._connection.close()
            raise

    def _send_first(self, frames: bytes) -> None:
        # The cap of what may wait is above all that these can be.
        place, send = self._lease.guest.place, self._connection.send
        if self._lease.is_prepared:
            send(frames)
            place.set_free()
        elif self._lease.pool.is_shared:
            place.set_free()
            send(frames)
        else:
            with place.here():
                send(frames)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last_words_timer is not None:
            self._last_words_timer.cancel()
        if self._watch is not None:
            self._watch.close()
        # Left while someone may still wait for the next event.
        if not self._connection.is_closed:
            self._push(Ended(status="cancelled"))
        # Only a session would keep it.
        is_kept = bool(self._order.session) and self._is_sound and not self._connection.has_unsent
        self._lease.give_back(is_kept=is_kept)

    @property
    def _is_over(self) -> bool:
        return self._connection.is_closed

    @property
    def _is_sound(self) -> bool:
        """Whether the program came to its own end, so that its guest may serve the next one of the session."""
        return self._conversation.has_ended and self._stopping is None

    # events

    def __aiter__(self) -> ProcessRun:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._connection.is_closed:
                raise StopAsyncIteration
            if self._look_ahead.is_turn_over():
                await asyncio.sleep(0)  # a turn, not a sleep: to be woken would take longer than the turn
                continue
            if self._look_ahead.sees():
                self._readable()
                continue
            # Not before: most programs are quick, and neither this nor its undoing is free.
            # A reader costs two system calls; a program that ends while we look never needs one.
            self._connection.listen(self._readable)
            self._wake = self._loop.create_future()
            await self._wake
        event = self._events.popleft()
        if type(event) is Called:  # first, because most are
            return event
        # What the program left is collected last, when it cannot change it any more.
        if isinstance(event, Ended):
            return await self._with_files(event)
        return await self._last_of_dead() if isinstance(event, Died) else event

    def nudge(self, event: Waiting) -> None:
        if not self._is_over:
            self._push(event)

    def is_gone(self) -> bool:
        return self._lease.guest.is_gone()

    def _push(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, _LAST):
            # Rule 3 of `protocol.machine`: after an end nothing more is read, whatever is still in the socket.
            self._connection.close()
            self._hold.cancel()
        if self._wake is not None:
            self._wake_up()

    def _wake_up(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)

    # from the guest

    def _readable(self) -> None:
        try:
            if not self._connection.receive(self._conversation, self._handle):
                self._push(self._stopping or Died("the guest closed its connection"))
        except Violation as breach:
            self._cut_off(
                "failed", Problem(kind="protocol", message=f"the program broke the guest's protocol: {breach}")
            )
        except LimitReached as reached:
            self._cut_off("limit", reached.problem)

    def _handle(self, body: memoryview) -> None:
        frame = self._conversation.receive(body)
        if self._stopping is not None:  # these are its last words
            for printed in printed_in(frame):
                self._push(printed)
            self._finish_stop()
            return
        if isinstance(frame, CallsFrame):
            self._replies.expect(len(frame.calls))
            self._events += events_in(frame, self._order)  # none of them is its last
            self._wake_up()
            return
        for event in events_in(frame, self._order):
            self._push((self._over_memory or event) if isinstance(event, Ended) else event)

    @property
    def _over_memory(self) -> Ended | None:
        """The end of a program that the kernel found over its memory, whatever else it says."""
        problem = None if self._watch is None else self._watch.memory_problem()
        return None if problem is None else Ended(status="limit", problem=problem)

    def _cut_off(self, status: Status, problem: Problem) -> None:
        """Kill the guest before anyone hears of it: nothing that it says from here on is read."""
        self._lease.guest.kill()
        self._push(Ended(status=status, problem=problem))

    # to the guest

    def answer(self, reply: Reply) -> None:
        if not self._connection.is_closed:
            self._replies.add(reply)

    def hold(self) -> None:
        """The execution pauses: the program's timers stand still until `release`, and soon all of its threads."""
        self._hold.hold()

    def release(self) -> None:
        self._hold.release()

    def release_after(self, seconds: float) -> None:
        self._hold.release(seconds)

    def ask_for_output(self) -> None:
        """Have what was printed so far come now; a guest sends it with its next call otherwise."""
        if not self._is_over and self._stopping is None:
            self._lease.guest.ask_for_output()

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        if self._stopping is not None or (self._is_over and not self._is_beginning_again):
            return
        # Said before the guest hears of it: from here on its own end counts for nothing.
        self._stopping = Ended(status=status, problem=problem)
        if self._is_over:
            return  # there is no guest now, and the next one hears of it at once
        self._hold.thaw()
        self._lease.guest.warn()
        self._last_words_timer = self._loop.call_later(LAST_WORDS_SECONDS, self._finish_stop)

    def _stop_tree(self, problem: Problem) -> None:
        """End all processes of a program at once: with time for last words they would take still more."""
        if self._stopping is None and not self._is_over:
            self._stopping = Ended(status="limit", problem=problem)
            self._lease.guest.kill()
            self._last_words_timer = self._loop.call_later(LAST_WORDS_SECONDS, self._finish_stop)

    def _finish_stop(self) -> None:
        if not self._is_over and self._stopping is not None:
            self._lease.guest.kill()
            self._push(self._stopping)

    def _reply(self, message: bytes) -> None:
        if self._look_ahead.is_retry:
            with self._lease.guest.place.elsewhere():
                self._write(message)
        else:
            self._write(message)

    def _write(self, message: bytes) -> None:
        if not self._connection.send(message):
            self._cut_off("limit", Problem(kind="protocol", message="the program does not read its replies"))

    # how it ended

    async def _with_files(self, ended: Ended) -> Ended | Died:
        # One that is stopped while it unpacks has half of the files, and deleted none.
        if not self._conversation.has_files:
            # What lies in its folder is not the program's doing.
            return ended
        try:
            return await self._lease.with_files(ended, is_kept=bool(self._order.session) and self._is_sound)
        except OSError as error:  # ours: an end without its files would be taken for the whole
            return Died(f"the program's files cannot be read: {error.strerror}")

    async def _last_of_dead(self) -> Event:
        """How it ended; or the first event of another guest, if it had not even read its program."""
        is_new = self._connection.is_reset and not self._conversation.has_begun and not self._lease.is_kept
        self._is_beginning_again = is_new and self._tries_left > 0
        last = await self._explain()
        if not self._is_beginning_again or not isinstance(last, Died) or self._stopping is not None:
            return self._stopping or last
        self._lease.give_back(is_kept=False)
        early = self._replies.early
        try:
            await self._begin()
        except EngineError as error:
            return Died(str(error))
        finally:
            self._is_beginning_again = False
        for reply in early:
            self._replies.add(reply)
        self._finish_stop()
        return await self.__anext__()

    async def _explain(self) -> Ended | Died:
        """The connection ended without a last word: ask how the process did."""
        try:
            async with asyncio.timeout(HANG_UP_SECONDS if self._watch is None else TREE_HANG_UP_SECONDS):
                status = await self._lease.guest.wait()
        except TimeoutError:
            # It hung up to be forgotten, and runs on: `_with_files` kills it.
            message = "the program closed its connection to the host and went on"
            return await self._with_files(Ended(status="failed", problem=Problem(kind="protocol", message=message)))
        except Exception as error:  # noqa: BLE001  # whatever broke there, the guest is gone
            return Died(str(error) or "the fork server is gone")
        # It took the guest along: no limit of the program's had a part in it.
        if self._lease.pool.zygote.closed:
            return Died("the fork server is gone, and the sandbox with it")
        lease = self._lease
        last = self._over_memory or ended_from_exit(
            status, lease.guest.usage, lease.limits.cpu_seconds, lease.pool.zygote.has_new_oom_kill
        )  # fmt: skip
        return last if isinstance(last, Died) else await self._with_files(last)


# ----------------------------------------------------------------------------------------------------
# Connection of one program to its guest: whole frames out of its socket, whole messages in.
#
# What the bytes mean is none of its business: `toolfold.protocol` says that. It knows two things of a guest that is not
# to be trusted: a frame is refused by its header, before any of it is kept, and what the guest does not read has a cap.


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
