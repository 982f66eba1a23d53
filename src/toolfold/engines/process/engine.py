"""Process engine: full CPython in a jail on Linux, with the idle guests of sessions."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from toolfold import fork_safety
from toolfold.engines.base import MOST_KEPT_BYTES, MOST_KEPT_GUESTS, NOT_OPEN, Capabilities, Guests
from toolfold.engines.guest_frames import mime_of
from toolfold.engines.process.guest import held_bytes
from toolfold.engines.process.jail_layout import (
    BARE,
    SHELL,
    Jail,
    installed_set,
    jail_of,
    library_modules,
    with_room,
)
from toolfold.engines.process.optimizations import PreparedGuest, prepare
from toolfold.engines.process.run import ProcessRun
from toolfold.engines.process.zygote import Pool, Zygote
from toolfold.engines.process.zygote_launch import NAMESPACE, LaunchPlan, Tier, tier_named
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.file_locks import O_CLOEXEC, O_NOFOLLOW
from toolfold.models import File, InstalledSet, LibrarySet, Limits
from toolfold_guest.shared.reserved_names import MODULES as PLACEHOLDERS
from toolfold_guest.shared.value_rules import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolfold.engines.base import Ended, EngineSettings, Order
    from toolfold.engines.process.guest import Guest
    from toolfold.engines.process.zygote_launch import SingleUseServer
    from toolfold.models import ToolSpec


class ProcessEngine:
    """Engine with one jailed fork server for each library set, started when a program first needs it.

    Args:
        isolation: `namespace`, `landlock`, or a `Tier` of one's own (for tests of single layers).
        limits: What a parked guest is locked to; a program with other limits gets its own guest.
        warm: How many guests of each library set wait for a program.
        host_libraries: Let programs import all that is installed on the host, not only the libraries of the sets.
        library_sets: Packages that were installed for programs; see `toolfold.libraries`.
        max_kept_guests: How many guests wait with the names of their sessions.
        max_kept_bytes: How much memory those may hold together.
    """

    name = "process"

    def __init__(
        self, *, isolation: str | Tier = "namespace", limits: Limits | None = None, warm: int = 2,
        accept_no_isolation: bool = False, host_libraries: bool = False, library_sets: Sequence[InstalledSet] = (),
        max_kept_guests: int = MOST_KEPT_GUESTS, max_kept_bytes: int = MOST_KEPT_BYTES,
    ) -> None:  # fmt: skip
        self._tier = tier_named(isolation) if isinstance(isolation, str) else isolation
        if self._tier.name == "none" and not accept_no_isolation:
            raise UsageError("isolation 'none' lets programs do anything; pass accept_no_isolation=True to mean it")
        self._limits = limits or Limits()
        self._warm = warm
        self._host_libraries = host_libraries
        self._sets = tuple(library_sets)
        self._pools: dict[Jail, Pool] = {}
        self._starting: dict[Jail, asyncio.Lock] = {}
        self._last_pool: Pool | None = None
        """Of the last program: the next one probably needs the same libraries."""
        self._is_open = False
        self._burials: set[asyncio.Task[None]] = set()
        self._max_kept = (max_kept_guests, max_kept_bytes)
        self._session_guests = SessionGuests(*self._max_kept)
        self._single: SingleUseServer | None = None
        self.notes: tuple[str, ...] = ()

    @classmethod
    def from_settings(
        cls, settings: EngineSettings, /, *, isolation: str | Tier = "namespace", warm: int = 2,
        accept_no_isolation: bool = False, host_libraries: bool = False, library_sets: Sequence[InstalledSet] = (),
        _single: SingleUseServer | None = None,
    ) -> ProcessEngine:  # fmt: skip
        """For the registry: what the runtime says, and the options that a user gives.

        `_single` is for one program, whose fork server is on its way.
        """
        engine = cls(
            isolation=isolation, limits=settings.limits, warm=warm, accept_no_isolation=accept_no_isolation,
            host_libraries=host_libraries, library_sets=library_sets, max_kept_guests=settings.max_kept_guests,
            max_kept_bytes=settings.max_kept_bytes,
        )  # fmt: skip
        engine._single = _single
        return engine

    @property
    def isolation(self) -> str:
        return self._tier.name

    @cached_property
    def capabilities(self) -> Capabilities:
        """Guests that wait and take programs early; which modules there are, unless all of the host's are."""
        own = (library_set.modules for library_set in self._sets)
        modules = None if self._host_libraries else PLACEHOLDERS.union(library_modules(), *own)
        has_bash = self._tier.layers >= NAMESPACE.layers
        return Capabilities(
            modules=modules, library_sets=self._sets, prepare=self._prepare, stocked=self,
            languages=frozenset({"python", "bash"} if has_bash else {"python"}),
        )  # fmt: skip

    async def __aenter__(self) -> ProcessEngine:
        self._is_open = True
        fork_safety.watch(self)
        # Now, not with the first program: whether this machine can isolate at all must be known before anything runs.
        pool = await self._pool(BARE)
        self.notes = pool.zygote.notes
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_open = False
        # Guests first: a zygote that ends takes its guests along, and their handles would report a crash.
        self._session_guests.drop_all()
        pools, self._pools = tuple(self._pools.values()), {}
        await asyncio.gather(*(pool.close() for pool in pools), *self._burials)

    def disown(self) -> None:
        """In a forked child: the zygotes let go of their own; the next program here starts another."""
        self._pools, self._starting, self._session_guests = {}, {}, SessionGuests(*self._max_kept)
        self._last_pool = None

    def open(self, order: Order) -> ProcessRun:
        is_shell = order.program.language == "bash"
        jail = SHELL if is_shell else self._jail(order.program.library_set, is_session=bool(order.session))
        installed = installed_set(order.program.library_set, self._sets) if self._sets else None
        if installed is not None:
            order = structs.replace(order, limits=with_room(order.limits, installed))
        lease = GuestLease(partial(self._pool, jail), self._session_guests, order)
        lease.start_prepared(self._pools.get(jail))
        return ProcessRun(order, lease)

    def _prepare(self, text: str, tools: Sequence[ToolSpec], limits: Limits) -> PreparedGuest | None:
        return prepare(self._last_pool, text, tools, limits)

    def has_session(self, session: str) -> bool:
        return self._session_guests.has(session)

    def end_session(self, session: str) -> None:
        self._session_guests.drop(session)

    async def preload(self, library_set: LibrarySet) -> None:
        await self._pool(self._jail(library_set))

    async def guests(self) -> Guests:
        """Guests of all library sets, including parked ones, without the fork servers."""
        pidfds = [fd for pool in self._pools.values() for fd in pool.zygote.guest_pidfds]
        return Guests(len(pidfds), await asyncio.to_thread(held_bytes, pidfds))

    def _bury(self, pool: Pool) -> None:
        """Its zygote is gone; the next one need not wait until all of it is."""
        burial = asyncio.create_task(pool.close_idle())
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)

    def _jail(self, library_set: LibrarySet, *, is_session: bool = False) -> Jail:
        """The one of a single program is BARE, and has what the program needs."""
        if library_set == "bare" and not (is_session and self._sets):
            return BARE
        if self._single is not None and self._single.has(library_set):
            return BARE
        return jail_of(library_set, self._sets, is_session=is_session)

    async def _pool(self, jail: Jail) -> Pool:
        pool = self._pools.get(jail)
        if pool is None or pool.zygote.closed:
            pool = await self._new_pool(jail)
        if not jail.is_shell:
            self._last_pool = pool
        return pool

    async def _new_pool(self, jail: Jail) -> Pool:
        # Programs that need the same libraries at once must not start two zygotes.
        async with self._starting.setdefault(jail, asyncio.Lock()):
            pool = self._pools.get(jail)
            if pool is not None and not pool.zygote.closed:
                return pool
            # Asked again after waiting: the engine may have been left meanwhile.
            if not self._is_open:
                raise EngineUnavailable(NOT_OPEN)
            if pool is not None:
                self._bury(pool)
            pool = self._pools[jail] = await self._started_pool(jail)
            return pool

    async def _started_pool(self, jail: Jail) -> Pool:
        single = self._single if jail is BARE else None
        if single is not None and not self._pools:
            zygote = await Zygote.hear_of(single.launched, single.plan)
            return Pool(zygote, single.plan.limits, 1, refills=False)
        limits = self._limits
        if not jail.has_all_sets:
            limits = with_room(limits, installed_set(jail.library_set, self._sets))
        sets = jail.mounted(self._sets) if single is None else single.plan.sets
        plan = LaunchPlan(
            tier=self._tier, library_set=jail.library_set, limits=limits, host_libraries=self._host_libraries,
            sets=sets, profile="shell" if jail.is_shell else "python",
            loop_module="toolfold_guest.shell" if jail.is_shell else "toolfold_guest.main",
        )  # fmt: skip
        zygote = await Zygote.start(plan)
        # A session has limits of its own, so no guest that waits would do for it.
        return Pool(zygote, limits, 0 if jail.has_all_sets else self._warm)


