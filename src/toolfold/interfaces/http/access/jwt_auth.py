"""JSON Web Tokens of one issuer and its signing keys; imported only for a config with `http.jwt`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import jwt

from toolfold.interfaces.http.settings import JwtSettings, jwt_tenant

_ALGORITHMS: Final = ["EdDSA", "RS256"]
_LEEWAY_SECONDS: Final = 10


class JwtVerifier:
    """The tokens that one issuer signs."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys = SigningKeys(settings.jwks_url) if settings.jwks_url else None

    async def tenant(self, token: str) -> str:
        """Tenant of a token; empty if anything about it is wrong."""
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


# ----------------------------------------------------------------------------------------------------
# The keys of signed tokens, fetched from an address that may be slow, or gone.
#
# 1. One fetch at a time, whoever waits for it, in a thread of its own: a hanging address holds nobody else's threads.
# 2. A key that was not there, or an address that did not answer, is not asked for again for a while: anybody can
# make up the names of keys.

_TIMEOUT_SECONDS: Final = 5
_FRESH_SECONDS: Final = 300.0
"""A key that the issuer took back is good for so long at most."""
_AGAIN_SECONDS: Final = 10.0
"""From one fetch to the next, for a key that is not among those known."""


class SigningKeys:
    """The keys of one issuer, fetched from a URL."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = jwt.PyJWKClient(url, cache_keys=False, cache_jwk_set=False, timeout=_TIMEOUT_SECONDS)
        self._clock = clock
        self._keys: Mapping[str, Any] = {}
        self._fetched_at = -_FRESH_SECONDS
        self._tried_at = -_FRESH_SECONDS
        self._fetching: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolfold-jwks")

    async def of(self, token: str) -> Any:
        """The key that a token names; raises `PyJWTError` if it is not known."""
        name = str(jwt.get_unverified_header(token).get("kid"))
        now = self._clock()
        is_stale = now - self._fetched_at >= _FRESH_SECONDS
        if (is_stale or name not in self._keys) and now - self._tried_at >= _AGAIN_SECONDS:
            await self._fetch()
        elif self._fetching is not None and name not in self._keys:
            await asyncio.shield(self._fetching)
        if name not in self._keys or self._clock() - self._fetched_at >= _FRESH_SECONDS:
            raise jwt.PyJWKClientError("unknown signing key")
        return self._keys[name]

    async def _fetch(self) -> None:
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._fetch_once())
        await asyncio.shield(self._fetching)

    async def _fetch_once(self) -> None:
        try:
            signing_keys = await asyncio.get_running_loop().run_in_executor(self._thread, self._client.get_signing_keys)
            self._keys = {str(signing_key.key_id): signing_key.key for signing_key in signing_keys}
            self._fetched_at = self._clock()
        except jwt.PyJWTError:
            pass  # what is known stays good for its time
        finally:
            self._tried_at = self._clock()
            self._fetching = None
