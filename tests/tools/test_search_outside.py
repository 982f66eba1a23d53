"""Searching from a program that also has tools of its caller."""

import pytest

from toolfold import Outcome, Runtime, ToolSpec

pytestmark = pytest.mark.long

WEATHER = ToolSpec(
    name="get-forecast",
    python_name="get_forecast",
    description="The weather of the next days in one city.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    source="caller",
)
TEXT = "[[hit['name'] for hit in await search_tools(query)] for query in ('weather of a city', 'prices')]"


def price(ticker: str) -> float:
    """Prices of one share."""
    return 12.5


async def test_tools_of_the_caller_are_found_beside_our_own() -> None:
    async with Runtime([price]) as runtime:
        first = await runtime.start(TEXT, tools=[WEATHER])
        without = await runtime.run(TEXT)

    assert isinstance(first, Outcome)
    assert (first.value, without.value) == ([["get_forecast"], ["price"]], [[], ["price"]])


async def test_tools_of_the_caller_are_found_where_there_are_no_others() -> None:
    async with Runtime() as runtime:
        outcome = await runtime.start(TEXT, tools=[WEATHER])
        none = await runtime.run(TEXT)

    assert isinstance(outcome, Outcome)
    assert outcome.value == [["get_forecast"], []]
    assert none.problem is not None
    assert none.problem.message == "NameError: name 'search_tools' is not defined"
    assert (runtime.tools, runtime.catalog.direct) == ((), ())


async def test_a_tool_of_the_caller_with_that_name_is_the_callers() -> None:
    own = ToolSpec(name="search_tools", python_name="search_tools", input_schema={"type": "object"}, source="caller")
    async with Runtime() as runtime:
        step = await runtime.start("await search_tools()", tools=[own])

    assert [call.tool for call in getattr(step, "calls", ())] == ["search_tools"]
