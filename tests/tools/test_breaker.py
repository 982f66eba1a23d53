"""Leaving a broken tool alone for a while."""

import asyncio
import email.message
import errno
import socket
import types
import urllib.error
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.tools.support import FakeClock, Planned, made, router_of, serve, serve_in
from toolfold.errors import (
    AgentUnreachable,
    ToolArgumentsInvalid,
    ToolError,
    ToolFailed,
    ToolRefused,
    ToolUnreachable,
)
from toolfold.models import ReplyMeta
from toolfold.tools import Router
from toolfold.tools.router_steps import Breaker
from toolfold.tools.tool import CallContext


async def broken_router(call: Any, clock: FakeClock, **options: Any) -> Router:
    """Five failures in a row."""
    router = router_of(made(call), made(Planned("fine"), "y"), clock=clock, **options)
    for _ in range(5):
        await serve(router)
    return router


async def test_after_five_failures_calls_fail_at_once_and_say_until_when() -> None:
    clock, call = FakeClock(), Planned(ConnectionError("down"))
    router = router_of(made(call), clock=clock)

    replies = [await serve(router) for _ in range(6)]
    clock.seconds += 18.5
    later = await serve(router)

    assert [reply.error for reply in replies] == [
        *["'x' failed: down"] * 5,
        "'x' failed 5 times in a row and is not called until 30 s from now",
    ]
    assert later.error == "'x' failed 5 times in a row and is not called until 12 s from now"
    assert [reply.meta for reply in replies] == [
        *[None] * 4,
        ReplyMeta(breaker="opened"),
        ReplyMeta(attempts=0, breaker="open"),
    ]
    assert call.calls == 5


async def test_other_tools_are_called_as_ever() -> None:
    router = await broken_router(Planned(ConnectionError("down")), FakeClock())

    assert (await serve(router, "y")).value == "fine"


async def test_when_its_time_is_up_one_call_that_works_closes_it() -> None:
    clock, call = FakeClock(), Planned(*[ConnectionError("down")] * 5, "back")
    router = await broken_router(call, clock)
    clock.seconds += 30

    replies = [await serve(router) for _ in range(2)]

    assert [(reply.value, reply.meta) for reply in replies] == [("back", ReplyMeta(breaker="closed")), ("back", None)]


async def test_when_its_time_is_up_one_call_that_fails_opens_it_again() -> None:
    clock, call = FakeClock(), Planned(ConnectionError("down"))
    router = await broken_router(call, clock)
    clock.seconds += 30

    replies = [await serve(router) for _ in range(2)]

    assert [(reply.error, reply.meta) for reply in replies] == [
        ("'x' failed: down", ReplyMeta(breaker="opened")),
        ("'x' failed 6 times in a row and is not called until 30 s from now", ReplyMeta(attempts=0, breaker="open")),
    ]
    assert call.calls == 6


async def test_only_one_call_tries_and_the_others_are_told() -> None:
    clock, gate, calls = FakeClock(), asyncio.Event(), []

    async def down_then_slow(arguments: Mapping[str, Any]) -> str:
        calls.append(1)
        if len(calls) <= 5:
            raise ConnectionError("down")
        await gate.wait()
        return "back"

    router = await broken_router(down_then_slow, clock)
    clock.seconds += 31
    probe = asyncio.create_task(serve(router))
    await asyncio.sleep(0)

    other = await serve(router)
    gate.set()

    assert other.error == "'x' failed 5 times in a row and is being tried by another call now"
    assert (await probe).value == "back"
    assert len(calls) == 6


async def test_a_cancelled_try_leaves_the_next_call_its_chance() -> None:
    clock, started, calls = FakeClock(), asyncio.Event(), []

    async def down_then_stuck_then_back(arguments: Mapping[str, Any]) -> str:
        calls.append(1)
        if len(calls) <= 5:
            raise ConnectionError("down")
        if len(calls) == 6:
            started.set()
            await asyncio.Event().wait()
        return "back"

    router = await broken_router(down_then_stuck_then_back, clock)
    clock.seconds += 31
    probe = asyncio.create_task(serve(router))
    await started.wait()
    probe.cancel()
    await asyncio.wait([probe])

    assert (await serve(router)).value == "back"


