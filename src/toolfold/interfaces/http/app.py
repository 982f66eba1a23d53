"""Routes of the HTTP app: read a request, ask the runtime, write a response. See `docs/http.md`."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import toolfold
from toolfold.display import escape
from toolfold.errors import ToolfoldError
from toolfold.interfaces.http import render, requests
from toolfold.interfaces.http.access.auth import Authenticator, Caller, Paced, RefusalThrottle, headers_of, role_for
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.async_wait import AsyncExecutions, preferred_wait
from toolfold.interfaces.http.body import Body, Intakes, admit, decode_object, read, require_media_type, wait_for_hangup
from toolfold.interfaces.http.executions import AnyResponse, ApiExecutions
from toolfold.interfaces.http.files import FileRoutes, SessionFiles, new_session
from toolfold.interfaces.http.metrics import Metrics
from toolfold.interfaces.http.render import Hangup, Refusal
from toolfold.interfaces.http.requests import FORWARDED_HEADERS, ForwardedRequest, StartRequest, specs_of
from toolfold.interfaces.http.requests import HEADER as FORWARDED
from toolfold.interfaces.http.responses import Responses, bind_path_params, json_response
from toolfold.interfaces.http.rewards import OneShotRoutes
from toolfold.interfaces.http.settings import Role, Settings
from toolfold.interfaces.server.signals import OnlyFromHere
from toolfold.ledger.base import Ledger
from toolfold.ledger.open import is_shared
from toolfold.models import Limits, ToolSpec
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from toolfold.interfaces.http.replicas import Replicas


_log: Final = logging.getLogger(__name__)
_DELETED: Final = (
    "not ready: the ledger's file was deleted or replaced: nothing that is written now will be found; start again"
)
_UNREACHABLE: Final = "not ready: the ledger's server cannot be reached"
_READY_AGAIN: Final = "ready again: the ledger is there"


def create_app(
    runtime: Runtime, ledger: Ledger, settings: Settings | None = None, *, limits: Limits | None = None,
    clock: Callable[[], float] | None = None, replicas: Replicas | None = None,
) -> FastAPI:  # fmt: skip
    """An ASGI app over a runtime that is not entered yet; the app enters and leaves it.

    Args:
        runtime: Runs the programs; its tools are offered beside the client's.
        ledger: The one that the runtime writes to.
        settings: Keys, limits, base path.
        limits: Of one program; the request's timeout replaces the wall clock.
        clock: Seconds since 1970, for deadlines; the ledger's by default, which all replicas share.
        replicas: This process among others that share the ledger; the app opens and closes it.
    """
    interface = _HttpInterface(
        runtime, ledger, settings or Settings(), limits or Limits(), clock or ledger.now, replicas
    )

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        async with runtime, _background(interface.preload()):
            if replicas is not None:
                replicas.owner.open(runtime, interface.executions.service.lose_id)
            interface.is_ready = True
            try:
                yield
            finally:
                interface.is_ready = False
                interface.suspend()  # what still runs goes on in the next process, and is not cancelled
                await interface.waits.close()
                await interface.shots.close()
                await interface.executions.service.close()
                if replicas is not None:
                    await replicas.close()

    app = _App(
        title="toolfold",
        version=toolfold.__version__,
        lifespan=life,
        # Of our own, both: FastAPI's page loads its script from another host, and its document would be made at once.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.max_connections = interface.settings.max_connections
    app.state.runtime = runtime
    app.state.auth = interface.auth
    app.state.gate = interface.gate
    app.state.drain = interface.executions.service.drain
    app.state.suspend = interface.suspend
    app.state.replicas = replicas
    interface.add_routes(app)
    add_pages(app, interface.settings.base_path, toolfold.__version__)
    interface.add_guards(app)
    for error in (Refusal, ToolfoldError, HTTPException, OSError):
        app.add_exception_handler(error, interface.responses.refuse)
    app.add_exception_handler(Exception, interface.responses.break_down)
    return app


class _App(FastAPI):
    """With a document of our own routes and answers, which is made when it is first asked for."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            # Imported here: few ask a server for it, and its models are most of a megabyte.
            from toolfold.interfaces.http import openapi  # noqa: PLC0415

            self.openapi_schema = openapi.completed(super().openapi(), self.state.route_descriptions)
        return self.openapi_schema


