"""Library sets of a config: those that it asks for, and those that are installed."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple

from toolfold.config.model import Config
from toolfold.libraries import LibraryStore, WantedSet, read_lock
from toolfold.libraries.install import MAIN
from toolfold.libraries.installed_sets import LockedSet, lock_path
from toolfold.models import InstalledSet

_log = logging.getLogger(__name__)
_ADVICE = "run 'toolfold libraries sync'"


def requested_sets(config: Config) -> list[WantedSet]:
    """Package sets that the config requests, the set of `libraries.packages` first."""
    sections = {MAIN: config.libraries, **config.libraries.sets}
    return [
        WantedSet(name=name, packages=section.packages, preload=section.preload)
        for name, section in sections.items()
        if section.packages
    ]


def lock_of(config: Config) -> Path:
    return lock_path(config.path or config.folder / "toolfold.yaml")


class SetState(NamedTuple):
    """A set that the config asks for, and what became of it on this machine."""

    requirement: WantedSet
    locked: LockedSet | None
    is_installed: bool

    @property
    def text(self) -> str:
        """`installed`, or what is wrong and what to do."""
        if self.locked is None:
            return f"not locked; {_ADVICE}"
        if not self.is_installed:
            return f"locked but not installed here; {_ADVICE}"
        is_current = self.locked.packages == self.requirement.packages
        return "installed" if is_current else f"older than its packages in the config; {_ADVICE}"


def set_states(config: Config, installed: LibraryStore | None = None) -> dict[str, SetState]:
    requirements = requested_sets(config)
    if not requirements:
        return {}
    store, locked = installed or LibraryStore(), read_lock(lock_of(config))
    pairs = [(requirement, locked.get(requirement.name)) for requirement in requirements]
    return {
        requirement.name: SetState(requirement, lock, lock is not None and store.has(lock))
        for requirement, lock in pairs
    }


def library_sets(config: Config, installed: LibraryStore | None = None) -> tuple[InstalledSet, ...]:
    """The installed sets, as they were locked; a missing one is logged once and left out."""
    if not requested_sets(config):
        return ()
    store, sets = installed or LibraryStore(), []
    for name, state in set_states(config, store).items():
        if state.locked is None or not state.is_installed:
            _say_once(f"the packages of the library set {name!r} are not installed here; {_ADVICE}")
            continue
        # The set that is there serves on: it is what the last sync proved.
        if state.text != "installed":
            _say_once(f"the library set {name!r} is {state.text}")
        sets.append(store.set_of(name, state.locked, state.requirement.preload))
    return tuple(sets)


@cache
def _say_once(message: str) -> None:
    _log.warning("%s", message)
