"""Calls without `await`: when they are made, what runs at once, and what the program is told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from toolfold.models import ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.tool import Tool

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARALLEL = (
    "3 calls of 'put' ran one after another; 'await asyncio.gather(*[put(...) for ...])' runs independent calls at once"
)


class Desk:
    """Two tools that say how many of their calls were under way at once."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.most = {"get": 0, "put": 0}
        self.order: list[tuple[str, str]] = []
        self._open = {"get": 0, "put": 0}

    def tool(self, name: str, *, read_only: bool) -> Tool:
        async def call(arguments: Any) -> Any:
            self.order.append((name, arguments["key"]))
            self._open[name] += 1
            self.most[name] = max(self.most[name], self._open[name])
            for _ in range(20):
                await asyncio.sleep(0)
            self._open[name] -= 1
            if arguments["key"] == "bad":
                raise RuntimeError("no such key")
            return {"key": arguments["key"]}

        schema = {"type": "object", "properties": {"key": {}}, "required": ["key"]}
        return Tool(spec=ToolSpec(name=name, python_name=name, input_schema=schema, read_only=read_only), call=call)


DESK = Desk()


@pytest.fixture
def desk() -> Desk:
    DESK.clear()
    return DESK


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    tools = [DESK.tool("get", read_only=True), DESK.tool("put", read_only=False)]
    async with Runtime(tools=tools, engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize(
    "text",
    [
        "rows = [get(k) for k in 'abc']\nprint([r['key'] for r in rows])",
        "def rows():\n    return [get(k) for k in 'abc']\nprint([r['key'] for r in rows()])",
        "rows = [get(k) for k in 'abc']\nawait get('d')\nprint([r['key'] for r in rows])",
        "async def main():\n    rows = [get(k) for k in 'abc']\n    print([r['key'] for r in rows])\nawait main()",
        "def rows():\n    return [get(k) for k in 'abc']\nawait get('d')\nprint([r['key'] for r in rows()])",
        "from tools import get\nawait get('d')\nprint([r['key'] for r in [get(k) for k in 'abc']])",
    ],
)
async def test_the_calls_of_a_list_that_only_read_run_at_once(text: str, runtime: Runtime, desk: Desk) -> None:
    outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.problem) == ("['a', 'b', 'c']\n", None)
    assert desk.most["get"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "rows = [put(k) for k in 'abc']\nprint(len(rows))",
        "rows = [put(k) for k in 'abc']\nawait get('d')\nprint(len(rows))",
        "async def main():\n    [put(k) for k in 'abc']\n    print(3)\nawait main()",
        "for k in 'abc':\n    put(k)\nprint(3)",
        "def each():\n    for k in 'abc':\n        put(k)\neach()\nawait get('d')\nprint(3)",
    ],
)
async def test_calls_that_change_something_run_one_after_another(text: str, runtime: Runtime, desk: Desk) -> None:
    outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.hints) == ("3\n", (PARALLEL,))
    assert (desk.most["put"], [one for one in desk.order if one[0] == "put"]) == (
        1,
        [("put", "a"), ("put", "b"), ("put", "c")],
    )


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nprint(len(await asyncio.gather(*[put(k) for k in 'abc'])))",
        "import asyncio\ncalls = [put(k) for k in 'abc']\nprint(len(await asyncio.gather(*calls)))",
        "import asyncio\ncalls = []\nfor k in 'abc':\n    calls.append(put(k))\nprint(len(await asyncio.gather(*calls)))",
        "import asyncio\ndef all():\n    return [put(k) for k in 'abc']\nprint(len(await asyncio.gather(*all())))",
        "import asyncio\nasync def one(c):\n    return await c\n"
        "print(len(await asyncio.gather(*[one(put(k)) for k in 'abc'])))",
        "import asyncio\ncalls = {k: put(k) for k in 'abc'}\nprint(len(await asyncio.gather(*calls.values())))",
        "import asyncio\ntasks = [asyncio.create_task(put(k)) for k in 'abc']\nprint(len([await t for t in tasks]))",
        "import asyncio\nasync with asyncio.TaskGroup() as g:\n    ts = [g.create_task(put(k)) for k in 'abc']\nprint(len(ts))",
        "import asyncio\nput_all = lambda ks: map(put, ks)\nprint(len(await asyncio.gather(*put_all('abc'))))",
        "import asyncio\nasync def both():\n    return await asyncio.gather(put('a'), put('b'), put('c'))\n"
        "print(len(await both()))",
    ],
)
async def test_calls_that_are_gathered_run_at_once_as_ever(text: str, runtime: Runtime, desk: Desk) -> None:
    outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.hints, outcome.problem) == ("3\n", (), None)
    assert (desk.most["put"], len(desk.order)) == (3, 3)


async def test_a_call_is_made_once_however_often_it_is_used(runtime: Runtime, desk: Desk) -> None:
    text = "def twice(c):\n    return c['key'] + c['key']\nc = put('a')\nprint(twice(c), twice(c), (await c)['key'])"

    outcome = await runtime.run(text)

    assert (outcome.stdout, desk.order) == ("aa aa a\n", [("put", "a")])


async def test_a_call_that_nothing_uses_is_told_of(runtime: Runtime, desk: Desk) -> None:
    text = "held = []\nheld.append(put('a'))\nput('b').close()\nprint((await get('c'))['key'])"

    outcome = await runtime.run(text)

    hint = "1 call of 'put' was never made: nothing awaited or used the reply; write 'await put(...)'"
    assert (outcome.stdout, desk.order) == ("c\n", [("get", "c")])
    assert hint in outcome.hints


async def test_a_call_stored_and_only_read_is_made_where_it_stands(runtime: Runtime, desk: Desk) -> None:
    text = "a = put('a')\nb = get('b')\nprint(b['key'], a['key'], (await get('c'))['key'])"

    outcome = await runtime.run(text)

    assert (outcome.stdout, desk.order) == ("b a c\n", [("put", "a"), ("get", "b"), ("get", "c")])


async def test_a_failing_call_raises_where_its_value_is_used(runtime: Runtime, desk: Desk) -> None:
    text = "rows = [get(k) for k in ('a', 'bad')]\nprint(rows)"

    outcome = await runtime.run(text)

    assert outcome.stderr == (
        'Traceback (most recent call last):\n  File "<program>", line 1, in __main__\n'
        "    rows = [get(k) for k in ('a', 'bad')]\nToolError: 'get' failed: no such key\n"
    )


async def test_a_call_made_by_several_threads_is_made_once(runtime: Runtime, desk: Desk) -> None:
    text = (
        "import threading\nheld = [put('a')]\nseen = []\n"
        "threads = [threading.Thread(target=lambda: seen.append(held[0]['key'])) for _ in range(4)]\n"
        "for t in threads: t.start()\nfor t in threads: t.join()\nprint(seen, (await held[0])['key'])"
    )

    outcome = await runtime.run(text)

    assert (outcome.stdout, desk.order) == ("['a', 'a', 'a', 'a'] a\n", [("put", "a")])
