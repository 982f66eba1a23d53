"""The first answer, before the SDK is there: loading that takes longer than all else at the start together.

A client asks as soon as it has started us. If what it sent is the older era's handshake or the newer
one's discovery, in the form that clients send, it is answered at once, in the words of the SDK; a test
compares the two. The SDK still reads the request, and only its answer to it is dropped. Whatever
else came is left to the SDK alone. Must not import it.
"""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from dataclasses import dataclass
from typing import Any, Final

import toolfold

NAME: Final = "toolfold"
_HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_VERSION: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
_LONGEST_BYTES: Final = 64 * 1024
_SERVER: Final = {"name": NAME, "version": toolfold.__version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """What happened on stdin and stdout before the SDK took over."""

    data: bytes = b""
    """Read from stdin; whoever reads on must begin with it."""
    answered: str | int | None = None
    """Id of the request whose answer is out."""


def answer_early(instructions: str, *, stdin: int = 0, stdout: int = 1) -> Early:
    """Answer what is waiting on stdin, if that can be done without the SDK; waits for nothing."""
    if not _is_pipe(stdin):
        return Early()
    data = _waiting_data(stdin)
    line, newline, _ = data.partition(b"\n")
    request = _request(line) if newline else None
    if request is None:
        return Early(data=data)
    result = _handshake(request, instructions) or _discovery(request, instructions)
    if result is None:
        return Early(data=data)
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    _write(stdout, json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return Early(data=data, answered=request["id"])


# Any: JSON as the client sent it, and as it is answered.
def _handshake(request: dict[str, Any], instructions: str) -> dict[str, Any] | None:
    match request:
        case {
            "method": "initialize",
            "params": {"protocolVersion": str(asked), "capabilities": dict(able), "clientInfo": dict(client)},
        } if _is_usual(able, client):
            return {
                "capabilities": {
                    "resources": {"listChanged": True, "subscribe": False},
                    "tools": {"listChanged": True},
                },
                "instructions": instructions,
                "protocolVersion": asked if asked in _HANDSHAKE_VERSIONS else _HANDSHAKE_VERSIONS[-1],
                "serverInfo": _SERVER,
            }
    return None


def _discovery(request: dict[str, Any], instructions: str) -> dict[str, Any] | None:
    match request:
        case {"method": "server/discover", "params": {"_meta": dict(meta)}}:
            pass
        case _:
            return None
    able, client = meta.get(f"{_META}clientCapabilities"), meta.get(f"{_META}clientInfo")
    if meta.get(f"{_META}protocolVersion") != _VERSION or not _is_usual(able, client):
        return None
    return {
        "cacheScope": "private",
        "capabilities": {
            "extensions": {f"{_META}tasks": {}},
            "resources": {"listChanged": True, "subscribe": True},
            "tools": {"listChanged": True},
        },
        "instructions": instructions,
        "resultType": "complete",
        "supportedVersions": [_VERSION],
        "ttlMs": 0,
        "_meta": {f"{_META}serverInfo": _SERVER},
    }


def _is_usual(able: object, client: object) -> bool:
    """Whether the SDK would take it, too; what is doubtful is left to it."""
    match able, client:
        case dict(), {"name": str(), "version": str()}:
            return all(isinstance(one, dict) for one in able.values())
    return False


def _request(line: bytes) -> dict[str, Any] | None:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match request:
        case {"jsonrpc": "2.0", "id": str() | int() as id_} if not isinstance(id_, bool):
            return request if isinstance(request, dict) else None
    return None


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    # Windows can wait for sockets only.
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


def _waiting_data(fd: int) -> bytes:
    data = b""
    while b"\n" not in data and len(data) < _LONGEST_BYTES and select.select([fd], [], [], 0)[0]:
        chunk = os.read(fd, _LONGEST_BYTES)
        if not chunk:
            break
        data += chunk
    return data


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
