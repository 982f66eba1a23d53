"""Calls in, replies out."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from toolfold.errors import ToolArgumentsInvalid, ToolError, ToolRefused, ToolTimedOut
from toolfold.models import Call, Reply, ToolSpec, Value
from toolfold.sources.function_tools import as_tool
from toolfold.tools import Catalog, Router, Tool
from toolfold.tools.router import CallRequest, Handler


def made(call: Callable[[Mapping[str, Any]], Awaitable[Any]], name: str = "x", **fields: Any) -> Tool:
    return Tool(spec=ToolSpec(name=name, python_name=name, **fields), call=call)


def returning(value: object, **fields: Any) -> Router:
    async def call(arguments: Mapping[str, Any]) -> Any:
        return value

    return Router(Catalog([made(call, **fields)]))


def raising(error: BaseException, **fields: Any) -> Router:
    async def call(arguments: Mapping[str, Any]) -> Any:
        raise error

    return Router(Catalog([made(call, **fields)]))


def call_of(tool: str = "x", **arguments: Value) -> Call:
    return Call(id=7, tool=tool, arguments=arguments)


async def test_a_call_gets_the_tools_value() -> None:
    async def double(n: int) -> dict[str, int]:
        return {"n": 2 * n}

    router = Router(Catalog([as_tool(double)]))

    assert await router.serve(call_of("double", n=4)) == Reply(call_id=7, value={"n": 8})


async def test_an_unknown_tool_is_refused_and_the_nearest_is_named() -> None:
    router = returning(1, name="price")

    assert await router.serve(call_of("prise")) == Reply(call_id=7, error="no tool 'prise'; did you mean 'price'?")
    assert await router.serve(call_of("zebra")) == Reply(call_id=7, error="no tool 'zebra'")


@pytest.mark.parametrize(
    ("allowed", "caller", "error"),
    [
        ("direct", "code", "'x' may not be called from a program"),
        ("direct", "direct", None),
        ("code", "direct", "'x' may be called from a program only"),
        ("code", "code", None),
        ("both", "code", None),
        ("both", "direct", None),
    ],
)
async def test_a_tool_serves_the_callers_that_it_allows(allowed: Any, caller: Any, error: str | None) -> None:
    router = returning(1, allowed_callers=allowed)

    reply = await router.serve(call_of(), caller=caller)

    assert reply == Reply(call_id=7, value=None if error else 1, error=error)


async def test_arguments_are_checked_against_the_schema_before_the_call() -> None:
    schema = {"type": "object", "properties": {"ticker": {"type": "string"}}}

    reply = await returning(1, name="price", input_schema=schema).serve(call_of("price", ticker=3))

    assert reply == Reply(call_id=7, error="'price' got a bad argument: ticker must be a string, got 3")


async def test_a_refused_caller_learns_nothing_of_the_arguments() -> None:
    router = returning(1, allowed_callers="direct", input_schema={"required": ["secret"]})

    assert await router.serve(call_of()) == Reply(call_id=7, error="'x' may not be called from a program")


class Quiet(Exception):
    pass


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError


class Own(ToolError):
    pass


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such user 'u9'"), "'x' failed: no such user 'u9'"),
        (ValueError("one\ntwo"), "'x' failed: one\ntwo"),
        (Quiet(), "'x' failed: Quiet"),
        (Broken(), "'x' failed: Broken"),
        (KeyError("id"), "'x' failed: no key 'id'"),
        (ToolError("out of stock"), "'x' failed: out of stock"),
        (Own("out of stock"), "'x' failed: out of stock"),
        (ToolRefused("ask first"), "ask first"),
        (ToolArgumentsInvalid("'x' got a bad argument: n is odd"), "'x' got a bad argument: n is odd"),
        (ToolTimedOut("'x' timed out after 9 s"), "'x' timed out after 9 s"),
        (FileNotFoundError(2, "No such file or directory", "/srv/secret/a.csv"),
         "'x' failed: No such file or directory: 'a.csv'"),
        (OSError("disk full"), "'x' failed: disk full"),
        (SystemExit(3), "'x' failed: 3"),
        (ExceptionGroup("several", [ExceptionGroup("one", [ValueError("inner")])]), "'x' failed: inner"),
        (ExceptionGroup("several", [ValueError("a"), ValueError("b")]), "'x' failed: several (2 sub-exceptions)"),
        (ValueError("half \ud800"), "'x' failed: half \\ud800"),
        (TimeoutError("upstream"), "'x' failed: upstream"),
        (ValueError("y" * 3000), "'x' failed: " + "y" * 1988 + "… (1012 more characters)"),
    ],
)  # fmt: skip
async def test_a_tool_that_raises_gives_its_message(error: BaseException, text: str) -> None:
    assert await raising(error).serve(call_of()) == Reply(call_id=7, error=text)


async def test_a_tool_that_takes_too_long_is_cut_off() -> None:
    ended = []

    async def slow(arguments: Mapping[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    router = Router(Catalog([made(slow, timeout_seconds=0.01), made(slow, "y")]), default_timeout_seconds=0.02)

    assert await router.serve(call_of()) == Reply(call_id=7, error="'x' timed out after 0.01 s")
    assert await router.serve(call_of("y")) == Reply(call_id=7, error="'y' timed out after 0.02 s")
    assert ended == ["slow", "slow"]


async def test_a_timeout_of_the_tools_own_is_not_ours() -> None:
    router = raising(TimeoutError("upstream"), timeout_seconds=5)

    assert await router.serve(call_of()) == Reply(call_id=7, error="'x' failed: upstream")


async def test_a_cancel_comes_through_and_reaches_the_tool() -> None:
    started, ended = asyncio.Event(), []

    async def slow(arguments: Mapping[str, Any]) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    task = asyncio.create_task(Router(Catalog([made(slow, timeout_seconds=5)])).serve(call_of()))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["slow"]


async def test_a_tool_that_cancels_itself_only_fails() -> None:
    router = raising(asyncio.CancelledError())

    assert await router.serve(call_of()) == Reply(call_id=7, error="'x' failed: it was cancelled")


async def test_a_value_that_cannot_be_sent_is_named_with_its_place() -> None:
    router = returning({"rows": [1, 2, 3, {"when": object()}]})

    assert await router.serve(call_of()) == Reply(
        call_id=7, error="'x' returned a value that cannot be sent: object at rows[3]['when']"
    )


@pytest.mark.parametrize(
    ("size", "limit", "text"),
    [
        (12_897_485, 10 * 1024 * 1024, "'x' returned 12.4 MiB; the limit is 10 MiB"),
        (10 * 1024 * 1024 + 1, 10 * 1024 * 1024, "'x' returned 10.1 MiB; the limit is 10 MiB"),
        (1500, 1024, "'x' returned 1.5 KiB; the limit is 1 KiB"),
        (101, 100, "'x' returned 101 bytes; the limit is 100 bytes"),
    ],
)
async def test_a_reply_over_the_limit_is_an_error(size: int, limit: int, text: str) -> None:
    router = returning("a" * (size - 2))

    assert await router.serve(call_of(), max_reply_bytes=limit) == Reply(call_id=7, error=text)
    assert (await router.serve(call_of(), max_reply_bytes=size)).error is None
    assert (await router.serve(call_of())).error is None


async def test_the_routers_own_limit_holds_unless_the_call_has_one() -> None:
    async def call(arguments: Mapping[str, Any]) -> str:
        return "abc"

    router = Router(Catalog([made(call)]), max_reply_bytes=4)

    assert (await router.serve(call_of())).error == "'x' returned 5 bytes; the limit is 4 bytes"
    assert (await router.serve(call_of(), max_reply_bytes=5)).value == "abc"


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ('{"a": [1]}', None, {"a": [1]}),
        ("[1, 2]", None, [1, 2]),
        ("[not json", None, "[not json"),
        ("[" * 300 + "]" * 300, None, "[" * 300 + "]" * 300),
        ("[NaN]", None, "[NaN]"),
        ("12", None, "12"),
        ('{"a": 1}', {"type": "string"}, '{"a": 1}'),
    ],
)
async def test_json_text_is_parsed_unless_the_tool_says_what_it_returns(text: str, schema: Any, value: Value) -> None:
    assert await returning(text, output_schema=schema).serve(call_of()) == Reply(call_id=7, value=value)


async def test_wrappers_stand_between_the_check_and_the_call_outermost_first() -> None:
    seen: list[str] = []

    def noting(word: str) -> Callable[[Tool, Handler], Handler]:
        def wrap(tool: Tool, rest: Handler) -> Handler:
            seen.append(f"{word} wraps {tool.spec.name}")

            async def note(request: CallRequest) -> Value:
                seen.append(f"{word} {request.caller} {request.arguments}")
                return await rest(request)

            return note

        return wrap

    async def double(n: int) -> int:
        seen.append("call")
        return 2 * n

    router = Router(Catalog([as_tool(double)]), wrappers=[noting("outer"), noting("inner")])

    assert (await router.serve(call_of("double", n="4"))).value == 8
    assert (await router.serve(call_of("double", n="x"))).error == (
        "'double' got a bad argument: n must be an integer, got 'x'"
    )
    assert seen == [
        "inner wraps double",
        "outer wraps double",
        "outer code {'n': 4}",
        "inner code {'n': 4}",
        "call",
    ]


async def test_a_wrapper_may_call_the_rest_again() -> None:
    attempts = []

    def twice(tool: Tool, rest: Handler) -> Handler:
        async def attempt(request: CallRequest) -> Value:
            try:
                return await rest(request)
            except ValueError:
                return await rest(request)

        return attempt

    async def flaky(arguments: Mapping[str, Any]) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("busy")
        return "done"

    assert await Router(Catalog([made(flaky)]), wrappers=[twice]).serve(call_of()) == Reply(call_id=7, value="done")


async def test_calls_run_side_by_side() -> None:
    gate = asyncio.Barrier(100)

    async def meet(arguments: Mapping[str, Any]) -> str:
        await gate.wait()
        return "met"

    router = Router(Catalog([made(meet)]))

    replies = await asyncio.gather(*(router.serve(call_of()) for _ in range(100)))

    assert replies == [Reply(call_id=7, value="met")] * 100
