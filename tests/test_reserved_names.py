"""Tools named like a builtin: one table for naming, check and guest, and a message with the spelling to use."""

import asyncio
import builtins
from typing import Any

import pytest

from toolfold import Outcome, Paused, Reply, Runtime, ToolSpec
from toolfold.models import Problem
from toolfold.program.check import Checker
from toolfold.sources.function_tools import as_tool
from toolfold.tools.catalog import Catalog
from toolfold.tools.tool import Tool, unique_names, with_name
from toolfold_guest.shared.reserved_names import RESERVED

NAMES = ("open", "map", "iter", "object", "super", "Exception", "hasattr", "setattr", "sum", "filter", "print")


def named(name: str) -> Tool:
    def add(a: int, b: int = 0) -> str:
        """Adds."""
        return f"{name}: {a + b}"

    return with_name(as_tool(add), name)


def asked(name: str, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    return ToolSpec(name=name, python_name=name, input_schema=schema, source="caller", **more)


def test_the_table_has_every_builtin_and_what_the_guest_adds() -> None:
    own = {name for name in dir(builtins) if not name.startswith("_")} - {"copyright", "credits", "license"}

    assert own | {"ToolError", "asyncio", "describe_files", "exit", "help", "json", "quit", "tools"} == RESERVED


def test_a_tool_gets_a_suffix_instead_of_a_builtins_name() -> None:
    assert unique_names(NAMES) == {name: f"{name}_tool" for name in NAMES}
    assert [spec.python_name for spec in Catalog(map(named, NAMES)).specs] == [f"{name}_tool" for name in NAMES]


@pytest.mark.parametrize("text", ["await sum(a=1)", "x = await sum(1, 2)", "print(await sum())"])
def test_the_check_names_the_spelling(text: str) -> None:
    problem = Checker(Catalog([named("sum")]).specs).check(text)

    assert isinstance(problem, Problem)
    assert problem.message == "'sum' is Python's own; the tool is called 'sum_tool'"


@pytest.mark.parametrize(
    "text",
    ["sum([1, 2])", "await next(iter(jobs))", "await max(jobs)", "async def sum(a): ...\nawait sum(a=1)"],
)
def test_a_builtin_that_is_used_as_one_passes_the_check(text: str) -> None:
    checked = Checker(Catalog(map(named, ("sum", "next", "max"))).specs).check(f"jobs = []\n{text}")

    assert not isinstance(checked, Problem)


@pytest.mark.parametrize("engine", ["process", "monty"])
async def test_such_tools_can_be_called_and_builtins_stay_what_they_are(engine: str) -> None:
    text = """
print(sum([1, 2]), list(map(str, [1])), isinstance("", object), next(iter([5])))
print(await open_tool(a=1), await sum_tool(a=1, b=2), tools.map(a=3), tools.filter_tool(a=4))
"""
    async with Runtime(map(named, NAMES), engine=engine) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.stderr, outcome.problem) == ("", None)
    assert outcome.stdout == "3 ['1'] True 5\nopen: 1 sum: 3 map: 3 filter: 4\n"


async def test_a_tool_that_the_caller_answers_keeps_off_a_builtin_too() -> None:
    async with Runtime() as runtime:
        wrong = await runtime.start("await open(a=1)", tools=[asked("open")])
        paused = await runtime.start("print(await open_tool(a=1), tools.open(a=2))", tools=[asked("open")])
        ended: Paused | Outcome = paused
        while isinstance(ended, Paused):
            replies = [Reply(call_id=call.id, value=[call.tool, call.arguments["a"]]) for call in ended.calls]
            ended = await runtime.resume(ended.execution_id, replies)

    assert isinstance(wrong, Outcome)
    assert wrong.problem is not None
    assert wrong.problem.message == "'open' is Python's own; the tool is called 'open_tool'"
    assert ended.stdout == "['open', 1] ['open', 2]\n"


async def test_a_tool_named_like_a_module_that_needs_no_import_takes_its_place() -> None:
    async with Runtime([named("time"), named("license")]) as runtime:
        works, wrong = await asyncio.gather(
            runtime.run("print(await time(a=1), await license(a=2))"), runtime.run("await time(c=1)")
        )

    assert works.stdout == "time: 1 license: 2\n"
    assert (wrong.status, wrong.problem and wrong.problem.message) == (
        "rejected",
        "'time' has no argument 'c'; it takes 'a' and 'b'",
    )
