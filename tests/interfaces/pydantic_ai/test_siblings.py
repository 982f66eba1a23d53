"""Toolsets beside a `CodeModeToolset` in one agent: their marks hold there, too."""

from typing import Any

import pytest
from pydantic_ai import Agent, UserError
from pydantic_ai import FunctionToolset as PydanticFunctionToolset

from tests.interfaces.pydantic_ai.talk import Shared, Talk, calls, program, returns
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset

pytestmark = pytest.mark.asyncio(loop_scope="module")


def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


def half(x: int) -> float:
    """Half as much."""
    return x / 2


def mode(engine: Shared) -> CodeModeToolset[Any]:
    return CodeModeToolset(FunctionToolset([half]), engine=engine)


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: one.filtered(lambda *_: True)])
async def test_a_toolset_marked_for_programs_is_theirs_and_not_shown_to_the_model(engine: Shared, wrap) -> None:
    beside = wrap(FunctionToolset([double]).with_metadata(allowed_callers="code"))
    talk = Talk(program("[await double(x=2), await half(x=2)]"), "done")

    result = await Agent(talk.model, toolsets=[beside, mode(engine)]).run("go")

    assert talk.tool_names == ["run_code"]
    assert returns(result.all_messages()) == [("success", [4, 1.0])]
    description = talk.requests[0][1].function_tools[-1].description
    assert [line for line in description.splitlines() if " -> " in line][-2:] == [
        "half(x: int) -> float",
        "double(x: int) -> int",
    ]


@pytest.mark.parametrize("toolset", [FunctionToolset, PydanticFunctionToolset])
async def test_a_tool_for_both_is_called_either_way(engine: Shared, toolset) -> None:
    beside = toolset([double]).with_metadata(allowed_callers="both")
    talk = Talk(program("await double(x=2)"), calls(("double", {"x": 3})), "done")

    result = await Agent(talk.model, toolsets=[beside, mode(engine)]).run("go")

    assert talk.tool_names == ["double", "run_code"]
    assert returns(result.all_messages()) == [("success", 4), ("success", 6)]


async def test_a_tool_of_the_agent_itself_can_be_marked_and_one_without_a_mark_stays_direct(engine: Shared) -> None:
    talk = Talk(program("await double(x=2)"), program("await half(x=2)"), "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(FunctionToolset(), engine=engine)])
    agent.tool_plain(metadata={"allowed_callers": "both"})(double)
    agent.tool_plain(half)

    result = await agent.run("go")

    assert talk.tool_names == ["double", "half", "run_code"]
    assert [kind for kind, _ in returns(result.all_messages())] == ["success", "retried"]


async def test_a_mark_that_cannot_be_kept_is_refused_in_one_line(engine: Shared) -> None:
    beside = PydanticFunctionToolset([double]).with_metadata(allowed_callers="code")

    with pytest.raises(UserError) as error:
        await Agent(Talk("done").model, toolsets=[beside, mode(engine)]).run("go")

    assert str(error.value) == (
        "'double' is marked allowed_callers='code', but its toolset shows it to the model; "
        "put that toolset into the CodeModeToolset, or use toolfold.pydantic_ai.FunctionToolset"
    )


async def test_two_code_modes_leave_each_others_tools_alone(engine: Shared) -> None:
    other = CodeModeToolset(FunctionToolset([double]).with_metadata(allowed_callers="both"), engine=engine)
    talk = Talk(program("await double(x=2)"), "done")

    result = await Agent(talk.model, toolsets=[other.prefixed("other"), mode(engine)]).run("go")

    assert talk.tool_names == ["other_double", "other_run_code", "run_code"]
    assert [kind for kind, _ in returns(result.all_messages())] == ["retried"]
