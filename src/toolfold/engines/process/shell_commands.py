"""Commands of bash programs: those that a jail for them has, as far as this machine has them.

They are copied into the jail's tree, because each mount would cost every guest.
"""

from __future__ import annotations

import os
from typing import Final

from toolfold_guest.shared.bash_functions import COMMANDS

Pair = tuple[str, str]
"""Source and place, or text and place of a link."""

PROC: Final = ("/proc", "/.proc")
"""The host's, where `toolfold_guest.jail.file_tree` expects it."""
_NEEDED: Final = ("bash", "jq", "cat", "grep", "sed", "awk", "find", "diff", "tar", "gzip", "unzip", "file", "bc")
"""Without these no bash program is run."""
PACKAGES: Final = "bash coreutils jq grep sed gawk findutils diffutils tar gzip unzip file bc"
_PLACES: Final = ("/bin", "/usr/bin")
_FILES: Final = ("/usr/share/misc/magic.mgc", "/usr/libexec/coreutils/libstdbuf.so")
"""What `file` and `stdbuf` read."""


def command_files() -> list[Pair]:
    """Each command and its place; what is a link on this machine is a copy there."""
    paths = [(name, f"{folder}/{name}") for folder in _PLACES for name in COMMANDS]
    commands = {name: os.path.realpath(path) for name, path in paths if os.access(path, os.X_OK)}
    files = [(os.path.realpath(path), path) for path in _FILES if os.path.exists(path)]
    return [(path, f"/usr/bin/{name}") for name, path in commands.items()] + files


def links(python: str) -> list[Pair]:
    """Names of the interpreter, and what shells and `multiprocessing` expect of `/bin` and `/dev`."""
    names = [(python, f"/usr/bin/{name}") for name in ("python3", "python")]
    streams = [(f"/proc/self/fd/{number}", f"/dev/{name}") for number, name in enumerate(("stdin", "stdout", "stderr"))]
    return [*names, ("usr/bin", "/bin"), ("/proc/self/fd", "/dev/fd"), ("/tmp", "/dev/shm"), *streams]


def refusal() -> str:
    """Why no bash program can run here, and what to install; empty if it can."""
    present = {os.path.basename(target) for _, target in command_files()}
    missing = [name for name in _NEEDED if name not in present]
    return f"bash programs need {', '.join(missing)}; on Debian: apt install {PACKAGES}" if missing else ""
