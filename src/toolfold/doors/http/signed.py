"""Tenants by JSON Web Tokens of one issuer. Imported for a config with `http.jwt` alone: what checks them is large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jwt

from toolfold.doors.http.jwks import SigningKeys
from toolfold.doors.http.settings import JwtSettings, jwt_tenant

_ALGORITHMS: Final = ["EdDSA", "RS256"]
_LEEWAY_SECONDS: Final = 10


class Signed:
    """The tokens that one issuer signs."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys = SigningKeys(settings.jwks_url) if settings.jwks_url else None

    async def tenant(self, token: str) -> str:
        """Whose token it is; nothing where anything about it is wrong."""
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
