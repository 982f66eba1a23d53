"""OpenAI's shapes, checked by the types and the client of the real `openai` package; the model is a script."""

import json

import httpx2
import openai
import pytest
from openai.types.chat import (
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionToolMessageParam,
    ChatCompletionToolUnionParam,
)
from openai.types.responses import ResponseCustomToolCall, ResponseFunctionToolCall, ToolParam
from openai.types.responses.response_custom_tool_call_output_param import ResponseCustomToolCallOutputParam
from openai.types.responses.response_input_param import FunctionCallOutput
from pydantic import TypeAdapter

import toolfold
from toolfold.frameworks import openai_tool
from toolfold.prompts.catalog import HEADER
from toolfold.testing import Ended, scripted

PROGRAM = """\
import asyncio
rows = await asyncio.gather(*[get_expenses(user_id=one, quarter=2) for one in "abc"])
print(sum(row["amount"] for report in rows for row in report))
"""
CODE = {
    "type": "string",
    "description": "The Python program. Print what you need to know; keep large results inside the program.",
}
PARAMETERS = {"type": "object", "properties": {"code": CODE}, "required": ["code"], "additionalProperties": False}
PAY = {
    "type": "object",
    "properties": {"order": {"type": "integer"}},
    "required": ["order"],
    "additionalProperties": False,
}


def fits(kind: object, value: object) -> bool:
    """Whether the SDK's own type takes it, and knows each of its keys."""
    taken = TypeAdapter(kind).validate_python(value)
    return json.loads(json.dumps(taken, default=list)) == value


