"""System calls that are written down before a fork, so that the fork only goes down the list.

A function that runs in a fork, and each object that it uses, is a page that the fork copies. A list needs none of
them: its numbers lie side by side. And every call says beforehand what it must return, down to the number of each
descriptor, so that a fork which is not exactly what was planned is refused.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from typing import Any, Final

from toolfold_guest.jail import kernel

_AT_FDCWD: Final = -100
_SIG_SETMASK: Final = 2
_SIGNAL_SET_BYTES: Final = 8
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_ALL_BITS: Final = 0xFFFFFFFFFFFFFFFF
_ARGUMENTS: Final = 6

_ANYTHING: Final = -(1 << 63)
"""For what a call returns that need not succeed."""
_STEP: Final = struct.Struct(f"={2 + _ARGUMENTS}q")
_unpack = _STEP.iter_unpack

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
# Else a number would be 32 bits of the register, and the rest what was left in it.
_syscall.argtypes = [ctypes.c_long] * (1 + _ARGUMENTS)


def take(planned: "Planned") -> None:
    """Make the calls. The first that does not return what it must is an `OSError`."""
    packed, steps = planned
    for place, step in enumerate(_unpack(packed)):
        result = _syscall(*step[1:])
        if result != step[0] != _ANYTHING:
            raise steps.problem(place, result)


class Steps:
    """A list of system calls. `taken` are the descriptors that are open when it begins."""

    def __init__(self, taken: Iterable[int]) -> None:
        self._calls: list[tuple[int, ...]] = []
        """What each must return, its number, its arguments."""
        self._names: list[str] = []
        self._taken = set(taken)
        self._texts: list[Any] = []
        """Kept, because the calls have their addresses."""

    def planned(self) -> "Planned":
        """As a fork wants it."""
        return b"".join(_STEP.pack(*call) for call in self._calls), self

    @property
    def taken(self) -> frozenset[int]:
        """The descriptors that are open when the last of the calls is made."""
        return frozenset(self._taken)

    def try_to(self, name: str, *arguments: int | bytes | Any) -> None:
        """One call that may fail."""
        self.add(name, *arguments, result=_ANYTHING)

    def add(self, name: str, *arguments: int | bytes | Any, result: int = 0) -> None:
        """One call by its name. Bytes are handed over as their address, and so is a buffer of `ctypes`."""
        # Always all of them: a call that takes fewer does not look at the rest.
        rest = [0] * (_ARGUMENTS - len(arguments))
        self._calls.append((result, kernel.number_of(name), *map(self._value, arguments), *rest))
        self._names.append(name)

    def open(self, path: str, flags: int, mode: int = 0, *, folder: int = _AT_FDCWD) -> int:
        """The descriptor that it will have: the lowest that is free."""
        fd = self.free()
        self.add("openat", folder, os.fsencode(path) + b"\0", flags | os.O_CLOEXEC, mode, result=fd)
        self._taken.add(fd)
        return fd

    def free(self) -> int:
        """The descriptor that the kernel gives out next."""
        # The kernel promises the lowest, and so a plan can name descriptors that do not exist yet.
        return next(fd for fd in range(len(self._taken) + 1) if fd not in self._taken)

    def keep(self, fd: int) -> None:
        """A call that was added makes this descriptor."""
        self._taken.add(fd)

    def close(self, fd: int) -> None:
        self.add("close", fd)
        self._taken.discard(fd)

    def close_from(self, fd: int) -> None:
        """That descriptor and every higher one."""
        self.add("close_range", fd, 0xFFFFFFFF)
        self._taken = {taken for taken in self._taken if taken < fd}

    def duplicate(self, fd: int, place: int) -> None:
        # Not `dup2`, which newer processors' tables lack.
        self.add("dup3", fd, place, result=place)
        self._taken.add(place)

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

    def change_folder(self, path: str) -> None:
        self.add("chdir", os.fsencode(path) + b"\0")

    def remove_file(self, path: str) -> None:
        self.add("unlinkat", _AT_FDCWD, os.fsencode(path) + b"\0", 0)

    def unblock_signals(self) -> None:
        self.add("rt_sigprocmask", _SIG_SETMASK, bytes(_SIGNAL_SET_BYTES), 0, _SIGNAL_SET_BYTES)

    def limit(self, resource: int, value: int, most: int) -> None:
        self.add("setrlimit", resource, struct.pack("=QQ", value & _ALL_BITS, most & _ALL_BITS))

    def hand_over(self, fd: int, *, by: int, text: bytes) -> None:
        """Send a descriptor through the socket `by`, along with a text."""
        # The structures of `sendmsg(2)` and `cmsg(3)`; the descriptor's own is padded to a whole word.
        head = struct.pack("@Nii", struct.calcsize("@Niii"), _SOL_SOCKET, _SCM_RIGHTS)
        control = self._address(head + struct.pack("@i", fd) + bytes(4))
        pieces = self._address(struct.pack("@PN", self._address(text), len(text)))
        size = len(head) + 8
        message = struct.pack("@PIxxxxPNPNixxxx", 0, 0, pieces, 1, control, size, 0)
        self.add("sendmsg", by, message, 0, result=len(text))

    def problem(self, place: int, result: int) -> OSError:
        """Which call did not do what it must."""
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


Planned = tuple[bytes, Steps]
"""The calls, packed, and what is needed only when one fails."""
