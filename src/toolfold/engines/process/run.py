"""Run of one program in one guest, seen from the host: frames in, events out, replies back.

Rules:
1. Not a byte of the guest is trusted; `Conversation` says what is legal, and the first
   breach kills the guest.
2. How a guest ended comes from the zygote's `waitpid`, not from the guest.
3. Nothing here blocks: what the guest does not read waits in a queue with a cap.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from toolfold.engines.base import Called, Died, Ended, Event, Order, Waiting
from toolfold.engines.guest_frames import Replies, checked_names, events_in, first_frames, mime_of, printed_in
from toolfold.engines.process.guest import Hold
from toolfold.engines.process.guest_connection import GuestConnection, ended_from_exit
from toolfold.engines.process.optimizations import LookAhead
from toolfold.errors import EngineCrashed, EngineError
from toolfold.models import File, Limits, Problem, Reply, Status
from toolfold.protocol.codec import CallsFrame, Violation
from toolfold.protocol.state_machine import Conversation, LimitReached
from toolfold_guest.shared.value_rules import is_text

if TYPE_CHECKING:
    from types import TracebackType

    from toolfold.engines.process.engine import GuestLease
    from toolfold.engines.process.process_tree import TreeWatch


UNREAD_REPLIES_BYTES: Final = 64 * 1024 * 1024
LAST_WORDS_SECONDS: Final = 0.1
"""How long a program that is stopped has to hand over what it printed."""
HANG_UP_SECONDS: Final = 0.5
"""How long a guest may take to end after its connection did."""
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
        sock, limits = lease.guest.sock, order.limits
        # All anew with each try: bytes of a guest that is gone must not be read as those of the next.
        most = UNREAD_REPLIES_BYTES + limits.reply_bytes + limits.data_bytes
        self._connection = GuestConnection(sock, lease.pool.buffer, most)
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
            from toolfold.engines.process.process_tree import TreeWatch  # noqa: PLC0415  # for bash programs alone

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
            self._push(event)

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
            async with asyncio.timeout(HANG_UP_SECONDS):
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
        last = ended_from_exit(
            status, lease.guest.usage, lease.limits.cpu_seconds, lease.pool.zygote.has_new_oom_kill
        )  # fmt: skip
        return last if isinstance(last, Died) else await self._with_files(last)


# ----------------------------------------------------------------------------------------------------
# File collection from a guest's data folder, which is hostile: links, pipes and holes stay there.

MAX_FOLDERS_DEEP = 8
MAX_NOTES = 20
"""Notes go to the model: a program must not fill its context with names of files."""
_SHOWN_CHARACTERS = 120
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HOST_FAILURES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""No file of a program causes them."""


class FolderContents(NamedTuple):
    """Contents of a data folder at the end of a program."""

    files: tuple[File, ...]
    """Those that are new or changed, by name."""
    names: frozenset[str]
    """Of all regular files, the unchanged ones and those left out too."""
    hidden: tuple[str, ...]
    """What could not be looked at, files and folders; an empty name is all of it. Nothing there counts as deleted."""
    notes: tuple[str, ...]
    """One for each thing left out."""

    def missing(self, had: Iterable[str]) -> frozenset[str]:
        """Earlier files that certainly no longer exist."""
        missing_names = frozenset(had) - self.names
        return frozenset(name for name in missing_names if not any(_is_under(name, place) for place in self.hidden))


def collect(data_fd: int, initial_files: Mapping[str, bytes], limits: Limits) -> FolderContents:
    """Read the regular files of a data folder, within the limits."""
    files: list[File] = []
    names: set[str] = set()
    notes: list[str] = []
    hidden: list[str] = []
    room = limits.data_bytes
    for name, fd in _walk(data_fd, "", 0, notes, hidden, [limits.data_files]):
        names.add(name)
        try:
            # Of the open file, not of its name: the name may lead elsewhere by now.
            size = os.fstat(fd).st_size
            if size > room:
                notes.append(f"left out {_quote_path(name)}: {size} bytes, with {room} left of the limit")
                continue
            data = _read(fd, size)
        finally:
            os.close(fd)
        # What the caller gave and the program left alone is no product of it.
        if initial_files.get(name) != data:
            files.append(File(name=name, data=data, mime=mime_of(name, data)))
            room -= len(data)
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES:] = [f"left out {len(notes) - MAX_NOTES} more"]
    return FolderContents(
        tuple(sorted(files, key=lambda file: file.name)), frozenset(names), tuple(hidden), tuple(notes)
    )


def _is_under(name: str, place: str) -> bool:
    return not place or name == place or name.startswith(f"{place}/")


def _walk(
    folder_fd: int, prefix: str, depth: int, notes: list[str], hidden: list[str], file_budget: list[int]
) -> Iterator[tuple[str, int]]:
    """Open each regular file without following a link; a hostile name costs a note, never an error."""
    for name in sorted(os.listdir(folder_fd)):
        path = prefix + name
        # A tmpfs has room for more names than anyone wants to read; counted over all folders.
        if file_budget[0] <= 0:
            notes.append(f"left out {_quote_path(path)} and what follows: too many files")
            hidden.append("")
            return
        file_budget[0] -= 1
        try:
            # Relative to the folder that is open: a folder that becomes a link meanwhile is not followed.
            fd = os.open(name, _OPEN, dir_fd=folder_fd)
        except OSError as error:
            if error.errno in _HOST_FAILURES:
                raise
            notes.append(f"left out {_quote_path(path)}: not a file that can be read")
            hidden.append(path)
            continue
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            if is_text(path):
                yield path, fd
                continue
            notes.append(f"left out {_quote_path(path)}: its name is not text")
        elif stat.S_ISDIR(mode) and depth < MAX_FOLDERS_DEEP:
            # Caches of the interpreter and of matplotlib, which the program did not ask for.
            if name not in ("__pycache__", ".matplotlib"):
                yield from _walk(fd, path + "/", depth + 1, notes, hidden, file_budget)
        else:
            notes.append(f"left out {_quote_path(path)}: not a regular file")
            hidden.append(path)
        os.close(fd)


def _quote_path(path: str) -> str:
    return repr(path if len(path) <= _SHOWN_CHARACTERS else f"{path[:_SHOWN_CHARACTERS]}...")


def _read(fd: int, size: int) -> bytes:
    """At most `size` bytes: a file that grows while it is read is cut there."""
    chunks = []
    while size > 0:
        chunk = os.read(fd, size)
        if not chunk:
            break
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
