"""Who sends a request: an API key, a signed token, or, where neither is configured, whoever is on this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final, Protocol

import jwt
from starlette.requests import Request

from toolfold.doors.http.jwks import SigningKeys
from toolfold.doors.http.refusals import Refusal
from toolfold.doors.http.settings import JwtSettings, Settings

LOCAL: Final = "local"
"""The only tenant where no key is configured."""
_ALGORITHMS: Final = ["EdDSA", "RS256"]
_LEEWAY_SECONDS: Final = 10


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
        self._jwt = None if settings.jwt is None else _Signed(settings.jwt)

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


class _Signed:
    """JSON Web Tokens of one issuer."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys = SigningKeys(settings.jwks_url) if settings.jwks_url else None

    async def tenant(self, token: str) -> str:
        settings = self._settings
        try:
            key: Any = settings.public_key
            if self._keys is not None:
                key = await self._keys.of(token)
            claims: Mapping[str, Any] = jwt.decode(
                token, key, algorithms=_ALGORITHMS, audience=settings.audience, issuer=settings.issuer,
                leeway=_LEEWAY_SECONDS, options={"require": ["exp"]},
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError):
            return ""
        if not settings.tenant_claim:
            return jwt_tenant(settings.issuer, is_claim=False)
        claim = str(claims.get(settings.tenant_claim, ""))
        return jwt_tenant(claim) if claim else ""


def jwt_tenant(name: str, *, is_claim: bool = True) -> str:
    """The tenant behind a claim, or behind an issuer whose tokens tell no tenants apart."""
    # As digits: a claim may hold any sign, and becomes part of a session's name.
    return f"jwt:{hashlib.sha256(name.encode()).hexdigest()[:32]}" if is_claim else f"jwt:{name}"


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
