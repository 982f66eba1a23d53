"""Who sends a request: an API key, a signed token, or, where neither is configured, whoever is on this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Final, Protocol

from starlette.requests import Request

from toolfold.doors.http.refusals import Refusal
from toolfold.doors.http.settings import JwtSettings, Settings
from toolfold.errors import UsageError, install_extra

if TYPE_CHECKING:
    from toolfold.doors.http.signed import Signed

LOCAL: Final = "local"
"""The only tenant where no key is configured."""


class Headers(Protocol):
    """What is read of a request."""

    def get(self, key: str, /) -> str | None: ...


def headers_of(request: Request) -> dict[str, str]:
    """The first of each name. Starlette's own mapping goes through all of them for each that is asked for."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.headers.raw)}


class Auth:
    """From headers to a tenant."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.is_open
        self._keys = {tenant: _digest(key) for tenant, key in settings.keys.items()}
        self._jwt = None if settings.jwt is None else _signed(settings.jwt)

    async def tenant(self, headers: Headers, *, key_in_body: str = "") -> str:
        """Whose request it is.

        Raises:
            Refusal: 401, in the same words whatever was wrong.
        """
        if self._is_open:
            return LOCAL
        shown = _credential(headers) or key_in_body
        tenant = self._of_key(shown) if shown else ""
        if not tenant and self._jwt is not None and shown.count(".") == 2:
            tenant = await self._jwt.tenant(shown)
        if not tenant:
            raise Refusal(401, "missing or wrong API key", is_contract=False)
        return tenant

    def tenant_of_key(self, headers: Headers) -> str:
        """Whose API key the headers have; nothing where there is none, or it is no key but a token."""
        shown = "" if self._is_open else _credential(headers)
        return self._of_key(shown) if shown else ""

    def needs_body(self, headers: Headers) -> bool:
        """Whether a key can only be in the body, where older clients put it."""
        return not self._is_open and not _credential(headers)

    def _of_key(self, shown: str) -> str:
        found = ""
        digest = _digest(shown)
        # Every key is compared, and digests have one length: the time tells nothing.
        for tenant, expected in self._keys.items():
            if hmac.compare_digest(digest, expected):
                found = tenant
        return found


def _signed(settings: JwtSettings) -> Signed:
    # Imported here: a server whose clients show keys would hold 9 MB for signatures that it never checks.
    try:
        from toolfold.doors.http.signed import Signed  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed, and http.jwt needs it; {install_extra('http')}") from error
    return Signed(settings)


def _credential(headers: Headers) -> str:
    if key := headers.get("x-api-key"):
        return key
    scheme, _, value = (headers.get("authorization") or "").partition(" ")
    if scheme.lower() == "basic":
        return _password(value.strip())
    return value.strip() if scheme.lower() in ("bearer", "apikey") else ""


def _password(encoded: str) -> str:
    """Of `https://anyone:KEY@host/`: clients that can be told nothing but an address have their key in it."""
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
