"""Anthropic's shapes, checked by the types and the client of the real `anthropic` package; the model is a script."""

import asyncio
import json
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import (
    ImageBlockParam,
    TextBlockParam,
    ToolParam,
    ToolResultBlockParam,
    ToolUnionParam,
    ToolUseBlock,
    ToolUseBlockParam,
)
from pydantic import TypeAdapter

import toolfold
from toolfold.frameworks import anthropic_tool
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.testing import Called, Died, scripted
from toolfold.tools.policy import Policy

SQL = {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]}


def definition(name: str, **more: object) -> dict[str, Any]:
    return {"name": name, "description": f"The {name}.", "input_schema": SQL, **more}


CODE_ONLY = definition("query", allowed_callers=["code_execution_20260120"])
EITHER = definition("explain", allowed_callers=["direct", "code_execution_20250825"])
DIRECT_ONLY = definition("drop-table")
GATHER = "a, b = await asyncio.gather(query(sql='1'), explain(sql='2'))\nprint(a, b)"


def fits(kind: object, value: object) -> bool:
    """Whether the SDK's own type takes it, and knows each of its keys."""
    taken = TypeAdapter(kind).validate_python(value)
    return json.loads(json.dumps(taken, default=list)) == value


def use(code: str, name: str = "execute_program") -> ToolUseBlock:
    return ToolUseBlock.model_validate({"type": "tool_use", "id": "toolu_1", "name": name, "input": {"code": code}})


def result(content: object, *, is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": is_error}


async def test_definitions_go_in_with_their_callers_and_come_out_for_the_model(idle) -> None:
    hosted = {"type": "code_execution_20260120", "name": "code_execution"}
    search = {"type": "web_search_20260209", "name": "web_search"}
    tool = anthropic_tool(idle, tools=[hosted, search, CODE_ONLY, EITHER, DIRECT_ONLY])

    first, *others = tool.tools

    code = {
        "type": "string",
        "description": "The Python program. Print what you need to know; keep large results inside the program.",
    }
    assert (first["name"], first["input_schema"]) == (
        "execute_program",
        {"type": "object", "properties": {"code": code}, "required": ["code"], "additionalProperties": False},
    )
    assert others == [
        {
            "name": "pay",
            "description": "Pay one order.",
            "input_schema": {
                "type": "object",
                "properties": {"order": {"type": "integer"}},
                "required": ["order"],
                "additionalProperties": False,
            },
        },
        search,
        definition("explain"),
        definition("drop-table"),
    ]
    assert all(fits(ToolUnionParam, one) for one in tool.tools)
    assert all(fits(ToolParam, one) for one in (CODE_ONLY, EITHER, DIRECT_ONLY))
    assert "\nquery(sql: str)" in first["description"]
    assert "\nexplain(sql: str)" in first["description"]
    assert "drop" not in first["description"]


async def test_a_programs_calls_come_out_with_their_caller_and_the_results_go_in(runtime) -> None:
    tool = anthropic_tool(runtime, tools=[CODE_ONLY, EITHER])

    blocks = await tool.start(use(GATHER))
    stem = blocks[0]["id"].removesuffix("_1")
    done = await tool.resume(
        use(GATHER),
        [
            {
                "type": "tool_result",
                "tool_use_id": blocks[1]["id"],
                "content": [{"type": "text", "text": '{"rows": [2]}'}],
            },
            {"type": "tool_result", "tool_use_id": blocks[0]["id"], "content": "one"},
        ],
    )

    assert blocks == [
        {
            "type": "tool_use",
            "id": f"{stem}_1",
            "name": "query",
            "input": {"sql": "1"},
            "caller": {"type": "code_execution_20260120", "tool_id": "toolu_1"},
        },
        {
            "type": "tool_use",
            "id": f"{stem}_2",
            "name": "explain",
            "input": {"sql": "2"},
            "caller": {"type": "code_execution_20250825", "tool_id": "toolu_1"},
        },
    ]
    assert all(fits(ToolUseBlockParam, one) for one in blocks)
    assert [ToolUseBlock.model_validate(one).caller.tool_id for one in blocks] == ["toolu_1", "toolu_1"]
    assert done == [result("one {'rows': [2]}")]
    assert fits(ToolResultBlockParam, done[0])


async def test_results_may_come_one_by_one(runtime) -> None:
    tool = anthropic_tool(runtime, tools=[CODE_ONLY, EITHER])
    one, two = await tool.start(use(GATHER))

    left = await tool.resume(use(GATHER), [{"type": "tool_result", "tool_use_id": two["id"], "content": "b"}])
    done = await tool.resume(use(GATHER), [{"type": "tool_result", "tool_use_id": one["id"], "content": "a"}])

    assert (left, done) == ([one], [result("a b")])


async def test_another_process_goes_on_with_the_results(tmp_path) -> None:
    async def opened(work):
        ledger = open_ledger(str(tmp_path / "ledger.db"))
        try:
            async with toolfold.Runtime(ledger=ledger) as runtime:
                return await work(anthropic_tool(runtime, tools=[CODE_ONLY]))
        finally:
            await ledger.close()

    program = use("print('before')\nprint(await query(sql='1'))")
    (block,) = await opened(lambda tool: tool.start(program))
    done = await opened(
        lambda tool: tool.resume(program, [{"type": "tool_result", "tool_use_id": block["id"], "content": "late"}])
    )

    assert done == [result("before\nlate")]


async def test_one_function_answers_the_models_calls_and_the_programs(runtime) -> None:
    asked = []

    def call(block: dict[str, Any]) -> dict[str, Any]:
        asked.append((block["name"], block["caller"]["type"]))
        if block["input"] == {"sql": "bad"}:
            raise ValueError("syntax error at 'bad'")
        return {"rows": [block["input"]["sql"]]}

    tool = anthropic_tool(runtime, tools=[CODE_ONLY, EITHER])
    program = "print(await query(sql='1'), await explain(sql='2'))\nawait query(sql='bad')"
    direct = {"type": "tool_use", "id": "toolu_1", "name": "explain", "input": {"sql": "3"}}
    failing = {**direct, "input": {"sql": "bad"}}

    answers = [await tool.answer(one, call) for one in (use(program), direct, failing)]

    assert asked == [
        ("query", "code_execution_20260120"),
        ("explain", "code_execution_20250825"),
        ("query", "code_execution_20260120"),
        ("explain", "direct"),
        ("explain", "direct"),
    ]
    assert answers == [
        result(
            "Traceback (most recent call last):\n"
            '  File "<program>", line 2, in __main__\n'
            "    await query(sql='bad')\n"
            "ToolError: 'query' failed: syntax error at 'bad'\n"
            "Output before that:\n"
            "{'rows': ['1']} {'rows': ['2']}",
            is_error=True,
        ),
        result('{"rows": ["3"]}'),
        result("'explain' failed: syntax error at 'bad'", is_error=True),
    ]


async def test_the_function_may_answer_with_blocks_and_be_async(runtime) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}}

    async def call(block: dict[str, Any]) -> dict[str, Any]:
        content = [{"type": "text", "text": "see"}, picture]
        return {"type": "tool_result", "tool_use_id": block["id"], "content": content}

    tool = anthropic_tool(runtime, tools=[CODE_ONLY, EITHER])
    direct = {"type": "tool_use", "id": "toolu_1", "name": "explain", "input": {"sql": "3"}}

    nested = await tool.answer(
        use("text, image = await query(sql='1')\nprint(text, image.mime, image.data)\nimage"), call
    )

    assert nested == result([{"type": "text", "text": "see image/png b'png'\nValue: \"<image image/png>\""}, picture])
    # Part by part: pydantic reads the parts of a whole block lazily, and only while its type is at hand.
    assert fits(ToolResultBlockParam, {**nested, "content": ""})
    assert [
        fits(kind, one) for kind, one in zip((TextBlockParam, ImageBlockParam), nested["content"], strict=True)
    ] == [True, True]
    assert await tool.answer(direct, call) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "text", "text": "see"}, picture],
    }


