"""Console app: its page, its API routes, and the actions that they offer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

import toolfold
from toolfold.config.build import approval_of, declared_tools, ledger_of, runtime_settings
from toolfold.config.model import Config
from toolfold.errors import ToolfoldError, UsageError, install_extra
from toolfold.execution.registry import BackgroundExecution
from toolfold.interfaces.config_runtime import open_runtime
from toolfold.interfaces.console import json_shapes
from toolfold.interfaces.console.access import (
    COOKIE,
    COOKIE_SECONDS,
    Access,
    Guard,
    Viewer,
    hidden_tools,
    require_visible,
)
from toolfold.interfaces.console.live_updates import MOST_BODY_BYTES, EventStreams, LedgerWatcher, Routes, read_body
from toolfold.interfaces.console.query_routes import ProgramRoutes, QueryRoutes
from toolfold.interfaces.http.access.continuation_tokens import signing_key
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.body_reader import Intakes, wait_for_hangup
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.responses import json_response, refusal_of
from toolfold.interfaces.http.settings import Settings
from toolfold.interfaces.server.local_requests import is_loopback
from toolfold.ledger.base import Ledger
from toolfold.ledger.remote_approval import LedgerApproval, decide
from toolfold.models import Outcome, Prices, ProgramOptions
from toolfold.runtime import Runtime
from toolfold.service.owners import spawn
from toolfold.tools.tool import Decision, Tool

_log: Final = logging.getLogger(__name__)

# ----------------------------------------------------------------------------------------------------
# From a config to a console: of its own, or beside the HTTP interface. Listens to nothing.


def open_console(config: Config, *, modules: Sequence[Tool] = (), may_act: bool = True) -> tuple[FastAPI, Ledger, str]:
    """The app, its ledger, which the caller closes, and the token that lets one browser in."""
    ledger = ledger_of(config)
    if not ledger.is_lasting:
        raise UsageError("an in-memory ledger cannot be read by another process; name a file or a server")
    # Programs that run again here may ask: whoever looks at this page is asked.
    approve = approval_of(config, ledger) or LedgerApproval(ledger, wait_seconds=config.approvals_wait)
    settings = msgspec.structs.replace(runtime_settings(config), ledger=ledger, interface="console", approve=approve)
    if config.servers and find_spec("mcp") is None:
        # Looking needs none of them.
        _log.warning("programs that run again here cannot call the config's servers; %s", install_extra("mcp"))
        config = config.model_copy(update={"servers": ()})
    runtime = open_runtime(config, [*modules, *declared_tools(config)], settings)
    access = Access(signing_key(config, ledger, "console"), may_act=may_act)
    app = create_console(
        runtime, ledger, access, hide_arguments=config.console.hide_arguments, price_table=config.price_table
    )
    return app, ledger, access.new_token()


def mount_console(app: FastAPI, config: Config, ledger: Ledger) -> str:
    """Add the console at `/console`, where tenants sign in with their keys; the path of a link for the operator."""
    has_keys = bool(config.http.keys) or config.http.jwt is not None
    access = Access(signing_key(config, ledger, "console"), auth=app.state.auth if has_keys else None)
    only_here = is_loopback(config.http.host)
    console = create_console(
        app.state.runtime, ledger, access, only_here=only_here, hide_arguments=config.console.hide_arguments,
        gate=app.state.gate, price_table=config.price_table,
    )  # fmt: skip
    app.mount(f"{config.http.base_path}/console", console)
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def life(of: FastAPI) -> AsyncIterator[None]:
        async with outer(of):
            yield
            # Its followers go before the ledger does.
            await console.state.watch.close()

    app.router.lifespan_context = life
    _describe(app, console, f"{config.http.base_path}/console")
    return f"/console/login?token={access.new_token()}"


def _describe(app: FastAPI, console: FastAPI, prefix: str) -> None:
    """Add the console's routes to the OpenAPI document of the server."""
    server_document = app.openapi

    def openapi() -> dict[str, Any]:
        document = server_document()
        if f"{prefix}/api/executions" not in document["paths"]:
            own = console.openapi()
            document["paths"] |= {f"{prefix}{path}": item for path, item in own["paths"].items()}
            for kind, components in own.get("components", {}).items():
                existing = document.setdefault("components", {}).setdefault(kind, {})
                existing |= {name: shape for name, shape in components.items() if name not in existing}
        return document

    # As FastAPI documents it: the method is an attribute of the app.
    app.openapi = openapi  # type: ignore[method-assign]


