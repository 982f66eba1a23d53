"""Bodies within their limits: JSON that is JSON, of a type that is expected, and no larger than allowed."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold.doors.http import wire
from toolfold.doors.http.refusals import Refusal

Body = TypeVar("Body", bound=wire.Request)
_SHOWN_CHARACTERS: Final = 200


class BodyLimit:
    """Stops reading at the limit, whatever the headers promised; `/upload` has a limit of its own."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, max_upload_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_upload_bytes = max_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._max_upload_bytes if "/upload" in scope["path"] else self._max_bytes
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise Refusal(413, f"the body is larger than {limit} bytes; send less", is_contract=False)
            return message

        await self._app(scope, limited, send)


# Any: the keys are names of the API.
def decoded(raw: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, "the body is not JSON; send one object as application/json") from error
    if not isinstance(value, dict):
        raise Refusal(400, "the body is not a JSON object; send one object")
    return value


def checked(value: dict[str, Any], model: type[Body]) -> Body:
    """A request of that type; the first mistake, with its place."""
    try:
        return model.model_validate(value)
    except (ValidationError, RecursionError) as error:
        if isinstance(error, RecursionError):
            raise Refusal(400, "the body is nested too deep; send flatter values") from error
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])[:_SHOWN_CHARACTERS]
        raise Refusal(400, f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from error