async def test_an_error_of_a_tool_result_is_raised_in_the_program(runtime) -> None:
    tool = anthropic_tool(runtime, tools=[CODE_ONLY])
    program = use("try:\n    await query(sql='1')\nexcept ToolError as error:\n    print('caught', error)")
    (block,) = await tool.start(program)

    done = await tool.resume(
        program, [{"type": "tool_result", "tool_use_id": block["id"], "content": "no table", "is_error": True}]
    )

    assert done == [result("caught no table")]


async def test_tools_of_the_runtime_are_served_beside_those_of_the_host(runtime) -> None:
    tool = anthropic_tool(runtime, tools=[CODE_ONLY])
    program = use("print(await count(text=await query(sql='1')))")
    direct = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"order": 7}}

    answers = [await tool.answer(program, lambda _: "abc"), await tool.answer(direct)]

    assert answers == [result("3"), result('{"paid": 7}')]


async def test_a_tool_that_needs_approval_is_refused_where_nobody_can_be_asked() -> None:
    async def risky() -> str:
        """Dangerous."""
        return "done"

    async with toolfold.Runtime(tools=[risky], policy=Policy(ask=["risky"])) as runtime:
        tool = anthropic_tool(runtime, tools=[CODE_ONLY])
        program = use("await query(sql='1')\ntry:\n    await risky()\nexcept ToolError as error:\n    print(error)")
        answer = await tool.answer(program, lambda _: "fine")

    assert answer == result("'risky' was denied: it needs approval, and nobody can give it here")


