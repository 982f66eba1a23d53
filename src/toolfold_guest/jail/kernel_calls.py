"""Kernel calls that Python lacks, system-call lists for a fork, and user namespaces. Resolved once."""

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from typing import Any, Final

from toolfold_guest.jail.syscalls import MACHINES
from toolfold_guest.stdlib_names import c_uint, c_ulong

NEWNS: Final = 0x00020000
NEWCGROUP: Final = 0x02000000
NEWUTS: Final = 0x04000000
NEWIPC: Final = 0x08000000
NEWUSER: Final = 0x10000000
NEWPID: Final = 0x20000000
NEWNET: Final = 0x40000000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_BIND: Final = 0x1000
MS_PRIVATE_RECURSIVE: Final = 0x40000 | 0x4000

CAP_SYS_ADMIN: Final = 21

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
_PR_SET_KEEPCAPS: Final = 8
_PR_CAPBSET_DROP: Final = 24
PR_SET_SECUREBITS: Final = 28
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
# noroot, no setuid fixup, no ambient capabilities; each with its lock.
SECUREBITS: Final = 0xEF

_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_READ_ONLY_NOSUID: Final = 3
_NODEV: Final = 4
_MNT_DETACH: Final = 2
_MADV_COLLAPSE: Final = 25
_PROT_READ, WRITE, EXECUTE = 1, 2, 4


class JailError(Exception):
    """A layer is not available. The text is one line for people: which, why, what to do."""


MACHINE: Final = MACHINES.get(os.uname().machine)

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_unshare = _libc.unshare
_setns = _libc.setns
_mount = _libc.mount
_umount2 = _libc.umount2
_capset = _libc.capset
_signalfd = _libc.signalfd
_madvise = _libc.madvise
_mprotect = _libc.mprotect
_LAST_FD = ctypes.c_uint(0xFFFFFFFF)
_NUMBERS = MACHINE.own if MACHINE is not None else {}
_TABLES = (MACHINE.allowed, MACHINE.checked, MACHINE.setup, MACHINE.own, MACHINE.shell) if MACHINE is not None else ()
_ALL_NUMBERS = {name: number for table in _TABLES for name, number in table.items()}


def _pick_fork() -> Any:
    # `_Fork` skips the handlers that `fork` runs for threads. The zygote has one thread, and
    # without them a fork is half a millisecond cheaper. PyDLL keeps the interpreter's lock.
    try:
        return ctypes.PyDLL(None)._Fork
    except AttributeError:
        return os.fork


fork = _pick_fork()


