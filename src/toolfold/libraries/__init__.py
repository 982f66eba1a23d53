"""Packages for programs: what the operator wants, what was locked, and where it is installed.

Never the host's own environment: a set is a folder named by its content, which only jails see.
"""

from toolfold.libraries.install import Synced, WantedSet, sync
from toolfold.libraries.installed import Installed
from toolfold.libraries.lock import LockedSet, Wheel, read_lock, write_lock

__all__ = [
    "Installed",
    "LockedSet",
    "Synced",
    "WantedSet",
    "Wheel",
    "read_lock",
    "sync",
    "write_lock",
]
