"""What the wrappers did, as the outcome of a program shows it."""

from typing import Any

import pytest

from tests.tools.support import FakeClock, Planned, made
from toolfold.models import Call
from toolfold.runtime import Runtime, RuntimeSettings
from toolfold.testing import Called, Ended, ScriptedEngine
from toolfold.tools import Tool
from toolfold.tools.policy import Policy
from toolfold.tools.router import CallRequest, Handler
from toolfold.tools.router_steps import Retry, wrappers


async def calls_of(count: int, tool: Tool, **options: Any) -> list[tuple[Any, ...]]:
    """A program that calls `x` so often: error, attempts, cached, breaker of each call."""
    events = [Called(Call(id=number, tool="x", arguments={})) for number in range(1, count + 1)]
    engine = ScriptedEngine(*events, Ended(status="finished"))
    async with Runtime(tools=[tool], engine=engine, **options) as runtime:
        outcome = await runtime.run("await x()")
    return [(call.error, call.attempts, call.cached, call.breaker) for call in outcome.calls]


async def test_attempts_show() -> None:
    clock = FakeClock()
    tool = made(Planned(ValueError("busy"), ValueError("busy"), "done"), read_only=True)

    calls = await calls_of(2, tool, steps=wrappers(retry=Retry(jitter=0), clock=clock))

    assert calls == [(None, 3, False, ""), (None, 1, False, "")]
    assert clock.slept == [0.1, 0.2]


async def test_replies_that_were_kept_show() -> None:
    assert await calls_of(2, made(Planned("done"), cache_seconds=60)) == [(None, 1, False, ""), (None, 0, True, "")]


async def test_the_breaker_shows() -> None:
    down = "'x' failed: down"

    assert await calls_of(6, made(Planned(ConnectionError("down")))) == [
        *[(down, 1, False, "")] * 4,
        (down, 1, False, "opened"),
        ("'x' failed 5 times in a row and is not called until 30 s from now", 0, False, "open"),
    ]


async def test_caught_lookup_errors_of_one_program_do_not_stop_the_calls_of_the_next() -> None:
    def customer(id: str) -> str:
        """One customer."""
        if id != "c-1":
            raise LookupError(f"no such customer: {id}")
        return "Ann"

    program = """
for id in ["x1", "x2", "x3", "x4", "x5", "x6", "c-1"]:
    try:
        print(await customer(id))
    except ToolError as error:
        print(error)
"""
    async with Runtime(tools=[customer]) as runtime:
        first, second = await runtime.run(program), await runtime.run("print(await customer('c-1'))")

    unknown = [f"'customer' failed: no such customer: x{n}" for n in range(1, 7)]
    assert (first.stdout.splitlines(), second.stdout) == ([*unknown, "Ann"], "Ann\n")


def raises(_tool: Tool, _rest: Handler) -> Handler:
    raise KeyError("settings")


def takes_a_request(request: CallRequest) -> Any:
    return request


async def is_async(_tool: Tool, rest: Handler) -> Handler:
    return rest


def returns_nothing(_tool: Tool, _rest: Handler) -> None:
    return None


def is_not_async_inside(_tool: Tool, _rest: Handler) -> Any:
    return lambda _request: 7


def raises_inside(_tool: Tool, _rest: Handler) -> Any:
    async def serve(_request: CallRequest) -> Any:
        raise LookupError("no quota")

    return serve


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (raises, "router step 'raises' failed: KeyError: no key 'settings'"),
        (
            takes_a_request,
            "router step 'takes_a_request' failed: TypeError: takes_a_request() takes 1 positional argument but 2 were given",
        ),
        (is_async, "router step 'is_async' returned coroutine; return an async function of a request, or the rest"),
        (
            returns_nothing,
            "router step 'returns_nothing' returned NoneType; return an async function of a request, or the rest",
        ),
        (is_not_async_inside, "object int can't be used in 'await' expression"),
        (raises_inside, "no quota"),
    ],
)
async def test_a_broken_router_step_is_an_error_in_the_program_and_hangs_nothing(step: Any, error: str) -> None:
    def fetch() -> str:
        """Fetch."""
        return "fetched"

    program = "for _ in range(2):\n    try:\n        print(await fetch())\n    except ToolError as error:\n        print(error)"
    async with Runtime([fetch], steps=(step,)) as runtime:
        outcome = await runtime.run(program)
        reply = await runtime.call("fetch", {})

    assert (outcome.stdout, reply.error) == (f"'fetch' failed: {error}\n" * 2, f"'fetch' failed: {error}")


@pytest.mark.long
async def test_a_blocked_tool_passes_the_check_and_raises_at_the_call_in_a_real_program() -> None:
    name = "mcp__internal_apis__delete_resource"
    tool = made(Planned("gone"), name)
    policy = Policy(block=["mcp__internal_apis__*"])

    async with Runtime(tools=[tool], policy=policy, settings=RuntimeSettings(entry_name="execute_program")) as runtime:
        outcome = await runtime.run(f"print('before')\nawait {name}()")
        direct = await runtime.call(name, {})

    assert outcome.stdout == "before\n"
    assert outcome.stderr.splitlines()[-1] == (
        "ToolError: 'mcp__internal_apis__delete_resource' is not available in execute_program"
    )
    assert direct.error == "'mcp__internal_apis__delete_resource' is not available in execute_program"
