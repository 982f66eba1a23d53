"""A server of the older SSE transport that a test can make misbehave, in this process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from toolfold.sources.mcp import Server

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


class SseServer:
    """One tool, `echo`, which answers "hello"; what happens around an answer is the test's to say."""

    def __init__(self) -> None:
        self.streams: list[asyncio.StreamWriter] = []
        """One for each connection, in order."""
        self.received: list[str] = []
        """The methods of all messages, in order."""
        self.tail = b""
        """Follows the answer of a call in the same write."""
        self.refuses_calls = False
        """The POST of a call is answered with HTTP 503."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Server]:
        listener = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        try:
            yield Server(name="web", transport="sse", url=f"http://127.0.0.1:{port}/sse")
        finally:
            listener.close()
            for stream in self.streams:
                stream.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if head.startswith("get"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /post/%d\n\n" % len(self.streams))
            self.streams.append(writer)
            return
        size = int(head.split("content-length:")[1].split("\r\n")[0])
        message = json.loads(await reader.readexactly(size))
        self.received.append(message["method"])
        is_refused = self.refuses_calls and message["method"] == "tools/call"
        status = b"503 Service Unavailable" if is_refused else b"202 Accepted"
        writer.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        writer.close()
        if not is_refused and "id" in message:
            stream = self.streams[int(head.split()[1].removeprefix("/post/"))]
            stream.write(event({"id": message["id"], **_answer(message)}))
            if message["method"] == "tools/call":
                stream.write(self.tail)


def event(fields: dict[str, Any]) -> bytes:
    """A JSON-RPC message as it stands in the stream."""
    return b"event: message\ndata: %s\n\n" % json.dumps({"jsonrpc": "2.0", **fields}).encode()


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            about = {"name": "fake", "version": "1"}
            version = message["params"]["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
        case "tools/list":
            return {"result": {"tools": [TOOL]}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": "hello"}]}}
    return {"error": {"code": -32601, "message": "no such method"}}
