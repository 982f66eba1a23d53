"""The real `StructuredTool`, called as LangChain's agents call it."""

import asyncio
import sys

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

import toolfold
from toolfold.frameworks import from_langchain, langchain_tool, openai_tool
from toolfold.testing import Ended, scripted


def call(code: object) -> dict[str, object]:
    return {"type": "tool_call", "id": "call_1", "name": "execute_program", "args": {"code": code}}


async def test_it_is_a_structured_tool_that_models_are_told_of(idle) -> None:
    made = langchain_tool(idle)

    told = convert_to_openai_tool(made)["function"]

    assert isinstance(made, StructuredTool)
    assert (told["name"], told["parameters"]) == (
        "execute_program",
        {
            "type": "object",
            "properties": {
                "code": {
                    "type": "string",
                    "description": "The Python program. Print what you need to know; keep large results inside the program.",
                }
            },
            "required": ["code"],
            "additionalProperties": False,
        },
    )
    assert told["description"] == openai_tool(idle).responses_tools[0]["description"]


async def test_a_tool_call_becomes_a_tool_message_with_the_outcome_beside_it(runtime) -> None:
    message = await langchain_tool(runtime).ainvoke(call("print(await count(text='abc'))"))

    assert isinstance(message, ToolMessage)
    assert (message.content, message.status, message.tool_call_id) == ("3", "success", "call_1")
    assert (message.artifact.status, [one.name for one in message.artifact.calls]) == ("finished", ["count"])


@pytest.mark.parametrize(
    ("code", "content"),
    [
        (
            "await cuont(text='abc')",
            "line 1: no tool 'cuont'; did you mean 'count'?\nawait cuont(text='abc')\n      ^\n"
            "The program was not started and no tool was called. Correct it and send it again.",
        ),
        (
            "1 / 0",
            'Traceback (most recent call last):\n  File "<program>", line 1, in __main__\n    1 / 0\n'
            "ZeroDivisionError: division by zero",
        ),
        (7, "'code' must be the program as text, got 7; nothing was called"),
    ],
)
async def test_a_program_that_does_not_finish_is_a_message_with_an_error(runtime, code, content) -> None:
    made = langchain_tool(runtime)

    message = await made.ainvoke(call(code))
    bare = await made.ainvoke({"code": code})

    assert (message.content, message.status, message.tool_call_id) == (content, "error", "call_1")
    assert bare == content


async def test_the_message_of_a_failed_program_has_its_outcome_from_every_way_in(runtime) -> None:
    made = langchain_tool(runtime)
    code = "await count(text='abc')\n1 / 0"

    awaited = await made.ainvoke(call(code))
    threaded = await asyncio.to_thread(made.invoke, call(code))
    rejected, fine = await asyncio.gather(made.ainvoke(call("await cuont()")), made.ainvoke(call("1")))

    for message in (awaited, threaded):
        assert (message.artifact.status, [one.name for one in message.artifact.calls]) == ("failed", ["count"])
    assert (rejected.artifact.status, fine.artifact.status) == ("rejected", "finished")


async def test_it_is_called_from_other_threads_while_its_loop_runs(runtime) -> None:
    made = langchain_tool(runtime)

    messages = await asyncio.gather(*(asyncio.to_thread(made.invoke, call(f"{n} ** 2")) for n in range(3)))
    with pytest.raises(toolfold.UsageError) as error:
        made.invoke(call("1"))

    assert [message.content for message in messages] == ["0", "1", "4"]
    assert str(error.value) == "'execute_program' runs in the event loop of its runtime; call ainvoke there"


PICTURE = toolfold.Media(kind="image", mime="image/png", data=b"png")


async def test_pictures_are_counted_for_chat_completions_takes_none_in_a_tools_message() -> None:
    runtime, _ = scripted(Ended(status="finished", value=PICTURE))

    async with runtime:
        message = await langchain_tool(runtime).ainvoke(call("1"))

    assert message.content == '"<image image/png>"\n(images not shown here: 1)'
    assert message.artifact.value == PICTURE


async def test_pictures_are_standard_content_blocks_where_the_model_takes_them() -> None:
    runtime, _ = scripted(Ended(status="finished", value=PICTURE))

    async with runtime:
        message = await langchain_tool(runtime, images=True).ainvoke(call("1"))

    assert [dict(block) for block in message.content_blocks] == [
        {"type": "text", "text": '"<image image/png>"'},
        {"type": "image", "base64": "cG5n", "mime_type": "image/png"},
    ]


async def test_langchains_own_tools_are_called_from_programs() -> None:
    @tool
    async def price(ticker: str, currency: str = "EUR") -> dict[str, str]:
        """The price of one share."""
        return {ticker: currency}

    async with toolfold.Runtime(tools=[from_langchain(price, domain="shares")]) as runtime:
        message = await langchain_tool(runtime).ainvoke(call("print(await price(ticker='ACME'))"))
        (spec, _) = runtime.tools

    assert message.content == "{'ACME': 'EUR'}"
    assert (spec.name, spec.domain, spec.description, spec.source) == (
        "price",
        "shares",
        "The price of one share.",
        "langchain",
    )
    assert (spec.parameters, spec.required) == (("ticker", "currency"), ("ticker",))


@pytest.mark.parametrize("name", ["langchain_tool", "from_langchain"])
def test_without_langchain_the_error_says_what_to_install(name: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core.tools", None)
    monkeypatch.delitem(sys.modules, "toolfold.interfaces.frameworks.langchain")
    monkeypatch.delitem(vars(toolfold.frameworks), name, raising=False)

    with pytest.raises(toolfold.UsageError) as error:
        getattr(toolfold.frameworks, name)

    assert str(error.value) == (
        "'langchain_core.tools' is not installed; "
        "install the extra 'langchain' of toolfold: pip install 'toolfold[langchain]'"
    )
