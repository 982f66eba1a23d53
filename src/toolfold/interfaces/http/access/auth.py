"""Authentication by API key or signed token; without either, only this machine has access."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold.errors import UsageError, install_extra
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.body_reader import (
    Body,
    account_of,
    admit,
    decode_object,
    read_body,
    require_media_type,
    wait_for_hangup,
)
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.request_models import FORWARDED_HEADERS, ForwardedRequest, ProgrammaticRequest
from toolfold.interfaces.http.request_models import HEADER as FORWARDED
from toolfold.interfaces.http.settings import ALL_ROLES, ApiKey, JwtSettings, Role, Settings
from toolfold.interfaces.server.http_server import rest

if TYPE_CHECKING:
    from toolfold.interfaces.http.access.jwt_auth import JwtVerifier
    from toolfold.interfaces.http.replica_forwarding import Replicas


LOCAL: Final = "local"
"""The only tenant where no key is configured."""


def headers_of(request: Request) -> dict[str, str]:
    """The first value of each header; Starlette's own mapping searches all of them for each lookup."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.headers.raw)}


class Caller(NamedTuple):
    """A tenant, and the roles of the key that it used."""

    tenant: str
    roles: frozenset[Role] = ALL_ROLES
    name: str = ""
    """Who has the key."""
    key_id: str = ""
    """By which `Authenticator.caller_now` finds the key again; empty for signed tokens."""

    def require(self, role: Role) -> None:
        """`Refusal` 403 without the role; every caller may read."""
        if role != "read" and role not in self.roles:
            names = ", ".join(map(repr, sorted(self.roles)))
            raise Refusal(403, f"this needs a key with the role {role!r}; yours has {names}", is_contract=False)

    def require_for(self, body: ProgrammaticRequest) -> None:
        """The same for a request body: answering questions takes no right to run programs."""
        if body.continuation_token is None or body.tool_results or not body.decisions:
            self.require("run")
        if body.decisions:
            self.require("approve")


_NOBODY: Final = Caller("")


class Authenticator:
    """From the headers of requests to callers."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.is_open
        self._keys = [
            (_digest(key.secret), Caller(tenant, key.roles, key.name, _key_id(key.secret)))
            for tenant, keys in settings.keys.items()
            for key in ((ApiKey(secret=keys, roles=ALL_ROLES),) if isinstance(keys, str) else keys)
        ]
        self._jwt = None if settings.jwt is None else _jwt_verifier(settings.jwt)

    async def caller(self, headers: Mapping[str, str], *, key_in_body: str = "") -> Caller:
        """Caller of a request; a signed token grants all roles. `Refusal` 401, in the same words whatever was wrong."""
        if self._is_open:
            return Caller(LOCAL)
        credential = _credential(headers) or key_in_body
        caller = self._caller_of_key(credential) if credential else _NOBODY
        if not caller.tenant and self._jwt is not None and credential.count(".") == 2:
            caller = Caller(await self._jwt.tenant(credential))
        if not caller.tenant:
            raise Refusal(401, "missing or wrong API key", is_contract=False)
        return caller

    def caller_now(self, tenant: str, key_id: str) -> Caller | None:
        """Who once came with a key, with the roles it has now; `None` if there is no such key any more."""
        if self._is_open:
            return Caller(tenant) if tenant == LOCAL else None
        if not key_id:
            return Caller(tenant) if self._jwt is not None else None
        return next((caller for _, caller in self._keys if (caller.tenant, caller.key_id) == (tenant, key_id)), None)

    async def tenant(self, headers: Mapping[str, str]) -> str:
        return (await self.caller(headers)).tenant

    def tenant_of_key(self, headers: Mapping[str, str]) -> str:
        credential = "" if self._is_open else _credential(headers)
        return self._caller_of_key(credential).tenant if credential else ""

    def needs_body(self, headers: Mapping[str, str]) -> bool:
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


class RequestReader:
    """Requests with their tenants, on whose accounts their bodies are read."""

    def __init__(self, settings: Settings, gate: Gate, replicas: Replicas | None) -> None:
        self.auth = Authenticator(settings)
        self._base_path = settings.base_path
        self._gate = gate
        self._replicas = replicas

    async def tenant(self, request: Request) -> str:
        """The tenant of a request, by its headers; its body counts as the tenant's from then on."""
        caller = await self.auth.caller(request.headers)
        self._admit(request, caller)
        return caller.tenant

    async def received(
        self, request: Request, *, may_be_in_body: bool = False, is_start: bool = False, role: Role | None = None
    ) -> ForwardedRequest:
        """A request with its tenant, which another replica may have authenticated; its body is read last."""
        request_headers = headers_of(request)
        headers = {name: request_headers[name] for name in FORWARDED_HEADERS if request_headers.get(name)}
        path, method = request.scope["path"].removeprefix(self._base_path), request.method
        if method != "POST" and request.url.query:
            path = f"{path}?{request.url.query}"
        sender = None
        if self._replicas is not None and (signed := request_headers.get(FORWARDED)):
            unread = ForwardedRequest(path=path, tenant="", headers=headers, method=method)
            sender = self._replicas.forwarder.receive(signed, unread, self._replicas.owner.id)
            caller = Caller(sender.tenant)
        else:
            key = await _key_in_body(request) if may_be_in_body and self.auth.needs_body(request_headers) else ""
            caller = await self.auth.caller(request_headers, key_in_body=key)
        self._admit(request, caller, role)
        if is_start:
            self._gate.expect_start(caller.tenant)
        body = b""
        if method == "POST":
            require_media_type(request, "application/json")
            body = await request.body()
            if sender is not None:
                sender.check(body)
        return ForwardedRequest(
            path=path, tenant=caller.tenant, roles=caller.roles, headers=headers, method=method, body=body,
            is_from_replica=sender is not None,
        )  # fmt: skip

    async def read(self, request: Request, received: ForwardedRequest, model: type[Body]) -> Body:
        hangup = partial(wait_for_hangup, request)
        return await read_body(received.body, model, self._gate, received.tenant, hangup)

    def _admit(self, request: Request, caller: Caller, role: Role | None = None) -> None:
        admit(request, caller.tenant)
        caller.require(role or ("read" if request.method in ("GET", "HEAD") else "run"))


