"""Access to the console: a one-time token that becomes a cookie, or an API key; headers for browsers.

Nothing is kept on the server: a cookie is signed, so that it outlives a restart of the process that gave it.
"""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from toolfold.interfaces.config_runtime import BridgedRuntime
from toolfold.interfaces.http.access.auth import Authenticator, Caller
from toolfold.interfaces.http.access.continuation_tokens import Signer
from toolfold.interfaces.http.body_reader import admit
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.settings import ALL_ROLES, Role
from toolfold.interfaces.server.local_requests import is_local_request, send_error
from toolfold.ledger.base import ExecutionHistory
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "toolfold_console"
COOKIE_SECONDS: Final = 7 * 86_400
_OPERATOR: Final = "the operator"
"""The account of whoever sees every tenant's; no tenant's name has a blank."""
_LOOKING: Final[frozenset[Role]] = frozenset(("read",))
_SAFE: Final = frozenset({"GET", "HEAD"})
_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
        b"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The sender of a request to the console."""

    tenant: str | None = None
    """`None` sees every tenant's."""
    roles: frozenset[Role] = _LOOKING
    """`run` cancels, runs again and tries tools, `approve` decides; without these, only look."""
    person: str = ""
    """Who has the API key, if the config says that."""

    @property
    def name(self) -> str:
        """Under which decisions are on record."""
        parts = ", ".join(part for part in (self.tenant, self.person) if part)
        return f"console ({parts})" if parts else "console"


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    tenant: str | None
    may_act: bool
    until: float
    roles: frozenset[Role] = ALL_ROLES
    """Those who may act had all of them, when cookies did not say. A tenant's are those that its key has now."""
    key_id: str = ""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Claims).decode


class Access:
    """From requests to viewers: `auth` knows the tenants' API keys, `may_act` is for those with a one-time token."""

    def __init__(self, key: bytes, *, auth: Authenticator | None = None, may_act: bool = True) -> None:
        self._signer = Signer(key, b"console/")
        self._auth = auth
        self._may_act = may_act
        self._tokens: set[str] = set()

    def new_token(self) -> str:
        """A token that lets one browser in, once."""
        token = secrets.token_urlsafe(24)
        self._tokens.add(token)
        return token

    def admit(self, token: str) -> str:
        """The cookie for a one-time token, else `Refusal` 403."""
        match = next(
            (candidate for candidate in self._tokens if hmac.compare_digest(candidate.encode(), token.encode())), None
        )
        if match is None:
            raise Refusal(
                403, "this link was already used, or belongs to another console; start the console again for a new one"
            )
        self._tokens.discard(match)
        return self._cookie(Viewer(roles=ALL_ROLES if self._may_act else _LOOKING))

    async def admit_key(self, request: Request, key: str) -> str:
        """The cookie for an API key that a request has shown, else `Refusal` 401 or 429."""
        if self._auth is None:
            raise Refusal(401, "this console has no API keys; open the link that it printed")
        caller = await self._auth.caller({"x-api-key": key})
        admit(request, caller.tenant)
        return self._cookie(Viewer(tenant=caller.tenant, roles=caller.roles), caller.key_id)

    async def viewer(self, request: Request) -> Viewer:
        """Sender of a request, which counts towards their rate limits, else `Refusal` 401, 413 or 429."""
        cookie = request.cookies.get(COOKIE, "")
        viewer = self._read(cookie) if cookie else None
        if viewer is None and self._auth is not None and {"x-api-key", "authorization"} & {*request.headers}:
            caller = await self._auth.caller(request.headers)
            viewer = _viewer_of(caller)
        if viewer is None:
            raise Refusal(401, "not signed in; open the link that the console printed")
        admit(request, viewer.tenant or _OPERATOR)
        return viewer

    async def actor(self, request: Request, role: Role) -> Viewer:
        """The same for a request that needs a role; `Refusal` 403 without it."""
        viewer = await self.viewer(request)
        if viewer.tenant is not None:
            Caller(viewer.tenant, viewer.roles).require(role)
        elif role not in viewer.roles:
            raise Refusal(403, "this console is read-only; start it without --read-only to decide and to run programs")
        return viewer

    def _cookie(self, viewer: Viewer, key_id: str = "") -> str:
        until = time.time() + COOKIE_SECONDS
        return self._signer.sign(_encode(_Claims(viewer.tenant, True, until, viewer.roles, key_id)))

    def _read(self, cookie: str) -> Viewer | None:
        try:
            claims = _decode(self._signer.read(cookie))
        except (ValueError, msgspec.MsgspecError):
            return None
        if claims.until < time.time():
            return None
        if claims.tenant is not None:
            # Not what the cookie says: the key may have lost roles since, or be gone.
            caller = None if self._auth is None else self._auth.caller_now(claims.tenant, claims.key_id)
            return None if caller is None else _viewer_of(caller)
        return Viewer(tenant=claims.tenant, roles=claims.roles if claims.may_act and self._may_act else _LOOKING)


def _viewer_of(caller: Caller) -> Viewer:
    return Viewer(tenant=caller.tenant, roles=caller.roles, person=caller.name)


def require_visible(viewer: Viewer, history: ExecutionHistory | None, execution_id: str) -> ExecutionHistory:
    """The record of an execution; 404 also if it is another tenant's, so that nobody learns that it exists."""
    if history is None or viewer.tenant not in (None, history.start_record.tenant):
        raise Refusal(404, f"no execution {execution_id[:80]!r}")
    return history


def hidden_tools(runtime: Runtime, viewer: Viewer) -> frozenset[str]:
    if viewer.tenant is None or not isinstance(runtime, BridgedRuntime):
        return frozenset()
    return runtime.hidden_from(viewer.tenant)


class Guard:
    """Middleware that checks the host and origin of requests, and tells browsers how to treat the responses."""

    def __init__(self, app: ASGIApp, *, only_here: bool) -> None:
        self._app = app
        self._only_here = only_here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                app_headers = [pair for pair in message.get("headers", ()) if pair[0] not in dict(_HEADERS)]
                message = {**message, "headers": [*app_headers, *_HEADERS]}
            await send(message)

        fault = _fault(scope, only_here=self._only_here)
        if fault:
            await send_error(guarded, 403, fault)
        else:
            await self._app(scope, receive, guarded)


def _fault(scope: Scope, *, only_here: bool) -> str:
    headers = scope["headers"]
    if only_here and not is_local_request(headers):
        return "this console serves only this machine; open it as http://127.0.0.1"
    if scope["method"] in _SAFE:
        return ""
    values = {
        name: value.decode("latin-1") for name, value in headers if name in (b"host", b"origin", b"sec-fetch-site")
    }
    origin = values.get(b"origin")
    is_foreign = origin is not None and origin.partition("://")[2] != values.get(b"host")
    is_foreign = is_foreign or values.get(b"sec-fetch-site", "none") not in ("same-origin", "none")
    return "cross-origin requests are refused" if is_foreign else ""
