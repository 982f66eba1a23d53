"""The kernel calls that Python has no function for. Resolved once, so that a fork only calls them."""

import ctypes
import os
import struct
import sys
from typing import Any, Final

from toolfold_guest.aliases import c_uint, c_ulong
from toolfold_guest.jail.syscalls import MACHINES

NEWNS: Final = 0x00020000
NEWCGROUP: Final = 0x02000000
NEWUTS: Final = 0x04000000
NEWIPC: Final = 0x08000000
NEWUSER: Final = 0x10000000
NEWPID: Final = 0x20000000
NEWNET: Final = 0x40000000

MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
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
_LAST_FD = ctypes.c_uint(0xFFFFFFFF)
_NUMBERS = MACHINE.own if MACHINE is not None else {}
_ALL_NUMBERS = MACHINE.allowed | MACHINE.checked | MACHINE.setup | MACHINE.own if MACHINE is not None else {}


def _pick_fork() -> Any:
    # `_Fork` skips the handlers that `fork` runs for threads. The zygote has one thread, and
    # without them a fork is half a millisecond cheaper. PyDLL keeps the interpreter's lock.
    try:
        return ctypes.PyDLL(None)._Fork
    except AttributeError:
        return os.fork


fork = _pick_fork()


def check(result: int, what: str) -> int:
    """The result, or an `OSError` that names the call."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def call(name: str, *arguments: Any) -> int:
    """A system call by name, for those that the C library may not know."""
    if MACHINE is None:
        raise _unknown_machine()
    return check(_syscall(_NUMBERS[name], *arguments), name)


def number_of(name: str) -> int:
    """Of a system call that the jail makes, or lets guests make."""
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
    """Unmount once nobody uses it; hidden at once."""
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
    """Put what `clone_mount` gave at `target`."""
    to = ctypes.c_char_p(os.fsencode(target))
    call("move_mount", fd, ctypes.c_char_p(b""), _AT_FDCWD, to, _MOVE_MOUNT_F_EMPTY_PATH)


def make_read_only(path: str) -> None:
    """The mount at `path`, not those below it."""
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
    """Close that descriptor and every higher one."""
    # Not `os.closerange`: where that was built without, it tries each.
    call("close_range", c_uint(fd), _LAST_FD, 0)


def signal_fd(signal_number: int) -> int:
    """A descriptor that is readable when the (blocked) signal is pending."""
    mask = ctypes.create_string_buffer((1 << (signal_number - 1)).to_bytes(8, sys.byteorder), 128)
    return check(_signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK), "signalfd")


def collapse_pages(address: int, size: int) -> None:
    """Put these pages into a huge one, if the kernel can."""
    _madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_COLLAPSE)


def die_with_parent() -> None:
    """SIGKILL when the parent is gone. Credential changes clear this, so it comes after them."""
    check(_prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "pdeathsig")


def adopt_orphans() -> None:
    """Orphaned descendants become children of this process."""
    check(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def no_new_privileges() -> None:
    check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def drop_user(user_id: int) -> None:
    """From root to that user and group. Keeps the one right that opening a namespace may need."""
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