# ----------------------------------------------------------------------------------------------------
# What the console's API lets people do: decide, cancel, check, run again, try a tool.

_SETTLE_SECONDS: Final = 0.3
_TRIED_SECONDS: Final = 60.0


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision on one call, with what the person was shown."""

    execution_id: str
    epoch: int
    call_id: int
    digest: str
    approved: bool
    reason: str = ""
    arguments: dict[str, Any] | None = None
    covers: Literal["call", "arguments", "tool"] = "call"


class _Choices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    decisions: list[Choice]


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    language: Literal["python", "bash"] = "python"


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    arguments: dict[str, Any]


@dataclass(eq=False)
class Actions(Routes):
    """The routes that change something: each needs the right to act."""

    _reruns: set[asyncio.Task[Any]] = field(default_factory=set)

    async def decide(self, request: Request) -> Response:
        """Approve or deny calls that wait.

        `{"decisions": [{"execution_id", "epoch", "call_id", "digest", "approved"}]}`: all but `approved` as the
        question has them; `reason`, changed `arguments` and `covers` may be given. The first decision on a call
        counts: `results` says of each whether it was this one.
        """
        viewer = await self._access.actor(request, "approve")
        body = await read_body(request, _Choices)
        if not 0 < len(body.decisions) <= 1000:
            raise Refusal(400, "send 1 to 1,000 decisions")
        return json_response(200, {"results": [await self._apply_choice(viewer, choice) for choice in body.decisions]})

    async def _apply_choice(self, viewer: Viewer, choice: Choice) -> dict[str, Any]:
        reason = await self._decide(viewer, choice)
        result = {"execution_id": choice.execution_id, "call_id": choice.call_id, "counts": not reason}
        return {**result, "why": reason} if reason else result

    async def _decide(self, viewer: Viewer, choice: Choice) -> str:
        """Why the choice does not count; empty if it does."""
        live = self._watch.live.get(choice.execution_id)
        if live is None or viewer.tenant not in (None, live.start_record.tenant):
            return "the execution has ended or does not exist"
        question = live.questions.get(choice.call_id)
        if question is None:
            return "the call is no longer pending"
        if choice.epoch != live.epoch:
            return "another process has taken over the program; reload and decide again"
        if choice.digest != json_shapes.of_question(question, hidden=True)["digest"]:
            return "the arguments are not the ones that were shown"
        try:
            decision = Decision(
                approved=choice.approved, reason=choice.reason, arguments=choice.arguments, covers=choice.covers,
                by=viewer.name,
            )  # fmt: skip
        except UsageError as error:
            return str(error)
        is_first = await decide(
            self._ledger, choice.execution_id, choice.epoch, choice.call_id, decision, choice.digest
        )
        return "" if is_first else "the call was already decided, or its program has ended"

    async def cancel(self, request: Request, execution_id: str) -> Response:
        """End an execution: at once if it runs here, elsewhere at its next word to the ledger."""
        viewer = await self._access.actor(request, "run")
        history = require_visible(viewer, await self._ledger.load(execution_id), execution_id)
        if history.state == "ended":
            raise Refusal(409, f"execution {execution_id!r} has ended")
        if execution_id in self._runtime.executions.ids:
            await self._runtime.executions.cancel(execution_id)
        elif not await self._runtime.executions.end_recorded(execution_id):
            raise Refusal(409, f"execution {execution_id!r} is running on a replica; cancel it there")
        return json_response(202, {"status": "cancelled"})

    async def check(self, request: Request) -> Response:
        """What the static check says of a program, `{"text": ..., "language": ...}`; it is not run."""
        viewer = await self._access.actor(request, "run")
        program = await read_body(request, _Text)
        hidden, tenant = hidden_tools(self._runtime, viewer), viewer.tenant or ""
        problem = await self._runtime.check(program.text, hidden=hidden, tenant=tenant, language=program.language)
        return json_response(200, {"problem": json_shapes.of_problem(problem)})

    async def rerun(self, request: Request, execution_id: str) -> Response:
        """Run a corrected program, `{"text": ...}`: calls that the earlier one made get the replies they got there.

        It counts as a program of the same tenant: 429 where that may not start another.
        """
        viewer = await self._access.actor(request, "run")
        history = require_visible(viewer, await self._ledger.load(execution_id), execution_id)
        text = (await read_body(request, _Text)).text
        tool_names = {spec.name for spec in self._runtime.tools}
        calls = () if history.outcome is None else history.outcome.calls
        missing = sorted({record.name for record in calls} - tool_names)
        if missing:
            names = ", ".join(map(repr, missing[:5]))
            raise Refusal(409, f"this console does not have the tools {names}; start it with the program's own config")
        start = history.start_record
        self._gate.start(start.tenant)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._gate.turn(start.tenant, partial(wait_for_hangup, request)))
            started = await self._runtime.start(
                text, background=True, options=ProgramOptions.to_rerun(start, repeat=())
            )
            spawn(_until_over(started, stack.pop_all()), self._reruns)
        step = await started.wait(_SETTLE_SECONDS)
        # The page shows its record, which begins once there is a sandbox; the first of a language has to wait for it.
        while step is None and await self._ledger.load(started.id) is None:
            step = await started.wait(_SETTLE_SECONDS)
        # One that was rejected has an id of its own: nothing of it ran.
        new_id = step.execution_id if isinstance(step, Outcome) else started.id
        return json_response(202, {"execution_id": new_id})

    async def call(self, request: Request, name: str) -> Response:
        """Try a tool: one direct call, `{"arguments": {...}}`, through the router, on record."""
        viewer = await self._access.actor(request, "run")
        if viewer.tenant is not None:
            # A direct call is nobody's: no rule on who may call what would hold it.
            raise Refusal(403, "only the operator of this console can try tools; call the tool in a program")
        body = await read_body(request, _Arguments)
        try:
            async with asyncio.timeout(_TRIED_SECONDS):
                reply = await self._runtime.call(name, body.arguments)
        except TimeoutError as error:
            raise Refusal(504, f"{name!r} did not answer within {_TRIED_SECONDS:g} s") from error
        result = {
            "error": reply.error,
            "reply": None if reply.error is not None else json_shapes.fold_value(reply.value),
        }
        return json_response(200, result)


async def _until_over(started: BackgroundExecution, turn: AsyncExitStack) -> None:
    """Hold a turn as long as a program runs, whether or not anybody waits for it."""
    async with turn:
        with suppress(ToolfoldError):  # told to whoever looks at its record
            await started.wait()


_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
_STANDALONE: Final = Settings(max_connections=200, max_body_bytes=MOST_BODY_BYTES, running=32)
"""One person's console: reruns that wait for this person do not hold up others of theirs."""
_READ: Final = "looking"
_ACT: Final = "acting"


