"""MCP servers as plain data: definition, status, and the tools of last time. Connects to nothing."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import mcp_types as types
import msgspec
import platformdirs
from pydantic import TypeAdapter, ValidationError

from toolfold.errors import UsageError
from toolfold.models import Json
from toolfold.sources.private_files import FileRefused, drop_oldest_files, read_private_file, write_private_file


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
    """Variables on top of what it inherits."""
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
        required_field = "command" if self.transport == "stdio" else "url"
        if not getattr(self, required_field):
            raise UsageError(f"server {self.name!r} has no {required_field}; transport {self.transport!r} needs one")

    @property
    def identity(self) -> str:
        """The same for the same server in another process; holds no secret."""
        parts = (self.transport, self.command, tuple(self.args), self.cwd, self.url)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


ServerState = Literal["connecting", "ready", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """Status of one server."""

    name: str
    state: ServerState
    tools: int = 0
    """Number of tools that it listed last, also while it is away, and before it has connected."""
    detail: str = ""
    """Why it failed, or what it waits for."""
    era: str = ""
    """The protocol version agreed on; empty until there is one."""
    instructions: str = ""
    """Instructions of the server for a model."""


# ----------------------------------------------------------------------------------------------------
# Tools that a server listed last time, known before it has started again.
#
# Clients such as Claude Code read the list of tools once, and a server may take longer than that. A listing is a
# hint: whatever the server lists replaces it. A file that anyone but this user could have written, or that this
# version did not write, is ignored. Nothing of a server's definition is in it but its digest.

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_AGE_DAYS: Final = 30
_DAY_SECONDS: Final = 24 * 3600
_MOST_FILES: Final = 500
_SHORTEST_SECRET: Final = 8
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerListing:
    """Listing of a server, as far as tools are made from it."""

    tools: tuple[types.Tool, ...] = ()
    capabilities: types.ServerCapabilities = field(default_factory=types.ServerCapabilities)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    at: float
    # Any: as the server sent it; read by the SDK's own models.
    tools: list[dict[str, Any]]
    capabilities: dict[str, Any]


_TOOLS: Final = TypeAdapter(tuple[types.Tool, ...])


class ListingStore:
    """One file for each server, in a folder for the user alone. Never fails: without the folder it forgets."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or platformdirs.user_state_path("toolfold", appauthor=False) / "mcp-tools"

    def get(self, server: Server) -> ServerListing:
        """The listing of a server of this definition; an empty one where that cannot be trusted."""
        try:
            file = _read(self._path(server))
            return ServerListing(
                _TOOLS.validate_python(file.tools), types.ServerCapabilities.model_validate(file.capabilities)
            )
        except FileNotFoundError:
            return ServerListing()
        except FileRefused as error:
            reason = str(error)
        except (ValidationError, RecursionError):
            reason = "it is not in the form that this version writes"
        except OSError as error:
            reason = error.strerror or type(error).__name__
        _log.warning("the cached tools of server %r are ignored: %s", server.name, reason)
        return ServerListing()

    def put(self, server: Server, listing: ServerListing) -> None:
        """Remember it, unless the server repeats a secret of its definition in what it lists."""
        file = _File(1, time.time(), [_plain(tool) for tool in listing.tools], _plain(listing.capabilities))
        data = msgspec.json.encode(file)
        text = data.decode(errors="replace")
        with contextlib.suppress(OSError):
            if len(data) > MAX_BYTES or any(secret in text for secret in _secrets(server)):
                self._path(server).unlink(missing_ok=True)
                return
            write_private_file(self._path(server), data)
            drop_oldest_files(self._folder, "*.json", keep=_MOST_FILES)

    def _path(self, server: Server) -> Path:
        # Names of variables and headers, never their values: a digest of a short secret can be guessed.
        parts = (server.name, server.identity, sorted(server.env), sorted(server.headers))
        return self._folder / f"{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]}.json"


def _read(path: Path) -> _File:
    data = read_private_file(path, max_bytes=MAX_BYTES)
    try:
        contents = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise FileRefused("it is not in the form that this version writes") from error
    age = time.time() - contents.at
    if age > MAX_AGE_DAYS * _DAY_SECONDS:
        raise FileRefused(f"it is older than {MAX_AGE_DAYS} days")
    if age < -_DAY_SECONDS / 24:
        raise FileRefused("it is from the future")
    return contents


def _plain(model: types.Tool | types.ServerCapabilities) -> dict[str, Json]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _secrets(server: Server) -> Iterator[str]:
    """Values of a definition that may be secret, as they would stand in JSON."""
    auth = server.auth.client_secret if server.auth is not None else ""
    for value in (*server.env.values(), *server.headers.values(), *server.args, server.url or "", auth):
        for part in {value, *re.split(r"[\s=:@?&]+", value)}:
            if len(part) >= _SHORTEST_SECRET:
                yield msgspec.json.encode(part).decode()[1:-1]
