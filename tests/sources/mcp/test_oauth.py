"""Signing in at a server, which is its own authorization server, on loopback."""

import asyncio
import secrets
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import msgspec
import pytest
import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, AuthorizationParams, RefreshToken
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tests.ports import reserved_port
from tests.sources.mcp.support import call, listening, remember
from toolfold.sources.mcp import Bridge, OAuth, Server


class Authority:
    """Says yes to everybody, and remembers what it was asked."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.asked: list[str] = []
        self.denies = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.asked.append("register")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append("authorize")
        if self.denies:
            return f"{params.redirect_uri}?error=access_denied&state={params.state}"
        code = AuthorizationCode(
            code=secrets.token_hex(8),
            scopes=[],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )
        self.codes[code.code] = code
        return f"{params.redirect_uri}?code={code.code}&state={params.state}"

    async def load_authorization_code(self, client, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code: AuthorizationCode) -> OAuthToken:
        self.asked.append("token")
        return self._issue(client.client_id)

    async def load_refresh_token(self, client, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        self.asked.append("refresh")
        return self._issue(client.client_id)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError

    def _issue(self, client_id: str) -> OAuthToken:
        access, refresh = secrets.token_hex(8), secrets.token_hex(8)
        self.tokens[access] = AccessToken(token=access, client_id=client_id, scopes=[])
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=[])
        return OAuthToken(access_token=access, token_type="Bearer", expires_in=3600, refresh_token=refresh)


@asynccontextmanager
async def guarded(authority: Authority) -> AsyncIterator[Server]:
    """A server that wants everybody to sign in."""
    port = reserved_port()
    address = f"http://127.0.0.1:{port}"
    server = MCPServer(
        "guarded",
        auth_server_provider=authority,
        auth=AuthSettings(
            issuer_url=address,
            resource_server_url=f"{address}/mcp",
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        ),
    )

    @server.tool()
    def secret() -> str:
        return "42"

    app = server.streamable_http_app()
    web = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    task = asyncio.create_task(web.serve())
    await listening(port)
    try:
        yield Server(
            name="guarded",
            transport="http",
            url=f"{address}/mcp",
            auth=OAuth(wait_seconds=5),
            connect_timeout_seconds=5,
        )
    finally:
        web.should_exit = True
        web.force_exit = True
        await task


class Browser:
    """Opens the address as a person's browser would, and follows where it leads."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self, server: str, url: str) -> None:
        self.opened.append(server)
        self._tasks.append(asyncio.create_task(self._open(url)))

    async def _open(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            page = await client.get(url)
            assert page.status_code == 200


async def used(server: Server, folder: Path, browser: Browser) -> object:
    eras = remember(folder / "eras", "legacy", server)
    async with Bridge([server], eras=eras, tokens=folder / "tokens", on_sign_in=browser) as bridge:
        await bridge.settled(timeout_seconds=60)
        return await call(bridge, "mcp__guarded__secret") if bridge.tools() else bridge.status()[0].detail


async def test_a_person_signs_in_once_and_never_again_while_the_tokens_last(tmp_path: Path) -> None:
    authority, browser = Authority(), Browser()
    async with guarded(authority) as server:
        first = await used(server, tmp_path, browser)
        second = await used(server, tmp_path, browser)

    assert (first, second, browser.opened) == ("42", "42", ["guarded"])
    assert authority.asked == ["register", "authorize", "token"]


async def test_an_access_token_that_ran_out_is_refreshed_without_a_person(tmp_path: Path) -> None:
    authority, browser = Authority(), Browser()
    async with guarded(authority) as server:
        await used(server, tmp_path, browser)
        (path,) = (tmp_path / "tokens").iterdir()
        kept = msgspec.json.decode(path.read_bytes())
        path.write_bytes(msgspec.json.encode({**kept, "expires_at": time.time() - 1}))

        value = await used(server, tmp_path, browser)

    assert (value, browser.opened) == ("42", ["guarded"])
    assert authority.asked == ["register", "authorize", "token", "refresh"]


async def test_the_tokens_are_the_users_alone(tmp_path: Path) -> None:
    async with guarded(Authority()) as server:
        await used(server, tmp_path, Browser())

    (path,) = (tmp_path / "tokens").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_person_who_says_no_is_told_so_in_the_servers_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    authority.denies = True
    async with guarded(authority) as server:
        detail = await used(server, tmp_path, Browser())

    assert detail == "signing in was refused: access_denied"


async def test_a_person_who_does_not_come_fails_that_server_only(tmp_path: Path) -> None:
    async with guarded(Authority()) as server:
        patient = Server(
            name="guarded", transport="http", url=server.url, auth=OAuth(wait_seconds=0.3), connect_timeout_seconds=5
        )
        shown: list[str] = []
        eras = remember(tmp_path / "eras", "legacy", patient)
        async with Bridge([patient], eras=eras, tokens=tmp_path, on_sign_in=lambda _, url: shown.append(url)) as bridge:
            await bridge.settled(timeout_seconds=60)
            detail = bridge.status()[0].detail

    assert (detail, len(shown)) == ("nobody signed in within 0.3 s", 1)