# ----------------------------------------------------------------------------------------------------
# Guests that a session keeps between its programs, with their names and files.
#
# A session is one domain of trust: what one of its programs leaves running can speak in the name
# of the next. Nothing of it reaches another session, whose guest is another process.
#
# What a program leaves running stands still until the next one. There is an end to how many guests wait
# so, and to the memory that they take: then the one that was used longest ago goes, and its names with it.

FREEZE_AFTER_SECONDS: Final = 0.5


@dataclass(slots=True)
class _SessionGuest:
    pool: Pool
    guest: Guest
    files: frozenset[str]
    """Names of those that it has."""
    timer: asyncio.TimerHandle
    held_bytes: int = 0
    """Known once it stands still."""


class SessionGuests:
    """Idle guests by session. A guest in use is not in here, so it cannot be used twice."""

    def __init__(self, max_guests: int, max_bytes: int) -> None:
        self._max_guests = max_guests
        self._max_bytes = max_bytes
        self._guests: dict[str, _SessionGuest] = {}
        """The one that was used longest ago first."""

    def take(self, session: str) -> tuple[Pool, Guest, frozenset[str]] | None:
        """The session's guest, if it has one that is still alive, and the names of its files."""
        # Out of the table before it is used: two programs of one session must not share a guest at the same time.
        entry = self._guests.pop(session, None)
        if entry is None:
            return None
        entry.timer.cancel()
        entry.pool.rouse(entry.guest)
        if entry.guest.is_gone():
            entry.pool.give_back(entry.guest)  # it went with its zygote, or something outside killed it
            return None
        entry.guest.thaw()
        return entry.pool, entry.guest, entry.files

    def keep(self, session: str, pool: Pool, guest: Guest, files: frozenset[str]) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(FREEZE_AFTER_SECONDS, self._freeze, session)
        # Last in the table: it was used most recently, and goes last when there are too many.
        pool.rest(guest)
        self._guests[session] = _SessionGuest(pool, guest, files, timer)
        if len(self._guests) > self._max_guests:
            self.drop(next(iter(self._guests)))

    def has(self, session: str) -> bool:
        entry = self._guests.get(session)
        return entry is not None and not entry.guest.is_gone()

    def drop(self, session: str) -> None:
        entry = self._guests.pop(session, None)
        if entry is not None:
            entry.timer.cancel()
            entry.pool.give_back(entry.guest)

    def drop_all(self) -> None:
        for session in tuple(self._guests):
            self.drop(session)

    def _freeze(self, session: str) -> None:
        entry = self._guests[session]
        entry.guest.freeze()
        entry.guest.weigh(lambda size: self._note_size(session, entry, size))

    def _note_size(self, session: str, entry: _SessionGuest, size: int) -> None:
        if self._guests.get(session) is not entry:
            # It serves the next program, or is gone.
            return
        entry.held_bytes = size
        # Only what stands still is measured, so the sum is a lower bound; a guest that runs is not idle.
        excess_bytes = sum(candidate.held_bytes for candidate in self._guests.values()) - self._max_bytes
        for name, candidate in tuple(self._guests.items()):
            if excess_bytes > 0 and candidate.held_bytes:
                excess_bytes -= candidate.held_bytes
                self.drop(name)


