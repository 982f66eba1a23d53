"""Sessions: files and, if asked for, names that live on between programs; and the quota of each tenant."""

from __future__ import annotations

import ast
import asyncio
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolfold.engines.base import MOST_KEPT_BYTES, MOST_KEPT_GUESTS, Ended
from toolfold.errors import UsageError
from toolfold.models import MIB, File
from toolfold.sessions.stores import Change, FileStore, MemoryStore, SessionFile, TooLarge, digest_of
from toolfold.steady_clock import SteadyClock

if TYPE_CHECKING:
    from toolfold.ledger.base import StartRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Limits of sessions: how much they may store, and for how long."""

    max_bytes: int = 64 * MIB
    """Size of a session's files."""
    max_age_seconds: float = 24 * 3600
    """Time since a session's last program after which its files are deleted."""
    idle_seconds: float = 600
    """Time since a session's last program after which the guest that holds its names ends."""
    max_sessions: int = 10_000
    max_tenant_bytes: int = 1024 * MIB
    """Size of the files of all sessions of one tenant."""
    max_guests: int = MOST_KEPT_GUESTS
    """Guests that wait with the names of their sessions; beyond that the least recently used one ends."""
    max_guest_bytes: int = MOST_KEPT_BYTES
    """Memory of those guests together."""


_SWEEP_EVERY_SECONDS: Final = 60.0
"""A sweep reads every session's age; with thousands of them that is too slow for each program."""


@dataclass(slots=True)
class Session:
    """Session, in use or idle."""

    id: str
    keeps_names: bool = False
    names: set[str] = field(default_factory=set)
    """Names that earlier programs defined, for the check."""
    is_known: bool = False
    """A program of this process has had its turn."""
    has_lost_names: bool = False
    """Its guest ended, and no program was told so yet."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by one program at a time: the next one waits for its names and files."""
    idle_timer: asyncio.TimerHandle | None = None
    programs: int = 0
    """Number of programs that run here or wait for their turn."""
    parked: str = ""
    """Execution that has the turn and waits for somebody outside, who may never come."""
    waiting: set[asyncio.Task[bool]] = field(default_factory=set)
    paused: str = ""
    """Execution that has the turn and was returned to its caller as paused."""
    paused_for: weakref.ref[asyncio.Task[Any]] | None = None
    """That caller, who must not wait for the turn: most likely nobody else would resume the execution."""

    def forget_names(self) -> None:
        """The guest that held them has ended."""
        self.has_lost_names = self.has_lost_names or bool(self.names)
        self.names.clear()


