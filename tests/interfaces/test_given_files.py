"""Files that an interface gives to every program: its prompt has a line for each, and programs read them."""

import json
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from pydantic_ai import Agent

import toolfold
from tests.interfaces.pydantic_ai.talk import Talk, program, returns
from toolfold import File, Runtime
from toolfold.frameworks import anthropic_tool, langchain_tool, openai_tool
from toolfold.interfaces.frameworks.anthropic import Item
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset

pytestmark = pytest.mark.long

SALES = File(name="sales.csv", data=b"day,price\n2024-01-02,1.5\n2024-01-03,\n")
TOLD = "\n\nFiles in the working directory of every program:\nsales.csv (37 bytes): 2 rows of day date, price float?"
COUNT = "len(open('sales.csv').readlines())"
CHANGE = "open('sales.csv', 'a').write('2024-01-04,2\\n')"


SHOWN = f"print({COUNT})"


def printed(count: int) -> str:
    return f"[Script executed successfully]\n{count}\n"


def chat_call(code: str) -> Item:
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": "execute_program", "arguments": json.dumps({"code": code})},
    }


async def test_openai() -> None:
    async with Runtime(engine="process") as runtime:
        given = await runtime.describe_files([SALES])
        fresh = openai_tool(runtime, files=given)
        kept = openai_tool(runtime, files=given, session="s")
        counts = [
            (await tool.answer(chat_call(text)))["content"] for tool in (fresh, kept) for text in (COUNT, CHANGE, COUNT)
        ]

    assert fresh.responses_tools[0]["description"].endswith(TOLD)
    # A session keeps what a program made of its files.
    assert [counts[0], counts[2]] == ["3", "3"]
    assert [counts[3], counts[5]] == ["3", "4"]


async def test_files_that_no_guest_has_read_are_told_by_name() -> None:
    async with Runtime(engine="process") as runtime:
        tool = openai_tool(runtime, files=[SALES])

    assert tool.responses_tools[0]["description"].endswith(
        "\n\nFiles in the working directory of every program:\nsales.csv (37 bytes)"
    )


async def test_anthropic() -> None:
    ask = {"name": "ask", "input_schema": {"type": "object"}, "allowed_callers": ["code_execution_20260120"]}
    async with Runtime(engine="process") as runtime:
        tool = anthropic_tool(runtime, tools=[ask], files=await runtime.describe_files([SALES]))
        use = {"type": "tool_use", "id": "t1", "name": "execute_program", "input": {"code": COUNT}}
        answer = await tool.answer(use, call=lambda _: "never asked")

    assert tool.tools[0]["description"].endswith(TOLD)
    assert answer["content"] == "3"


async def test_langchain() -> None:
    async with Runtime(engine="process") as runtime:
        tool = langchain_tool(runtime, files=await runtime.describe_files([SALES]))
        answer = await tool.ainvoke({"code": COUNT})

    assert tool.description.endswith(TOLD)
    assert answer == "3"


async def test_pydantic_ai() -> None:
    talk = Talk(program(COUNT), "done")
    toolset = CodeModeToolset(FunctionToolset(), engine="process", files=[SALES])

    result = await Agent(talk.model, toolsets=[toolset]).run("go")

    assert [info.function_tools[0].description.endswith(TOLD) for _, info in talk.requests] == [True, True]
    assert returns(result.all_messages()) == [("success", 3)]


async def test_mcp(tmp_path: Path) -> None:
    (tmp_path / "toolfold.yaml").write_text("ledger: {where: memory}\n")
    (tmp_path / "sales.csv").write_bytes(SALES.data)
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "toolfold", "mcp", "--file", "sales.csv"], cwd=tmp_path,
        env={"PYTHONPATH": str(Path(toolfold.__file__).parents[1]), "HOME": str(tmp_path)},
    )  # fmt: skip

    async with Client(stdio_client(server)) as client:
        [tool, *_] = (await client.list_tools()).tools
        fresh = [await client.call_tool(tool.name, {"code": text}) for text in (CHANGE, SHOWN)]
        kept = [await client.call_tool(tool.name, {"code": text, "session": "s"}) for text in (CHANGE, SHOWN)]

    assert tool.description is not None
    assert TOLD in tool.description
    assert [result.content[0].text for result in (fresh[1], kept[1])] == [printed(3), printed(4)]
