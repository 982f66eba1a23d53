"""Which jail a program runs in: one with the packages that it imports, and with no others.

Every mount of a jail costs each guest that is forked in it, so an installed set is in the jail of the programs that
need it. All others run in the one that they would have if no set were configured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from toolfold.models import MIB, OWN_SETS, InstalledSet, LibrarySet, Limits

_ROOM_BYTES: Final = 128 * MIB
"""For numpy and the like, which a program may import along with the packages of an installed set."""


class Jail(NamedTuple):
    """Names a zygote of the engine: what is loaded in it, and what is mounted."""

    library_set: LibrarySet
    """One of the engine's own, or an installed one, which is mounted and loaded as its `preload` says."""
    has_all_sets: bool = False
    """For a session that keeps its names: its next program may import what this one does not."""

    def mounted(self, sets: Sequence[InstalledSet]) -> tuple[InstalledSet, ...]:
        """The installed sets that are in it."""
        return tuple(one for one in sets if self.has_all_sets or one.name == self.library_set)


BARE: Final = Jail("bare")


def jail_of(library_set: LibrarySet, sets: Sequence[InstalledSet], *, is_session: bool = False) -> Jail:
    """The jail of a program that needs this set; one whose set is no longer configured goes without."""
    installed = installed_set(library_set, sets)
    if not is_session or not sets:
        return Jail(library_set if library_set in OWN_SETS else "bare" if installed is None else installed.name)
    # Of the sets that are only mounted, all are there: one zygote serves the sessions of all of them.
    is_loaded = library_set in OWN_SETS if installed is None else bool(installed.preload)
    return Jail((library_set if installed is None else installed.name) if is_loaded else "bare", has_all_sets=True)


def installed_set(library_set: LibrarySet, sets: Sequence[InstalledSet]) -> InstalledSet | None:
    """The set of that name, maybe with another content than when a program began."""
    if library_set in OWN_SETS:
        return None
    return next((one for one in sets if one.replaces(library_set)), None)


def with_room(limits: Limits, installed: InstalledSet | None) -> Limits:
    """Libraries that a guest imports by itself cost the program nothing, as those of the zygote."""
    if installed is None or installed.preload:
        return limits
    return replace(limits, memory_bytes=limits.memory_bytes + installed.code_bytes + _ROOM_BYTES)