def chat_call(name: str, **arguments: object) -> ChatCompletionMessageFunctionToolCall:
    return ChatCompletionMessageFunctionToolCall.model_validate(
        {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    )


async def test_the_definitions_are_those_of_both_apis(idle) -> None:
    tool = openai_tool(idle)

    description = tool.responses_tools[0]["description"]

    assert tool.responses_tools == [
        {
            "type": "function",
            "name": "execute_program",
            "description": description,
            "parameters": PARAMETERS,
            "strict": True,
        },
        {"type": "function", "name": "pay", "description": "Pay one order.", "parameters": PAY, "strict": False},
    ]
    assert tool.chat_tools == [
        {
            "type": "function",
            "function": {
                "name": "execute_program",
                "description": description,
                "parameters": PARAMETERS,
                "strict": True,
            },
        },
        {
            "type": "function",
            "function": {"name": "pay", "description": "Pay one order.", "parameters": PAY, "strict": False},
        },
    ]
    assert all(fits(ToolParam, one) for one in tool.responses_tools)
    assert all(fits(ChatCompletionToolUnionParam, one) for one in tool.chat_tools)


async def test_the_description_has_the_signatures_of_what_programs_may_call(idle) -> None:
    description = openai_tool(idle).responses_tools[0]["description"]

    assert description.endswith(
        "Each program starts fresh: no names or files are kept. The tools below can be called only in a program.\n\n"
        f"{HEADER}\n"
        "get_expenses(user_id: str, quarter: int = 1) -> list[dict]\n"
        "  Expenses of one user in one quarter.\n"
        "count(text: str) -> int\n"
        "  Letters of a text."
    )


async def test_tools_for_either_way_are_offered_directly_if_asked_for(idle) -> None:
    tool = openai_tool(idle, with_both=True)

    assert [one["name"] for one in tool.responses_tools] == ["execute_program", "get_expenses", "pay"]
    assert "For a single call of a tool that you also have directly" in tool.responses_tools[0]["description"]


async def test_tools_that_only_read_and_reply_little_are_offered_directly_once_that_is_known() -> None:
    @toolfold.tool(read_only=True)
    def get_user(user_id: int) -> dict[str, str]:
        """Name of a user."""
        return {"name": "Ada"}

    @toolfold.tool(read_only=True)
    def get_log(day: str) -> str:
        """Log of a day."""
        return "line\n" * 1000

    @toolfold.tool
    def rename(user_id: int, name: str) -> str:
        """Rename a user."""
        return name

    runtime = toolfold.Runtime(tools=[get_log, rename, get_user])
    before = openai_tool(runtime, with_both="small")
    assert [one["name"] for one in before.responses_tools] == ["execute_program"]
    for _ in range(2):
        await runtime.call("get_user", {"user_id": 1})
        await runtime.call("get_log", {"day": "monday"})
        await runtime.call("rename", {"user_id": 1, "name": "Eve"})

    small, both = (openai_tool(runtime, with_both=value) for value in ("small", True))
    definitions = small.responses_tools

    assert [one["name"] for one in definitions] == ["execute_program", "get_user"]
    assert definitions[0]["description"].endswith(
        "For a single call of a tool that you also have directly, call it directly. Programs can also call your other "
        f"tools; `name(...)` takes the arguments of your tool of that name.\n\n{HEADER}\n"
        "get_log(day: str) -> str\n  Log of a day.\nrename(user_id: int, name: str) -> str\n  Rename a user.\n"
        "get_user(...) -> dict[str, str]"
    )
    assert len(json.dumps(definitions)) < len(json.dumps(both.responses_tools))
    # Prompt caches hold: what a conversation was offered stays.
    assert [one["name"] for one in before.responses_tools] == ["execute_program"]
    assert await small.answer(chat_call("get_user", user_id=1)) == {
        "role": "tool", "tool_call_id": "call_1", "content": '{"name": "Ada"}'
    }  # fmt: skip


async def test_a_call_of_chat_completions_is_answered_with_a_tool_message(runtime) -> None:
    tool = openai_tool(runtime)

    message = await tool.answer(chat_call("execute_program", code=PROGRAM))

    assert message == {"role": "tool", "tool_call_id": "call_1", "content": "60"}
    assert fits(ChatCompletionToolMessageParam, message)


async def test_an_item_of_responses_is_answered_with_its_output(runtime) -> None:
    tool = openai_tool(runtime)
    call = ResponseFunctionToolCall.model_validate(
        {
            "type": "function_call",
            "call_id": "c",
            "name": "execute_program",
            "arguments": json.dumps({"code": "{'a': 1}"}),
        }
    )

    item = await tool.answer(call)

    assert item == {"type": "function_call_output", "call_id": "c", "output": '{"a": 1}'}
    assert fits(FunctionCallOutput, item)


async def test_a_custom_tool_takes_the_bare_program_in_both_apis(runtime) -> None:
    tool = openai_tool(runtime, custom=True)
    in_chat = ChatCompletionMessageCustomToolCall.model_validate(
        {"id": "1", "type": "custom", "custom": {"name": "execute_program", "input": PROGRAM}}
    )
    item = ResponseCustomToolCall.model_validate(
        {"type": "custom_tool_call", "call_id": "2", "name": "execute_program", "input": PROGRAM}
    )

    answers = [await tool.answer(in_chat), await tool.answer(item)]

    assert answers == [
        {"role": "tool", "tool_call_id": "1", "content": "60"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": "60"},
    ]
    assert fits(ResponseCustomToolCallOutputParam, answers[1])
    assert [sorted(one) for one in tool.responses_tools[:1]] == [["description", "name", "type"]]
    assert fits(ToolParam, tool.responses_tools[0])
    assert fits(ChatCompletionToolUnionParam, tool.chat_tools[0])


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("pay", '{"order": 7}', '{"paid": 7}'),
        ("pay", '{"order": "x"}', "'pay' got a bad argument: order must be an integer, got 'x'"),
        ("count", '{"text": "abc"}', "'count' may be called from a program only"),
        ("payy", "{}", "no tool 'payy'; did you mean 'pay'?"),
        ("execute_program", "{}", "'code' must be the program as text, got None; nothing was called"),
        ("execute_program", "[1]", "the arguments of 'execute_program' must be a JSON object; nothing was called"),
        (
            "execute_program",
            "{'code'",
            "the arguments of 'execute_program' are not JSON: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1); nothing was called",
        ),
    ],
)
async def test_direct_calls_and_a_models_mistakes_are_answered(idle, name, arguments, content) -> None:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}

    message = await openai_tool(idle).answer(call)

    assert message == {"role": "tool", "tool_call_id": "1", "content": content}


