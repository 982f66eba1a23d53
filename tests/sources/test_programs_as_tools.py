"""Saved programs as tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolfold.errors import UsageError
from toolfold.models import Outcome, Paused, Value
from toolfold.runtime import Runtime
from toolfold.sources.saved_programs import program_tool
from toolfold.tools import Tool
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}, "note": {"type": "string"}},
    "required": ["city"],
}
NONE = {"type": "object", "properties": {}}


async def price(item: str) -> dict[str, Any]:
    """The price of an item."""
    return {"item": item, "price": len(item)}


def total(**options: Any) -> Tool:
    text = "rows = await asyncio.gather(*[price(item=item) for item in items])\nsum(row['price'] for row in rows)"
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string"}}}}
    return program_tool("total", text, schema, description="Sum of prices.", **options)


def saved(text: str, schema: Mapping[str, Any] = NONE, name: str = "saved") -> Tool:
    return program_tool(name, text, schema)


async def run(text: str, *tools: Any, **options: Any) -> Outcome:
    async with Runtime([price, *tools], **options) as runtime:
        return await runtime.run(text)


def made(outcome: Outcome) -> list[tuple[int, str, int, int]]:
    return [(call.id, call.name, call.line, call.within) for call in outcome.calls]


async def test_a_program_finds_its_arguments_as_names_and_as_a_dict() -> None:
    outcome = await run(
        "[await saved(city='Rome', days=5), await saved(city='Rome')]", saved("[city, days, note, arguments]", SCHEMA)
    )

    assert outcome.value == [
        ["Rome", 5, None, {"city": "Rome", "days": 5, "note": None}],
        ["Rome", 3, None, {"city": "Rome", "days": 3, "note": None}],
    ]


async def test_any_value_arrives_and_comes_back_as_it_was() -> None:
    value = {"a": [1, -2.5, True, None, 'it\'s "quoted"\n{x}', "日本", "\\"], "b": {"1": b"\x00\xff"}, "": 10**30}
    schema = {"type": "object", "properties": {"value": {}}}

    outcome = await run(f"value = {value!r}\n[await saved(value=value), value]", saved("value", schema))

    assert outcome.value == [value, value]


async def test_what_must_stay_first_in_a_program_stays_first() -> None:
    text = '"""Words\nof mine."""\nfrom __future__ import annotations\n\nprint(city)\n'

    assert (await run("await saved(city='Rome')", saved(text, SCHEMA))).value == "Rome\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("print('p')\n7", 7),
        ("print('p')", "p\n"),
        ("pass", None),
        ("result = 3", 3),
        ("return 4", 4),
        ("exit()", None),
        ("async def main():\n    return 5\nawait main()", 5),
        ("asyncio.run(price(item='abc'))['price']", 3),
        ("price(item='abc')['price']", 3),
        ("from tools import price\n(await price(item='abc'))['price']", 3),
        ("import tools\ntools.price(item='abc')['price']", 3),
        ("if __name__ == '__main__':\n    result = tools.price(item='ab')['price']", 2),
        ("pd.DataFrame({'a': [1, 2]})", [{"a": 1}, {"a": 2}]),
    ],
)  # fmt: skip
async def test_the_reply_is_the_value_or_else_what_was_printed(text: str, value: Value) -> None:
    outcome = await run("[await saved(), (await saved()), saved()][1]", saved(text))

    assert (outcome.problem, outcome.value, outcome.stdout) == (None, value, "")


@pytest.mark.parametrize(
    "text",
    [
        "await total(items=['a', 'bb'])",
        "await programs.total(items=['a', 'bb'])",
        "programs.total(items=['a', 'bb'])",
        "total(items=['a', 'bb'])",
        "tools.total(items=['a', 'bb'])",
        "(await asyncio.gather(programs.total(items=['a', 'bb'])))[0]",
        "from tools.programs import total as sums\nawait sums({'items': ['a', 'bb']})",
    ],
)
async def test_its_calls_are_calls_of_the_program_and_say_what_they_are_within(text: str) -> None:
    outcome = await run(text, total())

    line = 1 + text.count("\n")
    assert (outcome.problem, outcome.value) == (None, 3)
    assert made(outcome) == [(1, "total", line, 0), (2, "price", 1, 1), (3, "price", 1, 1)]


async def test_a_program_calls_one_that_calls_another() -> None:
    outer = saved("\n2 * await programs.total(items=['abc'])", name="double")

    outcome = await run("await double()", total(), outer)

    assert (outcome.value, made(outcome)) == (6, [(1, "double", 1, 0), (2, "total", 2, 1), (3, "price", 1, 2)])


async def test_the_names_of_a_program_are_its_own() -> None:
    outcome = await run("x = 1\nawait saved()\n[x, 'y' in globals()]", saved("x = 2\ny = 3"))

    assert outcome.value == [1, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n1 / 0", "'saved' failed: ZeroDivisionError: division by zero (at its line 2)"),
        ("exit('no')", "'saved' failed: SystemExit: no"),
        ("nothing_like_this", "'saved' failed: NameError: name 'nothing_like_this' is not defined (at its line 1)"),
        ("await price(item=1)", "'saved' failed: 'price' got a bad argument: item must be a string, got 1 (at its line 1)"),
        ("await saved()", "saved programs call each other 8 deep at most: " + " calls ".join(["saved"] * 9)),
    ],
)  # fmt: skip
async def test_a_failure_is_a_tool_error_at_the_call(text: str, message: str) -> None:
    outcome = await run("try:\n    await saved()\nexcept ToolError as error:\n    print(error)", saved(text))

    assert outcome.stdout == f"{message}\n"


async def test_programs_that_call_each_other_in_a_circle_come_to_an_end() -> None:
    outcome = await run("await a()", saved("await b()", name="a"), saved("await a()", name="b"))

    assert outcome.problem is not None
    assert outcome.problem.message == (
        "ToolError: saved programs call each other 8 deep at most: " + " calls ".join(["a", "b"] * 4 + ["a"])
    )


async def test_a_tool_that_the_caller_may_not_use_is_blocked_within_it_too() -> None:
    text = "await total(items=['a'])"

    blocked = await run(text, total(), policy=Policy(block=["price"]))
    allowed = await run(text, total())

    assert blocked.problem is not None
    assert blocked.problem.message == "ToolError: 'total' failed: 'price' is not available in a program (at its line 1)"
    assert allowed.value == 1


async def test_its_calls_count_in_the_callers_budget() -> None:
    text = "await total(items=['a', 'bb', 'ccc'])"

    outcome = await run(text, total(), policy=Policy(max_calls={"price": 2}))
    control = await run(text, total(), policy=Policy(max_calls={"price": 3}))

    assert outcome.status == "failed"
    assert control.value == 6


async def test_it_is_called_directly_as_a_program_of_its_own() -> None:
    async with Runtime([price, total(), saved("1 / 0", name="bad")]) as runtime:
        reply = await runtime.call("total", {"items": ["a", "bb"]})
        failure = await runtime.call("bad", {})
        missing = await runtime.call("total", {"items": 3})

    assert (reply.value, reply.error) == (3, None)
    assert failure.error == "'bad' failed: ZeroDivisionError: division by zero (at its line 1)"
    assert missing.error is not None


async def test_an_approval_within_it_pauses_and_goes_on_in_another_process(tmp_path: Path) -> None:
    paid: list[str] = []

    async def pay(item: str) -> str:
        """Pay."""
        paid.append(item)
        return f"paid {item}"

    text = "first = await price(item='a')\nreturn [first['price'], await pay(item='b'), await pay(item='c')]"
    tools = [price, pay, saved(text)]
    options: dict[str, Any] = {"ledger": tmp_path / "ledger.db", "policy": Policy(ask=["pay"])}

    async with Runtime(tools, **options) as runtime:
        step = await runtime.start("await saved()", durable=True)
        assert isinstance(step, Paused)
        step = await runtime.resume(step.execution_id, decisions={3: Decision(approved=True)})
    assert isinstance(step, Paused)
    async with Runtime([price, pay, saved("raise ValueError('another text now')")], **options) as runtime:
        outcome = await runtime.resume(step.execution_id, decisions={4: Decision(approved=True)})

    assert [(call.id, call.tool, call.within) for call in step.approvals] == [(4, "pay", 1)]
    assert isinstance(outcome, Outcome)
    assert (outcome.problem, outcome.value, paid) == (None, [1, "paid b", "paid c"], ["b", "c"])
    assert made(outcome) == [(1, "saved", 1, 0), (2, "price", 1, 1), (3, "pay", 2, 1), (4, "pay", 2, 1)]


async def test_engines_and_languages_that_cannot_run_it_do_not_offer_it() -> None:
    on_monty = await run("await total(items=[])", total(), engine="monty")

    assert on_monty.status == "rejected"


def test_a_text_that_is_no_python_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        program_tool("x", "1 +", SCHEMA)

    assert str(caught.value) == "the program of 'x' is not valid Python: line 1: invalid syntax\n1 +\n   ^"


def test_the_spec_says_where_it_came_from() -> None:
    fields: Mapping[str, Any] = {"description": "A report.", "domain": "hr", "read_only": True, "cache_seconds": 5.0}

    spec = program_tool("my-report", "1", SCHEMA, **fields).spec

    assert (spec.name, spec.python_name, spec.source, spec.input_schema) == (
        "my-report", "my_report", "program", SCHEMA,
    )  # fmt: skip
    assert {name: getattr(spec, name) for name in fields} == fields