def create_console(
    runtime: Runtime, ledger: Ledger, access: Access, *, only_here: bool = True, hide_arguments: bool = False,
    gate: Gate | None = None, price_table: Mapping[str, Prices] = MappingProxyType({}),
) -> FastAPI:  # fmt: skip
    """An ASGI app over a runtime and its ledger.

    `only_here` refuses requests that do not name this machine as their host; `hide_arguments` also hides replies,
    values and error texts. The `gate` is that of the server which enters the runtime; without one, the app does.
    The `price_table` is for `Prices.find`.
    """
    is_owner = gate is None
    watch = LedgerWatcher(ledger)
    gate = gate or Gate(_STANDALONE)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        async with runtime if is_owner else nullcontext():
            yield
            await watch.close()

    app = FastAPI(
        title="toolfold console", version=toolfold.__version__,
        description="The console's data, for your own programs. Send the browser's session cookie or an API key.",
        lifespan=life, openapi_url="/api/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    parts = (ledger, watch, runtime, access, gate, hide_arguments, price_table)
    _add_api(app, QueryRoutes(*parts), Actions(*parts), EventStreams(*parts), ProgramRoutes(*parts))
    _Pages(access).add(app)
    if is_owner:
        app.add_middleware(Intakes, gate=gate, settings=_STANDALONE)
    app.add_middleware(Guard, only_here=only_here)
    for error in (Refusal, ToolfoldError, HTTPException):
        app.add_exception_handler(error, _refuse)
    app.state.watch = watch
    # For `interfaces.http.setup`, which every interface that listens uses.
    app.state.max_connections = _STANDALONE.max_connections
    app.state.replicas = None
    app.state.drain = _no_drain
    app.state.suspend = lambda: None
    return app


def _add_api(app: FastAPI, queries: QueryRoutes, actions: Actions, streams: EventStreams, saved: ProgramRoutes) -> None:
    def add(method: str, path: str, endpoint: Callable[..., Awaitable[Response]], tag: str = _READ) -> None:
        words = (endpoint.__doc__ or "").strip()
        app.add_api_route(
            f"/api{path}", endpoint, methods=[method], response_class=Response, tags=[tag],
            summary=words.partition("\n")[0], description=words,
        )  # fmt: skip

    add("GET", "/executions", queries.executions)
    add("GET", "/executions/{execution_id}", queries.execution)
    add("GET", "/executions/{execution_id}/events", streams.of_execution)
    add("GET", "/executions/{execution_id}/calls/{call_id}", queries.call)
    add("GET", "/executions/{execution_id}/files/{name:path}", queries.file)
    add("GET", "/executions/{execution_id}/download", queries.download)
    add("GET", "/events", streams.of_all)
    add("GET", "/approvals", queries.approvals)
    add("GET", "/overview", queries.overview)
    add("GET", "/savings", queries.savings)
    add("GET", "/tools", queries.tools)
    add("GET", "/programs", saved.programs)
    add("GET", "/executions/{execution_id}/parameters", saved.parameters)
    add("POST", "/executions/{execution_id}/save", saved.save, _ACT)
    add("POST", "/programs/{name}/test", saved.test, _ACT)
    add("POST", "/programs/{name}/accept", saved.accept, _ACT)
    add("POST", "/programs/{name}/reject", saved.reject, _ACT)
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
        try:
            cookie = self._access.admit(token)
        except Refusal:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            page = await self.file("expired.html")
            page.status_code = 403
            return page
        response = RedirectResponse(f"{request.scope.get('root_path', '')}/", status_code=303)
        return _with_cookie(response, request, cookie)

    async def login_with_key(self, request: Request) -> Response:
        key = (await request.body())[:4096].decode("utf-8", "replace").strip()
        cookie = await self._access.admit_key(request, key)
        return _with_cookie(json_response(200, {"status": "ok"}), request, cookie)

    async def page(self) -> Response:
        return await self.file("index.html")

    async def file(self, name: str) -> Response:
        body = self._files.get(name)
        if body is None:
            raise Refusal(404, "no such file")
        headers = {"Cache-Control": "no-cache"}
        return Response(body, media_type=_TYPES[Path(name).suffix], headers=headers)


def _with_cookie(response: Response, request: Request, cookie: str) -> Response:
    path, is_secure = request.scope.get("root_path", "") or "/", request.url.scheme == "https"
    response.set_cookie(
        COOKIE, cookie, max_age=COOKIE_SECONDS, path=path, httponly=True, samesite="strict", secure=is_secure
    )
    return response


async def _refuse(_: Request, error: Exception) -> Response:
    refusal = refusal_of(error)
    retry = refusal.retry_after_seconds
    return json_response(refusal.status, {"error": refusal.text}, {"Retry-After": str(retry)} if retry else None)


async def _no_drain() -> None:
    """There is nothing to wait for: programs that run here are on record."""
