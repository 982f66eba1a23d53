"""Packages for programs: requested sets, the lock file, and the folders they are installed in.

Never the host's own environment: a set is a folder named by its content, which only jails see.
"""

from toolfold.libraries.install import SyncResult, WantedSet, sync
from toolfold.libraries.installed_sets import LibraryStore, LockedSet, Wheel, read_lock, write_lock

__all__ = ["LibraryStore", "LockedSet", "SyncResult", "WantedSet", "Wheel", "read_lock", "sync", "write_lock"]
