"""The four verbs, on the process engine and on a scripted one."""

import ast
import asyncio
from collections.abc import AsyncIterator
from inspect import getsource, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import toolfold
from toolfold import Call, Limits, Outcome, Paused, Problem, Reply, Runtime, ToolSpec, UsageError, models, tool
from toolfold.execution import request
from toolfold.models import (
    CallRecord,
    ContextSaved,
    ProgramOptions,
    StartOptions,
)
from toolfold.runtime import RuntimeSettings
from toolfold.tools.policy import Policy

ASK = ToolSpec(
    name="ask-user",
    python_name="ask_user",
    input_schema={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    source="caller",
)
LATE = ToolSpec(name="late", python_name="late", source="caller")


@toolfold.tool
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@toolfold.tool
async def forever() -> None:
    """Never answers."""
    await asyncio.Event().wait()


@toolfold.tool
def broken() -> None:
    """Always fails."""
    raise ValueError("no luck")


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[double, forever, broken]) as runtime:
        yield runtime


def answers(step: Paused | Outcome) -> list[Reply]:
    assert isinstance(step, Paused)
    return [Reply(call_id=call.id, value=f"re: {call.arguments['q']}") for call in step.calls]


async def test_a_program_runs_to_its_end(runtime: Runtime) -> None:
    outcome = await runtime.run("print(await double(x=2))\nawait double(3)")

    assert (outcome.status, outcome.value, outcome.stdout, outcome.stderr) == ("finished", 6, "4\n", "")
    assert [(call.name, call.arguments, call.error) for call in outcome.calls] == [
        ("double", {"x": 2}, None),
        ("double", {"x": 3}, None),
    ]
    assert (outcome.engine, outcome.isolation) == ("process", "namespace")


async def test_a_rejected_program_made_no_call(runtime: Runtime) -> None:
    outcome = await runtime.run("await double(x=1)\nawait duoble(x=2)")

    assert (outcome.status, outcome.calls) == ("rejected", ())
    assert outcome.problem == Problem(
        kind="unknown_tool",
        message="no tool 'duoble'; did you mean 'double'?",
        line=2,
        column=7,
        source="await duoble(x=2)\n      ^",
    )


async def test_a_tool_that_raises_shows_at_the_call_site_and_can_be_caught(runtime: Runtime) -> None:
    caught = await runtime.run("try:\n    await broken()\nexcept ToolError as error:\n    print(error)")
    uncaught = await runtime.run("x = 1\nawait broken()")

    assert caught.stdout == "'broken' failed: no luck\n"
    assert uncaught.stderr == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 2, in __main__\n'
        "    await broken()\n"
        "ToolError: 'broken' failed: no luck\n"
    )


async def test_a_gather_of_the_callers_tools_is_one_pause(runtime: Runtime) -> None:
    step = await runtime.start("print(await asyncio.gather(ask_user('a'), double(4), ask_user('b')))", tools=[ASK])

    assert isinstance(step, Paused)
    assert list(step.calls) == [
        Call(id=1, tool="ask-user", arguments={"q": "a"}, line=1),
        Call(id=3, tool="ask-user", arguments={"q": "b"}, line=1),
    ]
    end = await runtime.resume(step.execution_id, answers(step))
    assert isinstance(end, Outcome)
    assert (end.status, end.stdout) == ("finished", "['re: a', 8, 're: b']\n")


async def test_some_replies_may_come_before_others(runtime: Runtime) -> None:
    text = "for done in asyncio.as_completed([ask_user('a'), ask_user('b')]):\n    print(await done)"
    first = await runtime.start(text, tools=[ASK])
    assert isinstance(first, Paused)

    second = await runtime.resume(first.execution_id, answers(first)[1:])
    assert isinstance(second, Paused)
    end = await runtime.resume(first.execution_id, answers(second))

    assert [call.id for call in second.calls] == [1]
    assert isinstance(end, Outcome)
    assert end.stdout == "re: b\nre: a\n"


async def test_a_pause_does_not_count_against_the_wall_clock(runtime: Runtime) -> None:
    step = await runtime.start("print(ask := await ask_user('a'))", tools=[ASK], limits=Limits(wall_seconds=1))
    assert isinstance(step, Paused)
    await asyncio.sleep(1.2)  # longer than the limit

    end = await runtime.resume(step.execution_id, answers(step))

    assert isinstance(end, Outcome)
    assert end.status == "finished"


@pytest.mark.parametrize(
    "program",
    [
        "import threading\nr = []\nts = [threading.Thread(target=lambda q=q: r.append(tools.ask_user(q))) for q in 'ab']\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]\nprint(sorted(r))",
        "await asyncio.to_thread(str)\nprint(await asyncio.gather(ask_user('a'), ask_user('b')))",
        "print(await asyncio.gather(*[asyncio.to_thread(tools.ask_user, q) for q in 'ab']))",
    ],
)
async def test_a_program_with_threads_pauses_too(runtime: Runtime, program: str) -> None:
    step = await runtime.start(program, tools=[ASK])

    while isinstance(step, Paused):
        step = await runtime.resume(step.execution_id, answers(step))

    assert (step.status, step.stdout) == ("finished", "['re: a', 're: b']\n")