class Sessions:
    """Sessions of one runtime; `now` is monotonic, so that files do not age when the machine's clock jumps."""

    def __init__(
        self, end_guest: Callable[[str], None], *, store: FileStore | None = None, limits: SessionLimits | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:  # fmt: skip
        self._end_guest = end_guest
        self._store: FileStore = store if store is not None else MemoryStore()
        self._limits = limits or SessionLimits()
        self._open: dict[str, Session] = {}
        self._next_sweep = 0.0
        self._now = now or SteadyClock().now
        self._quota = Quota(self._store, self._limits.max_tenant_bytes)
        self._sweeping: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Loop of the timers and guests of open sessions."""

    @property
    def limits(self) -> SessionLimits:
        return self._limits

    def open(self, session: str, *, keep_names: bool = False) -> Session:
        """The session of that name, created if there is none. Names are kept from the first program that asks."""
        check_session_name(session)
        open_session = self._open.get(session)
        if open_session is None:
            self._sweep_if_due()
            if len(self._open) >= self._limits.max_sessions:
                raise UsageError(f"there are {len(self._open)} sessions open, which is the limit; close some")
            open_session = self._open[session] = Session(session)
        open_session.keeps_names = open_session.keeps_names or keep_names
        return open_session

    def close(self, session: str, *, saved_before: float | None = None) -> None:
        """Delete a session, with its files and names; harmless if there is none, or if it was saved since then."""
        open_session = self._open.pop(session, None)
        if open_session is not None and open_session.idle_timer is not None:
            open_session.idle_timer.cancel()
        self._end_guest(session)
        self._store.delete(session, before=saved_before)

    def close_guests(self) -> None:
        """End all guests, with their names; files stay in the store."""
        for session in self._open.values():
            if session.idle_timer is not None:
                session.idle_timer.cancel()
            self._end_guest(session.id)
        self._open.clear()

    async def enter(self, session: Session) -> None:
        """Wait for the session's turn; `UsageError` if its holder is parked, or an execution paused in this task."""
        session.programs += 1
        self._loop = asyncio.get_running_loop()
        try:
            await (_wait_for_turn(session) if session.turn.locked() else session.turn.acquire())
        except BaseException:
            session.programs -= 1
            raise
        if session.idle_timer is not None:
            session.idle_timer.cancel()
            session.idle_timer = None

    def leave(self, session: Session) -> None:
        """Hand the turn to the next program, or start the idle timer."""
        session.parked = ""
        self.go_on(session)
        session.turn.release()
        session.programs -= 1
        if not session.keeps_names and not session.programs and self._open.get(session.id) is session:
            del self._open[session.id]  # all that it has is in the store
        if session.keeps_names:
            loop = asyncio.get_running_loop()
            session.idle_timer = loop.call_later(self._limits.idle_seconds, self._end_guest, session.id)

    def park(self, session: str, execution_id: str) -> None:
        """Refuse programs while the execution there waits for somebody outside, also those that wait already."""
        open_session = self._open.get(session)
        if open_session is not None and open_session.turn.locked():
            open_session.parked = execution_id
            for waiting in open_session.waiting:
                waiting.cancel()

    def unpark(self, session: str) -> None:
        open_session = self._open.get(session)
        if open_session is not None:
            open_session.parked = ""

    def pause(self, session: Session, execution_id: str) -> None:
        """Refuse programs of this task, which gets the execution back as paused; others wait for its end."""
        task = asyncio.current_task()
        session.paused, session.paused_for = execution_id, None if task is None else weakref.ref(task)

    def go_on(self, session: Session) -> None:
        session.paused, session.paused_for = "", None

    def files(self, session: str) -> tuple[File, ...]:
        return self._store.load(session)

    def listed(self, session: str) -> tuple[SessionFile, ...]:
        return self._store.listed(session)

    def saved_at(self, session: str) -> float:
        """Time of the last save, in seconds since 1970; 0 if there is none."""
        return self._store.saved_at(session)

    def update(self, session: str, start_record: StartRecord, ended: Ended) -> tuple[str, ...]:
        """Store the changes of a program to its data folder; a note if they are too large.

        Files that came or went from outside while it ran are not touched.
        """
        put = {
            file.name: file
            for file in start_record.files
            if file.name in start_record.brought and file.name not in ended.deleted
        }
        put.update({file.name: file for file in ended.files})
        remove = {file.name: digest_of(file.data) for file in start_record.files if file.name in ended.deleted}
        change = Change(put=tuple(put.values()), remove=remove)
        try:
            self._quota.merge(session, change, max_bytes=self._limits.max_bytes)
        except QuotaExceeded as error:
            return (f"{error}; none of this program's files is kept",)
        except TooLarge as error:
            return (
                f"the session's files take {error.size} bytes, more than {self._limits.max_bytes}; "
                "none of this program's is kept",
            )
        return ()

    def put(self, session: str, files: Iterable[File]) -> None:
        """Add files from outside, replacing those of one name; `UsageError`, and no change, if they are too large."""
        check_session_name(session)
        self._sweep_if_due()
        try:
            self._quota.merge(session, Change(put=tuple(files)), max_bytes=self._limits.max_bytes)
        except QuotaExceeded as error:
            raise UsageError(f"{error}; delete some, or wait until old sessions are forgotten") from error
        except TooLarge as error:
            raise UsageError(
                f"the session's files would take {error.size} bytes, more than {self._limits.max_bytes}"
            ) from error

    def remove(self, session: str, file: SessionFile) -> None:
        """Delete one file; harmless if another has its name by now."""
        change = Change(remove={file.name: file.digest})
        self._quota.merge(session, change, max_bytes=self._limits.max_bytes)

    def _sweep_if_due(self) -> None:
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + _SWEEP_EVERY_SECONDS
            # Beside the event loop: with 20,000 sessions it takes a second. One at a time, and never waited for.
            if self._sweeping is None or not self._sweeping.is_alive():
                self._sweeping = threading.Thread(target=self.sweep, name="toolfold-sweep", daemon=True)
                self._sweeping.start()

    def sweep(self) -> None:
        """Delete sessions that are too old; may be called from any thread."""
        oldest = min(self._now(), time.time()) - self._limits.max_age_seconds
        for session, saved_at in self._store.ages().items():
            if saved_at >= oldest:
                continue
            if self._loop is not None and session in self._open:
                self._loop.call_soon_threadsafe(self._close_idle, session, oldest)
            else:
                self._store.delete(session, before=oldest)
        self._quota.measure()

    def _close_idle(self, session: str, oldest: float) -> None:
        open_session = self._open.get(session)
        if open_session is None or not open_session.turn.locked():
            self.close(session, saved_before=oldest)


async def _wait_for_turn(session: Session) -> None:
    _refuse_parked(session)
    _refuse_own_pause(session)
    waiting = asyncio.ensure_future(session.turn.acquire())
    session.waiting.add(waiting)
    try:
        await waiting
    except asyncio.CancelledError:
        if waiting.done() and not waiting.cancelled():
            session.turn.release()  # the turn came in the same moment as the end
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            _refuse_parked(session)
        raise
    finally:
        session.waiting.discard(waiting)


def _refuse_parked(session: Session) -> None:
    if session.parked:
        raise UsageError(
            f"this session is held by execution {session.parked!r}, which waits for an answer to its question; "
            "answer that, or give this program another session"
        )


def _refuse_own_pause(session: Session) -> None:
    if session.paused_for is not None and session.paused_for() is asyncio.current_task():
        raise UsageError(
            f"this session is held by execution {session.paused!r}, which is paused; "
            "resume or cancel it first, or give this program another session"
        )


def check_session_name(session: str) -> str:
    if not session or len(session) > 200 or not session.isprintable():
        raise UsageError(f"invalid session name {session[:80]!r}; give 1 to 200 printable characters")
    return session


def bound_names(text: str) -> set[str]:
    """Names that a program may have defined for the next; more than it did is harmless."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
    return names


# ----------------------------------------------------------------------------------------------------
# Quota of all sessions of one tenant.
#
# Sessions of tenants are called `tenant/session`; those without a tenant count together. What other processes keep in
# the same folder is counted when the sweep measures it.


class QuotaExceeded(Exception):
    """A tenant's sessions would have more bytes than they may; nothing was changed."""


class Quota:
    """Bytes of each tenant in one store, and the limit of each."""

    def __init__(self, store: FileStore, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._is_measured = False
        self._sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._coming: Counter[str] = Counter()
        """Bytes reserved by tenant, not counted yet: uploads at the same time see each other's."""

    def measure(self) -> None:
        sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for session, size in self._store.sizes().items():
            sizes[_tenant_of(session)][session] = size
        with self._lock:
            self._sizes, self._is_measured = sizes, True

    def merge(self, session: str, change: Change, *, max_bytes: int) -> None:
        """Merge a change if the tenant has room, else raise `QuotaExceeded`; also raises as `FileStore.merge`."""
        tenant, added = _tenant_of(session), sum(file.size for file in change.put)
        if change.put:
            self._let_in(session, added, {file.name for file in change.put})
        try:
            self._store.merge(session, change, max_bytes=max_bytes)
            if change.put or change.remove:
                size = sum(file.size for file in self._store.listed(session))
                with self._lock:
                    self._sizes[tenant][session] = size
        finally:
            with self._lock:
                self._coming[tenant] -= added
                self._coming += Counter()  # drops zeros

    def _let_in(self, session: str, added: int, replaced: set[str]) -> None:
        if not self._is_measured:
            self.measure()
        remaining_bytes = sum(file.size for file in self._store.listed(session) if file.name not in replaced)
        tenant = _tenant_of(session)
        with self._lock:
            other_bytes = sum(size for name, size in self._sizes[tenant].items() if name != session)
            size = other_bytes + self._coming[tenant] + remaining_bytes + added
            if size > self._max_bytes:
                raise QuotaExceeded(f"the files of all sessions would take {size} bytes, more than {self._max_bytes}")
            self._coming[tenant] += added


def _tenant_of(session: str) -> str:
    return session.rpartition("/")[0]
