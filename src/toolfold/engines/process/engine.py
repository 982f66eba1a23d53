"""Full CPython in a jail: the engine that runs programs on Linux."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import structs

from toolfold import forks
from toolfold.engines.base import MOST_KEPT_BYTES, MOST_KEPT_GUESTS, NOT_OPEN, Capabilities, Guests
from toolfold.engines.process.host import ProcessRun
from toolfold.engines.process.jails import BARE, Jail, installed_set, jail_of, with_room
from toolfold.engines.process.kept import KeptGuests
from toolfold.engines.process.layout import library_modules
from toolfold.engines.process.memory import held_bytes
from toolfold.engines.process.pool import Pool
from toolfold.engines.process.speed.forewarning import Forewarning
from toolfold.engines.process.taken import TakenGuest
from toolfold.engines.process.tiers import Tier, tier_named
from toolfold.engines.process.zygote import Zygote
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import InstalledSet, LibrarySet, Limits
from toolfold_guest.shared.names import MODULES as PLACEHOLDERS

if TYPE_CHECKING:
    from toolfold.engines.base import EngineSettings, Order
    from toolfold.engines.single import Single


class ProcessEngine:
    """One zygote in a jail of its own for each library set, made when a program first needs it.

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
        self._forewarning = Forewarning()
        self._is_open = False
        self._burials: set[asyncio.Task[None]] = set()
        self._max_kept = (max_kept_guests, max_kept_bytes)
        self._kept = KeptGuests(*self._max_kept)
        self._single: Single | None = None
        self.notes: tuple[str, ...] = ()

    @classmethod
    def from_settings(
        cls, settings: EngineSettings, /, *, isolation: str | Tier = "namespace", warm: int = 2,
        accept_no_isolation: bool = False, host_libraries: bool = False, library_sets: Sequence[InstalledSet] = (),
        _single: Single | None = None,
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
        """The tier's name, for every outcome."""
        return self._tier.name

    @cached_property
    def capabilities(self) -> Capabilities:
        """Guests that wait and take programs early; which modules there are, unless all of the host's are."""
        own = (one.modules for one in self._sets)
        modules = None if self._host_libraries else PLACEHOLDERS.union(library_modules(), *own)
        return Capabilities(modules=modules, library_sets=self._sets, forewarned=self._forewarning, stocked=self)

    async def __aenter__(self) -> ProcessEngine:
        self._is_open = True
        forks.watch(self)
        # Now, not with the first program: whether this machine can isolate at all must be known before anything runs.
        pool = await self._pool(BARE)
        self.notes = pool.zygote.notes
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_open = False
        # Guests first: a zygote that ends takes its guests along, and their handles would report a crash.
        self._forewarning.forget()
        self._kept.drop_all()
        pools, self._pools = tuple(self._pools.values()), {}
        await asyncio.gather(*(pool.close() for pool in pools), *self._burials)

    def disown(self) -> None:
        """In a forked child: the zygotes let go of their own; the next program here starts another."""
        self._pools, self._starting, self._kept = {}, {}, KeptGuests(*self._max_kept)
        self._forewarning.disown()

    def open(self, order: Order) -> ProcessRun:
        """Start a program. Leaving the context kills the guest and frees all it held."""
        jail = self._jail(order.program.library_set, is_session=bool(order.session))
        installed = installed_set(order.program.library_set, self._sets)
        if installed is not None:
            order = structs.replace(order, limits=with_room(order.limits, installed))
        return ProcessRun(order, TakenGuest(partial(self._pool, jail), self._kept, self._forewarning, order))

    def has_session(self, session: str) -> bool:
        """Whether the names of that session are still there."""
        return self._kept.has(session)

    def end_session(self, session: str) -> None:
        """End the guest that the session keeps; harmless if there is none."""
        self._kept.drop(session)

    async def preload(self, library_set: LibrarySet) -> None:
        """Have guests with these libraries wait, before the first program asks for them."""
        await self._pool(self._jail(library_set))

    async def guests(self) -> Guests:
        """Of all library sets, parked ones too; the zygotes that they were forked from are not among them."""
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
        self._forewarning.pool = pool
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
        zygote = await Zygote.start(
            tier=self._tier,
            library_set=jail.library_set,
            limits=limits,
            host_libraries=self._host_libraries,
            sets=jail.mounted(self._sets) if single is None else single.plan.sets,
        )
        # A session has limits of its own, so no guest that waits would do for it.
        return Pool(zygote, limits, 0 if jail.has_all_sets else self._warm)
