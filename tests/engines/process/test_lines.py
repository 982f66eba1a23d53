"""Every call says which line of the program made it, whoever runs it in the end."""

import pytest

import toolfold
from toolfold import Paused, Runtime
from toolfold.ledger.base import CallEntry
from toolfold.ledger.memory import MemoryLedger


@toolfold.tool(read_only=True)
async def echo(value: int) -> int:
    """The same again."""
    return value


async def lines_of(text: str) -> dict[int, int]:
    """The line of each call, by the value that it sent."""
    async with Runtime(tools=[echo], engine="process") as runtime:
        outcome = await runtime.run(text)
    assert outcome.problem is None
    return {call.arguments["value"]: call.line for call in outcome.calls}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\n\nawait echo(value=1)", {1: 3}),
        ("await echo(value=1)\nx = 1\nawait echo(value=2)", {1: 1, 2: 3}),
        ("await echo(\n    value=1\n)", {1: 1}),
        ("async def f():\n    async def g():\n        return await echo(value=1)\n    return await g()\nawait f()", {1: 3}),
        ("[await echo(value=v)\n for v in range(2)]", {0: 1, 1: 1}),
        ("{\n    v: await echo(value=v)\n    for v in range(2)}", {0: 2, 1: 2}),
        ("await asyncio.gather(\n    echo(value=1),\n    echo(value=2),\n    *(\n        echo(value=v)\n        for v in (3, 4)\n    ))",
         {1: 2, 2: 3, 3: 5, 4: 5}),
        ("calls = [echo(value=1),\n echo(value=2)]\nasync with asyncio.TaskGroup() as group:\n    for call in calls:\n"
         "        group.create_task(call)", {1: 1, 2: 2}),
        ("async def main():\n    return await echo(value=1)\nasyncio.run(main())", {1: 2}),
        ("x = 1\ntools.echo(value=x)", {1: 2}),
        ("x = 1\nawait tools.async_echo(value=x)", {1: 2}),
        ("await asyncio.gather(tools.echo(value=1),\n tools.echo(value=2))", {1: 1, 2: 2}),
        ("x = 1\nprint(echo(value=x)\n + echo(value=2))", {1: 2, 2: 3}),
        ("a = echo(value=1)\nb = echo(value=2)\nawait a\nprint(b)", {1: 1, 2: 2}),
        ("found = [echo(value=v)\n for v in range(2)]\nprint(found)", {0: 1, 1: 1}),
        ("import threading\ndef work():\n    tools.echo(value=1)\nthread = threading.Thread(target=work)\nthread.start()\n"
         "thread.join()", {1: 3}),
        ("def work(v):\n    return tools.echo(value=v)\nawait asyncio.gather(*(asyncio.to_thread(work, v) for v in (1, 2)))",
         {1: 2, 2: 2}),
        ("import functools\nsorted([2, 1], key=lambda v:\n    tools.echo(value=v))", {1: 3, 2: 3}),
        ("import functools\nfunctools.partial(\n    tools.echo, value=1)()", {1: 2}),
        ("x = 1\nexec('\\n\\n\\ntools.echo(value=1)')", {1: 2}),
        ("async def main():\n    return await echo(value=1)\nif True:\n    return await main()", {1: 2}),
    ],
)  # fmt: skip
async def test_a_call_has_the_line_of_the_program_that_made_it(text: str, lines: dict[int, int]) -> None:
    assert await lines_of(text) == lines


@pytest.mark.parametrize(
    "text",
    [
        # Nothing of the program is on the stack of the thread that runs the tool.
        "await asyncio.to_thread(tools.echo, value=1)",
        # A line that the host takes for a breach must not be sent at all.
        "exec(compile('\\n' * 10_000_000 + 'tools.echo(value=1)', '<program>', 'exec'))",
    ],
)
async def test_a_call_from_no_line_of_the_program_has_none(text: str) -> None:
    assert await lines_of(text) == {1: 0}


async def test_a_paused_call_and_its_record_have_the_line() -> None:
    outside = toolfold.ToolSpec(name="ask", python_name="ask", source="caller")
    ledger = MemoryLedger()
    async with Runtime(engine="process", ledger=ledger) as runtime:
        paused = await runtime.start("x = 1\nawait ask()", tools=[outside])
        assert isinstance(paused, Paused)
        outcome = await runtime.resume(paused.execution_id, [toolfold.Reply(call_id=1, value=2)])
        history = await ledger.load(paused.execution_id)

    assert [call.line for call in paused.calls] == [2]
    assert not isinstance(outcome, Paused)
    assert [call.line for call in outcome.calls] == [2]
    assert history is not None
    assert [entry.call.line for entry in history.entries if isinstance(entry, CallEntry)] == [2]


async def test_tools_are_still_coroutine_functions_and_their_wrappers_are_what_they_are() -> None:
    text = """
import asyncio, functools, inspect
@functools.wraps(echo)
def wrapper(**arguments):
    return asyncio.run(echo(**arguments))
coroutine = echo(value=1)
asks = (inspect.iscoroutinefunction, asyncio.iscoroutinefunction)
said = [[ask(one) for one in (echo, functools.partial(echo, value=1), tools.echo, wrapper)] for ask in asks]
(said, coroutine.__qualname__, inspect.iscoroutine(coroutine), await coroutine)"""
    async with Runtime(tools=[echo], engine="process") as runtime:
        outcome = await runtime.run(text)

    assert outcome.value == [[[True, True, True, False]] * 2, "echo", True, 1]


async def test_lines_do_not_decide_whether_a_replay_is_the_same() -> None:
    async with Runtime(tools=[echo], engine="process", ledger=MemoryLedger()) as runtime:
        first = await runtime.run("await echo(value=1)\n1 / 0")
        fixed = await runtime.run("x = 1\n\nawait echo(value=x)", rerun_of=first.execution_id)

    assert [(call.line, call.from_record) for call in fixed.calls] == [(3, True)]
