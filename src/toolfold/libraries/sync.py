"""From what a config asks for to installed sets and a lock file. What fails leaves both as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolfold.engines.process.layout import library_modules, library_versions
from toolfold.errors import UsageError
from toolfold.libraries.installed import Installed
from toolfold.libraries.lock import LockedSet, other_machines, read_lock, write_lock
from toolfold.libraries.pip import UNREACHABLE, download, download_locked, wheels_in
from toolfold.models import InstalledSet

MAIN: Final = "main"
"""The set of `libraries.packages`; others have names of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSet:
    """One set, as the config asks for it."""

    name: str
    packages: tuple[str, ...]
    preload: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """One set after a sync."""

    name: str
    locked: LockedSet
    installed: InstalledSet
    notes: tuple[str, ...] = ()


def sync(
    wanted: Sequence[WantedSet],
    lock: Path,
    *,
    upgrade: bool = False,
    try_out: Callable[[InstalledSet], None] = lambda _: None,
) -> list[Synced]:
    """Resolve, download, unpack and lock every set; the lock is written when all of them are there.

    Args:
        wanted: In the order in which a program chooses among them.
        lock: The file beside the config.
        upgrade: Take the newest versions, whatever is locked.
        try_out: Has the last word on a set; what it raises ends the sync.

    Raises:
        UsageError: one line, with the name of the set; lock and folders are as before.
    """
    store = Installed()
    before = read_lock(lock)
    done = []
    for one in wanted:
        try:
            done.append(_sync(one, before.get(one.name), lock, store, upgrade=upgrade))
            try_out(done[-1].installed)
        except UsageError as error:
            stays = "; the installed set stays in use" if one.name in before else ""
            raise UsageError(f"libraries, set {one.name!r}: {error}{stays}") from error
    if wanted or before:
        write_lock(lock, {one.name: one.locked for one in done})
    return done


def _sync(one: WantedSet, before: LockedSet | None, lock: Path, store: Installed, *, upgrade: bool) -> Synced:
    with store.staging() as folder:
        wheels = folder / "wheels"
        if before is not None and before.packages == one.packages and not upgrade:
            locked = before
            if not store.has(locked):
                download_locked(locked, wheels)
                _compare(locked, wheels)
        else:
            _resolve(one, wheels, [] if upgrade else _locked_pins(before, other_machines(lock, one.name)))
            locked = LockedSet(packages=one.packages, wheels=wheels_in(wheels))
        store.add(locked, wheels)
    made = store.set_of(one.name, locked, one.preload)
    _refuse_strange_preload(one, store, locked)
    return Synced(name=one.name, locked=locked, installed=made, notes=tuple(_notes(locked)))


def _resolve(one: WantedSet, wheels: Path, locked: list[str]) -> None:
    """First with the versions that are locked and those of the libraries that programs have anyway."""
    there = [f"{name}=={version}" for name, version in library_versions().items()]
    attempts = [[*locked, *_others(there, locked)], there, []] if locked else [there, []]
    for pins in attempts:
        try:
            return download(one.packages, wheels, pins=pins)
        except UsageError as error:
            if not pins or str(error) == UNREACHABLE:
                raise
    raise AssertionError


def _locked_pins(before: LockedSet | None, elsewhere: Mapping[str, LockedSet]) -> list[str]:
    known = before or next(iter(elsewhere.values()), None)
    return [] if known is None else [f"{wheel.name}=={wheel.version}" for wheel in known.wheels]


def _others(pins: Sequence[str], taken: Sequence[str]) -> list[str]:
    names = {pin.partition("==")[0] for pin in taken}
    return [pin for pin in pins if pin.partition("==")[0] not in names]


def _compare(locked: LockedSet, wheels: Path) -> None:
    """Once more than pip: what is unpacked is what was locked, file by file."""
    found = {wheel.file: wheel.sha256 for wheel in wheels_in(wheels)}
    for wheel in locked.wheels:
        if found.get(wheel.file) != wheel.sha256:
            raise UsageError(f"the hash of {wheel.name!r} is not the one in the lock")


def _refuse_strange_preload(one: WantedSet, store: Installed, locked: LockedSet) -> None:
    known = {module for modules in store.modules(locked).values() for module in modules}
    for name in one.preload:
        first = name.partition(".")[0]
        if first not in known and first not in library_modules():
            raise UsageError(f"preload names {name!r}, which no package of the set has")


def _notes(locked: LockedSet) -> Iterator[str]:
    """Where a program would get one version from here and its other half from beside toolfold."""
    there = library_versions()
    for wheel in locked.wheels:
        if wheel.name in there and there[wheel.name] != wheel.version:
            yield (
                f"{wheel.name} {wheel.version} differs from {there[wheel.name]} beside toolfold; list what is used "
                "together with it in libraries.packages too"
            )
