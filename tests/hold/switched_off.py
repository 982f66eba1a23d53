"""`toolfold serve` without one of its mends: `python -m tests.hold.switched_off ATTACK serve ...`.

For each attack one function takes away what holds it, in this process only: the product itself has no such switch. Its
docstring says what is gone. An attack that is held all the same would prove nothing.
"""

import asyncio
import dataclasses
import math
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import jwt
import msgspec

from toolfold import check_runner
from toolfold.engines.process import cgroup, resource_watch
from toolfold.execution.pauses import PausedMemory
from toolfold.interfaces.cli import main
from toolfold.interfaces.http import app, file_routes, request_models, server_setup
from toolfold.interfaces.http.access import auth, jwt_auth, rate_limits
from toolfold.interfaces.http.body_reader import Intake
from toolfold.interfaces.server import http_server
from toolfold.interfaces.server.http_server import ConnectionLimits
from toolfold.protocol import state_machine
from toolfold.sessions.sessions import Quota
from toolfold.sources import function_schema
from toolfold.sources.mcp import bridge as bridged
from toolfold.sources.openapi import operations
from toolfold.sources.web import reply_values
from toolfold.tools import router, router_steps

CONTROLS: dict[str, Callable[[], None]] = {}


def for_attacks(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(switch_off: Callable[[], None]) -> Callable[[], None]:
        CONTROLS.update(dict.fromkeys(names, switch_off))
        return switch_off

    return add


def nothing(*_: Any, **__: Any) -> None:
    """In place of a check."""


# --- requests ----------------------------------------------------------------------------------


@for_attacks("bodies_without_a_key", "bodies_with_a_key")
def _limits_of_bodies() -> None:
    """bodies have no limit but their size, and are decoded as they come"""
    Intake._count = nothing  # type: ignore[method-assign]
    Intake._until = lambda _: math.inf  # type: ignore[method-assign]
    rate_limits.Gate.hold = nothing  # type: ignore[method-assign]
    _turns_of_large_bodies()


@for_attacks("bodies_just_allowed")
def _turns_of_large_bodies() -> None:
    """large bodies are decoded one right behind the other"""

    @asynccontextmanager
    async def at_once(*_: Any) -> AsyncIterator[None]:
        yield

    rate_limits.Gate.large_body = at_once  # type: ignore[method-assign]


@for_attacks("web_pages")
def _loopback() -> None:
    """nobody looks at Host, Origin and Content-Type"""

    async def let_in(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    app.OnlyFromHere.__call__ = let_in  # type: ignore[method-assign]
    auth.require_media_type = nothing  # type: ignore[assignment]


@for_attacks("two_ends")
def _two_ends() -> None:
    """a body may end in two ways"""

    async def let_in(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    http_server._StrictHttp.__call__ = let_in  # type: ignore[method-assign]


@for_attacks("refused_flood")
def _pace() -> None:
    """refusals are answered as fast as they are asked for"""

    async def at_once(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    auth.Paced.__call__ = at_once  # type: ignore[method-assign]
    rate_limits.Gate.expect_start = nothing  # type: ignore[method-assign]


@for_attacks("mixed_connections")
def _all_shares() -> None:
    """no pace of refusals, no turns of programs and of large bodies"""
    _pace()
    _turns_of_large_bodies()
    _turns_of_programs()


# --- connections -------------------------------------------------------------------------------


@for_attacks("idle_connections", "slow_heads")
def _patience() -> None:
    """any number of connections, each for as long as it likes"""

    def endless(**_: Any) -> ConnectionLimits:
        return ConnectionLimits(connections=100_000, head_seconds=3600.0, write_seconds=3600.0)

    server_setup.ConnectionLimits = endless  # type: ignore[assignment, misc]


@for_attacks("unread_downloads")
def _streaming() -> None:
    """a download is read into memory whole"""

    async def whole(opened: Any) -> AsyncIterator[bytes]:
        with opened:
            opened.seek(0)
            yield await asyncio.to_thread(opened.read)

    file_routes._pieces = whole


# --- programs ----------------------------------------------------------------------------------


@for_attacks("end_frames")
def _weight() -> None:
    """a message of a guest is decoded whatever it weighs"""
    state_machine.Conversation._weigh = nothing  # type: ignore[method-assign]


@for_attacks("hostile_shell")
def _resource_watch() -> None:
    """neither the kernel nor the host adds up what the processes of a bash program use"""
    cgroup.CgroupMaker._move = nothing  # type: ignore[method-assign]
    resource_watch.TreeWatch._look = nothing  # type: ignore[method-assign]


@for_attacks("large_arguments")
def _sent_bytes() -> None:
    """a program may send any number of bytes"""
    begin = state_machine.Conversation.__init__

    def without_budget(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self._left_bytes = 1 << 60

    state_machine.Conversation.__init__ = without_budget  # type: ignore[method-assign]


@for_attacks("wrong_arguments")
def _first_mistake() -> None:
    """every mistake in a call's arguments is collected"""
    function_schema.stopping_check = lambda adapter: adapter.validator.validate_python
    function_schema.sample = lambda arguments: arguments


@for_attacks("large_programs")
def _large_checks() -> None:
    """texts of any size are checked in the server's own process"""
    check_runner.LARGE_TEXT_CHARACTERS = 1 << 60  # type: ignore[misc]


@for_attacks("console_followers")
def _followers() -> None:
    """requests of one tenant, streams among them, have no limit"""
    rate_limits.Gate.enter = nothing  # type: ignore[method-assign]
    rate_limits.Gate.follow = nothing  # type: ignore[method-assign]


@for_attacks("costly_checks")
def _shares_of_checks() -> None:
    """large texts are checked two at a time, first come, first served"""
    places = asyncio.Semaphore(2)
    check_runner._ProcessSlots.of = lambda *_: places  # type: ignore[assignment, method-assign, return-value]


@for_attacks("endless_programs", "console_reruns")
def _turns_of_programs() -> None:
    """a tenant's programs all run at once"""

    @asynccontextmanager
    async def at_once(*_: Any) -> AsyncIterator[float]:
        yield 0.0

    rate_limits.Gate.turn = at_once  # type: ignore[method-assign]


@for_attacks("paused_guests")
def _paused_memory() -> None:
    """guests of paused programs keep what they hold"""
    PausedMemory.add = lambda *_: []  # type: ignore[method-assign]


# --- replies and documents of APIs -------------------------------------------------------------


@for_attacks("charset_of_replies")
def _short_list_of_charsets() -> None:
    """a reply is decoded in the event loop, by whichever codec of Python it names"""
    reply_values.codec_of = lambda content_type: content_type.partition("charset=")[2] or "utf-8"
    reply_values._LARGE_BYTES = 1 << 60  # type: ignore[misc]


@for_attacks("doubling_document")
def _bounded_documents() -> None:
    """schemas of an OpenAPI document are taken as they are"""
    operations.bound_schema = lambda schema, _: schema


# --- tools and tenants -------------------------------------------------------------------------


@for_attacks("hostile_schemas", "hostile_server")
def _expansion() -> None:
    """schemas from outside are taken as they are"""
    request_models.bound_schema = bridged.bound_schema = lambda schema, _: schema


@for_attacks("failing_tool")
def _own_breakers() -> None:
    """one breaker for all tenants"""
    wrap = router_steps.BreakerStep.wrap

    def wrap_as_one(self: Any, tool: Any, rest: Any) -> Any:
        watch = wrap(self, tool, rest)
        return lambda request: watch(
            dataclasses.replace(request, context=msgspec.structs.replace(request.context, tenant=""))
        )

    router_steps.BreakerStep.wrap = wrap_as_one


@for_attacks("many_sessions")
def _quota() -> None:
    """sessions of a tenant may keep any number of bytes together"""
    Quota._let_in = nothing  # type: ignore[method-assign]


@for_attacks("unknown_signers")
def _single_flight() -> None:
    """each token fetches the keys anew, in the threads that all requests share"""

    async def fetch(self: Any, _: str) -> Any:
        await asyncio.to_thread(self._client.get_signing_keys)
        raise jwt.PyJWKClientError("unknown signing key")

    jwt_auth.SigningKeys.of = fetch  # type: ignore[method-assign]


@for_attacks("secrets_in_errors")
def _masking() -> None:
    """errors of tools are passed on as they are"""
    router.mask_secrets = lambda text: text


if __name__ == "__main__":
    CONTROLS[sys.argv.pop(1)]()
    main()
