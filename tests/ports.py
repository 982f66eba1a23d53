"""Ports for servers that tests start in other processes, or that are not there on purpose."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_until_the_end = ExitStack()


@contextmanager
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 where nobody listens but a server that is told of it.

    A socket stays bound to it without listening, so connections are refused and the kernel gives the port to
    nobody else: neither to a server that asks for any port, nor to an outgoing connection, which could even
    connect to itself. A server that sets `SO_REUSEADDR`, as asyncio, Node.js and Redis do, can listen there.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def reserved_port() -> int:
    """The same until this process ends; a server may be started there any number of times."""
    return _until_the_end.enter_context(held_port())
