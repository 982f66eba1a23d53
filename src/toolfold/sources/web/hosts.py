"""Which hosts and addresses may be reached: an allow-list, and private addresses only where it names them. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from toolfold.errors import UsageError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK: Final = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_EMBEDDING: Final = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")))
"""IPv6 networks whose last 32 bits are an IPv4 address: NAT64, compatible and translated ones."""
_NOT_PUBLIC: Final = (ipaddress.ip_network("fec0::/10"), ipaddress.ip_network("5f00::/16"))
"""What the standard library takes for public: old site-local addresses, and segment routing."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Where a URL leads: scheme, host and port, spelt in one way."""

    scheme: str
    host: str
    port: int


class _Named(NamedTuple):
    host: str
    port: int | None


class Hosts:
    """The hosts that an operator named.

    An entry is a host (`api.example.com`), with a port (`localhost:8080`), all below a domain (`*.example.com`), an
    address (`10.0.0.5`) or a network (`10.0.0.0/8`). A host name does not name the addresses behind it: one that
    resolves to a private address is refused unless that address is named as well; `localhost` names loopback.

    Raises:
        UsageError: an entry is none of these.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._named: set[_Named] = set()
        self._networks: list[Network] = []
        for entry in entries:
            self._add(entry)

    def permits(self, origin: Origin) -> bool:
        """Whether a URL may be asked at all, before its name is resolved."""
        names = [origin.host, *(f"*.{rest}" for rest in _parents(origin.host))]
        if any(_Named(name, port) in self._named for name in names for port in (origin.port, None)):
            return True
        address = _address(origin.host)
        return address is not None and any(address in network for network in self._networks)

    def permits_address(self, text: str) -> bool:
        """Whether a connection to this address may be made: it is public, or named."""
        address = _address(text)
        if address is None:
            return False
        return all(_is_public(one) or self._names(one) for one in _meanings(address))

    def _names(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _add(self, entry: str) -> None:
        network = _network(entry)
        if network is not None:
            self._networks.append(network)
            return
        host, port = _split(entry)
        address = _address(host)
        if address is not None:
            self._networks.append(ipaddress.ip_network(address))
        if host == "localhost":
            self._networks.extend(_LOOPBACK)
        self._named.add(_Named(host if address is None else str(address), port))


def origin_of(url: str) -> Origin:
    """Where a URL leads.

    Raises:
        ValueError: it is no `http` or `https` URL, or carries a user name.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("must not carry a user name or a password")
    if not parts.hostname or "\\" in parts.netloc:
        raise ValueError("has no host")
    return Origin(parts.scheme, plain_host(parts.hostname), parts.port or _DEFAULT_PORTS[parts.scheme])


def plain_host(host: str) -> str:
    """A host in the one spelling in which hosts are compared."""
    host = host.lower().removesuffix(".").strip("[]")
    address = _address(host)
    if address is not None:
        return str(address)
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise ValueError("has an invalid host name") from error


def is_public_name(host: str) -> bool:
    """Whether naming this host names no private address: it is a public address, or a name that is yet to resolve."""
    return host != "localhost" and (_address(host) is None or Hosts(()).permits_address(host))


def _split(entry: str) -> _Named:
    try:
        parts = urlsplit(f"//{entry}")
        host, port = plain_host(parts.hostname or ""), parts.port
    except ValueError as error:
        raise _bad(entry) from error
    name = host.removeprefix("*.")
    if not name or "*" in name or parts.path or parts.query or "@" in parts.netloc or any(map(str.isspace, entry)):
        raise _bad(entry)
    return _Named(host, port)


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
    return [".".join(labels[at:]) for at in range(1, len(labels))]


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
