"""Who the jail's processes are: a user that is nobody outside, alone in a user namespace."""

import contextlib
import os
from typing import Final

from toolfold_guest.jail import kernel

PROC_FD: Final = 4
"""The host's /proc, opened before the pivot. Guests close it before they are anything."""
OOM_SCORE: Final = "self/oom_score_adj"


# Unlikely to be anyone; the last one is nobody.
_USERS: Final = (1_979_711_323, 64_323, 65_534)


def open_proc() -> None:
    """Put the host's /proc at `PROC_FD`, while it is still visible."""
    try:
        fd = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
        os.stat("self/uid_map", dir_fd=fd)
    except OSError:
        raise kernel.JailError("/proc is not there; mount it") from None
    if fd != PROC_FD:
        os.dup2(fd, PROC_FD)
        os.close(fd)
    os.set_inheritable(PROC_FD, True)


def map_ids(user: int, group: int, *, inside: int) -> None:
    """Give the new user namespace of this process its one user and group."""
    for name, text in id_maps(user, group, inside=inside):
        with open(os.open(name, os.O_WRONLY, dir_fd=PROC_FD), "wb", buffering=0) as file:
            file.write(text)


def id_maps(user: int, group: int, *, inside: int) -> tuple[tuple[str, bytes], ...]:
    """What to write where in /proc to do that."""
    # In this order: the kernel takes a group map from an ordinary user only once `setgroups` is denied.
    return (
        ("self/setgroups", b"deny"),
        ("self/uid_map", b"%d %d 1" % (inside, user)),
        ("self/gid_map", b"%d %d 1" % (inside, group)),
    )


def offer_to_oom_killer(score: int) -> None:
    """Where memory runs out, end this process before others: 1000 is first of all. Best effort."""
    # A /proc may be read-only, or the score higher already.
    with contextlib.suppress(OSError), open(os.open(OOM_SCORE, os.O_WRONLY, dir_fd=PROC_FD), "wb", 0) as file:
        file.write(b"%d" % score)


def pick_user() -> int | None:
    """An unprivileged user to become; `None` where root is the only one mapped, as in a rootless container."""
    # In a container most numbers are mapped to nobody, and becoming one of those is refused.
    users, groups = _mapped("uid_map"), _mapped("gid_map")
    for user in _USERS:
        if any(user in span for span in users) and any(user in span for span in groups):
            return user
    return None


def _mapped(name: str) -> list[range]:
    with open(os.open(f"self/{name}", os.O_RDONLY, dir_fd=PROC_FD), encoding="ascii") as file:
        rows = [[int(word) for word in line.split()] for line in file]
    return [range(first, first + count) for first, _, count in rows]
