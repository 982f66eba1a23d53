"""Authentication by API key or signed token; without either, only this machine has access."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from starlette.requests import Request

from toolfold.errors import UsageError, install_extra
from toolfold.interfaces.http.render import Refusal
from toolfold.interfaces.http.settings import ALL_ROLES, ApiKey, JwtSettings, Role, Settings

if TYPE_CHECKING:
    from toolfold.interfaces.http.access.jwt_auth import JwtVerifier
    from toolfold.interfaces.http.requests import ProgrammaticRequest

LOCAL: Final = "local"
"""The only tenant where no key is configured."""


class Headers(Protocol):
    """Headers of a request, as far as they are read."""

    def get(self, key: str, /) -> str | None: ...


def headers_of(request: Request) -> dict[str, str]:
    """The first of each name. Starlette's own mapping goes through all of them for each that is asked for."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.headers.raw)}


class Caller(NamedTuple):
    """A tenant, and what this one of its keys may do."""

    tenant: str
    roles: frozenset[Role] = ALL_ROLES

    def require(self, role: Role) -> None:
        """Raises `Refusal`, 403, where the role is missing. Whoever may do anything may read."""
        if role != "read" and role not in self.roles:
            names = ", ".join(map(repr, sorted(self.roles)))
            raise Refusal(403, f"this needs a key with the role {role!r}; yours has {names}", is_contract=False)

    def require_for(self, body: ProgrammaticRequest) -> None:
        """The same for what a request asks for: whoever only answers questions need not be able to run programs."""
        if body.continuation_token is None or body.tool_results or not body.decisions:
            self.require("run")
        if body.decisions:
            self.require("approve")


def role_for(method: str) -> Role:
    """Role that a request needs."""
    return "read" if method in ("GET", "HEAD") else "run"


_NOBODY: Final = Caller("")


class Authenticator:
    """Authenticator: from headers to a caller."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.is_open
        self._keys = [
            (_digest(key.secret), Caller(tenant, key.roles))
            for tenant, keys in settings.keys.items()
            for key in ((ApiKey(secret=keys, roles=ALL_ROLES),) if isinstance(keys, str) else keys)
        ]
        self._jwt = None if settings.jwt is None else _jwt_verifier(settings.jwt)

    async def caller(self, headers: Headers, *, key_in_body: str = "") -> Caller:
        """Caller of a request and their rights; a signed token grants all of them.

        Raises:
            Refusal: 401, in the same words whatever was wrong.
        """
        if self._is_open:
            return Caller(LOCAL)
        credential = _credential(headers) or key_in_body
        caller = self._caller_of_key(credential) if credential else _NOBODY
        if not caller.tenant and self._jwt is not None and credential.count(".") == 2:
            caller = Caller(await self._jwt.tenant(credential))
        if not caller.tenant:
            raise Refusal(401, "missing or wrong API key", is_contract=False)
        return caller

    async def tenant(self, headers: Headers) -> str:
        """Tenant of a request.

        Raises:
            Refusal: 401.
        """
        return (await self.caller(headers)).tenant

    def tenant_of_key(self, headers: Headers) -> str:
        """Tenant of the API key in the headers; `None` if there is none, or only a token."""
        credential = "" if self._is_open else _credential(headers)
        return self._caller_of_key(credential).tenant if credential else ""

    def needs_body(self, headers: Headers) -> bool:
        """Whether a key can only be in the body, where older clients put it."""
        return not self._is_open and not _credential(headers)

    def _caller_of_key(self, credential: str) -> Caller:
        owner = _NOBODY
        digest = _digest(credential)
        # Every key is compared, and digests have one length: the time tells nothing.
        for expected, caller in self._keys:
            if hmac.compare_digest(digest, expected):
                owner = caller
        return owner


def _jwt_verifier(settings: JwtSettings) -> JwtVerifier:
    # Imported here: a server whose clients show keys would hold 9 MB for signatures that it never checks.
    try:
        from toolfold.interfaces.http.access.jwt_auth import JwtVerifier  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed, and http.jwt needs it; {install_extra('http')}") from error
    return JwtVerifier(settings)


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
