"""Saved programs as tools."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from toolfold.errors import UsageError
from toolfold.models import Call, Limits, Media, Outcome, Problem, Reply, Value
from toolfold.runtime import Runtime
from toolfold.sources.saved_programs import program_tool
from toolfold.tools import Catalog, Router, Tool
from toolfold.tools.tool import CallContext

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}, "note": {"type": "string"}},
    "required": ["city"],
}


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime() as runtime:
        yield runtime


class Recorded:
    """Runs nothing; remembers the text and the limits, and gives a fixed outcome."""

    def __init__(self, **outcome: Any) -> None:
        self.outcome = Outcome(execution_id="e", **{"status": "finished", **outcome})
        self.texts: list[str] = []
        self.limits: list[Limits | None] = []

    async def __call__(self, text: str, *, limits: Limits | None = None) -> Outcome:
        self.texts.append(text)
        self.limits.append(limits)
        return self.outcome


async def serve(tool: Tool, context: CallContext | None = None, **arguments: Value) -> Reply:
    return await Router(Catalog([tool])).serve(Call(id=1, tool=tool.spec.name, arguments=arguments), context=context)


async def test_a_program_finds_its_arguments_as_names_and_as_a_dict(runtime: Runtime) -> None:
    tool = program_tool("report", "[city, days, note, arguments]", SCHEMA, runtime.run)

    assert await serve(tool, city="Rome", days=5) == Reply(
        call_id=1, value=["Rome", 5, None, {"city": "Rome", "days": 5}]
    )
    assert (await serve(tool, city="Rome")).value == ["Rome", 3, None, {"city": "Rome"}]


async def test_any_value_arrives_as_it_was(runtime: Runtime) -> None:
    value = {"a": [1, -2.5, True, None, 'it\'s "quoted"\n{x}', "日本", "\\"], "b": {"1": b"\x00\xff"}, "": 10**30}
    schema = {"type": "object", "properties": {"value": {}}}

    reply = await serve(program_tool("same", "value == arguments['value'], value", schema, runtime.run), value=value)

    assert reply.value == [True, value]


async def test_what_must_stay_first_in_a_program_stays_first(runtime: Runtime) -> None:
    text = '"""Words\nof mine."""\nfrom __future__ import annotations\n\nprint(__doc__, city)\n'

    assert (await serve(program_tool("x", text, SCHEMA, runtime.run), city="Rome")).value == "Words\nof mine. Rome\n"


async def test_names_that_python_cannot_have_are_in_the_dict_only() -> None:
    run = Recorded()
    schema = {"properties": {"class": {}, "a-b": {}, "tools": {}, "ok": {}}}

    await serve(program_tool("x", "1", schema, run), **{"class": 1, "a-b": 2, "tools": 3, "ok": 4})

    assert run.texts == [
        "arguments = {'class': 1, 'a-b': 2, 'tools': 3, 'ok': 4}; ok = arguments['ok']\n1\n",
    ]


@pytest.mark.parametrize(
    ("text", "value"), [("print('p')\n7", 7), ("print('p')", "p\n"), ("pass", None), ("result = 3", 3), ("None", None)]
)
async def test_the_reply_is_the_value_or_else_what_was_printed(runtime: Runtime, text: str, value: Value) -> None:
    assert await serve(program_tool("x", text, {"type": "object"}, runtime.run)) == Reply(call_id=1, value=value)


@pytest.mark.parametrize(
    ("text", "seconds", "error"),
    [
        ("def f():\n    raise ValueError(f'no {city}')\nf()", 100, "'x' failed: ValueError: no Rome"),
        ("nothing_like_this()", 100, "'x' failed: 'nothing_like_this' is not defined; give it a value first"),
        ("while True: pass", 0.3, "'x' failed: the program took longer than 0.3 s"),
    ],
)
async def test_a_failure_is_the_last_line_of_the_traceback(
    runtime: Runtime, text: str, seconds: float, error: str
) -> None:
    context = CallContext(limits_left=lambda: Limits(wall_seconds=seconds))

    assert (await serve(program_tool("x", text, SCHEMA, runtime.run), context, city="Rome")).error == error


async def test_a_rejected_program_says_what_the_check_said() -> None:
    run = Recorded(status="rejected", problem=Problem(kind="import", message="no module 'requests' here"))

    assert (await serve(program_tool("x", "1", SCHEMA, run), city="a")).error == "'x' failed: no module 'requests' here"
    assert (await serve(program_tool("x", "1", SCHEMA, Recorded(status="cancelled")), city="a")).error == (
        "'x' failed: it ended as cancelled"
    )


async def test_it_runs_under_what_is_left_of_the_callers_limits() -> None:
    run, left = Recorded(), Limits(wall_seconds=1.5, calls=7)
    tool = program_tool("x", "1", SCHEMA, run)

    await serve(tool, CallContext(limits_left=lambda: left), city="a")
    await serve(tool, city="a")

    assert run.limits == [left, None]


async def test_programs_within_programs_come_to_an_end() -> None:
    depths: list[int] = []
    tools: list[Tool] = []

    async def run(text: str, *, limits: Limits | None = None) -> Outcome:
        depths.append(len(depths) + 1)
        reply = await serve(tools[0], city="a")
        return Outcome(execution_id="e", status="finished", value=reply.error or reply.value)

    tools.append(program_tool("x", "1", SCHEMA, run))

    reply = await serve(tools[0], city="a")

    assert (reply.value, depths) == ("'x' would be program 5 within another; 4 is the most", [1, 2, 3, 4])


async def test_a_program_calls_a_saved_program_that_calls_a_tool() -> None:
    async def rate(currency: str) -> float:
        """Of a currency."""
        return {"EUR": 2.0}[currency]

    async with Runtime(tools=[rate]) as inner:
        schema = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
        tool = program_tool("convert", "amount * await rate(currency='EUR')", schema, inner.run, description="To EUR.")
        async with Runtime(tools=[tool]) as outer:
            outcome = await outer.run("print(await asyncio.gather(*[convert(amount=n) for n in (1, 2)]))")

    assert (outcome.problem, outcome.stdout) == (None, "[2.0, 4.0]\n")


async def test_what_has_no_python_form_is_a_bad_argument() -> None:
    run = Recorded()
    tool = program_tool("x", "1", {"type": "object", "properties": {"a": {}}}, run)

    reply = await serve(tool, a=[Media(kind="image", mime="image/png", data=b"x")])

    assert reply.error == "'x' got a bad argument: a program cannot be given a Media"
    assert run.texts == []


async def test_numbers_that_are_none_arrive_too(runtime: Runtime) -> None:
    tool = program_tool("x", "[str(n) for n in a]", {"properties": {"a": {}}}, runtime.run)

    assert (await serve(tool, a=[float("nan"), float("inf"), float("-inf")])).value == ["nan", "inf", "-inf"]


def test_a_text_that_is_no_python_is_a_usage_error() -> None:
    async def run(text: str, *, limits: Limits | None = None) -> Outcome:
        raise AssertionError

    with pytest.raises(UsageError) as caught:
        program_tool("x", "1 +", SCHEMA, run)

    assert str(caught.value) == "the program of 'x' is not valid Python: invalid syntax (<unknown>, line 1)"


def test_the_spec_says_where_it_came_from() -> None:
    fields: Mapping[str, Any] = {"description": "A report.", "domain": "hr", "read_only": True, "cache_seconds": 5.0}

    spec = program_tool("my-report", "1", SCHEMA, Recorded(), **fields).spec

    assert (spec.name, spec.python_name, spec.source, spec.input_schema) == (
        "my-report", "my_report", "program", SCHEMA,
    )  # fmt: skip
    assert {name: getattr(spec, name) for name in fields} == fields
