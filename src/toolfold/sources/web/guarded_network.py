"""Guarded connections: an allow-list of hosts, and a transport that checks each address before it connects.

The check sees the very address that is connected to, so a name whose answer changes between two lookups gains nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from importlib.util import find_spec
from typing import Final, NamedTuple, TypeAlias

import anyio
import httpcore2
import httpx2

from toolfold.errors import UsageError

# ----------------------------------------------------------------------------------------------------
# Allow-list of hosts and addresses; private addresses only where it names them. Pure.
#
# A URL is read once, by the parser of the client that sends it, and what was checked is what is sent. Hosts are ASCII
# without `%`: for others, two parsers can disagree on where a URL leads, and a secret would go to the wrong one.

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK: Final = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_EMBEDDING: Final = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")))
"""IPv6 networks whose last 32 bits are an IPv4 address: NAT64, compatible and translated ones."""
_NOT_PUBLIC: Final = (ipaddress.ip_network("fec0::/10"), ipaddress.ip_network("5f00::/16"))
"""What the standard library takes for public: old site-local addresses, and segment routing."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MOST_PORTS: Final = 65_535
_AUTHORITY: Final = re.compile(r"[^:/?#]*://([^/?#]*)")
_HOST_AND_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)(?::([0-9]*))?")


class Origin(NamedTuple):
    """Scheme, host and port of a URL, spelt in one way."""

    scheme: str
    host: str
    port: int


class _HostEntry(NamedTuple):
    host: str
    port: int | None


class _NetworkEntry(NamedTuple):
    network: Network
    port: int | None

    def has(self, address: Address, port: int) -> bool:
        return address in self.network and self.port in (None, port)


