"""HTTP responses: answers, errors and refusals in the format of each client."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import msgspec
from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.routing import Match

from toolfold.errors import ToolfoldError
from toolfold.interfaces.http import outcome_bodies
from toolfold.interfaces.http.access.auth import note_refusal
from toolfold.interfaces.http.metrics import Metrics
from toolfold.interfaces.http.outcome_bodies import ApiResponse, Refusal, retryable_refusal, to_http
from toolfold.interfaces.http.request_models import ForwardedResponse
from toolfold.models import Json

_log: Final = logging.getLogger(__name__)


class Responses:
    """Writes every response of the interface's programs, and of everything that goes wrong."""

    def __init__(self, base_path: str, metrics: Metrics) -> None:
        self._base_path = base_path
        self._metrics = metrics

    def path(self, request: Request) -> str:
        path: str = request.scope["path"]
        return path.removeprefix(self._base_path)

    def respond(
        self, request: Request, answer: ApiResponse | ForwardedResponse, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Render an answer for its client; another replica's stays as it is."""
        if isinstance(answer, ForwardedResponse):
            return Response(answer.body, status_code=answer.status, headers=dict(answer.headers))
        is_plain = self.path(request) == "/exec" and answer.status != 202
        answer = outcome_bodies.plain_response(answer) if is_plain else answer
        status, body = outcome_bodies.for_client(answer, request.headers.get("user-agent", ""))
        body = outcome_bodies.plain_response(ApiResponse(status=status, body=body)).body if is_plain else body
        retry = body.get("retry_after_seconds")
        more = {"Retry-After": str(retry)} if retry else {}
        if status == 202:
            more = {"Location": f"{self._base_path}/executions/{body['execution_id']}"}
        return json_response(status, body, {**(headers or {}), **more})

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Render an exception that a route raised on purpose."""
        refusal = refusal_of(error)
        if refusal.status >= 500:
            # The operator needs to know what the system said; the client does not.
            reason = f" [{error}]" if isinstance(error, OSError) else ""
            _log.error("%s %s: %s%s", request.method, request.url.path, refusal.text, reason)
        self._metrics.add("refusals", status=refusal.status)
        note_refusal(request.scope, refusal.status)
        if not self.path(request).startswith("/exec") or self.path(request) == "/exec/batch":
            # A file that is gone is 404 for everyone: LibreChat asks in order to upload it again.
            refusal.is_contract = False
        return self.respond(
            request, outcome_bodies.refusal_response(refusal), _allow_header(request) if refusal.status == 405 else None
        )

    async def break_down(self, request: Request, _: Exception) -> Response:
        return self.respond(request, outcome_bodies.refusal_response(Refusal(500, "internal error", is_contract=False)))


def refusal_of(error: Exception) -> Refusal:
    """The refusal that an exception stands for; what is none is raised again."""
    match error:
        case HTTPException():
            return Refusal(error.status_code, str(error.detail).lower(), is_contract=False)
        case ToolfoldError():
            return to_http(error)
        case Refusal():
            return error
        case OSError():  # no room, no descriptors: what was asked for can be asked for again
            return retryable_refusal(error)
    raise error


def json_response(status: int, body: Json, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json", headers=headers)


def stream_response(parts: AsyncIterator[bytes], media_type: str) -> Response:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts, media_type=media_type, headers=headers)


def bind_path_params(endpoint: Callable[..., Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that takes parts of its path, as one that takes the request alone.

    For arguments of an endpoint FastAPI loads pydantic's older version, too, 1.3 MB, to see that they are not of it.
    """

    async def answer(request: Request) -> Response:
        return await endpoint(request, **request.path_params)

    # Not `wraps`: FastAPI would look through it. The document has both.
    answer.__name__, answer.__doc__ = endpoint.__name__, endpoint.__doc__
    return answer


def _allow_header(request: Request) -> dict[str, str]:
    # By hand: Starlette names those of the first route that has this path.
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    return {"Allow": ", ".join(sorted({method for route in routes for method in route.methods}))}
