"""Connections that lead only where the allow-list says: each name is resolved, checked and connected to in one step.

The check sees the very address that is connected to, so a name whose answer changes between two lookups gains nothing.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from importlib.util import find_spec
from typing import Final, TypeAlias

import anyio
import httpcore2
import httpx2

from toolfold.sources.web.hosts import Hosts

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, in the order to try them."""

MOST_CONNECTIONS: Final = 16
_IDLE_CONNECTIONS: Final = 8
_IDLE_SECONDS: Final = 4.0
"""Less than the five after which many servers close: what is sent as they do is lost, and may not be sent twice."""


class AddressRefused(httpcore2.ConnectError):
    """The name leads to an address that nobody named."""


async def system_resolve(host: str, port: int) -> list[str]:
    """What the system's resolver says; it also reads decimal, octal and shortened addresses."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """Sends requests over guarded connections, with HTTP/2 where `h2` is installed.

    It uses no proxy: that would resolve names in our place.
    """

    def __init__(self, hosts: Hosts, resolve: Resolve = system_resolve) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_tls(),
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            http2=find_spec("h2") is not None,
            network_backend=_Guarded(hosts, resolve),
        )


class _Guarded(httpcore2.AsyncNetworkBackend):
    def __init__(self, hosts: Hosts, resolve: Resolve) -> None:
        self._hosts = hosts
        self._resolve = resolve
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as the base class has it
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                addresses = await self._permitted(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host!r} was not resolved in time") from error
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._plain.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"{host!r} has no address")

    async def _permitted(self, host: str, port: int) -> list[str]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host!r} is not known to the resolver") from error
        permitted = [address for address in found if self._hosts.permits_address(address, port)]
        if found and not permitted:
            raise AddressRefused(
                f"{host!r} leads to the private address {found[0]}; if that is meant, name the address in 'hosts'"
            )
        return permitted

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"] if find_spec("h2") is not None else ["http/1.1"])
    return context
