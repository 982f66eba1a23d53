"""Settings of the HTTP interface as plain data; `setup` makes them from a config."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from toolfold.interfaces.server.http_server import default_connection_limit
from toolfold.models import MIB, Limits

if TYPE_CHECKING:
    from toolfold.interfaces.http.access.auth import RequestReader
    from toolfold.interfaces.http.access.rate_limits import Gate
    from toolfold.interfaces.http.metrics import Metrics
    from toolfold.interfaces.http.replica_forwarding import Replicas
    from toolfold.ledger.base import Ledger
    from toolfold.runtime import Runtime

Role: TypeAlias = Literal["read", "run", "approve"]
"""What a caller may do for its tenant; whoever may run or approve may read."""
ALL_ROLES: Final[frozenset[Role]] = frozenset(("read", "run", "approve"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key with less than all rights."""

    secret: str = field(repr=False)
    roles: frozenset[Role]
    name: str = ""
    """Who has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """Signed tokens as LibreChat sends them."""

    issuer: str = "librechat"
    audience: str = "codeapi"
    public_key: str = ""
    """PEM, for EdDSA or RS256."""
    jwks_url: str = ""
    """Where the keys are fetched instead."""
    tenant_claim: str = ""
    """The claim that tells tenants apart; empty makes all of one issuer one tenant."""


def jwt_tenant(name: str, *, is_claim: bool = True) -> str:
    """The tenant behind a claim, or behind an issuer whose tokens tell no tenants apart."""
    # As digits: a claim may hold any sign, and becomes part of a session's name.
    return f"jwt:{hashlib.sha256(name.encode()).hexdigest()[:32]}" if is_claim else f"jwt:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The HTTP interface's own limits and secrets."""

    keys: Mapping[str, str | tuple[ApiKey, ...]] = field(default_factory=dict, repr=False)
    """API key of each tenant, with all rights, or its keys with their roles; with none and no `jwt` everyone who can
    reach the port is the tenant `local`."""
    jwt: JwtSettings | None = None
    token_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Signs continuation tokens; whoever shares it and the ledger can go on with one another's executions."""
    base_path: str = ""
    max_rounds: int = 20
    timeout_seconds: float = 60.0
    """For requests that name none; counts from the start of an execution to its end, pauses too, but for LibreChat."""
    max_timeout_seconds: float = 300.0
    starts_per_minute: int = 600
    """Executions and uploads that one tenant may start."""
    refusals_per_second: float = 20.0
    """Of one tenant or address; a flood of them waits, so that it takes no time from others."""
    running: int = field(default_factory=lambda: max(2, os.cpu_count() or 2))
    """Programs of one tenant that run at the same time; paused ones do not count. More than there are
    processors, and one tenant's endless loops slow everyone else's programs down."""
    waiting: int = 200
    """Requests of one tenant that may wait for their turn."""
    paused: int = 1000
    """Executions of one tenant that may be paused at the same time."""
    max_body_bytes: int = 32 * MIB
    max_upload_bytes: int = 64 * MIB
    max_connections: int = field(default_factory=default_connection_limit)
    """Of all clients; where there are more, those that only wait are cut."""
    max_held_bytes: int = 128 * MIB
    """Of all request bodies of one tenant that are held at the same time."""
    max_tools: int = 10_000
    remembered_bytes: int = 64 * MIB
    """Answers to starts with an `Idempotency-Key` that are held, of all tenants; the ledger has the older ones."""
    preload_data: bool = False
    """Have guests with numpy, pandas and matplotlib wait from the start, so the first such program need not wait."""

    @property
    def is_open(self) -> bool:
        return not self.keys and self.jwt is None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpContext:
    """Objects that all routes of one app share."""

    runtime: Runtime
    ledger: Ledger
    settings: Settings
    limits: Limits
    """Of one program."""
    clock: Callable[[], float]
    """Seconds since 1970, for deadlines."""
    replicas: Replicas | None
    metrics: Metrics
    gate: Gate
    reader: RequestReader
