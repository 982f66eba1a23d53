"""Routes of the HTTP app: read a request, ask the runtime, write a response. See `docs/http.md`."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import toolfold
from toolfold.errors import ToolfoldError
from toolfold.interfaces.http import outcome_bodies, request_models
from toolfold.interfaces.http.access.auth import Caller, Paced, RefusalThrottle, RequestReader
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.async_executions import AsyncExecutions, preferred_wait
from toolfold.interfaces.http.body_reader import Intakes, wait_for_hangup
from toolfold.interfaces.http.executions import AnyResponse, ApiExecutions
from toolfold.interfaces.http.file_routes import FileRoutes, new_session
from toolfold.interfaces.http.metrics import Metrics
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.request_models import ForwardedRequest, StartRequest, specs_of
from toolfold.interfaces.http.responses import Responses, bind_path_params, json_response
from toolfold.interfaces.http.settings import HttpContext, Settings
from toolfold.interfaces.http.trainer_routes import OneShotRoutes
from toolfold.interfaces.server.local_requests import OnlyFromHere
from toolfold.ledger.base import Ledger
from toolfold.ledger.ledger_factory import is_shared
from toolfold.models import Limits, ToolSpec
from toolfold.outcome_views import escape
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from toolfold.interfaces.http.replica_forwarding import Replicas


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
    settings, metrics = settings or Settings(), Metrics()
    gate = Gate(settings, metrics)
    reader = RequestReader(settings, gate, replicas)
    interface = _HttpInterface(
        HttpContext(
            runtime=runtime, ledger=ledger, settings=settings, limits=limits or Limits(), clock=clock or ledger.now,
            replicas=replicas, metrics=metrics, gate=gate, reader=reader,
        )
    )  # fmt: skip

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
    app.state.max_connections = settings.max_connections
    app.state.runtime = runtime
    app.state.auth = reader.auth
    app.state.gate = gate
    app.state.drain = interface.executions.service.drain
    app.state.suspend = interface.suspend
    app.state.replicas = replicas
    interface.add_routes(app)
    add_pages(app, settings.base_path, toolfold.__version__)
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
            from toolfold.interfaces.http import openapi_document  # noqa: PLC0415

            self.openapi_schema = openapi_document.completed(super().openapi(), self.state.route_descriptions)
        return self.openapi_schema


class _HttpInterface:
    """State and routes of the app."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._settings = context.settings
        self._reader = context.reader
        self.is_ready = False
        self._has_ledger = True
        """At the last look; only a change is news for the log."""
        self.responses = Responses(context.settings.base_path, context.metrics)
        self._files = FileRoutes(context)
        self.executions = ApiExecutions(context)
        self.shots = OneShotRoutes(context)
        self.waits = AsyncExecutions(context, self.executions, self.responses)

    def add_routes(self, app: FastAPI) -> None:
        app.state.route_descriptions = []

        def add(method: str, path: str, endpoint: Callable[..., Awaitable[Response]]) -> None:
            base_path = self._settings.base_path
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
        settings = self._settings
        app.add_middleware(Intakes, gate=self._context.gate, settings=settings)
        if settings.is_open:
            text = "without an API key only this machine is served; configure http.keys"
            on_refusal = partial(self._context.metrics.add, "refusals", status=403)
            app.add_middleware(OnlyFromHere, text=text, on_refusal=on_refusal)
        else:
            app.add_middleware(Paced, auth=self._reader.auth, pace=RefusalThrottle(settings.refusals_per_second))

    # programs

    async def programmatic(self, request: Request) -> Response:
        """Start a program whose tools the client executes, or continue one."""
        received = await self._reader.received(request, role="read")
        body = await self._reader.read(request, received, request_models.ProgrammaticRequest)
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
        reserved_names = frozenset(spec.name for spec in self._context.runtime.tools)
        tools = specs_of(body.tools or [], reserved_names=reserved_names, most=self._settings.max_tools)
        return self.responses.respond(request, await self._start(request, body, body.code, received, tools))

    async def execute(self, request: Request) -> Response:
        """Run a program without tools of the client's."""
        is_start = "idempotency-key" not in request.headers
        received = await self._reader.received(request, may_be_in_body=True, is_start=is_start)
        body = await self._reader.read(request, received, request_models.ExecuteRequest)
        return self.responses.respond(request, await self._start(request, body, body.code, received))

    async def _start(
        self, request: Request, body: request_models.ExecuteRequest | request_models.ProgrammaticRequest, code: str,
        received: ForwardedRequest, tools: Sequence[ToolSpec] = (),
    ) -> AnyResponse:  # fmt: skip
        is_librechat = outcome_bodies.is_librechat(request.headers.get("user-agent", ""))
        lang = body.lang.lower()
        is_bash = lang == "bash" and self._context.runtime.executions.allows_bash(unless_set=is_librechat)
        if lang == "bash" and not is_bash:
            raise Refusal(400, "lang 'bash' is turned off here; set execution.languages: [python, bash], or send 'py'")
        if not is_bash and lang not in request_models.LANGUAGES:
            raise Refusal(400, f"lang {body.lang[:20]!r} cannot be run here; write Python and send 'py'")
        if is_bash and isinstance(body, request_models.ExecuteRequest) and body.args:
            code = f"set -- {shlex.join(body.args)}; {code}"  # on its first line, so that the others keep their numbers
        start = StartRequest(
            tenant=received.tenant,
            session=body.session_id or new_session(),
            code=code,
            language="bash" if is_bash else "python",
            tools=tools,
            files=body.files or [],
            timeout_seconds=self._timeout(body.timeout),
            request_id=received.request_id,
            names=request_models.names_in(received.headers),
            # As its prompt tells the model: a timeout caps one run of the sandbox, not the time of tools elsewhere.
            counts_pauses=not is_librechat,
            hangup=partial(wait_for_hangup, request),
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
        received = await self._reader.received(request)
        body = await self._reader.read(request, received, request_models.CancelRequest)
        if not body.request_id and not body.continuation_token:
            raise Refusal(400, "request_id is missing; send that of the request to cancel, or its continuation_token")
        await self.executions.cancel(
            received, tenant=received.tenant, request_id=body.request_id or "", token=body.continuation_token or ""
        )
        return json_response(202, {"status": "cancellation_requested"})

    # the server itself

    async def preload(self) -> None:
        """Prepare guests with the data libraries, while the first requests may already arrive."""
        if not self._settings.preload_data:
            return
        try:
            await self._context.runtime.executions.preload("data")
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
        ledger = self._context.ledger
        is_there = await ledger.is_there()
        if is_there != self._has_ledger:
            self._has_ledger = is_there
            _log.error("%s", _READY_AGAIN if is_there else _UNREACHABLE if is_shared(ledger) else _DELETED)
        return is_there

    async def metrics(self, request: Request) -> Response:
        """Counts for Prometheus."""
        await self._reader.tenant(request)
        guests, paused = await self._context.runtime.executions.guests(), self._context.gate.paused_now
        text = self._context.metrics.render(
            guests.nodes, paused=paused, guests=guests.count, guest_memory_bytes=guests.memory_bytes
        )
        return Response(text, media_type="text/plain; version=0.0.4")

    def _timeout(self, milliseconds: float | None) -> float:
        if milliseconds is None:
            return self._settings.timeout_seconds
        most = self._settings.max_timeout_seconds
        if not 1 <= milliseconds / 1000 <= most:
            raise Refusal(400, f"timeout is {milliseconds:g}; give 1000 to {most * 1000:g} milliseconds")
        return milliseconds / 1000


@asynccontextmanager
async def _background(work: Coroutine[object, None, None]) -> AsyncIterator[None]:
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