def check(result: int, name: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def call(name: str, *arguments: Any) -> int:
    """A system call by name, for those that the C library may not know."""
    if MACHINE is None:
        raise _unknown_machine()
    return check(_syscall(_NUMBERS[name], *arguments), name)


def number_of(name: str) -> int:
    if MACHINE is None:
        raise _unknown_machine()
    return _ALL_NUMBERS[name]


def _unknown_machine() -> JailError:
    return JailError(f"cannot isolate here: no system-call table for {os.uname().machine!r} processors")


def unshare(flags: int) -> None:
    check(_unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    check(_setns(fd, flags), "setns")


def mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes | None) -> None:
    check(_mount(source, target, kind, c_ulong(flags), options), "mount")


def detach(target: bytes) -> None:
    check(_umount2(target, _MNT_DETACH), "umount2")


def clone_mount(path: str, *, device: bool = False) -> int:
    """A read-only copy of the mounts at `path`, attached nowhere: later mounts cannot hide its source."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    # A clone that is attached nowhere cannot be changed by mounts that others make meanwhile.
    fd = call("open_tree", _AT_FDCWD, ctypes.c_char_p(os.fsencode(path)), flags)
    # Devices must stay devices, or /dev/null could not be opened; everything else loses that right.
    attributes = _READ_ONLY_NOSUID if device else _READ_ONLY_NOSUID | _NODEV
    _set_attributes(fd, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, attributes)
    return fd


def attach_mount(fd: int, target: str) -> None:
    to = ctypes.c_char_p(os.fsencode(target))
    call("move_mount", fd, ctypes.c_char_p(b""), _AT_FDCWD, to, _MOVE_MOUNT_F_EMPTY_PATH)


def make_read_only(path: str) -> None:
    _set_attributes(_AT_FDCWD, os.fsencode(path), 0, _READ_ONLY_NOSUID | _NODEV)


def _set_attributes(fd: int, path: bytes, flags: int, attributes: int) -> None:
    buffer = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, 0, 0), 32)
    call("mount_setattr", fd, ctypes.c_char_p(path), flags, buffer, ctypes.c_size_t(32))


def pivot_here() -> None:
    """Make the working directory the root and let go of the old one."""
    dot = ctypes.c_char_p(b".")
    # Onto itself: the old root lies over the new one until it is detached, and no folder for it is needed.
    call("pivot_root", dot, dot)
    detach(b".")
    os.chdir("/")


def close_from(fd: int) -> None:
    # Not `os.closerange`: where that was built without, it tries each.
    call("close_range", c_uint(fd), _LAST_FD, 0)


def signal_fd(signal_number: int) -> int:
    """A descriptor that is readable when the (blocked) signal is pending."""
    mask = ctypes.create_string_buffer((1 << (signal_number - 1)).to_bytes(8, sys.byteorder), 128)
    return check(_signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK), "signalfd")


def collapse_pages(address: int, size: int) -> None:
    _madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_COLLAPSE)


def set_rights(address: int, size: int, right: int) -> None:
    """To read pages and what `right` names. Best effort: where it is refused, they stay as they are."""
    _mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), _PROT_READ | right)


def die_with_parent() -> None:
    """SIGKILL when the parent is gone. Credential changes clear this, so it comes after them."""
    check(_prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "pdeathsig")


def adopt_orphans() -> None:
    check(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def no_new_privileges() -> None:
    check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def drop_user(user_id: int) -> None:
    """Change from root to that user and group. Keeps the one right that opening a namespace may need."""
    _prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    # Groups before the user: afterwards there is no right left to give them up.
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)
    # Where only root may open user namespaces (Ubuntu's AppArmor rule), this still counts as root.
    _keep_capability(CAP_SYS_ADMIN)
    # A change of user makes /proc/self root's: its uid_map could not be written.
    _prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def drop_bounding_set() -> None:
    """So that no exec can ever give a capability back. Lost again when a user namespace is opened."""
    # Newer kernels have more of them than our headers know.
    for capability in range(64):
        if _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            # EINVAL: past the last one; EPERM: never had the right to gain any.
            break


def drop_capabilities() -> None:
    """All of them, and what being user 0 would mean."""
    _prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0)
    check(_capset(CAPABILITY_HEADER, NO_CAPABILITIES), "capset")


CAPABILITY_HEADER = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
NO_CAPABILITIES = ctypes.create_string_buffer(24)


def _keep_capability(capability: int) -> None:
    low = 1 << capability
    data = ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, 0, 0, 0), 24)
    # Best effort: an ordinary user's rights may do.
    _capset(CAPABILITY_HEADER, data)


# ----------------------------------------------------------------------------------------------------
# System calls that are written down before a fork, so that the fork only goes down the list.
#
# A function that runs in a fork, and each object that it uses, is a page that the fork copies. A list needs none of
# them: its numbers lie side by side. And every call says beforehand what it must return, down to the number of each
# descriptor, so that a fork which is not exactly what was planned is refused.

_SIG_SETMASK: Final = 2
_SIGNAL_SET_BYTES: Final = 8
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_ALL_BITS: Final = 0xFFFFFFFFFFFFFFFF
_ARGUMENTS: Final = 6

_ANYTHING: Final = -(1 << 63)
"""For what a call returns that need not succeed."""
_STEP: Final = struct.Struct(f"={2 + _ARGUMENTS}q")
_unpack = _STEP.iter_unpack

_steps_syscall = ctypes.CDLL(None, use_errno=True).syscall
_steps_syscall.restype = ctypes.c_long
# Else a number would be 32 bits of the register, and the rest what was left in it.
_steps_syscall.argtypes = [ctypes.c_long] * (1 + _ARGUMENTS)


def take(planned: "Planned") -> None:
    """Make the calls. The first that does not return what it must is an `OSError`."""
    packed, steps = planned
    for place, step in enumerate(_unpack(packed)):
        result = _steps_syscall(*step[1:])
        if result != step[0] != _ANYTHING:
            raise steps.problem(place, result)


class SyscallList:
    """A list of system calls. `open_fds` are the descriptors that are open when it begins."""

    def __init__(self, open_fds: Iterable[int]) -> None:
        self._calls: list[tuple[int, ...]] = []
        """What each must return, its number, its arguments."""
        self._names: list[str] = []
        self._open_fds = set(open_fds)
        self._texts: list[Any] = []
        """Kept, because the calls have their addresses."""

    def planned(self) -> "Planned":
        return b"".join(_STEP.pack(*call) for call in self._calls), self

    @property
    def open_fds(self) -> frozenset[int]:
        """The descriptors that are open when the last of the calls is made."""
        return frozenset(self._open_fds)

    def try_to(self, name: str, *arguments: int | bytes | Any) -> None:
        self.add(name, *arguments, result=_ANYTHING)

    def add(self, name: str, *arguments: int | bytes | Any, result: int = 0) -> None:
        """One call by its name. Bytes are handed over as their address, and so is a buffer of `ctypes`."""
        # Always all of them: a call that takes fewer does not look at the rest.
        rest = [0] * (_ARGUMENTS - len(arguments))
        self._calls.append((result, number_of(name), *map(self._value, arguments), *rest))
        self._names.append(name)

    def open(self, path: str, flags: int, mode: int = 0, *, folder: int = _AT_FDCWD) -> int:
        """The descriptor that it will have: the lowest that is free."""
        fd = self.free()
        self.add("openat", folder, os.fsencode(path) + b"\0", flags | os.O_CLOEXEC, mode, result=fd)
        self._open_fds.add(fd)
        return fd

    def free(self) -> int:
        """The descriptor that the kernel gives out next."""
        # The kernel promises the lowest, and so a plan can name descriptors that do not exist yet.
        return next(fd for fd in range(len(self._open_fds) + 1) if fd not in self._open_fds)

    def keep(self, fd: int) -> None:
        self._open_fds.add(fd)

    def close(self, fd: int) -> None:
        self.add("close", fd)
        self._open_fds.discard(fd)

    def close_from(self, fd: int) -> None:
        self.add("close_range", fd, 0xFFFFFFFF)
        self._open_fds = {open_fd for open_fd in self._open_fds if open_fd < fd}

    def duplicate(self, fd: int, place: int) -> None:
        # Not `dup2`, which newer processors' tables lack.
        self.add("dup3", fd, place, result=place)
        self._open_fds.add(place)

    def write(self, path: str, text: bytes, *, folder: int, must: bool = True) -> None:
        """Into a file that is there. If it need not succeed, the calls after it go on as if it had."""
        fd = self.open(path, os.O_WRONLY, folder=folder)
        self.add("write", fd, text, len(text), result=len(text))
        self.close(fd)
        if not must:
            # Where it cannot be opened, the other two find nothing at that number: it was free.
            self._calls[-3:] = [(_ANYTHING, *call[1:]) for call in self._calls[-3:]]

    def make_folder(self, path: str) -> None:
        self.add("mkdirat", _AT_FDCWD, os.fsencode(path) + b"\0", 0o700)

    def make_link(self, text: str, path: str) -> None:
        self.add("symlinkat", os.fsencode(text) + b"\0", _AT_FDCWD, os.fsencode(path) + b"\0")

    def change_folder(self, path: str) -> None:
        self.add("chdir", os.fsencode(path) + b"\0")

    def remove_file(self, path: str) -> None:
        self.add("unlinkat", _AT_FDCWD, os.fsencode(path) + b"\0", 0)

    def unblock_signals(self) -> None:
        self.add("rt_sigprocmask", _SIG_SETMASK, bytes(_SIGNAL_SET_BYTES), 0, _SIGNAL_SET_BYTES)

    def limit(self, resource: int, value: int, most: int) -> None:
        self.add("setrlimit", resource, struct.pack("=QQ", value & _ALL_BITS, most & _ALL_BITS))

    def hand_over(self, fd: int, *, by: int, text: bytes) -> None:
        # The structures of `sendmsg(2)` and `cmsg(3)`; the descriptor's own is padded to a whole word.
        head = struct.pack("@Nii", struct.calcsize("@Niii"), _SOL_SOCKET, _SCM_RIGHTS)
        control = self._address(head + struct.pack("@i", fd) + bytes(4))
        pieces = self._address(struct.pack("@PN", self._address(text), len(text)))
        size = len(head) + 8
        message = struct.pack("@PIxxxxPNPNixxxx", 0, 0, pieces, 1, control, size, 0)
        self.add("sendmsg", by, message, 0, result=len(text))

    def enter_cgroup(self, *, by: int) -> None:
        """Wait for the word of whoever moves this process, and see nothing of where it was moved to."""
        self.add("recvfrom", by, bytes(1), 1, result=1)
        self.add("unshare", NEWCGROUP)

    def problem(self, place: int, result: int) -> OSError:
        code = ctypes.get_errno() if result < 0 else 0
        reason = os.strerror(code) if result < 0 else f"returned {result} instead of {self._calls[place][0]}"
        return OSError(code, f"{self._names[place]}: {reason}")

    def _value(self, argument: int | bytes | Any) -> int:
        if isinstance(argument, int):
            return argument
        return self._address(argument) if isinstance(argument, bytes) else ctypes.addressof(argument)

    def _address(self, text: bytes) -> int:
        buffer = ctypes.create_string_buffer(text, len(text))
        self._texts.append(buffer)
        return ctypes.addressof(buffer)


Planned = tuple[bytes, SyscallList]
"""The calls, packed, and what is needed only when one fails."""


# ----------------------------------------------------------------------------------------------------
# Who the jail's processes are: a user that is nobody outside, alone in a user namespace.

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
        raise JailError("/proc is not mounted; mount it") from None
    if fd != PROC_FD:
        os.dup2(fd, PROC_FD)
        os.close(fd)
    os.set_inheritable(PROC_FD, True)


def map_ids(user: int, group: int, *, inside: int) -> None:
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
