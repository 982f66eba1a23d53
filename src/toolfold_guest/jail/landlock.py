"""Landlock: the file tree, TCP and signals, taken from a process by itself and for good."""

import ctypes
import os
import struct
from collections.abc import Iterable
from typing import Final

from toolfold_guest.jail import kernel
from toolfold_guest.jail.steps import Steps

_VERSION_FLAG: Final = 1
_RULE_PATH_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_READ: Final = _READ_FILE | _READ_DIR
# All that a program does in a folder of its own: no devices, no sockets, no exec.
_READ_WRITE: Final = (
    _READ
    | _WRITE_FILE
    | _REMOVE_DIR
    | _REMOVE_FILE
    | _MAKE_DIR
    | _MAKE_REG
    | _MAKE_FIFO
    | _MAKE_SYM
    | _REFER
    | _TRUNCATE
)
_DEVICE: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

# Rights that each version of the interface knows, beyond those of the one before.
_FS_BITS_BY_VERSION: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NET_BIND_AND_CONNECT: Final = 3
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 3


def version() -> int:
    """The newest interface that this kernel and we both know; raises `JailError` if it has none."""
    try:
        found = kernel.call("landlock_create_ruleset", None, ctypes.c_size_t(0), _VERSION_FLAG)
    except OSError as error:
        raise kernel.JailError(
            f"landlock is not there ({error.strerror}); boot a kernel of 5.13 or later with 'landlock' in its lsm= list"
        ) from None
    return min(found, 6)


class Ruleset:
    """What stays allowed. Put together before the fork; a guest then only hands it to the kernel."""

    def __init__(self, interface: int) -> None:
        # Whatever is handled is refused unless a rule allows it, so every right that this kernel knows is handled.
        self._handled = (1 << _FS_BITS_BY_VERSION[min(interface, 5)]) - 1
        net = _NET_BIND_AND_CONNECT if interface >= 4 else 0
        scoped = _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if interface >= 6 else 0
        # An older kernel refuses fields it does not know, so they are left out, not zero.
        fields = 3 if interface >= 6 else 2 if interface >= 4 else 1
        self._attributes = struct.pack("=QQQ", self._handled, net, scoped)[: 8 * fields]
        self._rules: list[bytes] = []

    def allow_read(self, fds: Iterable[int], *, files: bool = False) -> None:
        """Below these directories, or in these `files`."""
        self._rules += [self._rule(fd, _READ & _OF_A_FILE if files else _READ) for fd in fds]

    def allow_list(self, fds: Iterable[int]) -> None:
        """The names in these directories and in those below them, and nothing of what is in the files."""
        self._rules += [self._rule(fd, _READ_DIR) for fd in fds]

    def allow_devices(self, fds: Iterable[int]) -> None:
        """Reading and writing of harmless devices such as /dev/null."""
        self._rules += [self._rule(fd, _DEVICE) for fd in fds]

    def plan(self, steps: Steps, writable: Iterable[str]) -> None:
        """Have the calling thread bound to it, and to `writable` folders. Needs `no_new_privileges`."""
        # A ruleset of its own for each guest: its writable folders differ.
        ruleset = steps.free()
        steps.add("landlock_create_ruleset", self._attributes, len(self._attributes), 0, result=ruleset)
        steps.keep(ruleset)
        for rule in self._rules:
            steps.add("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, rule, 0)
        for path in writable:
            fd = steps.open(path, os.O_PATH)
            steps.add("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, self._rule(fd, _READ_WRITE), 0)
            steps.close(fd)
        # Only this thread; a guest has no other yet, and those to come inherit it.
        steps.add("landlock_restrict_self", ruleset, 0)
        steps.close(ruleset)

    def _rule(self, fd: int, rights: int) -> bytes:
        return struct.pack("=Qi", rights & self._handled, fd)
