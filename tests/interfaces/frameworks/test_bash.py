"""Bash programs through the tools for OpenAI, Anthropic and LangChain, where the runtime's settings allow them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.tools import ToolException

import toolfold
from tests.interfaces.frameworks.conftest import count, get_expenses, pay
from toolfold.frameworks import anthropic_tool, langchain_tool, openai_tool
from toolfold.interfaces.tool_prompt import BASH_RULE
from toolfold.runtime import RuntimeSettings

CODE = "count '{\"text\":\"abc\"}' | jq '. * 2'"
OFF = "language 'bash' is turned off here; write Python, or set execution.languages: [python, bash]"
LOOKUP = {"name": "lookup", "description": "Look up.", "input_schema": {"type": "object"}}


@pytest.fixture
async def both() -> AsyncIterator[toolfold.Runtime]:
    settings = RuntimeSettings(languages=frozenset({"python", "bash"}))
    async with toolfold.Runtime(tools=[get_expenses, pay, count], settings=settings) as runtime:
        yield runtime


def openai_call(**arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "1", "name": "execute_program", "arguments": json.dumps(arguments)}


def anthropic_use(**arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "1", "name": "execute_program", "input": arguments}


async def test_models_choose_a_language_only_where_they_may(both, runtime) -> None:
    usual, chosen = openai_tool(runtime).responses_tools[0], openai_tool(both).responses_tools[0]
    anthropic, langchain = anthropic_tool(both).tools[0], langchain_tool(both)

    properties = {**usual["parameters"]["properties"], "language": {"type": "string", "enum": ["python", "bash"]}}
    schema = {**usual["parameters"], "properties": properties, "required": ["code", "language"]}
    rules, _, rest = usual["description"].partition("\n\n")
    assert chosen == {**usual, "parameters": schema, "description": f"{rules} {BASH_RULE}\n\n{rest}"}
    assert anthropic["input_schema"] == langchain.args_schema == schema
    assert anthropic["description"] == langchain.description == chosen["description"]
    # A tool that takes bare text has nowhere to say it.
    assert openai_tool(both, custom=True).responses_tools == openai_tool(runtime, custom=True).responses_tools


async def test_bash_programs_run_in_every_shape(both) -> None:
    openai = await openai_tool(both).answer(openai_call(code=CODE, language="bash"))
    anthropic = await anthropic_tool(both).answer(anthropic_use(code=CODE, language="bash"))
    paused = anthropic_tool(both, tools=[{**LOOKUP, "allowed_callers": ["code_execution_20260120"]}])
    answered = await paused.answer(
        anthropic_use(code="lookup '{\"id\":7}' | jq .name", language="bash"), lambda use: {"name": use["input"]}
    )
    langchain = await langchain_tool(both).ainvoke({"code": CODE, "language": "bash"})
    usual = await openai_tool(both).answer(openai_call(code="print(1)"))

    assert [openai["output"], anthropic["content"], langchain, usual["output"]] == ["6", "6", "6", "1"]
    assert answered["content"] == '{\n  "id": 7\n}'


async def test_a_session_is_shared_by_programs_in_both_languages(both) -> None:
    tool = openai_tool(both, session="s")
    await tool.answer(openai_call(code="open('a.txt', 'w').write('A')", language="python"))

    answer = await tool.answer(openai_call(code="ls nothing; cat a.txt", language="bash"))

    assert answer["output"] == "A\nstderr:\nls: cannot access 'nothing': No such file or directory\n"


async def test_a_language_that_is_turned_off_is_told_to_the_model(runtime) -> None:
    openai = await openai_tool(runtime).answer(openai_call(code=CODE, language="bash"))
    anthropic = await anthropic_tool(runtime).answer(anthropic_use(code=CODE, language="bash"))
    with pytest.raises(ToolException) as caught:
        await langchain_tool(runtime).coroutine(code=CODE, language="bash")

    assert [openai["output"], anthropic["content"], str(caught.value)] == [OFF] * 3
    assert anthropic["is_error"] is True
