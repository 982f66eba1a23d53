"""The console as an app: its page, and the API that the page reads and nothing else does more than."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

import toolfold
from toolfold.doors.console.access import COOKIE, COOKIE_SECONDS, Access, Guard
from toolfold.doors.console.actions import MOST_BODY_BYTES, Actions
from toolfold.doors.console.reading import Reading
from toolfold.doors.console.streams import Streams
from toolfold.doors.console.watch import Watch
from toolfold.errors import ToolfoldError
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.body import Intakes
from toolfold.interfaces.http.render import Refusal, to_http
from toolfold.interfaces.http.responses import json_response
from toolfold.interfaces.http.settings import Settings
from toolfold.ledger.base import Ledger
from toolfold.runtime import Runtime

_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
_ALONE: Final = Settings(max_connections=200, max_body_bytes=MOST_BODY_BYTES, running=32)
"""One person's console: reruns that wait for this person do not hold up others of theirs."""
_READ: Final = "looking"
_ACT: Final = "acting"


def create_console(
    runtime: Runtime, ledger: Ledger, access: Access, *, only_here: bool = True, hide_arguments: bool = False,
    gate: Gate | None = None,
) -> FastAPI:  # fmt: skip
    """An ASGI app over a runtime and its ledger.

    Args:
        runtime: Checks programs, runs them again, tries tools.
        ledger: The one that everything is recorded in.
        access: Who may look, and who may act.
        only_here: Whether requests must name this machine as their host.
        hide_arguments: Give neither arguments nor replies nor values, nor error texts, which may quote them.
        gate: That of the server which this is a part of, and which enters and leaves the runtime; without one the app
            does so itself, and has a gate of its own.
    """
    is_owner = gate is None
    watch = Watch(ledger)
    gate = gate or Gate(_ALONE)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        if is_owner:
            async with runtime:
                yield
                await watch.close()
        else:
            yield
            await watch.close()

    app = FastAPI(
        title="toolfold console",
        version=toolfold.__version__,
        description="What the console shows, for programs of your own. Send the cookie of a browser or an API key.",
        lifespan=life,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    reading = Reading(ledger, watch, runtime, access, is_hidden=hide_arguments)
    actions = Actions(ledger, watch, runtime, access, gate)
    streams = Streams(ledger, watch, access, is_hidden=hide_arguments)
    _add_api(app, reading, actions, streams)
    _Pages(access).add(app)
    if is_owner:
        app.add_middleware(Intakes, gate=gate, settings=_ALONE)
    app.add_middleware(Guard, only_here=only_here)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(ToolfoldError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    app.state.watch = watch
    # For `doors.http.serve`, which every door that listens uses.
    app.state.max_connections = _ALONE.max_connections
    app.state.replicas = None
    app.state.drain = _nothing
    app.state.suspend = lambda: None
    return app


def _add_api(app: FastAPI, reading: Reading, actions: Actions, streams: Streams) -> None:
    def add(method: str, path: str, endpoint: Callable[..., Coroutine[Any, Any, Response]], tag: str = _READ) -> None:
        words = (endpoint.__doc__ or "").strip()
        app.add_api_route(
            f"/api{path}", endpoint, methods=[method], response_class=Response, tags=[tag],
            summary=words.partition("\n")[0], description=words,
        )  # fmt: skip

    add("GET", "/executions", reading.executions)
    add("GET", "/executions/{execution_id}", reading.execution)
    add("GET", "/executions/{execution_id}/events", streams.of_execution)
    add("GET", "/executions/{execution_id}/calls/{call_id}", reading.call)
    add("GET", "/executions/{execution_id}/files/{name:path}", reading.file)
    add("GET", "/events", streams.of_all)
    add("GET", "/approvals", reading.approvals)
    add("GET", "/overview", reading.overview)
    add("GET", "/savings", reading.savings)
    add("GET", "/tools", reading.tools)
    add("POST", "/approvals", actions.decide, _ACT)
    add("POST", "/executions/{execution_id}/cancel", actions.cancel, _ACT)
    add("POST", "/executions/{execution_id}/rerun", actions.rerun, _ACT)
    add("POST", "/check", actions.check, _ACT)
    add("POST", "/tools/{name:path}/call", actions.call, _ACT)


class _Pages:
    """The page and its files; nobody needs to be known to load them, for they hold nothing."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._files = {path.name: path.read_bytes() for path in _STATIC.iterdir() if path.suffix in _TYPES}

    def add(self, app: FastAPI) -> None:
        options: dict[str, Any] = {"include_in_schema": False, "response_class": Response}
        app.add_api_route("/login", self.login, methods=["GET"], **options)
        app.add_api_route("/login", self.login_with_key, methods=["POST"], **options)
        app.add_api_route("/static/{name}", self.file, methods=["GET"], **options)
        app.add_api_route("/", self.page, methods=["GET"], **options)

    async def login(self, request: Request, token: str = "") -> Response:
        cookie = self._access.admit(token)
        answer = RedirectResponse(f"{request.scope.get('root_path', '')}/", status_code=303)
        self._set(request, answer, cookie)
        return answer

    async def login_with_key(self, request: Request) -> Response:
        key = (await request.body())[:4096].decode("utf-8", "replace").strip()
        answer = json_response(200, {"status": "ok"})
        self._set(request, answer, await self._access.admit_key(request, key))
        return answer

    async def page(self) -> Response:
        return self._sent("index.html")

    async def file(self, name: str) -> Response:
        return self._sent(name)

    def _sent(self, name: str) -> Response:
        body = self._files.get(name)
        if body is None:
            raise Refusal(404, "there is no such file")
        headers = {"Cache-Control": "no-cache"}
        return Response(body, media_type=_TYPES[Path(name).suffix], headers=headers)

    def _set(self, request: Request, answer: Response, cookie: str) -> None:
        path = request.scope.get("root_path", "") or "/"
        is_secure = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, cookie, max_age=COOKIE_SECONDS, path=path, httponly=True, samesite="strict", secure=is_secure
        )


async def _refuse(_: Request, error: Exception) -> Response:
    match error:
        case HTTPException():
            return json_response(error.status_code, {"error": str(error.detail).lower()})
        case ToolfoldError():
            refusal = to_http(error)
        case Refusal():
            refusal = error
        case _:
            raise error
    retry = refusal.retry_after_seconds
    return json_response(refusal.status, {"error": refusal.text}, {"Retry-After": str(retry)} if retry else None)


async def _nothing() -> None:
    """There is nothing to wait for: programs that run here are on record."""
