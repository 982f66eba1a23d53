"""Request bodies: size limits, time limits, media types, decoding and validation.

1. Until it is known whose a request is, 64 KiB of its body are read: as much as may hold a key.
2. From then on its bytes count as its tenant's, up to the limit of the request and of all that the tenant sends.
3. What is costly to decode is counted while it comes, and is not decoded at all beyond a limit.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

import msgspec
from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold.interfaces.http import request_models
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.outcome_bodies import Hangup, Refusal, hangup_refusal
from toolfold.interfaces.http.settings import Settings
from toolfold.interfaces.server.http_server import has_whole_body

Body = TypeVar("Body", bound=request_models.RequestBody)
UNKNOWN_BYTES: Final = 64 * 1024
MAX_CONTAINERS: Final = 500_000
"""Lists and objects in one body; each takes ten times as long to make as any other value, and 64 bytes or more."""
_LARGE_BYTES: Final = 256 * 1024
_SHOWN_CHARACTERS: Final = 200
_PIECE_SECONDS: Final = 30.0
"""From one piece of a body to the next."""
_UNKNOWN_SECONDS: Final = 10.0
"""For the whole of a body that has to show its key."""
_IN_SCOPE: Final = "toolfold.intake"


class Intakes:
    """Middleware that gives every request its `Intake`."""

    def __init__(self, app: ASGIApp, *, gate: Gate, settings: Settings) -> None:
        self._app = app
        self._gate = gate
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["path"].removeprefix(self._settings.base_path).startswith("/upload")
        most = self._settings.max_upload_bytes if is_upload else self._settings.max_body_bytes
        intake = scope[_IN_SCOPE] = Intake(receive, self._gate, most=most, is_json=not is_upload)
        try:
            await self._app(scope, intake.receive, send)
        finally:
            intake.close()


class Intake:
    """Limits on the size and pace of one request's body, and the tenant whose account it is on."""

    def __init__(self, receive: Receive, gate: Gate, *, most: int, is_json: bool) -> None:
        self._receive = receive
        self._gate = gate
        self._most = most
        self._is_json = is_json
        self.account = ""
        """Whose request it is, also if it is not taken."""
        self._tenant: str | None = None
        self._received_bytes = 0
        self._reserved_bytes = 0
        self._containers = 0
        self._is_whole = False
        self._is_follower = False
        self._unknown_until = asyncio.get_running_loop().time() + _UNKNOWN_SECONDS

    def admit(self, tenant: str, promised: str | None) -> None:
        """The request is this tenant's, with its `Content-Length`; `Refusal` 413 or 429 before more is read."""
        self.account = tenant
        self._gate.enter(tenant)
        self._tenant = tenant
        size = int(promised) if promised is not None and promised.isdecimal() else 0
        if size > self._most:
            raise self._too_large()
        self._hold(max(size, self._received_bytes))

    def follow(self) -> None:
        """The answer is a stream that may never end; `Refusal` 429 if there are too many."""
        assert self._tenant is not None
        self._gate.follow(self._tenant)
        self._is_follower = True

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        # As nearly always: a timer that is set and taken back would cost more than the body does.
        message = await (self._receive() if has_whole_body() else self._receive_in_time())
        if message["type"] == "http.disconnect":
            # Starlette's own exception for this would be logged as a failure of the server, with its traceback.
            raise hangup_refusal()
        self._is_whole = not message.get("more_body", False)
        self._count(message.get("body", b""))
        return message

    async def _receive_in_time(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until()):
                return await self._receive()
        except TimeoutError as error:
            raise Refusal(408, "the body takes too long to arrive; send it again", is_contract=False) from error

    def close(self) -> None:
        if self._tenant is not None:
            if self._is_follower:
                self._gate.unfollow(self._tenant)
            self._gate.leave(self._tenant, held_bytes=self._reserved_bytes)

    def _until(self) -> float:
        if self._tenant is None:
            return self._unknown_until
        return asyncio.get_running_loop().time() + _PIECE_SECONDS

    def _count(self, piece: bytes) -> None:
        self._received_bytes += len(piece)
        if self._tenant is None and self._received_bytes > UNKNOWN_BYTES:
            text = f"without a key in its headers a request may have {UNKNOWN_BYTES} bytes; send the key as X-API-Key"
            raise Refusal(413, text, is_contract=False)
        if self._received_bytes > self._most:
            raise self._too_large()
        if self._tenant is not None and self._received_bytes > self._reserved_bytes:
            self._hold(self._received_bytes - self._reserved_bytes)
        if self._is_json:
            self._containers += piece.count(b"[") + piece.count(b"{")
            if self._containers > MAX_CONTAINERS:
                text = f"the body has more than {MAX_CONTAINERS} lists and objects; send less"
                raise Refusal(413, text, is_contract=False)

    def _hold(self, size: int) -> None:
        assert self._tenant is not None
        self._gate.hold(self._tenant, size)
        self._reserved_bytes += size

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the body is larger than {self._most} bytes; send less", is_contract=False)


def admit(request: Request, tenant: str) -> None:
    intake: Intake = request.scope[_IN_SCOPE]
    intake.admit(tenant, request.headers.get("content-length"))


def admit_follower(request: Request) -> None:
    """Count an admitted request whose response is a stream that may never end."""
    intake: Intake = request.scope[_IN_SCOPE]
    intake.follow()


async def wait_for_hangup(request: Request) -> None:
    """Return when the client of a request that was read whole has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def account_of(scope: Scope) -> str:
    intake: Intake | None = scope.get(_IN_SCOPE)
    return "" if intake is None else intake.account


def require_media_type(request: Request, media_type: str) -> None:
    """`Refusal` 415 for what a page in a browser can send without asking first."""
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != media_type:
        description = repr(content_type[:_SHOWN_CHARACTERS]) if content_type else "nothing"
        raise Refusal(415, f"send the body as {media_type}, not as {description}", is_contract=False)


async def read_body(raw: bytes, model: type[Body], gate: Gate, tenant: str, hangup: Hangup) -> Body:
    """Decode and validate a body; a large one waits for its turn, unless its client leaves."""
    if len(raw) <= _LARGE_BYTES:
        return validate_body(decode_object(raw), model)
    async with gate.large_body(tenant, hangup):
        return validate_body(decode_object(raw), model)


# Any: the keys are names of the API.
def decode_object(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, "the body is not JSON; send one object as application/json") from error
    if not isinstance(value, dict):
        raise Refusal(400, "the body is not a JSON object; send one object")
    return value


def validate_body(value: dict[str, Any], model: type[Body]) -> Body:
    """Validate a body; the error names the first mistake and its place."""
    try:
        return model.model_validate(value)
    except (ValidationError, RecursionError) as error:
        if isinstance(error, RecursionError):
            raise Refusal(400, "the body is nested too deep; send flatter values") from error
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])[:_SHOWN_CHARACTERS]
        raise Refusal(400, f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from error
