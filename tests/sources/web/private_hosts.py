"""Servers at private addresses, in a network of this process's own: who gets through without the guard, who with it.

Run as a program, because a namespace is entered for good. Prints `{"address": [status without, "what the guard says"]}`.
"""

import asyncio
import errno
import fcntl
import json
import os
import socket
import struct
import sys
import time
import urllib.request

from tests.sources.openapi.serving import Answer, Serving
from toolfold.errors import ToolRefused
from toolfold.sources.web.client import WebClient
from toolfold.sources.web.credentials import WebRequest
from toolfold_guest.jail import kernel_calls

_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916
_UP = 0x1


def enter() -> None:
    """A network with nothing in it but its own loopback."""
    kernel_calls.unshare(kernel_calls.NEWUSER | kernel_calls.NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


def take(address: str) -> None:
    """Have this machine answer to it."""
    if ":" in address:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control:
            index = socket.if_nametoindex("lo")
            fcntl.ioctl(
                control, _SET_ADDRESS, struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, address), 128, index)
            )
        _await_use(address)
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            to = struct.pack("H2x4s8x", socket.AF_INET, socket.inet_aton(address))
            fcntl.ioctl(control, _SET_ADDRESS, struct.pack("16s", b"lo:1") + to)


def _await_use(address: str) -> None:
    """The kernel gives an address of IPv6 free in a worker of its own; until then nothing can be bound to it."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                os.sched_yield()
            else:
                return
    raise TimeoutError(f"{address} could not be bound within 5 s")


def tried(address: str) -> tuple[int, str]:
    """One request without the guard, and one with it."""
    take(address)
    with Serving(lambda _: Answer(), address) as server:
        url = f"http://{f'[{address}]' if ':' in address else address}:{server.port}/"
        with urllib.request.urlopen(url) as answer:
            status = answer.status
        said = asyncio.run(_guarded(url))
        assert len(server.asked) == 1, "the guarded request reached the server"
    return status, said


async def _guarded(url: str) -> str:
    client = WebClient(["placeholder.example"])
    # Named for the lookup of names, not as an address: what is left is the check of the address.
    client.hosts.permits = lambda origin: True  # type: ignore[method-assign]
    try:
        await client.send(WebRequest(method="GET", url=url))
    except ToolRefused as refused:
        return str(refused)
    finally:
        await client.close()
    return "reached"


if __name__ == "__main__":
    enter()
    print(json.dumps({address: tried(address) for address in sys.argv[1:]}))