async def test_a_call_of_a_hosted_program_is_answered_to_that_program(idle) -> None:
    caller = {"type": "program", "caller_id": "prog_1"}
    call = {"type": "function_call", "call_id": "c", "name": "pay", "arguments": '{"order": 1}', "caller": caller}

    item = await openai_tool(idle).answer(ResponseFunctionToolCall.model_validate(call))

    assert item == {"type": "function_call_output", "call_id": "c", "output": '{"paid": 1}', "caller": caller}
    assert fits(FunctionCallOutput, item)


async def test_pictures_are_pictures_in_responses_and_counted_in_chat() -> None:
    picture = toolfold.Media(kind="image", mime="image/png", data=b"png")
    runtime, _ = scripted(Ended(status="finished", value=picture))
    tool = openai_tool(runtime)
    arguments = json.dumps({"code": "1"})

    async with runtime:
        item = await tool.answer(
            {"type": "function_call", "call_id": "c", "name": "execute_program", "arguments": arguments}
        )
        message = await tool.answer(chat_call("execute_program", code="1"))

    assert item["output"] == [
        {"type": "input_text", "text": '"<image image/png>"'},
        {"type": "input_image", "image_url": "data:image/png;base64,cG5n", "detail": "auto"},
    ]
    assert fits(FunctionCallOutput, item)
    assert message["content"] == '"<image image/png>"\n(images not shown here: 1)'


async def test_a_session_keeps_names_between_the_calls_of_one_tool(runtime) -> None:
    tool = openai_tool(runtime, session="chat-1")

    await tool.answer(chat_call("execute_program", code="total = 41"))
    message = await tool.answer(chat_call("execute_program", code="total + 1"))

    assert message["content"] == "42"


async def test_wrong_use_is_one_line(idle) -> None:
    tool = openai_tool(idle)

    with pytest.raises(toolfold.UsageError) as no_call:
        await tool.answer({"type": "message"})
    with pytest.raises(toolfold.UsageError) as nothing:
        await tool.answer(None)
    with pytest.raises(toolfold.UsageError) as taken:
        openai_tool(idle, name="pay")
    with pytest.raises(toolfold.UsageError) as unfit:
        openai_tool(idle, name="run it")

    assert [str(one.value) for one in (no_call, nothing, taken, unfit)] == [
        "'message' is no tool call; give one of `tool_calls`, or a `function_call` item",
        "a tool call is an object of the SDK or a dict, got 'NoneType'",
        "a tool is named 'pay' like the one that runs programs; give name=",
        "tool name 'run it' must be 1 to 64 letters, digits, '_' or '-'; give another",
    ]


async def test_the_real_client_holds_a_whole_conversation(runtime) -> None:
    tool, asked = openai_tool(runtime), []

    def model(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        call = chat_call("execute_program", code=PROGRAM).model_dump()
        first = {"role": "assistant", "content": None, "tool_calls": [call]}
        last = {"role": "assistant", "content": "They spent 60."}
        choice = {"index": 0, "finish_reason": "stop", "message": first if len(asked) == 1 else last}
        return httpx2.Response(
            200, json={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        )

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(model)) as http:
        client = openai.AsyncOpenAI(api_key="none", base_url="http://model.invalid/v1", http_client=http)
        messages = [{"role": "user", "content": "How much?"}]
        while True:
            done = await client.chat.completions.create(model="m", messages=messages, tools=tool.chat_tools)
            said = done.choices[0].message
            if not said.tool_calls:
                break
            messages += [said, *[await tool.answer(call) for call in said.tool_calls]]

    assert said.content == "They spent 60."
    assert asked[0]["tools"] == tool.chat_tools
    assert asked[1]["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": "60"}


async def test_signatures_that_do_not_fit_are_found_by_search() -> None:
    tools = [
        toolfold.Tool(spec=toolfold.ToolSpec(name=f"tool_{n}", python_name=f"tool_{n}"), call=None) for n in range(500)
    ]
    long = toolfold.Tool(
        spec=toolfold.ToolSpec(name="x." * 50, python_name="x" * 100, allowed_callers="direct"), call=None
    )

    first, last = openai_tool(toolfold.Runtime(tools=[*tools, long])).responses_tools

    assert len(first["description"]) < 8_000
    assert "Find the signatures of these with `search_tools`, also inside a program:" in first["description"]
    assert (len(last["name"]), last["name"][:58]) == (64, "x" * 57 + "_")