class Hosts:
    """Allow-list of hosts.

    An entry is a host (`api.example.com`), with a port (`localhost:8080`), all below a domain (`*.example.com`), an
    address (`10.0.0.5`) or a network (`10.0.0.0/8`). A host name does not name the addresses behind it: one that
    resolves to a private address is refused unless that address is named as well; `localhost` names loopback. An
    entry with a port names that port only, also of the addresses that it names.

    Raises:
        UsageError: an entry is none of these.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._host_entries: set[_HostEntry] = set()
        self._networks: list[_NetworkEntry] = []
        for entry in entries:
            self._add(entry)

    def permits(self, origin: Origin) -> bool:
        """Whether a URL may be requested at all, before its name is resolved."""
        names = [origin.host, *(f"*.{rest}" for rest in _parents(origin.host))]
        if any(_HostEntry(name, port) in self._host_entries for name in names for port in (origin.port, None)):
            return True
        address = _address(origin.host)
        return address is not None and self._lists_address(address, origin.port)

    def permits_address(self, text: str, port: int) -> bool:
        """Whether a connection to this address and port may be made: it is public, or named."""
        address = _address(text)
        if address is None:
            return False
        return all(_is_public(meaning) or self._lists_address(meaning, port) for meaning in _meanings(address))

    def _lists_address(self, address: Address, port: int) -> bool:
        return any(network.has(address, port) for network in self._networks)

    def _add(self, entry: str) -> None:
        network = _network(entry)
        if network is not None:
            self._networks.append(_NetworkEntry(network, None))
            return
        host, port = _split(entry)
        address = _address(host)
        if address is not None:
            self._networks.append(_NetworkEntry(ipaddress.ip_network(address), port))
        if host == "localhost":
            self._networks.extend(_NetworkEntry(network, port) for network in _LOOPBACK)
        self._host_entries.add(_HostEntry(host if address is None else str(address), port))


def read_url(url: str) -> httpx2.URL:
    """Parse a URL as it is sent: its host in the spelling in which hosts are compared, without a fragment.

    Raises:
        ValueError: it is not an `http` or `https` URL, it carries a user name, or its host can be read in two ways.
    """
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        _check_host(_authority(url))
        raise ValueError(f"cannot be read: {_uncapitalized(str(error))}") from None
    if parsed.scheme not in _DEFAULT_PORTS:
        raise ValueError("must begin with http:// or https://")
    authority = _authority(url)
    _check_host(authority)
    match = _HOST_AND_PORT.fullmatch(authority)
    host = parsed.raw_host.decode("ascii")
    if match is None or match[1].strip("[]").lower() != host.lower():
        raise ValueError("has an invalid host")
    if parsed.port is not None and not 0 < parsed.port <= _MOST_PORTS:
        raise ValueError("has an invalid port")
    return parsed.copy_with(host=_plain(host), fragment=None)


def origin_of(url: str | httpx2.URL) -> Origin:
    """Origin of a URL; raises as `read_url`."""
    parsed = read_url(url) if isinstance(url, str) else url
    return Origin(parsed.scheme, parsed.raw_host.decode("ascii"), parsed.port or _DEFAULT_PORTS[parsed.scheme])


def host_entry(url: str) -> str:
    """The entry of `Hosts` for a URL: its host, with the port if it has one or is a private address.

    A public host may redirect from `http` to `https`; of this machine, a URL names one port and not all.
    """
    authority = _authority(url)
    try:
        _, host, port = origin_of(url)
    except ValueError:
        return authority  # which `Hosts` refuses, with its reason
    return authority if is_public_name(host) else f"{f'[{host}]' if ':' in host else host}:{port}"


def _check_host(authority: str) -> None:
    if "@" in authority:
        raise ValueError("must not carry a user name or a password")
    if not authority:
        raise ValueError("has no host")
    if not authority.isascii():
        raise ValueError(f"has a host beyond ASCII; {_ascii_hint(authority)}")
    if "%" in authority:
        raise ValueError("must not have '%' in its host")


def _ascii_hint(authority: str) -> str:
    try:
        return f"write it as {httpx2.URL(f'http://{authority}').raw_host.decode('ascii')!r}"
    except httpx2.InvalidURL:
        return "write its ASCII form"


def _authority(url: str) -> str:
    """Host and port as they are written, cut out as the client does."""
    match = _AUTHORITY.match(url)
    return "" if match is None else match[1]


def _uncapitalized(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}".rstrip(".")


def _plain(host: str) -> str:
    host = host.lower().removesuffix(".")
    address = _address(host)
    return host if address is None else str(address)


def is_public_name(host: str) -> bool:
    """Whether naming this host names no private address: it is a public address, or a name that is yet to resolve."""
    address = _address(host)
    return host != "localhost" and (address is None or all(map(_is_public, _meanings(address))))


def _split(entry: str) -> _HostEntry:
    name = entry.removeprefix("*.")
    if not name.isascii():
        raise UsageError(f"{entry!r} is not a host; {_ascii_hint(name)}")
    match = _HOST_AND_PORT.fullmatch(name)
    if match is None:
        raise _bad(entry)
    try:
        origin = origin_of(f"http://{name}")
    except ValueError as error:
        raise _bad(entry) from error
    return _HostEntry(f"{entry[: -len(name)]}{origin.host}", origin.port if match[2] else None)


def _bad(entry: str) -> UsageError:
    return UsageError(f"{entry!r} is not a host; write api.example.com, *.example.com, localhost:8080 or 10.0.0.0/8")


def _network(entry: str) -> Network | None:
    try:
        return ipaddress.ip_network(entry, strict=False) if "/" in entry else None
    except ValueError:
        return None


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _parents(host: str) -> list[str]:
    labels = host.split(".")
    return [".".join(labels[index:]) for index in range(1, len(labels))]


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOT_PUBLIC)


def _meanings(address: Address) -> list[Address]:
    """The address, and the IPv4 address that an IPv6 one leads to: mapped, 6to4, Teredo, NAT64 or compatible."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    inner: list[Address] = [address]
    if address.sixtofour is not None:
        inner.append(address.sixtofour)
    if address.teredo is not None:
        inner.extend(address.teredo)
    if not address.is_loopback and any(address in network for network in _EMBEDDING):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return inner


Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, in the order to try them."""

MOST_CONNECTIONS: Final = 16
_IDLE_CONNECTIONS: Final = 8
_IDLE_SECONDS: Final = 4.0
"""Less than the five after which many servers close: what is sent as they do is lost, and may not be sent twice."""


class AddressRefused(httpcore2.ConnectError):
    """The name resolves to a private address that nobody named."""


async def system_resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver, which also reads decimal, octal and shortened addresses."""
    records = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in records))


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """Transport over guarded connections, HTTP/2 where `h2` is installed; no proxy, for that would resolve names."""

    def __init__(self, hosts: Hosts, resolve: Resolve = system_resolve) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_tls(), max_connections=MOST_CONNECTIONS, max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS, http2=find_spec("h2") is not None,
            network_backend=_GuardedBackend(hosts, resolve),
        )  # fmt: skip


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
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
                addresses = await self._resolve_permitted(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host!r} was not resolved in time") from error
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._plain.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"{host!r} has no address")

    async def _resolve_permitted(self, host: str, port: int) -> list[str]:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host!r} is not known to the resolver") from error
        permitted = [address for address in addresses if self._hosts.permits_address(address, port)]
        if addresses and not permitted:
            raise AddressRefused(
                f"{host!r} leads to the private address {addresses[0]}; if that is meant, name the address in 'hosts'"
            )
        return permitted

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"] if find_spec("h2") is not None else ["http/1.1"])
    return context