async def _key_in_body(request: Request) -> str:
    try:
        require_media_type(request, "application/json")
        key = decode_object(await request.body()).get("LIBRECHAT_CODE_API_KEY")
    except Refusal as refusal:
        if refusal.status in (408, 413):
            raise
        return ""  # who may not come in is told that, and no more
    return key if isinstance(key, str) else ""


def _jwt_verifier(settings: JwtSettings) -> JwtVerifier:
    # Imported here: a server whose clients show keys would hold 9 MB for signatures that it never checks.
    try:
        from toolfold.interfaces.http.access.jwt_auth import JwtVerifier  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed, and http.jwt needs it; {install_extra('http')}") from error
    return JwtVerifier(settings)


def _credential(headers: Mapping[str, str]) -> str:
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


def _key_id(secret: str) -> str:
    return hashlib.sha256(b"toolfold key id" + _digest(secret)).hexdigest()[:32]


# ----------------------------------------------------------------------------------------------------
# Throttling of clients that are refused again and again, so that a flood of refusals stays cheap.
#
# 1. Refusals count, and nothing else: on the account of whoever's key it was, without a good one on that of the
# address.
# 2. The first ones are answered at once, further ones at a rate; until then their connection may be cut to make room.
# 3. With a good key in its headers the next request waits too, before anything is done for it. Without one it does not:
# somebody else at that address, behind the same proxy, may have one.

FREE: Final = 50
"""Refusals that cost nothing; they are forgotten at the rate."""
LONGEST_SECONDS: Final = 10.0
_MOST_ACCOUNTS: Final = 10_000
_NO_FLOOD: Final = frozenset({404, 499})
"""A file that is gone is asked for in good faith, and who has left hears no answer."""
_REFUSED_AS: Final = "toolfold.refused_as"


@dataclass(slots=True)
class _Debt:
    refusals: float
    at: float


def note_refusal(scope: Scope, status: int) -> None:
    """Count the request as refused, though some clients get a 200."""
    scope[_REFUSED_AS] = status


class RefusalThrottle:
    """How long each account has to wait: beyond the free refusals, so many are answered per second."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._debts: dict[str, _Debt] = {}

    @property
    def is_idle(self) -> bool:
        return not self._debts

    def seconds_of(self, account: str) -> float:
        return self.count(account, 0)

    def count(self, account: str, refusals: float = 1.0) -> float:
        """Count refusals; the seconds until the next request of the account is due."""
        now = self._clock()
        debt = self._debts.setdefault(account, _Debt(0.0, now))
        debt.refusals = max(0.0, debt.refusals - (now - debt.at) * self._per_second) + refusals
        debt.at = now
        if debt.refusals <= 0:
            del self._debts[account]
        elif len(self._debts) > _MOST_ACCOUNTS:
            del self._debts[next(iter(self._debts))]
        return min(LONGEST_SECONDS, max(0.0, debt.refusals - FREE) / self._per_second)


class Paced:
    """Middleware that applies the throttle to every request; the outermost one."""

    def __init__(self, app: ASGIApp, *, auth: Authenticator, pace: RefusalThrottle) -> None:
        self._app = app
        self._auth = auth
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # As good as always nobody was refused: then no key is looked at twice.
        tenant = "" if self._pace.is_idle else self._auth.tenant_of_key(Headers(scope=scope))
        is_counted = bool(tenant) and self._pace.seconds_of(tenant) > 0
        if is_counted and not await rest(self._pace.count(tenant)):
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = scope.get(_REFUSED_AS, message["status"])
                is_refusal = 400 <= status < 500 and status not in _NO_FLOOD
                if is_counted and not is_refusal:
                    self._pace.count(tenant, -1)
                elif is_refusal and not is_counted and not await rest(self._pace.count(_account(scope))):
                    return
            await send(message)

        await self._app(scope, receive, answer)


def _account(scope: Scope) -> str:
    """Tenants' names have no blank, so no address is taken for one."""
    return account_of(scope) or f"at {(scope['client'] or ('',))[0]}"
