"""A server of the older SSE transport that a test can make misbehave, in this process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

from toolfold.sources.mcp import Server

Mishap: TypeAlias = Literal["503 Service Unavailable", "404 Not Found", "hangs up", "too large"]


class SseServer:
    """One tool, `echo`, which answers "hello"."""

    def __init__(self, *mishaps: Mishap) -> None:
        self.streams: list[asyncio.StreamWriter] = []
        """One for each connection, in order."""
        self.tail = b""
        """Follows the answer of a call in the same write."""
        self._mishaps = list(mishaps)
        """What happens to the first calls."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Server]:
        self._listener = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        port = self._listener.sockets[0].getsockname()[1]
        try:
            yield Server(name="web", transport="sse", url=f"http://127.0.0.1:{port}/sse")
        finally:
            self.hide()
            for stream in self.streams:
                stream.close()

    def hide(self) -> None:
        """Take no new connections; the streams stay open."""
        self._listener.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if head.startswith("get"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /post/%d\n\n" % len(self.streams))
            self.streams.append(writer)
            return
        size = int(head.split("content-length:")[1].split("\r\n")[0])
        message = json.loads(await reader.readexactly(size))
        mishap = self._mishaps.pop(0) if message["method"] == "tools/call" and self._mishaps else ""
        status = mishap if mishap[:3].isdigit() else "202 Accepted"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        writer.close()
        if "id" in message and not mishap[:3].isdigit():
            self._answer(message, mishap, self.streams[int(head.split()[1].removeprefix("/post/"))])

    def _answer(self, message: dict[str, Any], mishap: str, stream: asyncio.StreamWriter) -> None:
        if mishap == "hangs up":
            stream.close()
            return
        text = "x" * 2_000_000 if mishap == "too large" else "hello"
        stream.write(event({"id": message["id"], **_said(message, text)}))
        if message["method"] == "tools/call":
            stream.write(self.tail)


def event(fields: dict[str, Any]) -> bytes:
    """A JSON-RPC message as it stands in the stream."""
    return b"event: message\ndata: %s\n\n" % json.dumps({"jsonrpc": "2.0", **fields}).encode()


def _said(message: dict[str, Any], text: str) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            about = {"name": "fake", "version": "1"}
            version = message["params"]["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
        case "tools/list":
            return {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "no such method"}}
