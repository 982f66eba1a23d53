"""A server of the streamable HTTP transport that keeps calls open until its client says goodbye, in this process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from toolfold.sources.mcp import Server


class JsonServer:
    """One tool, `echo`; a call of it is answered in the middle of the goodbye, which is never answered."""

    def __init__(self, *, is_read_only: bool = False) -> None:
        self.called = asyncio.Event()
        self.sessions = 0
        self._tool = {
            "name": "echo",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": is_read_only},
        }
        self._leaving = asyncio.Event()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Server]:
        listener = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        try:
            yield Server(name="web", transport="http", url=f"http://127.0.0.1:{port}/mcp")
        finally:
            listener.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if head.startswith("delete"):
            self._leaving.set()
            await reader.read()
        elif head.startswith("post"):
            size = int(head.split("content-length:")[1].split("\r\n")[0])
            body = await self._answer(json.loads(await reader.readexactly(size)))
            status = b"200 OK" if body else b"202 Accepted"
            kind = b"content-type: application/json\r\nmcp-session-id: %d\r\nconnection: close\r\n" % self.sessions
            writer.write(b"HTTP/1.1 %s\r\n%scontent-length: %d\r\n\r\n%s" % (status, kind, len(body), body))
        else:
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async def _answer(self, message: dict[str, Any]) -> bytes:
        if "id" not in message:
            return b""
        result: dict[str, Any] = {}
        match message["method"]:
            case "initialize":
                self.sessions += 1
                about = {"name": "fake", "version": "1"}
                version = message["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                result = {"tools": [self._tool]}
            case "tools/call":
                self.called.set()
                await self._leaving.wait()
                result = {"content": [{"type": "text", "text": "hello"}]}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