@pytest.mark.parametrize(
    "replies", [[Reply(call_id=9)], [Reply(call_id=1), Reply(call_id=1)], [Reply(call_id=1), Reply(call_id=7)]]
)
async def test_a_reply_to_no_open_call_is_refused_and_nothing_is_lost(runtime: Runtime, replies: list[Reply]) -> None:
    step = await runtime.start("print(await ask_user('a'))", tools=[ASK])
    assert isinstance(step, Paused)

    with pytest.raises(UsageError, match="no open call"):
        await runtime.resume(step.execution_id, replies)

    end = await runtime.resume(step.execution_id, answers(step))
    assert isinstance(end, Outcome)
    assert end.stdout == "re: a\n"


async def test_no_replies_give_the_same_pause_again(runtime: Runtime) -> None:
    step = await runtime.start("await ask_user('a')", tools=[ASK])
    assert isinstance(step, Paused)

    assert await runtime.resume(step.execution_id, []) == step


async def test_an_execution_that_is_over_cannot_be_resumed(runtime: Runtime) -> None:
    step = await runtime.start("await ask_user('a')", tools=[ASK])
    assert isinstance(step, Paused)
    await runtime.executions.cancel(step.execution_id)

    with pytest.raises(UsageError, match="has ended; there is nothing to resume"):
        await runtime.resume(step.execution_id, answers(step))


async def test_cancelling_the_task_ends_the_program_and_its_calls(runtime: Runtime) -> None:
    task = asyncio.create_task(runtime.run("await forever()"))
    await asyncio.wait([task], timeout=0.2)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await runtime.run("1 + 1")).value == 2


async def test_a_program_that_takes_too_long_keeps_what_it_printed(runtime: Runtime) -> None:
    for seconds in (0.3, 5.0, 50.0):  # the next where a busy machine had not begun with it before its time was over
        outcome = await runtime.run("print('so far')\nawait forever()", limits=Limits(wall_seconds=seconds))
        if outcome.stdout:
            break

    assert (outcome.status, outcome.stdout) == ("timeout", "so far\n")
    assert outcome.problem == Problem(kind="wall_clock", message=f"the program took longer than {seconds:g} s")


async def test_a_direct_call_goes_through_the_same_router(runtime: Runtime) -> None:
    assert await runtime.call("double", {"x": 3}) == Reply(call_id=0, value=6)
    assert await runtime.call("duoble", {"x": 3}) == Reply(call_id=0, error="no tool 'duoble'; did you mean 'double'?")


async def test_each_call_is_told_while_the_program_runs(runtime: Runtime) -> None:
    seen: list[CallRecord] = []

    outcome = await runtime.run("for x in range(3):\n    await double(x)", on_call=seen.append)

    assert tuple(seen) == outcome.calls


async def test_one_call_only_gets_a_hint(runtime: Runtime) -> None:
    outcome = await runtime.run("await double(1)")

    assert outcome.hints == ("one call only: a direct call of 'double' would do",)


async def test_more_calls_than_may_fly_wait_their_turn() -> None:
    flying = peak = 0

    async def count(x: int) -> int:
        nonlocal flying, peak
        flying += 1
        peak = max(peak, flying)
        await asyncio.sleep(0.001)
        flying -= 1
        return x

    async with Runtime(tools=[count], limits=Limits(calls_in_flight=5)) as runtime:
        outcome = await runtime.run("sum(await asyncio.gather(*[count(x) for x in range(40)]))")

    assert (outcome.value, peak) == (780, 5)


async def test_calls_that_wait_for_a_place_are_served_also_if_those_before_them_end_at_once() -> None:
    async def uneven(n: int) -> int:
        """Waits only in the first calls."""
        if n < 5:
            await asyncio.sleep(0)
        return n

    async with Runtime(tools=[uneven], limits=Limits(calls_in_flight=5)) as runtime:
        outcome = await runtime.run("print(sum(await asyncio.gather(*[uneven(n) for n in range(40)])))")

    assert (outcome.problem, outcome.stdout) == (None, "780\n")


async def test_what_stayed_out_of_the_context_is_estimated() -> None:
    def rows() -> list[dict[str, Any]]:
        return [{"n": n} for n in range(1000)]

    async with Runtime(tools=[rows]) as runtime:
        outcome = await runtime.run("len(await rows())")

    size = len(str([{"n": n} for n in range(1000)]).replace(" ", "").encode())
    program = 'execute_program{"code":"len(await rows())"}'
    saved = len("rows{}") + size - len(program) - len("1000")
    assert outcome.context_saved == ContextSaved(tokens=round(saved / 4), bytes=saved)


