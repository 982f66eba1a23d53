"""File tree of a guest: a small read-only root made of copies of the host's mounts.

Every source is copied before anything is mounted, so it does not matter what the new root hides.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolfold_guest.jail import kernel_calls
from toolfold_guest.jail.kernel_calls import SyscallList, mount

DATA: Final = "/mnt/data"
TEMP: Final = "/tmp"
HOST_PROC: Final = "/.proc"
"""Where a tree for shells has the host's, because the kernel mounts another only beside one; no guest can read it."""
DEVICES: Final = ("null", "zero", "full", "random", "urandom")

_TREE: Final = ".tree"
_USUAL_FOLDERS: Final = ("content", "home", "home/user", "workspace")
"""Where programs write without making them first, besides the data folder."""
_NO_RIGHTS: Final = kernel_calls.MS_NOSUID | kernel_calls.MS_NODEV | kernel_calls.MS_NOEXEC
# Any directory that every machine has: the new root is built over it, in a private mount namespace.
_BASE: Final = "/usr"
_ETC: Final = {
    "passwd": "root:x:0:0::/:/bin/false\nsandbox:x:1000:1000::/tmp:/bin/false\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
}


def build(order: Mapping[str, Any]) -> None:
    """Make and enter the tree: `binds`, `copies` and `links` are pairs of source and target, `hidden` become empty."""
    binds, hidden = order["binds"], order["hidden"]
    # Else every mount below would appear on the host as well.
    kernel_calls.mount(None, b"/", None, kernel_calls.MS_PRIVATE_RECURSIVE, None)
    # All copies are taken before the base is covered: a source may lie under it.
    clones = [(kernel_calls.clone_mount(source), target, os.path.isdir(source)) for source, target in binds]
    # `full` has zeros to read as well, and cannot be mapped: shared memory of `zero` is counted by no limit.
    devices = [(name, "full" if name == "zero" else name) for name in DEVICES]
    clones += [(kernel_calls.clone_mount(f"/dev/{of}", device=True), f"/dev/{name}", False) for name, of in devices]
    # Small packages: a mount for each would make every fork slower.
    originals = [
        (kernel_calls.clone_mount(source), target, os.path.isdir(source)) for source, target in order["copies"]
    ]
    is_shell = order["profile"] == "shell"
    options = b"size=%dm,nr_inodes=16k,mode=755" % (128 if is_shell else 64)
    kernel_calls.mount(b"tmpfs", _BASE.encode(), b"tmpfs", kernel_calls.MS_NOSUID | kernel_calls.MS_NODEV, options)
    for fd, target, is_directory in clones:
        _make_place(_BASE + target, is_directory=is_directory)
        kernel_calls.attach_mount(fd, _BASE + target)
        os.close(fd)
    # Places for the guests' own folders; the tree cannot be changed later.
    for path in (DATA, TEMP, "/proc") if is_shell else (DATA, TEMP):
        os.makedirs(_BASE + path)
    for fd, target, is_directory in originals:
        _copy(fd, _BASE + target, is_directory=is_directory)
    # After the binds: what is hidden lies inside of them.
    _hide(hidden)
    make_links(order["links"], _BASE)
    _write_etc()
    # From here on, no path leads to anything of the host's.
    os.chdir(_BASE)
    kernel_calls.pivot_here()
    kernel_calls.make_read_only("/")
    # Libraries write caches while they are loaded, before any guest is there.
    mount_temp(TEMP, size_bytes=64 * 1024 * 1024, files=1024, mode=0o1777)


def make_links(links: Sequence[Sequence[str]], base: str = "") -> None:
    for text, path in links:
        os.makedirs(os.path.dirname(base + path), exist_ok=True)
        os.symlink(text, base + path)


def mount_temp(path: str, *, size_bytes: int, files: int, mode: int) -> None:
    """A folder in memory with a limit on bytes and on files; nothing in it can be executed."""
    mount(b"tmpfs", path.encode(), b"tmpfs", _NO_RIGHTS, _temp_options(size_bytes, files, mode))


def plan_temp(steps: SyscallList, path: str, *, size_bytes: int, files: int, may_execute: bool = False) -> None:
    """The same as one of a fork's steps, for itself alone."""
    options = _temp_options(size_bytes, files, 0o700) + b"\0"
    steps.add("mount", b"tmpfs\0", path.encode() + b"\0", b"tmpfs\0", _rights(may_execute=may_execute), options)


