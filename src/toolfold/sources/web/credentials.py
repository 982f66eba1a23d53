"""What proves to an API who calls: made here, put on the request just before the wire, shown to nobody."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from toolfold.errors import ToolError, UsageError
from toolfold.sources.command import run_command
from toolfold.sources.web.echoes import Echoes
from toolfold.sources.web.messages import WebReply, WebRequest
from toolfold.tools.steps.concurrency import PerLoop

Send: TypeAlias = Callable[[WebRequest], Awaitable[WebReply]]
Kind: TypeAlias = Literal["bearer", "basic", "header", "query", "oauth2"]

_EARLY_SECONDS: Final = 30.0
"""A token that is about to expire is not used any more."""
_USUAL_SECONDS: Final = 300.0
_MOST_BYTES: Final = 64 * 1024
_NEEDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "bearer": (), "basic": ("username",), "header": ("name",), "query": ("name",), "oauth2": ("token_url", "client_id"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """How an API is told who calls.

    `secret` is the token, the password, the key or the client secret; `command` prints it instead, and is run again
    when the API no longer accepts it.
    """

    kind: Kind
    secret: str = field(default="", repr=False)
    command: Sequence[str] = ()
    username: str = ""
    """basic"""
    name: str = ""
    """header, query: of the header or the query parameter."""
    token_url: str = ""
    """oauth2, like the two below: client credentials."""
    client_id: str = ""
    scope: str = ""

    def __post_init__(self) -> None:
        for need in _NEEDS[self.kind]:
            if not getattr(self, need):
                raise UsageError(f"auth of type {self.kind!r} needs {need!r}")
        if bool(self.secret) == bool(self.command):
            raise UsageError("auth needs either 'secret' or 'command', and not both")


class Credentials:
    """The secret of one API while it is good, and how a request carries it."""

    def __init__(self, auth: Auth, echoes: Echoes, send: Send, env: Mapping[str, str]) -> None:
        self._auth = auth
        self._echoes = echoes
        self._send = send
        self._env = env
        self._secret = auth.secret
        self._token = ""
        """oauth2: what the secret was exchanged for."""
        self._expires = 0.0
        self._turn = PerLoop(asyncio.Lock)
        self._learn(auth.secret)

    @property
    def can_renew(self) -> bool:
        """Whether another secret can be obtained when this one is refused."""
        return self._auth.kind == "oauth2" or bool(self._auth.command)

    def forget(self) -> None:
        """The API refused it."""
        self._expires = 0.0
        if self._auth.command:
            self._secret = ""

    async def parts(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Headers and query parameters for a request.

        Raises:
            ToolError: the command, or the server of tokens, gave none.
        """
        async with self._turn.get():
            secret = await self._current()
        match self._auth.kind:
            case "header":
                return ((self._auth.name, secret),), ()
            case "query":
                return (), ((self._auth.name, secret),)
            case "basic":
                pair = base64.b64encode(f"{self._auth.username}:{secret}".encode()).decode()
                return (("Authorization", f"Basic {pair}"),), ()
        return (("Authorization", f"Bearer {secret}"),), ()

    async def _current(self) -> str:
        if not self._secret and self._auth.command:
            self._secret = await self._from_command()
        if self._auth.kind != "oauth2":
            return self._secret
        if time.monotonic() >= self._expires:
            self._token = await self._fetched()
        return self._token

    async def _from_command(self) -> str:
        try:
            done = await run_command(
                self._auth.command, cwd=None, env=self._env, stdin=None, max_output_bytes=_MOST_BYTES
            )
        except OSError as error:
            raise _without_secret(f"the command for its secret cannot be started: {error.strerror}") from None
        secret = done.stdout.decode(errors="replace").strip()
        if done.code != 0 or not secret:
            raise _without_secret(f"the command for its secret ended with exit code {done.code}")
        self._learn(secret)
        return secret

    async def _fetched(self) -> str:
        """A token by the client credentials grant, RFC 6749 section 4.4."""
        auth = self._auth
        form = {"grant_type": "client_credentials", **({"scope": auth.scope} if auth.scope else {})}
        # Both are form-encoded before they are joined, says section 2.3.1.
        pair = base64.b64encode(f"{quote(auth.client_id, safe='')}:{quote(self._secret, safe='')}".encode()).decode()
        headers = (
            ("Authorization", f"Basic {pair}"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Accept", "application/json"),
        )
        reply = await self._send(
            WebRequest(method="POST", url=auth.token_url, headers=headers, content=urlencode(form).encode())
        )
        try:
            answer = msgspec.json.decode(reply.content, type=_TokenAnswer)
        except msgspec.MsgspecError:
            raise _without_secret(f"its token server answered {reply.status} without a token") from None
        self._expires = time.monotonic() + max(0.0, (answer.expires_in or _USUAL_SECONDS) - _EARLY_SECONDS)
        self._learn(answer.access_token)
        return answer.access_token

    def _learn(self, secret: str) -> None:
        self._echoes.add(secret)
        if self._auth.kind == "basic" and secret:
            self._echoes.add(base64.b64encode(f"{self._auth.username}:{secret}".encode()).decode())


class _TokenAnswer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


def _without_secret(why: str) -> ToolError:
    error = ToolError(f"not called: {why}")
    error.nothing_ran = True
    return error
