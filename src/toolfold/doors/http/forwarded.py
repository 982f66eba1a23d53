"""A request that one replica forwards to another, and the response to it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from toolfold.doors.http.settings import ALL_ROLES, Role

HEADER: Final = "x-toolfold-forwarded"
"""Has a request that comes from another replica."""
REQUEST_ID: Final = "x-librechat-code-request-id"
PASSED_HEADERS: Final = ("user-agent", "idempotency-key", REQUEST_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest:
    """A client's request, as it can be forwarded to the replica that holds its execution."""

    path: str
    """Behind the base path."""
    body: bytes = b""
    tenant: str
    """Whose it is: found out where it came in, and not again."""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    roles: frozenset[Role] = ALL_ROLES
    """Of the caller; another replica has looked at them already."""
    is_from_replica: bool = False
    """Another replica forwarded it, so it goes no further."""

    @property
    def request_id(self) -> str:
        """What a cancel may call it; empty where the client gave it no name."""
        return self.headers.get(REQUEST_ID, "")


@dataclass(frozen=True, slots=True)
class Passed:
    """Another replica's response."""

    status: int
    body: bytes
    headers: Mapping[str, str]