def plan_proc(steps: SyscallList) -> None:
    """The processes of a fork's own pid namespace and nothing else of /proc; the host's is covered for good.

    In a mount namespace of its own that is opened before the user namespace: the right to mount it comes from whoever
    made the pid namespace. What is mounted then is locked in the namespaces that follow.
    """
    steps.add("unshare", kernel_calls.NEWNS)
    rights = _NO_RIGHTS | kernel_calls.MS_RDONLY
    steps.try_to("mount", b"proc\0", b"/proc\0", b"proc\0", rights, b"subset=pid\0")
    steps.add("mount", b"tmpfs\0", HOST_PROC.encode() + b"\0", b"tmpfs\0", rights, b"size=4k,nr_inodes=1,mode=000\0")


def plan_root(steps: SyscallList, *, size_bytes: int, files: int, may_execute: bool = False) -> None:
    """A root that the guest can write, under one limit with the data folder in it; links lead to the tree."""
    places = [_TREE, *_USUAL_FOLDERS, os.path.dirname(DATA)[1:], DATA[1:]]
    links = [name for name in sorted(os.listdir("/")) if f"/{name}" != os.path.dirname(DATA)]
    options = _temp_options(size_bytes, files + len(places) + len(links), 0o755) + b"\0"
    target = os.path.dirname(DATA).encode() + b"\0"
    steps.add("mount", b"tmpfs\0", target, b"tmpfs\0", _rights(may_execute=may_execute), options)
    steps.add("chdir", target)
    for path in places:
        steps.make_folder(path)
    for name in links:
        steps.make_link(f"{_TREE}/{name}", name)
    steps.add("pivot_root", b".\0", _TREE.encode() + b"\0")
    # A mount of its own: a program that removes its folder, to make it anew, would lose its files.
    data = DATA.encode() + b"\0"
    steps.add("mount", data, data, 0, kernel_calls.MS_BIND, 0)


def _rights(*, may_execute: bool) -> int:
    return _NO_RIGHTS & ~kernel_calls.MS_NOEXEC if may_execute else _NO_RIGHTS


def _temp_options(size_bytes: int, files: int, mode: int) -> bytes:
    # One inode more than files: the folder itself has one.
    return f"size={size_bytes},nr_inodes={files + 1},mode={mode:o}".encode()


def _make_place(path: str, *, is_directory: bool) -> None:
    if os.path.lexists(path):
        # Inside a bind that is already there.
        return
    if is_directory:
        os.makedirs(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))


def _copy(fd: int, target: str, *, is_directory: bool) -> None:
    """From a mount that is there only for that time."""
    source = f"{_BASE}/.original"
    _make_place(source, is_directory=is_directory)
    kernel_calls.attach_mount(fd, source)
    os.close(fd)
    if is_directory:
        os.makedirs(target)
        _copy_folder(source, target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _copy_file(source, target)
    kernel_calls.detach(source.encode())
    (os.rmdir if is_directory else os.unlink)(source)


def _copy_folder(source: str, target: str) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.mkdir(f"{target}/{entry.name}")
                _copy_folder(entry.path, f"{target}/{entry.name}")
            # A link is followed and its target copied: inside of the tree it would lead nowhere.
            elif entry.is_file():
                _copy_file(entry.path, f"{target}/{entry.name}")


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as original, open(target, "wb") as copy:
        copy.write(original.read())
    status = os.stat(source)
    os.chmod(target, status.st_mode & 0o755)  # without set-uid bits
    # Compiled modules are compared with it.
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _hide(targets: Sequence[str]) -> None:
    for target in targets:
        if os.path.isdir(_BASE + target):
            # Empty in this tree; guests mount their own there.
            fd = kernel_calls.clone_mount(_BASE + DATA)
            kernel_calls.attach_mount(fd, _BASE + target)
            os.close(fd)


def _write_etc() -> None:
    os.makedirs(_BASE + "/etc", exist_ok=True)
    for name, text in _ETC.items():
        with open(f"{_BASE}/etc/{name}", "w", encoding="ascii") as file:
            file.write(text)
