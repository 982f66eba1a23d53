"""What a server that was only started has loaded: each of these packages is megabytes that most never need."""

import subprocess
import sys

import pytest

from tests.interfaces.http.conftest import KEYS
from toolfold.errors import UsageError, install_extra
from toolfold.interfaces.http.access.auth import Authenticator
from toolfold.interfaces.http.settings import JwtSettings, Settings

BUILD = """
import asyncio, sys
import toolfold.interfaces.cli.app
from toolfold.config import parse_config
from toolfold.interfaces.http.server_setup import HttpServer
from toolfold.interfaces.http.server_setup import open_app

async def build(text):
    app, ledger = await open_app(parse_config(text))
    HttpServer(app).config.load()
    await ledger.close()

asyncio.run(build(sys.argv[1]))
unused = sys.argv[2].split()
print(sorted({one for one in unused for name in sys.modules if name == one or name.startswith(f"{one}.")}))
"""
UNUSED = (
    "cryptography httpx2 jwt mcp numpy pydantic.v1 ray redis rich toolfold.interfaces.console toolfold.interfaces.http.openapi_document "
    "toolfold.interfaces.mcp websockets"
)


def loaded(tmp_path, http: str) -> str:
    """Those of the unused that a server with this config has."""
    config = f"http: {{files: {tmp_path}, token_key: {'k' * 32}, {http}}}\nledger: {{where: memory}}"
    command = [sys.executable, "-c", BUILD, config, UNUSED]
    return subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_a_server_has_not_loaded_what_its_config_does_not_need(tmp_path) -> None:
    assert loaded(tmp_path, "keys: {one: one-key}") == "[]\n"


def test_what_checks_signatures_is_loaded_before_the_first_request_shows_one(tmp_path) -> None:
    http = "jwt: {issuer: librechat, audience: codeapi, jwks_url: 'http://127.0.0.1:9/jwks'}"

    assert loaded(tmp_path, http) == "['cryptography', 'jwt']\n"


def test_without_its_package_only_a_config_with_tokens_is_refused(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "toolfold.interfaces.http.access.jwt_auth", raising=False)

    Authenticator(Settings(keys=KEYS))

    with pytest.raises(UsageError) as caught:
        Authenticator(Settings(jwt=JwtSettings(public_key="key")))

    assert str(caught.value) == f"'jwt' is not installed, and http.jwt needs it; {install_extra('http')}"
