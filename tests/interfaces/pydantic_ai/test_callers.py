"""Who may call a tool: `allowed_callers`, cell by cell, through a real agent."""

from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic_ai import Agent, RunContext

from tests.interfaces.pydantic_ai.talk import Shared, Talk, calls, program, returns
from toolfold import UsageError
from toolfold.prompts.catalog import HEADER
from toolfold.pydantic_ai import AllowedCallers, CodeModeToolset, FunctionToolset, split_by_caller

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def marked() -> FunctionToolset[Any]:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool(allowed_callers="code")
    def aggregate_data(items: list[int]) -> int:
        """Complex aggregation - should use code mode."""
        return sum(items)

    @toolset.tool(allowed_callers="direct")
    def get_weather(city: str) -> str:
        """Simple lookup - direct call is fine."""
        return f"sun in {city}"

    @toolset.tool(allowed_callers="both")
    def search_docs(query: str) -> list[str]:
        """Can be called either way."""
        return [f"on {query}"]

    @toolset.tool
    def get_time(ctx: RunContext[Any], zone: str) -> str:
        """No mark at all."""
        return f"noon in {zone}"

    return toolset


CALLS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "get_weather": ({"city": "Rome"}, "await get_weather(city='Rome')", "sun in Rome"),
    "aggregate_data": ({"items": [1, 2]}, "await aggregate_data(items=[1, 2])", 3),
    "search_docs": ({"query": "x"}, "await search_docs(query='x')", ["on x"]),
}


@pytest.mark.parametrize(
    ("tool", "caller", "is_allowed"),
    [
        ("get_weather", "direct", True),
        ("get_weather", "code", False),
        ("aggregate_data", "direct", False),
        ("aggregate_data", "code", True),
        ("search_docs", "direct", True),
        ("search_docs", "code", True),
    ],
)
@pytest.mark.parametrize("way", ["code mode around all", "split"])
async def test_a_cell_of_the_table(
    tool: str, caller: str, is_allowed: bool, way: str, marked: FunctionToolset[Any], engine: Shared
) -> None:
    arguments, text, value = CALLS[tool]
    talk = Talk(calls((tool, arguments)) if caller == "direct" else program(text), "done")
    toolsets = split_by_caller(marked, engine=engine) if way == "split" else [CodeModeToolset(marked, engine=engine)]

    result = await Agent(talk.model, toolsets=toolsets).run("go")

    (found,) = returns(result.all_messages())
    assert found == ("success", value) if is_allowed else found[0] == "retried"


async def test_no_tool_is_offered_twice(marked: FunctionToolset[Any], engine: Shared) -> None:
    in_one, split = Talk("done"), Talk("done")

    await Agent(in_one.model, toolsets=[CodeModeToolset(marked, engine=engine)]).run("go")
    await Agent(split.model, toolsets=split_by_caller(marked, engine=engine)).run("go")

    assert in_one.tool_names == ["get_weather", "search_docs", "run_code"]
    assert split.tool_names == ["get_weather", "search_docs", "get_time", "run_code"]
    descriptions = [
        talk.requests[0][1].function_tools[-1].description.partition(f"{HEADER}\n")[2] for talk in (in_one, split)
    ]
    assert descriptions == snapshot(
        [
            """\
aggregate_data(items: list[int]) -> int
  Complex aggregation - should use code mode.
search_docs(query: str) -> list[str]
  Can be called either way.
get_time(zone: str) -> str
  No mark at all.\
""",
            """\
aggregate_data(items: list[int]) -> int
  Complex aggregation - should use code mode.
search_docs(query: str) -> list[str]
  Can be called either way.\
""",
        ]
    )


async def test_without_code_mode_a_tool_for_programs_is_not_offered(marked: FunctionToolset[Any]) -> None:
    talk = Talk("done")

    await Agent(talk.model, toolsets=[marked]).run("go")

    assert talk.tool_names == ["get_weather", "search_docs", "get_time"]


async def test_the_mark_survives_wrappers_and_can_be_set_by_one(marked: FunctionToolset[Any], engine: Shared) -> None:
    talk = Talk(program("await x_aggregate_data(items=await y_numbers())"), "done")
    other: FunctionToolset[Any] = FunctionToolset()

    @other.tool
    def numbers() -> list[int]:
        return [1, 2, 3]

    prefixed = split_by_caller(marked.prefixed("x").filtered(lambda _, tool: tool.name != "x_get_time"), engine=engine)
    agent = Agent(talk.model, toolsets=[*prefixed, other.with_metadata(allowed_callers="both").prefixed("y")])
    result = await agent.run("go")

    assert talk.tool_names == ["x_get_weather", "x_search_docs", "run_code", "y_numbers"]
    assert returns(result.all_messages()) == [("success", 6)]


async def test_a_refused_call_of_a_direct_tool_says_how_to_call_it(
    marked: FunctionToolset[Any], engine: Shared
) -> None:
    talk = Talk(program("await get_weather(city='Rome')"), "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(marked, engine=engine)]).run("go")

    assert returns(result.all_messages()) == snapshot(
        [
            (
                "retried",
                """\
line 1: no tool 'get_weather'; the tools are: aggregate_data, search_docs, get_time, search_tools
await get_weather(city='Rome')
      ^
No program may call 'get_weather': call it directly, as a tool.
The program was not run and no tool was called. Correct it and send it whole.\
""",
            )
        ]
    )


@pytest.mark.parametrize("mark", ["Code", "none", ""])
async def test_a_mark_that_is_none_is_refused(mark: Any) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    with pytest.raises(UsageError) as caught:

        @toolset.tool(allowed_callers=mark)
        def get_weather(city: str) -> str: ...

    assert str(caught.value) == f"allowed_callers of 'get_weather' is {mark!r}; it must be 'direct', 'code' or 'both'"


async def test_the_words_are_a_type() -> None:
    assert AllowedCallers.__args__ == ("direct", "code", "both")  # type: ignore[attr-defined]
