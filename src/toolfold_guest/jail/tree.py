"""The file tree that a guest sees: a small read-only root made of copies of the host's mounts.

Every source is copied before anything is mounted, so it does not matter what the new root hides.
"""

import os
from collections.abc import Sequence
from typing import Final

from toolfold_guest.jail import kernel

DATA: Final = "/mnt/data"
TEMP: Final = "/tmp"
DEVICES: Final = ("null", "zero", "full", "random", "urandom")

# Rule 4 of `toolfold_guest.zygote`.
_mount: Final = kernel.mount
_NO_RIGHTS: Final = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
# Any directory that every machine has: the new root is built over it, in a private mount namespace.
_BASE: Final = "/usr"
_ETC: Final = {
    "passwd": "root:x:0:0::/:/bin/false\nsandbox:x:1000:1000::/tmp:/bin/false\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
}


def build(binds: Sequence[Sequence[str]], hidden: Sequence[str], links: Sequence[Sequence[str]]) -> None:
    """Make and enter the tree: `binds` and `links` are pairs of source and target, `hidden` become empty."""
    kernel.mount(None, b"/", None, kernel.MS_PRIVATE_RECURSIVE, None)
    clones = [(kernel.clone_mount(source), target, os.path.isdir(source)) for source, target in binds]
    clones += [(kernel.clone_mount(f"/dev/{name}", device=True), f"/dev/{name}", False) for name in DEVICES]
    options = b"size=1m,nr_inodes=1k,mode=755"
    kernel.mount(b"tmpfs", _BASE.encode(), b"tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    for fd, target, is_directory in clones:
        _make_place(_BASE + target, is_directory=is_directory)
        kernel.attach_mount(fd, _BASE + target)
        os.close(fd)
    for path in (DATA, TEMP):
        os.makedirs(_BASE + path)
    _hide(hidden)
    for text, path in links:
        os.makedirs(os.path.dirname(_BASE + path), exist_ok=True)
        os.symlink(text, _BASE + path)
    _write_etc()
    os.chdir(_BASE)
    kernel.pivot_here()
    kernel.make_read_only("/")
    # Libraries write caches while they are loaded, before any guest is there.
    mount_temp(TEMP, size_bytes=64 * 1024 * 1024, files=1024, mode=0o1777)


def mount_temp(path: str, *, size_bytes: int, files: int, mode: int = 0o700) -> None:
    """A folder in memory with a limit on bytes and on files; nothing in it can be executed."""
    options = f"size={size_bytes},nr_inodes={files + 1},mode={mode:o}".encode()
    _mount(b"tmpfs", path.encode(), b"tmpfs", _NO_RIGHTS, options)


def _make_place(path: str, *, is_directory: bool) -> None:
    if os.path.lexists(path):
        return  # inside a bind that is already there
    if is_directory:
        os.makedirs(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))


def _hide(targets: Sequence[str]) -> None:
    for target in targets:
        if os.path.isdir(_BASE + target):
            fd = kernel.clone_mount(_BASE + DATA)  # empty in this tree; guests mount their own there
            kernel.attach_mount(fd, _BASE + target)
            os.close(fd)


def _write_etc() -> None:
    os.makedirs(_BASE + "/etc", exist_ok=True)
    for name, text in _ETC.items():
        with open(f"{_BASE}/etc/{name}", "w", encoding="ascii") as file:
            file.write(text)
