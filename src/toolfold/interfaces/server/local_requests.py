"""Requests from this machine: one rule for every interface that listens without a key.

A page in a browser on this machine can reach loopback. It shows its origin, or, where its own name was made to point
here (DNS rebinding), that name as the host. So names are never looked up: an address is loopback, or `localhost` is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{0,5})?")
_ORIGIN: Final = re.compile(r"https?://(?P<authority>[^/?#]+)", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """An address that only this machine reaches, or `localhost`; never a name that merely looks like one."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_local_request(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request was made to this machine, and not by another machine's page."""
    pairs = [(name, value.decode("latin-1")) for name, value in headers if name in (b"host", b"origin")]
    return all(
        _is_loopback_authority(value) if name == b"host" else _is_loopback_origin(value) for name, value in pairs
    )


class OnlyFromHere:
    """Middleware that refuses every request not made to this machine, with `text`; `on_refusal` hears of each."""

    def __init__(self, app: ASGIApp, *, text: str, on_refusal: Callable[[], None] | None = None) -> None:
        self._app = app
        self._text = text
        self._on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_local_request(scope["headers"]):
            await self._app(scope, receive, send)
            return
        if self._on_refusal is not None:
            self._on_refusal()
        await send_error(send, 403, self._text)


def _is_loopback_authority(authority: str) -> bool:
    match = _AUTHORITY.fullmatch(authority)
    return match is not None and is_loopback(match["host"])


def _is_loopback_origin(origin: str) -> bool:
    match = _ORIGIN.fullmatch(origin)
    return match is not None and _is_loopback_authority(match["authority"])


async def send_error(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer a request with a JSON error, outside of any framework."""
    body = msgspec.json.encode({"error": text})
    usual = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*usual, *headers]})
    await send({"type": "http.response.body", "body": body})
