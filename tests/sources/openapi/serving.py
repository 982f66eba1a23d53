"""A server on loopback that answers as a test says, and keeps what it was asked."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolfold.tools.tool import Tool


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    mime: str = "application/json"


class Serving:
    """Enter it to listen; `asked` has the requests in order."""

    def __init__(self, answer: Callable[[Asked], Answer], host: str = "127.0.0.1") -> None:
        self.asked: list[Asked] = []
        serving = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a small body waits 40 ms for the ACK of its headers

            def _serve(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                asked = Asked(
                    self.command,
                    self.path,
                    {key.lower(): value for key, value in self.headers.items()},
                    self.rfile.read(size),
                )
                serving.asked.append(asked)
                made = answer(asked)
                self.send_response(made.status)
                headers = {"Content-Type": made.mime, **made.headers}
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(made.body)))
                self.end_headers()
                self.wfile.write(made.body)

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = _serve

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self._server = Server((host, 0), Handler)
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Serving":
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def called(tools: Iterable[Tool], name: str, /, **arguments: Any) -> Any:
    """The value of one call, made past the router; connections are closed."""
    tool = next(one for one in tools if one.spec.short_name == name)

    async def call() -> Any:
        try:
            return await tool.call(arguments)
        finally:
            assert tool.close is not None
            await tool.close()

    return asyncio.run(call())