async def test_a_crash_tells_what_may_have_run() -> None:
    async def notify() -> None:
        """Tell somebody."""

    runtime, _ = scripted(
        Called(toolfold.Call(id=1, tool="notify", arguments={})), Died("its memory ran out"), tools=[notify]
    )

    async with runtime:
        answer = await anthropic_tool(runtime).answer(use("await notify()"))

    assert answer == result(
        "The program was lost: its memory ran out\nTools that were called and may have run: notify", is_error=True
    )


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([CODE_ONLY, CODE_ONLY], "two tools are named 'query'; rename one"),
        ([definition("pay")], "two tools are named 'pay'; rename one"),
        ([definition("")], "a tool definition needs a name, got ''"),
        ([definition("execute_program", allowed_callers=["code_execution_20260120"])],
         "a tool is named 'execute_program' like the one that runs programs; give name="),
        ([{"name": "q", "input_schema": {"type": "array"}}], "the input_schema of tool 'q' is no JSON Schema of an object"),
        ([definition("q", allowed_callers=[])],
         "tool 'q': allowed_callers is empty; name 'direct' or 'code_execution_…'"),
        ([definition("q", allowed_callers=["code"])],
         "tool 'q': allowed caller 'code' is not 'direct' or 'code_execution_…'"),
        ([{"type": "web_search_20260209", "name": "web_search", "allowed_callers": ["code_execution_20260120"]}],
         "tool 'web_search' runs at Anthropic and no program here can call it; allow 'direct'"),
        (["query"], "a tool definition is an object of the SDK or a dict, got 'str'"),
    ],
)  # fmt: skip
async def test_a_wrong_definition_is_one_line(idle, tools, message) -> None:
    with pytest.raises(toolfold.UsageError) as error:
        anthropic_tool(idle, tools=tools)

    assert str(error.value) == message


async def test_wrong_use_is_one_line(runtime) -> None:
    tool = anthropic_tool(runtime, tools=[CODE_ONLY])
    said = []

    for work in (
        tool.answer({"type": "text", "text": "x"}),
        tool.answer(use("await query(sql='1')")),
        tool.resume(use("x"), []),
        tool.resume(use("x"), [{"type": "tool_result", "tool_use_id": "toolu_other", "content": "x"}]),
    ):
        with pytest.raises(toolfold.UsageError) as error:
            await work
        said.append(str(error.value))

    assert said == [
        "'text' is no 'tool_use' block with id, name and input",
        "the given tools must be answered: give call=, or use start and resume",
        "give the results of one program, got those of 0",
        "no program waits for 'toolu_other'; answer with the block's own id",
    ]


async def test_the_real_client_holds_a_whole_conversation(runtime) -> None:
    tool, asked = anthropic_tool(runtime, tools=[CODE_ONLY]), []

    def model(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        block = use("print(len(await query(sql='select')))").model_dump(exclude_none=True)
        content = [block] if len(asked) == 1 else [{"type": "text", "text": "Two rows."}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        stop = "tool_use" if len(asked) == 1 else "end_turn"
        return httpx2.Response(
            200,
            json={"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
                  "stop_reason": stop, "stop_sequence": None, "usage": usage},
        )  # fmt: skip

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(model)) as http:
        client = anthropic.AsyncAnthropic(api_key="none", base_url="http://model.invalid", http_client=http)
        messages = [{"role": "user", "content": "How many?"}]
        while True:
            said = await client.messages.create(model="m", max_tokens=10, messages=messages, tools=tool.tools)
            uses = [block for block in said.content if block.type == "tool_use"]
            if not uses:
                break
            answers = [await tool.answer(block, lambda _: [1, 2]) for block in uses]
            messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": answers}]

    assert said.content[0].text == "Two rows."
    assert asked[0]["tools"] == tool.tools
    assert asked[1]["messages"][-1] == {"role": "user", "content": [result("2")]}


async def test_a_cancelled_answer_leaves_no_program_behind(runtime) -> None:
    tool, asked = anthropic_tool(runtime, tools=[CODE_ONLY]), asyncio.Queue()

    async def never(block: dict[str, Any]) -> None:
        asked.put_nowait(block["id"])
        await asyncio.Event().wait()

    answering = asyncio.create_task(tool.answer(use("await query(sql='1')"), never))
    block_id = await asked.get()
    answering.cancel()
    await asyncio.wait([answering])

    with pytest.raises(toolfold.UsageError) as error:
        await tool.resume(use("x"), [{"type": "tool_result", "tool_use_id": block_id, "content": "late"}])

    execution_id = block_id.removeprefix("toolu_").removesuffix("_1")
    assert answering.cancelled()
    assert str(error.value) == f"execution {execution_id!r} has ended; there is nothing to resume"
