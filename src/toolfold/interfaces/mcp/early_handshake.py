"""Early answers of `toolfold mcp`: the handshake and the list of tools, before the MCP SDK is loaded.

A client asks as soon as it has started us, and on a busy machine it asks again in the other era when the first answer
takes long. Whatever is the older era's handshake or the newer one's discovery, in the form that clients send, is
answered at once, in the words of the SDK; a test compares the two. The SDK still reads these requests, with ids of our
own, and its answers to those are dropped. Whatever else came is left to the SDK alone. Must not import it.
"""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import toolfold
from toolfold.models import Json

NAME: Final = "toolfold"
_HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_LONGEST_LINE_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 1024 * 1024
"""Read ahead of the SDK; the rest stays in the pipe."""
_SERVER: Final = {"name": NAME, "version": toolfold.__version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyTraffic:
    """Traffic on stdin and stdout before the SDK took over."""

    data: bytes = b""
    """Read from stdin, with another id in each request that is answered; whoever reads on must begin with it."""
    answered: tuple[str, ...] = ()
    """Those ids."""


class EarlyAnswers:
    """Answers to what comes on stdin, if it is a pipe or a socket, from `start` to `stop`."""

    def __init__(self, instructions: str, *, stdin: int = 0, stdout: int = 1) -> None:
        self._instructions = instructions
        self._stdin = stdin
        self._stdout = stdout
        self._data = bytearray()
        self._line_start = 0
        self._answered: list[str] = []
        self._thread: threading.Thread | None = None
        self._stop_pipe: tuple[int, int] | None = None
        self._has_ended = False
        """Whether stdin has."""

    def start(self) -> None:
        """Answer what is waiting, and then what comes, in a thread."""
        if not is_pipe(self._stdin):
            return
        # Before the thread is made: the usual client has asked by now, and need not wait for that.
        while self._can_go_on and select.select([self._stdin], [], [], 0)[0]:
            self._read()
        if self._can_go_on:
            self._stop_pipe = os.pipe()
            self._thread = threading.Thread(target=self._serve, args=[self._stop_pipe[0]], daemon=True)
            self._thread.start()

    def stop(self) -> EarlyTraffic:
        """Stop reading and answering; gives the traffic so far."""
        if self._thread is not None and self._stop_pipe is not None:
            os.close(self._stop_pipe[1])
            self._thread.join()
            os.close(self._stop_pipe[0])
            self._thread = self._stop_pipe = None
        return EarlyTraffic(data=bytes(self._data), answered=tuple(self._answered))

    def _serve(self, stopping: int) -> None:
        while self._can_go_on:
            readable, _, _ = select.select([self._stdin, stopping], [], [])
            if stopping in readable:
                return
            self._read()

    @property
    def _can_go_on(self) -> bool:
        return not self._has_ended and len(self._data) < _MOST_BYTES

    def _read(self) -> None:
        chunk = os.read(self._stdin, _LONGEST_LINE_BYTES)
        self._data += chunk
        while end := self._data.find(b"\n", self._line_start) + 1:
            line = bytes(self._data[self._line_start : end])
            line = self._answer(line) if len(line) <= _LONGEST_LINE_BYTES else line
            self._data[self._line_start : end] = line
            self._line_start += len(line)
        self._has_ended = not chunk

    def _answer(self, line: bytes) -> bytes:
        """The line for the SDK, once its request is answered if that can be done."""
        request = _request(line)
        result = _result(request)
        if request is None or result is None:
            return line
        result["instructions"] = self._instructions
        answer = _line({"jsonrpc": "2.0", "id": request["id"], "result": result})
        with suppress(BrokenPipeError):  # the end of stdin follows
            while answer:
                answer = answer[os.write(self._stdout, answer) :]
        # Another id than any client's: it may use its own again.
        self._answered.append(f"{NAME}-answered-{len(self._answered)}")
        return _line({**request, "id": self._answered[-1]})


def _result(request: dict[str, Json] | None) -> dict[str, Json] | None:
    match request:
        case {
            "method": "initialize",
            "params": {"protocolVersion": str(version), "capabilities": dict(capabilities), "clientInfo": dict(client)},
        } if _is_usual(capabilities, client):
            return {
                "capabilities": {
                    "resources": {"listChanged": True, "subscribe": False},
                    "tools": {"listChanged": True},
                },
                "protocolVersion": version if version in _HANDSHAKE_VERSIONS else _HANDSHAKE_VERSIONS[-1],
                "serverInfo": _SERVER,
            }
        case {
            "method": "server/discover",
            "params": {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": dict(capabilities),
                    "io.modelcontextprotocol/clientInfo": dict(client),
                }
            },
        } if _is_usual(capabilities, client):
            return {
                "cacheScope": "private",
                "capabilities": {
                    "extensions": {"io.modelcontextprotocol/tasks": {}},
                    "resources": {"listChanged": True, "subscribe": True},
                    "tools": {"listChanged": True},
                },
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "ttlMs": 0,
                "_meta": {"io.modelcontextprotocol/serverInfo": _SERVER},
            }
    return None


def _is_usual(capabilities: dict[str, Json], client: dict[str, Json]) -> bool:
    """Whether the SDK would take it, too; what is doubtful is left to it."""
    match client:
        case {"name": str(), "version": str()}:
            return all(isinstance(capability, dict) for capability in capabilities.values())
    return False


def _request(line: bytes) -> dict[str, Json] | None:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match request:
        case {"jsonrpc": "2.0", "id": str() | int() as id_} if not isinstance(id_, bool):
            return request if isinstance(request, dict) else None
    return None


def is_pipe(fd: int) -> bool:
    """Whether it can be waited for as a pipe or a socket."""
    mode = os.fstat(fd).st_mode
    # Windows can wait for sockets only.
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


def _line(message: dict[str, Json]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