async def test_a_success_in_between_starts_the_count_again() -> None:
    down = ConnectionError("down")
    call = Planned(*[down] * 4, "up", *[down] * 4, "up")
    router = router_of(made(call), clock=FakeClock())

    replies = [await serve(router) for _ in range(10)]

    assert [reply.value for reply in replies] == [*[None] * 4, "up", *[None] * 4, "up"]
    assert call.calls == 10


@pytest.mark.parametrize("error", [ToolRefused("no"), ToolArgumentsInvalid("no"), asyncio.CancelledError()])
async def test_what_is_no_fault_of_the_tool_does_not_count(error: BaseException) -> None:
    call = Planned(*[error] * 9, "fine")
    router = router_of(made(call), clock=FakeClock())

    replies = [await serve(router) for _ in range(10)]

    assert (replies[-1].value, replies[-1].meta, call.calls) == ("fine", None, 10)


class OfLibrary(Exception):
    """As client libraries have them: the status on the error, or on its response."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("from a library")
        self.__dict__.update(fields)


class ServerDisconnectedError(Exception):
    """As of a library that is not installed here."""


class PrinterLost(ConnectionError):
    """Decides for itself."""

    tool_unavailable = False


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("too slow"),
        ConnectionResetError("lost"),
        OSError(errno.EHOSTUNREACH, "no route"),
        socket.gaierror(-2, "no such host"),
        urllib.error.URLError(ConnectionRefusedError("nobody there")),
        urllib.error.HTTPError("http://x", 503, "busy", email.message.Message(), None),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("server disconnected"),
        httpx2.HTTPStatusError("bad gateway", request=httpx2.Request("GET", "http://x"), response=httpx2.Response(502)),
        OfLibrary(status=500),
        OfLibrary(response=types.SimpleNamespace(status_code=504)),
        OfLibrary(tool_unavailable=True),
        ServerDisconnectedError("gone"),
        caused(RuntimeError("the database is down"), ConnectionRefusedError("refused")),
        caused(ToolError("no answer"), TimeoutError()),
        ExceptionGroup("several", [ValueError("one"), ConnectionError("two")]),
        ToolUnreachable("the server is away"),
        AgentUnreachable("no card"),
    ],
)
async def test_an_error_that_says_that_the_tool_is_unavailable_counts(error: Exception) -> None:
    call = Planned(error)
    router = router_of(made(call, retry="never"), clock=FakeClock())

    replies = [await serve(router) for _ in range(6)]

    assert (replies[4].meta, replies[5].meta) == (ReplyMeta(breaker="opened"), ReplyMeta(attempts=0, breaker="open"))
    assert call.calls == 5


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such customer"),
        KeyError("c-17"),
        ToolError("no such customer"),
        ToolFailed("no such row"),
        FileNotFoundError(errno.ENOENT, "no such file", "a.csv"),
        PermissionError(errno.EACCES, "not yours"),
        OfLibrary(status=404),
        OfLibrary(response=types.SimpleNamespace(status_code=422)),
        OfLibrary(code="E500"),
        PrinterLost("of the customer"),
        SystemExit(3),
    ],
)
async def test_an_ordinary_error_never_opens_the_breaker(error: BaseException) -> None:
    call = Planned(*[error] * 9, "fine")
    router = router_of(made(call, retry="never"), clock=FakeClock())

    replies = [await serve(router) for _ in range(10)]

    assert (replies[-1].value, replies[-1].meta, call.calls) == ("fine", None, 10)


async def test_an_ordinary_error_is_an_answer_and_starts_the_count_again() -> None:
    down = ConnectionError("down")
    call = Planned(*[down] * 4, ValueError("no such customer"), *[down] * 4, "up")
    router = router_of(made(call), clock=FakeClock())

    replies = [await serve(router) for _ in range(10)]

    assert (replies[-1].value, call.calls) == ("up", 10)


async def test_an_ordinary_error_of_the_call_that_tries_closes_the_breaker() -> None:
    clock, call = FakeClock(), Planned(*[ConnectionError("down")] * 5, ValueError("no such customer"))
    router = await broken_router(call, clock)
    clock.seconds += 30

    replies = [await serve(router) for _ in range(2)]

    assert [reply.error for reply in replies] == ["'x' failed: no such customer"] * 2
    assert [reply.meta for reply in replies] == [ReplyMeta(breaker="closed"), None]


async def test_a_tool_may_ask_that_every_failure_counts() -> None:
    call = Planned(ValueError("no such customer"))
    tool = replace(made(call), breaks_on="failure")
    router = router_of(tool, clock=FakeClock())

    replies = [await serve(router) for _ in range(6)]

    assert replies[5].error == "'x' failed 5 times in a row and is not called until 30 s from now"


async def test_a_server_that_is_back_is_called_before_the_time_is_up() -> None:
    is_back = False
    error = ToolUnreachable("away")
    error.is_back = lambda: is_back
    call = Planned(*[error] * 5, "back")
    router = await broken_router(call, FakeClock())

    blocked = await serve(router)
    is_back = True
    reply = await serve(router)

    assert blocked.error == "'x' failed 5 times in a row and is not called until 30 s from now"
    assert (reply.value, reply.meta) == ("back", ReplyMeta(breaker="closed"))


async def test_bad_arguments_of_the_program_do_not_count() -> None:
    schema = {"properties": {"n": {"type": "integer"}}}
    router = router_of(made(Planned("fine"), input_schema=schema), clock=FakeClock())

    for _ in range(9):
        await serve(router, n="bad")

    assert (await serve(router, n=1)).value == "fine"


async def test_calls_that_fail_late_do_not_keep_it_open_for_longer() -> None:
    clock, gate = FakeClock(), asyncio.Event()

    async def late(arguments: Mapping[str, Any]) -> str:
        if arguments["late"]:
            await gate.wait()
        raise ConnectionError("down")

    router = router_of(made(late), clock=clock)
    stragglers = [asyncio.create_task(serve(router, late=True)) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(5):
        await serve(router, late=False)
    clock.seconds += 20
    gate.set()
    replies = await asyncio.gather(*stragglers)

    assert [reply.meta for reply in replies] == [None, None, None]
    assert (
        await serve(router, late=False)
    ).error == "'x' failed 8 times in a row and is not called until 10 s from now"


async def test_attempts_of_one_call_are_one_failure() -> None:
    clock, call = FakeClock(), Planned(ConnectionError("down"))
    router = router_of(made(call, read_only=True), breaker=Breaker(failures=2, open_seconds=7), clock=clock)

    replies = [await serve(router) for _ in range(3)]

    assert [reply.meta for reply in replies] == [
        ReplyMeta(attempts=3),
        ReplyMeta(attempts=3, breaker="opened"),
        ReplyMeta(attempts=0, breaker="open"),
    ]
    assert replies[2].error == "'x' failed 2 times in a row and is not called until 7 s from now"
    assert call.calls == 6


async def test_a_tool_that_fails_for_one_tenant_is_called_for_the_others() -> None:
    call = Planned(*[ConnectionError("down")] * 5, "fine")
    router = router_of(made(call), clock=FakeClock())
    one, other = CallContext(tenant="one"), CallContext(tenant="two")

    for _ in range(5):
        await serve_in(one, router)
    blocked, called = await serve_in(one, router), await serve_in(other, router)

    assert blocked.error == "'x' failed 5 times in a row and is not called until 30 s from now"
    assert called.value == "fine"
