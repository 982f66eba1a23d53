"""Bash programs in a `CodeModeToolset` that allows them."""

from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests

from tests.interfaces.pydantic_ai.talk import Shared, Talk, calls, returns
from toolfold.errors import UsageError
from toolfold.interfaces.tool_prompt import BASH_RULE
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOTH = ("python", "bash")


def bash(code: str) -> Any:
    return calls(("run_code", {"code": code, "language": "bash"}))


def shop() -> FunctionToolset[Any]:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool_plain
    def price(name: str) -> int:
        """The price of a thing."""
        return len(name)

    @toolset.tool_plain(requires_approval=True)
    def buy(name: str) -> str:
        """Buy a thing."""
        return f"bought {name}"

    return toolset


async def test_the_model_chooses_a_language_where_it_may(engine: Shared) -> None:
    async def definition(**options: Any) -> Any:
        talk = Talk("done")
        await Agent(talk.model, toolsets=[CodeModeToolset(shop(), engine=engine, **options)]).run("go")
        [tool] = talk.requests[0][1].function_tools
        return tool

    usual, both = await definition(), await definition(languages=BOTH)

    properties = usual.parameters_json_schema["properties"]
    rules, _, rest = usual.description.partition("\n\n")
    assert both.description == f"{rules} {BASH_RULE}\n\n{rest}"
    assert both.parameters_json_schema == {
        **usual.parameters_json_schema,
        "properties": {**properties, "language": {"type": "string", "enum": ["python", "bash"]}},
        "required": ["code", "language"],
    }
    assert sorted(properties) == ["code"]


async def test_a_bash_program_calls_tools_and_shows_what_went_wrong_on_the_way(run: Any) -> None:
    talk = Talk(bash("ls nothing\nprice '{\"name\":\"tea\"}' | jq '. * 2'"), "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(shop(), engine="process", languages=BOTH)])

    result = await agent.run("go")

    text = "6\nstderr:\nls: cannot access 'nothing': No such file or directory\n"
    assert returns(result.all_messages()) == [("success", text)]


async def test_a_bash_program_waits_for_a_yes_and_goes_on(engine: Shared) -> None:
    talk = Talk(bash('echo begun\nbuy \'{"name":"tea"}\''), "done")
    toolset = CodeModeToolset(shop(), engine=engine, languages=BOTH)
    agent = Agent(talk.model, toolsets=[toolset], output_type=[str, DeferredToolRequests])

    asked = await agent.run("go")
    assert isinstance(asked.output, DeferredToolRequests)
    approved = asked.output.build_results(approve_all=True)
    result = await agent.run(message_history=asked.all_messages(), deferred_tool_results=approved)

    assert returns(result.all_messages()) == [("success", 'begun\n"bought tea"')]


async def test_bash_where_it_is_turned_off_is_told_to_the_model_and_an_engine_without_it_to_the_host(
    engine: Shared,
) -> None:
    talk = Talk(bash("echo"), "done")
    result = await Agent(talk.model, toolsets=[CodeModeToolset(shop(), engine=engine)]).run("go")

    with pytest.raises(UsageError) as caught:
        CodeModeToolset(shop(), engine="monty", languages=BOTH)

    off = "language 'bash' is turned off here; write Python, or set execution.languages: [python, bash]"
    assert returns(result.all_messages()) == [("retried", off)]
    assert str(caught.value) == "the engine 'monty' runs no bash programs here"
