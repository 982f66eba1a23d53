"""A server as plain data: what a config says of it, and how it is doing. Connects to nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from toolfold.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """How to sign in at a server that asks for it; without a client id one is registered there."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    callback_port: int = 0
    """Where on loopback the browser comes back to; 0 takes a free one and keeps it."""
    wait_seconds: float = 300.0
    """How long a person may take to sign in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One MCP server whose tools programs may call.

    Raises:
        UsageError: it names neither a command nor a URL, whichever its transport needs.
    """

    name: str
    transport: Literal["stdio", "http", "sse"] = "stdio"
    command: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """On top of what it inherits."""
    inherit_env: bool = True
    """stdio: it gets this process' variables; if not, only those that commands need, such as PATH and HOME."""
    withheld: frozenset[str] = frozenset()
    """stdio: names of variables that it does not get, whatever it inherits."""
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_timeout_seconds: float = 30.0
    call_timeout_seconds: float | None = None
    """How long one call may take; `None` leaves it to the program's own time."""
    auth: OAuth | None = None
    """http and sse: sign in when the server asks for it."""

    def __post_init__(self) -> None:
        needed = "command" if self.transport == "stdio" else "url"
        if not getattr(self, needed):
            raise UsageError(f"server {self.name!r} has no {needed}; transport {self.transport!r} needs one")

    @property
    def identity(self) -> str:
        """The same for the same server in another process; holds no secret."""
        parts = (self.transport, self.command, tuple(self.args), self.cwd, self.url)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


State = Literal["connecting", "ready", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """How one server is doing now."""

    name: str
    state: State
    tools: int = 0
    """Those that it listed last, also while it is away, and before it is there for the first time."""
    detail: str = ""
    """Why it failed, or what it waits for."""
    era: str = ""
    """The protocol version agreed on; empty until there is one."""
    instructions: str = ""
    """What the server says of itself to a model."""
