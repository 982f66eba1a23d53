"""From `libraries` in a config to sets: those that it asks for, and those that are installed."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

from toolfold.config.model import Config
from toolfold.libraries import Installed, WantedSet, read_lock
from toolfold.libraries.lock import lock_path
from toolfold.libraries.sync import MAIN
from toolfold.models import InstalledSet

_log = logging.getLogger(__name__)
_ADVICE = "run 'toolfold libraries sync'"


def wanted_sets(config: Config) -> list[WantedSet]:
    """What the file asks for, the set of `libraries.packages` first."""
    found = {MAIN: config.libraries, **config.libraries.sets}
    return [
        WantedSet(name=name, packages=one.packages, preload=one.preload) for name, one in found.items() if one.packages
    ]


def lock_of(config: Config) -> Path:
    """The lock file beside the config."""
    return lock_path(config.path or config.folder / "toolfold.yaml")


def library_sets(config: Config, installed: Installed | None = None) -> tuple[InstalledSet, ...]:
    """The sets that programs can have now, as they were locked; what is missing is said once, and goes without.

    Raises:
        UsageError: the lock file is none.
    """
    wanted = wanted_sets(config)
    if not wanted:
        return ()
    store, locked, found = installed or Installed(), read_lock(lock_of(config)), []
    for one in wanted:
        known = locked.get(one.name)
        if known is None or not store.has(known):
            _say_once(f"the packages of the library set {one.name!r} are not installed here; {_ADVICE}")
            continue
        # The set that is there serves on: it is what the last sync proved.
        if known.packages != one.packages:
            _say_once(f"the library set {one.name!r} is older than its packages in the config; {_ADVICE}")
        found.append(store.set_of(one.name, known, one.preload))
    return tuple(found)


@cache
def _say_once(message: str) -> None:
    _log.warning("%s", message)