# ----------------------------------------------------------------------------------------------------
# The guest of one program: where it comes from, which files it has, and where it goes afterwards.

_EMPTY_TMPFS_BYTES: Final = 40
"""As Linux has it; every name in a folder adds to it. Where that should ever differ, the folder is listed."""


class GuestLease:
    """Lease of a guest: of its session, one that expects the program, or the next one of the pool.

    Args:
        pool_of: Gives the pool that the guest is of, and starts it if there is none.
        session_guests: The idle guests of sessions.
        order: What it is for.
    """

    pool: Pool
    guest: Guest

    def __init__(
        self, pool_of: Callable[[], Coroutine[Any, Any, Pool]], session_guests: SessionGuests, order: Order
    ) -> None:
        self._pool_of = pool_of
        self._session_guests = session_guests
        self._order = order
        self._files = frozenset(file.name for file in order.files) if order.files else frozenset()
        """Those that the program has once it runs; at its end, those that it left."""
        self.is_kept = False
        """It has served a program of this session, and has its names and files."""
        self.is_prepared = False
        """It has made the program ready, and waits for its start."""
        self.is_started = False
        """It has been sent that, too."""
        self._prepared: PreparedGuest | None = None

    def start_prepared(self, pool: Pool | None) -> None:
        """Let the program run before the run is entered, if a guest of this pool has made it ready."""
        prepared = self._order.preparation
        if isinstance(prepared, PreparedGuest) and prepared.fits(pool, self._order, self.limits):
            prepared.start(self._order)
            self._prepared = prepared
        elif prepared is not None:
            prepared.discard()

    async def take(self) -> None:
        """Have a guest. It may still be on its way: see `until_ready`."""
        order = self._order
        self.pool = await self._pool_of()
        session_guest = self._session_guests.take(order.session) if order.session else None
        self.is_kept = session_guest is not None
        if session_guest is not None:
            # A guest without the session's names is of no use.
            if self._prepared is not None:
                self._prepared.discard()
            self.pool, self.guest, self._files = session_guest
            return
        prepared = self._prepared
        prepared_guest = prepared.take(self.pool) if prepared is not None else None
        self.is_prepared = prepared_guest is not None
        self.is_started = self.is_prepared and prepared is not None and prepared.is_started
        self.guest = prepared_guest or self.pool.take(self.limits)

    @property
    def limits(self) -> Limits:
        """A guest that serves a whole session has CPU time for many programs."""
        limits = self._order.limits
        return replace(limits, cpu_seconds=limits.cpu_seconds * 10) if self._order.session else limits

    @property
    def is_ready(self) -> bool:
        ready = self.guest.ready
        return self.is_kept or (ready.done() and not ready.cancelled() and ready.exception() is None)

    async def until_ready(self) -> None:
        """Returns when it is locked down; raises if it cannot be, and then it is given back."""
        if not self.is_kept:
            await self.pool.until_ready(self.guest)

    def give_back(self, *, is_kept: bool) -> None:
        """The program is over. Its session keeps a guest that is sound; any other ends here."""
        if is_kept:
            self._session_guests.keep(self._order.session, self.pool, self.guest, self._files)
        else:
            self.pool.give_back(self.guest)

    def _has_nothing(self) -> bool:
        # One call where listing takes eight: in memory, a folder's size counts what is in it.
        if self.pool.zygote.has_tree and os.fstat(self.guest.data_fd).st_size == _EMPTY_TMPFS_BYTES:
            return True
        return not os.listdir(self.guest.data_fd)

    async def with_files(self, ended: Ended, *, is_kept: bool) -> Ended:
        """Collect after the kill: a guest that still runs could change what is being read. A session keeps its own."""
        if self.guest.data_fd < 0:
            return ended
        # By the descriptor that the guest sent before its program ran: its path means another folder out here.
        if self._has_nothing():
            had, self._files = self._files, frozenset()
            # Nothing to read, so its end need not be hastened before the outcome is out.
            return replace(ended, deleted=had) if had else ended
        if not is_kept:
            self.guest.kill()
        initial_files = {file.name: file.data for file in self._order.files}
        # In a thread: thousands of files, each opened on its own, would hold up every other program.
        contents = await asyncio.to_thread(collect, self.guest.data_fd, initial_files, self._order.limits)
        had, self._files = self._files, contents.names
        return replace(ended, files=contents.files, deleted=contents.missing(had), notes=ended.notes + contents.notes)


# ----------------------------------------------------------------------------------------------------
# File collection from a guest's data folder, which is hostile: links, pipes and holes stay there.

MAX_FOLDERS_DEEP = 8
MAX_NOTES = 20
"""Notes go to the model: a program must not fill its context with names of files."""
_SHOWN_CHARACTERS = 120
_OPEN = os.O_RDONLY | O_NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | O_CLOEXEC
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