def test_run_sync_runs_one_program() -> None:
    assert toolfold.run_sync("1 + 1").value == 2


class Odd(BaseException):
    """What a library may raise past every handler of `Exception`."""


@pytest.mark.parametrize("kind", [Odd, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("timeout_seconds", [None, 5.0])
async def test_whatever_a_tool_raises_its_program_hears_of_it(
    kind: type[BaseException], timeout_seconds: float | None
) -> None:
    @tool(timeout_seconds=timeout_seconds)
    def blocking() -> int:
        raise kind("no")

    @tool(timeout_seconds=timeout_seconds)
    async def waiting() -> int:
        await asyncio.sleep(0)
        raise kind("no")

    text = "for call in (blocking, waiting):\n    try:\n        await call()\n    except Exception as error:\n        print(error)"
    async with Runtime([blocking, waiting]) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.status, outcome.stdout) == (
        "finished",
        "'blocking' failed: no\n'waiting' failed: no\n",
    )


def test_a_runtime_has_few_members() -> None:
    names = {name for name in dir(Runtime()) if not name.startswith("_")}

    assert names == {
        "call", "catalog", "check", "close", "describe_files", "executions", "map", "open", "replace_tools", "resume",
        "run", "sessions", "start", "tools",
    }  # fmt: skip


def annotations(module: ModuleType) -> dict[str, dict[str, str]]:
    """Of each class in a module, those of its bases among them; types of keywords are not there at run time."""
    classes = [node for node in ast.walk(ast.parse(getsource(module))) if isinstance(node, ast.ClassDef)]
    found: dict[str, dict[str, str]] = {}
    for node in classes:
        fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
        inherited = [found.get(ast.unparse(base), {}) for base in node.bases]
        found[node.name] = {name: text for one in inherited for name, text in one.items()}
        found[node.name] |= {ast.unparse(part.target): ast.unparse(part.annotation) for part in fields}
    return found


@pytest.mark.parametrize(
    ("module", "values", "keywords"),
    [
        (models, "ProgramOptions", "ProgramKeywords"),
        (models, "StartOptions", "StartKeywords"),
        (request, "RuntimeSettings", "SettingsKeywords"),
    ],
)
def test_every_field_is_a_keyword_of_the_same_type(module: ModuleType, values: str, keywords: str) -> None:
    types = annotations(module)

    assert types[keywords] == types[values]


async def test_options_are_given_as_one_value_as_keywords_or_both() -> None:
    options = ProgramOptions(stdin="a\n", clock=5.0)
    program = "import time\n(input(), int(time.time()))"
    async with Runtime() as runtime:
        outcomes = [
            await runtime.run(program, options=options),
            await runtime.run(program, stdin="a\n", clock=5.0),
            await runtime.run(program, options=options, stdin="b\n"),
            await runtime.start(program, options=options, durable=True),
        ]

    assert [outcome.value for outcome in outcomes if isinstance(outcome, Outcome)] == [
        ["a", 5], ["a", 5], ["b", 5], ["a", 5],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "keywords", "said"),
    [
        ("run", {"timeout": 5}, "run takes no 'timeout'; write limits=Limits(wall_seconds=...)"),
        ("run", {"sesion": "a"}, "run takes no 'sesion'; did you mean 'session'?"),
        ("start", {"durble": True}, "start takes no 'durble'; did you mean 'durable'?"),
        (
            "run",
            {"options": StartOptions()},
            "run never pauses, so it takes ProgramOptions; give StartOptions to start",
        ),
    ],
)
async def test_wrong_options_are_told_in_one_line(verb: str, keywords: dict[str, Any], said: str) -> None:
    async with Runtime() as runtime:
        with pytest.raises(UsageError) as caught:
            await getattr(runtime, verb)("1", **keywords)

    assert str(caught.value) == said


def test_a_runtime_has_eleven_keywords() -> None:
    names = set(signature(Runtime).parameters)

    assert names == {"tools", "settings", *annotations(request)["RuntimeKeywords"]}
    assert len(names) == 11


async def test_a_keyword_counts_more_than_the_settings() -> None:
    settings = RuntimeSettings(limits=Limits(calls=1), policy=Policy(block=["double"]))
    async with Runtime([double], settings=settings, policy=Policy()) as runtime:
        outcome = await runtime.run("await double(x=1)\nawait double(x=2)")

    assert (outcome.status, len(outcome.calls)) == ("limit", 1)


async def test_from_config_names_the_right_setting_for_a_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "toolfold.yaml").write_text("engine: process\n")
    with pytest.raises(UsageError) as caught:
        async with toolfold.from_config(tmp_path / "toolfold.yaml", telemetri=False):  # type: ignore[call-arg]
            pass

    assert str(caught.value) == "Runtime takes no 'telemetri'; did you mean 'telemetry'?"