class _HttpInterface:
    """State and routes of the app."""

    def __init__(
        self, runtime: Runtime, ledger: Ledger, settings: Settings, limits: Limits, clock: Callable[[], float],
        replicas: Replicas | None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self._replicas = replicas
        self.is_ready = False
        self._ledger = ledger
        self._has_ledger = True
        """At the last look; only a change is news for the log."""
        self._runtime = runtime
        self.auth = Authenticator(settings)
        self.gate = Gate(settings)
        self._metrics = Metrics()
        self.responses = Responses(settings.base_path, self._metrics)
        self._files = FileRoutes(
            SessionFiles(runtime.sessions), gate=self.gate, metrics=self._metrics, tenant=self._tenant
        )
        self.executions = ApiExecutions(
            runtime, settings, limits=limits, gate=self.gate, metrics=self._metrics, clock=clock, replicas=replicas
        )  # fmt: skip
        self.shots = OneShotRoutes(runtime, settings, limits=limits, gate=self.gate, metrics=self._metrics, reader=self)
        self.waits = AsyncExecutions(
            runtime, ledger, self.executions, self.responses, most_seconds=settings.max_timeout_seconds,
            received=self.received,
        )  # fmt: skip

    def add_routes(self, app: FastAPI) -> None:
        app.state.route_descriptions = []

        def add(method: str, path: str, endpoint: Callable[..., Awaitable[Response]]) -> None:
            base_path = self.settings.base_path
            endpoint = bind_path_params(endpoint) if "{" in path else endpoint
            app.state.route_descriptions.append((method, base_path, path, endpoint))
            # FastAPI would look for dependencies that our endpoints do not have: a tenth of a continuation.
            route = app.router.add_route if method == "POST" else app.add_api_route
            route(f"{base_path}{path}", endpoint, methods=[method], include_in_schema=False)

        add("POST", "/exec/programmatic", self.programmatic)
        add("POST", "/exec/programmatic/cancel", self.cancel)
        add("POST", "/exec", self.execute)
        add("POST", "/exec/batch", self.shots.batch)
        add("POST", "/run_code", self.shots.run_code)
        add("GET", "/executions/{execution_id}", self.waits.get)
        add("GET", "/executions/{execution_id}/output", self.waits.output)
        add("DELETE", "/executions/{execution_id}", self.waits.delete)
        add("POST", "/upload", self._files.upload)
        add("POST", "/upload/batch", self._files.upload_batch)
        add("GET", "/files/{session}", self._files.list_files)
        add("GET", "/download/{session}/{file}", self._files.download)
        add("GET", "/sessions/{session}/objects/{file}", self._files.file_facts)
        add("DELETE", "/sessions/{session}/objects/{file}", self._files.delete_file)
        add("GET", "/health", self.health)
        add("GET", "/ready", self.ready)
        add("GET", "/metrics", self.metrics)

    def suspend(self) -> None:
        """Stop what runs, because the server does not wait any longer."""
        self.executions.service.suspend()
        self.shots.suspend()

    def add_guards(self, app: FastAPI) -> None:
        """Middleware of every request; the last one added is the outermost."""
        app.add_middleware(Intakes, gate=self.gate, settings=self.settings)
        if self.settings.is_open:
            text = "without an API key only this machine is served; configure http.keys"
            on_refusal = partial(self._metrics.add, "refusals", status=403)
            app.add_middleware(OnlyFromHere, text=text, on_refusal=on_refusal)
        else:
            app.add_middleware(Paced, auth=self.auth, pace=RefusalThrottle(self.settings.refusals_per_second))

    # programs

    async def programmatic(self, request: Request) -> Response:
        """Start a program whose tools the client executes, or continue one."""
        received = await self.received(request, role="read")
        body = await self.read(request, received, requests.ProgrammaticRequest)
        Caller(received.tenant, received.roles).require_for(body)
        if body.continuation_token is not None:
            execution_id = self.executions.id_of(body.continuation_token, received.tenant)
            work = self.executions.continue_execution(
                body.continuation_token, body.tool_results or [], decisions=body.decisions or [],
                tenant=received.tenant, session=body.session_id, request=received,
            )  # fmt: skip
            wait = preferred_wait(request)
            if wait is None:
                self.waits.forget(execution_id)
                return self.responses.respond(request, await work)
            answer = await self.waits.run(execution_id, received.tenant, body.session_id or "", work, wait)
            return self.responses.respond(request, answer)
        if body.code is None:
            raise Refusal(400, "code is missing; send 'code' and 'tools', or 'continuation_token' and 'tool_results'")
        reserved_names = frozenset(spec.name for spec in self._runtime.tools)
        tools = specs_of(body.tools or [], reserved_names=reserved_names, most=self.settings.max_tools)
        return self.responses.respond(request, await self._start(request, body, body.code, received, tools))

    async def execute(self, request: Request) -> Response:
        """Run a program without tools of the client's."""
        received = await self.received(request, may_be_in_body=True, is_start="idempotency-key" not in request.headers)
        body = await self.read(request, received, requests.ExecuteRequest)
        return self.responses.respond(request, await self._start(request, body, body.code, received))

    async def _start(
        self, request: Request, body: requests.ExecuteRequest | requests.ProgrammaticRequest, code: str,
        received: ForwardedRequest, tools: Sequence[ToolSpec] = (),
    ) -> AnyResponse:  # fmt: skip
        if body.lang.lower() not in requests.LANGUAGES:
            raise Refusal(400, f"lang {body.lang[:20]!r} cannot be run here; write Python and send 'py'")
        start = StartRequest(
            tenant=received.tenant,
            session=body.session_id or new_session(),
            code=code,
            tools=tools,
            files=body.files or [],
            timeout_seconds=self._timeout(body.timeout),
            request_id=received.request_id,
            options=body.options(),
            # As its prompt tells the model: a timeout caps one run of the sandbox, not the time of tools elsewhere.
            counts_pauses=not render.is_librechat(request.headers.get("user-agent", "")),
            hangup=self.hangup(request),
        )
        key, wait = request.headers.get("idempotency-key"), preferred_wait(request)
        if wait is None:
            return await self.executions.start(start, key, received)
        key = key or secrets.token_hex(16)
        start = self.executions.with_execution_id(start, key, received)
        await self.executions.claim(start.execution_id)  # before it is answered: any replica is to find it from then on
        work = self.executions.start_claimed(start, key, received)
        return await self.waits.run(start.execution_id, start.tenant, start.session, work, wait)

    async def cancel(self, request: Request) -> Response:
        """End an execution: by the id that its request had, or by its token."""
        received = await self.received(request)
        body = await self.read(request, received, requests.CancelRequest)
        if not body.request_id and not body.continuation_token:
            raise Refusal(400, "request_id is missing; send that of the request to cancel, or its continuation_token")
        await self.executions.cancel(
            received, tenant=received.tenant, request_id=body.request_id or "", token=body.continuation_token or ""
        )
        return json_response(202, {"status": "cancellation_requested"})

    async def received(
        self, request: Request, *, may_be_in_body: bool = False, is_start: bool = False, role: Role | None = None
    ) -> ForwardedRequest:
        """A request with its tenant, which another replica may have authenticated; its body is read last."""
        request_headers = headers_of(request)
        headers = {name: request_headers[name] for name in FORWARDED_HEADERS if request_headers.get(name)}
        path, method = self.responses.path(request), request.method
        if method != "POST" and request.url.query:
            path = f"{path}?{request.url.query}"
        sender = None
        if self._replicas is not None and (signed := request_headers.get(FORWARDED)):
            unread = ForwardedRequest(path=path, tenant="", headers=headers, method=method)
            sender = self._replicas.receive(signed, unread)
            caller = Caller(sender.tenant)
        else:
            key = await self._key_in_body(request) if may_be_in_body and self.auth.needs_body(request_headers) else ""
            caller = await self.auth.caller(request_headers, key_in_body=key)
        admit(request, caller.tenant)
        caller.require(role or role_for(method))
        if is_start:
            self.gate.expect_start(caller.tenant)
        body = b""
        if method == "POST":
            require_media_type(request, "application/json")
            body = await request.body()
            if sender is not None:
                sender.check(body)
        return ForwardedRequest(
            path=path, tenant=caller.tenant, roles=caller.roles, headers=headers, method=method, body=body,
            is_from_replica=sender is not None,
        )  # fmt: skip

    async def read(self, request: Request, received: ForwardedRequest, model: type[Body]) -> Body:
        return await read(received.body, model, self.gate, received.tenant, self.hangup(request))

    def hangup(self, request: Request) -> Hangup:
        return partial(wait_for_hangup, request)

    async def _key_in_body(self, request: Request) -> str:
        try:
            require_media_type(request, "application/json")
            key = decode_object(await request.body()).get("LIBRECHAT_CODE_API_KEY")
        except Refusal as refusal:
            if refusal.status in (408, 413):
                raise
            return ""  # who may not come in is told that, and no more
        return key if isinstance(key, str) else ""

    async def _tenant(self, request: Request) -> str:
        """The tenant of a request, by its headers; its body counts as the tenant's from then on."""
        caller = await self.auth.caller(request.headers)
        admit(request, caller.tenant)
        caller.require(role_for(request.method))
        return caller.tenant

    # the server itself

    async def preload(self) -> None:
        """Prepare guests with the data libraries, while the first requests may already arrive."""
        if not self.settings.preload_data:
            return
        try:
            await self._runtime.executions.preload("data")
        except ToolfoldError as error:
            _log.warning("the data libraries are not preloaded: %s", error)

    async def health(self) -> Response:
        """The process is there."""
        return json_response(200, {"status": "ok", "version": toolfold.__version__})

    async def ready(self) -> Response:
        """It takes programs; 503 before its start is done, while it drains, and while its ledger is gone."""
        is_ready = self.is_ready and await self._ledger_is_there()
        return json_response(200 if is_ready else 503, {"status": "ready" if is_ready else "not ready"})

    async def _ledger_is_there(self) -> bool:
        is_there = await self._ledger.is_there()
        if is_there != self._has_ledger:
            self._has_ledger = is_there
            _log.error("%s", _READY_AGAIN if is_there else _UNREACHABLE if is_shared(self._ledger) else _DELETED)
        return is_there

    async def metrics(self, request: Request) -> Response:
        """Counts for Prometheus."""
        await self._tenant(request)
        guests = await self._runtime.executions.guests()
        text = self._metrics.render(
            guests.nodes, paused=self.gate.paused_now, guests=guests.count, guest_memory_bytes=guests.memory_bytes
        )
        return Response(text, media_type="text/plain; version=0.0.4")

    def _timeout(self, milliseconds: float | None) -> float:
        if milliseconds is None:
            return self.settings.timeout_seconds
        most = self.settings.max_timeout_seconds
        if not 1 <= milliseconds / 1000 <= most:
            raise Refusal(400, f"timeout is {milliseconds:g}; give 1000 to {most * 1000:g} milliseconds")
        return milliseconds / 1000


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


# ----------------------------------------------------------------------------------------------------
# Two pages for people: what this server is, and its API, which is there for programs, too.
#
# Both are whole as they are sent: no script, no other host.

_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "code,pre{font-family:monospace}pre{background:#f4f4f4;padding:.7em;overflow:auto}"
    "summary{cursor:pointer}details{margin:.6em 0}b{display:inline-block;min-width:4.5em}"
)
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def add_pages(app: FastAPI, base_path: str, version: str) -> None:
    """`/openapi.json`; `/` and `/docs`, which say nothing that it does not."""
    build_lock = asyncio.Lock()

    # Not coroutines of a class: they share nothing but the app.
    async def index(_: Request) -> Response:
        return _page("toolfold", "".join(_index(base_path, version)))

    # In another thread: it is made when it is first asked for, and others are served meanwhile.
    async def build_document() -> dict[str, Any]:
        async with build_lock:
            return await asyncio.to_thread(app.openapi)

    async def document(_: Request) -> Response:
        return json_response(200, await build_document())

    async def docs(_: Request) -> Response:
        return _page("toolfold API", "".join(_docs(await build_document(), base_path)))

    app.add_api_route(base_path or "/", index, methods=["GET"], include_in_schema=False)
    if base_path:
        app.add_api_route(f"{base_path}/", index, methods=["GET"], include_in_schema=False)
    app.add_api_route(f"{base_path}/docs", docs, methods=["GET"], include_in_schema=False)
    app.router.add_route(f"{base_path}/openapi.json", document, include_in_schema=False)


