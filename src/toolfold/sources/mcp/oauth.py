"""OAuth sign-in at an MCP server: the SDK's client, with a file that stores its tokens.

The file is the user's alone (0600, in a folder that is 0700) and written whole or not at all.
A person signs in with a browser, which comes back to a listener on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
import platformdirs
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from toolfold.errors import ToolUnreachable
from toolfold.sources.mcp.server_definition import OAuth, Server
from toolfold.sources.private_files import write_private_file

_Model = TypeVar("_Model", bound=BaseModel)

_PAGE: Final = b"<!doctype html><title>toolfold</title><p>Signed in. You may close this window."
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


def token_folder() -> Path:
    return platformdirs.user_data_path("toolfold", appauthor=False) / "mcp-tokens"


class SignIn(OAuthClientProvider):
    """Signs in when the server asks; `on_wait` gets the address for a browser, and `None` when that is over."""

    def __init__(self, server: Server, folder: Path, on_wait: Callable[[str | None], None]) -> None:
        assert server.auth is not None
        assert server.url is not None
        self._file = TokenFile(folder / f"{server.identity}.json", server.auth, lambda: self.context.oauth_metadata)
        self._callback = Callback(self._file.callback_port, server.auth.wait_seconds)
        self._on_wait = on_wait
        super().__init__(
            server.url,
            OAuthClientMetadata(
                client_name="toolfold",
                redirect_uris=[AnyUrl(self._callback.uri)],
                grant_types=["authorization_code", "refresh_token"],
                token_endpoint_auth_method=None if server.auth.client_secret else "none",
            ),
            self._file,
            redirect_handler=self._start_sign_in,
            callback_handler=self._wait_for_callback,
        )
        self._file.own_redirect = self._callback.uri

    async def _initialize(self) -> None:
        """Restore what the SDK does not: otherwise a restart would ask the person again."""
        await super()._initialize()
        self.context.token_expiry_time = self._file.expires_at
        self.context.oauth_metadata = self._file.metadata

    async def _start_sign_in(self, url: str) -> None:
        await self._callback.listen()
        self._on_wait(url)

    async def _wait_for_callback(self) -> AuthorizationCodeResult:
        try:
            return await self._callback.result()
        finally:
            self._on_wait(None)


class TokenFile:
    """The SDK's token storage, in one file for each server."""

    def __init__(self, path: Path, auth: OAuth, metadata: Callable[[], OAuthMetadata | None]) -> None:
        self.own_redirect = ""
        self._path = path
        self._auth = auth
        self._metadata = metadata
        self._contents = self._read()

    @property
    def callback_port(self) -> int:
        """Port that the client was registered with, for some servers compare it."""
        port = self._contents.get("port")
        return self._auth.callback_port or (port if isinstance(port, int) else 0)

    @property
    def expires_at(self) -> float | None:
        timestamp = self._contents.get("expires_at")
        return timestamp if isinstance(timestamp, (int, float)) else None

    @property
    def metadata(self) -> OAuthMetadata | None:
        return _model(OAuthMetadata, self._contents.get("metadata"))

    async def get_tokens(self) -> OAuthToken | None:
        return _model(OAuthToken, self._contents.get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        metadata = self._metadata()
        self._write(
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
            metadata=metadata and metadata.model_dump(mode="json", exclude_none=True),
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._auth.client_id:
            return OAuthClientInformationFull(
                client_id=self._auth.client_id,
                client_secret=self._auth.client_secret or None,
                token_endpoint_auth_method="client_secret_post" if self._auth.client_secret else "none",
                redirect_uris=[AnyUrl(self.own_redirect)],
            )
        return _model(OAuthClientInformationFull, self._contents.get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        port = urlsplit(self.own_redirect).port
        self._write(client=client_info.model_dump(mode="json", exclude_none=True), port=port)

    def _read(self) -> dict[str, Any]:
        try:
            contents = msgspec.json.decode(self._path.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return {}
        return contents if isinstance(contents, dict) else {}

    def _write(self, **changes: Any) -> None:
        self._contents = {**self._contents, **changes}
        write_private_file(self._path, msgspec.json.encode(self._contents))


class Callback:
    """Listener for a browser's return; it listens only while one is expected."""

    def __init__(self, port: int, wait_seconds: float) -> None:
        self._port = _find_free_port(port)
        self._wait_seconds = wait_seconds
        self.uri = f"http://127.0.0.1:{self._port}/callback"
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        self._code_future: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def result(self) -> AuthorizationCodeResult:
        assert self._server is not None
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await self._code_future
        except TimeoutError:
            raise ToolUnreachable(f"nobody signed in within {self._wait_seconds:g} s") from None
        finally:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode("ascii", "replace")
            writer.write(_HEAD % len(_PAGE) + _PAGE)
            await writer.drain()
            query = {key: values[0] for key, values in parse_qs(urlsplit(path).query).items()}
            if urlsplit(path).path == "/callback" and not self._code_future.done():
                self._handle_query(query)
        writer.close()

    def _handle_query(self, query: dict[str, str]) -> None:
        if "error" in query:
            reason = query.get("error_description") or query["error"]
            self._code_future.set_exception(ToolUnreachable(f"signing in was refused: {reason}"))
        elif "code" in query:
            self._code_future.set_result(
                AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))
            )


def _find_free_port(port: int) -> int:
    """This port on loopback, or another if somebody has it: most servers take any."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        free_port: int = probe.getsockname()[1]
        return free_port


# Any: what is in the file may be anything.
def _model(kind: type[_Model], data: Any) -> _Model | None:
    try:
        return None if data is None else kind.model_validate(data)
    except ValidationError:
        return None
