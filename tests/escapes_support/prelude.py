"""Put before the text of every attack, after the constants: raw system calls and raw frames."""

import ctypes
import json
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
REFUSED = (-1, -38)
"""EPERM and ENOSYS: the kernel would not, or has no such call."""


def kernel(name, *arguments):
    """The kernel's own answer to a system call: a result, or minus the error number."""
    wide = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(NR[name]), *wide)  # noqa: F821  # a constant put before this text
    return -ctypes.get_errno() if result < 0 else result


def send(message):
    """A frame of the program's own to the host, past the guest's code."""
    send_bytes(json.dumps(message).encode())


def send_bytes(body):
    data = struct.pack("<I", len(body)) + body
    while data:
        data = data[os.write(3, data) :]


def calls_frame(calls, tape=None):
    """As the guest's own code makes it; a call is `[id, index of the tool, arguments]`."""
    return [1, "", "", calls, -1, tape]


def send_calls(calls, tape=None):
    send(calls_frame(calls, tape))


def send_raw_arguments(arguments):
    send_bytes(json.dumps(calls_frame([[1, 0, "HERE"]])).encode().replace(b'"HERE"', arguments))


END = [3, "", "", "finished", None, "", [0, 0]]


def send_end(value, status="finished", cut_bytes=(0, 0)):
    send([*END[:3], status, value, "", list(cut_bytes)])


def send_raw_end(value):
    send_bytes(json.dumps(END).encode().replace(b"null", value))