def _page(title: str, body: str) -> Response:
    text = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>{body}'
    return Response(text, media_type="text/html", headers=_HEADERS)


def _index(base_path: str, version: str) -> Iterator[str]:
    yield f"<h1>toolfold {escape(version)}</h1>"
    yield "<p>This server runs programs that language models write, in a sandbox, and calls their tools.</p><ul>"
    for path, text in (
        ("/docs", "the API, for people"),
        ("/openapi.json", "the API, for programs"),
        ("/health", "whether the process answers"),
        ("/ready", "whether it takes programs"),
    ):
        yield f'<li><a href="{base_path}{path}">{base_path}{path}</a>: {text}</li>'
    yield "</ul>"


# Any, here and below: parts of an OpenAPI document.
def _docs(document: Mapping[str, Any], base_path: str) -> Iterator[str]:
    yield f"<h1>API</h1><p>As one document: <a href='{base_path}/openapi.json'>{base_path}/openapi.json</a></p>"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(method, path, operation)
    yield "<h2>Schemas</h2>"
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        yield f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{_markup(schema)}</details>"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    summary = escape(operation.get("summary", ""))
    yield f"<details><summary><b>{method.upper()}</b><code>{escape(path)}</code> {summary}</summary>"
    if text := operation.get("description"):
        yield f"<p>{escape(text)}</p>"
    for title, key in (("Parameters", "parameters"), ("Body", "requestBody"), ("Responses", "responses")):
        if part := operation.get(key):
            yield f"<h4>{title}</h4>{_markup(part)}"
    yield "</details>"


def _markup(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1, ensure_ascii=False))}</pre>"
