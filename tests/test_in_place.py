"""Calls without `await`: when they are made, what runs at once, and what the program is told."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
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
    """Three tools that say how many of their calls were under way at once."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.most = {"get": 0, "put": 0, "word": 0}
        self.order: list[tuple[str, str]] = []
        self._open = dict.fromkeys(self.most, 0)

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
            return arguments["key"] if name == "word" else {"key": arguments["key"]}

        schema = {"type": "object", "properties": {"key": {}}, "required": ["key"]}
        return Tool(spec=ToolSpec(name=name, python_name=name, input_schema=schema, read_only=read_only), call=call)


DESK = Desk()


@pytest.fixture
def desk() -> Desk:
    DESK.clear()
    return DESK


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    tools = [DESK.tool("get", read_only=True), DESK.tool("put", read_only=False), DESK.tool("word", read_only=False)]
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


async def test_a_call_in_a_container_that_nothing_awaits_is_made_where_it_stands(runtime: Runtime, desk: Desk) -> None:
    text = "log = []\nlog.append(put('a'))\nput('b').close()\nprint((await get('c'))['key'], len(log))"

    outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.unmade_calls) == ("c 1\n", ())
    assert desk.order == [("put", "a"), ("get", "c")]


async def test_a_call_that_nothing_awaits_in_the_end_is_named(runtime: Runtime, desk: Desk) -> None:
    text = "calls = {'a': put('a'),\n  'b': put('b')}\nprint((await calls['a'])['key'])"

    outcome = await runtime.run(text)

    assert (outcome.stdout, desk.order) == ("a\n", [("put", "a")])
    assert (outcome.unmade_calls, outcome.unmade_line) == (
        ("put(...) at line 2",),
        "not made: put(...) at line 2 was never awaited",
    )


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


@pytest.mark.parametrize(
    ("text", "stdout", "order"),
    [
        ("log = []\nlog.append(put('a'))\nb = await put('b')\nprint(len(log), b['key'])", "1 b\n", "ab"),
        ("async def again(f, *a):\n    for _ in range(2):\n        try:\n            return f(*a)\n"
         "        except ToolError:\n            put('x')\nprint(await again(put, 'bad'))", "None\n", ["bad", "x", "bad", "x"]),
        ("async def safe(k):\n    try:\n        return put(k)\n    except ToolError:\n        return 'none'\n"
         "print(await safe('bad'))", "none\n", ["bad"]),
        ("import asyncio\nasync def two(k):\n    first = get(k)\n    put(k)\n    return first\n"
         "print(len(await asyncio.gather(two('a'), two('b'))))", "2\n", "abab"),
        ("class Box:\n    def __init__(self):\n        self.log = []\n    async def add(self, k):\n"
         "        self.log.append(put(k))\nbox = Box()\nawait box.add('a')\nawait put('b')\nprint(len(box.log))", "1\n", "ab"),
        ("def keep(row):\n    return [row]\nrows = keep(put('a'))\nawait put('b')\nprint(rows[0]['key'])", "a\n", "ab"),
        ("async def fetch(k):\n    return await put(k)\nlog = []\nput('x')\nlog.append(fetch('a'))\nawait put('b')\n"
         "print(log[0]['key'])", "a\n", "xab"),
        ("from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool(1) as pool:\n"
         "    rows = list(pool.map(put, 'ab'))\nawait put('c')\nprint(rows[1]['key'])", "b\n", "abc"),
    ],
)  # fmt: skip
async def test_a_call_that_nothing_can_await_is_made_in_its_order_and_inside_its_try(
    text: str, stdout: str, order: list[str], runtime: Runtime, desk: Desk
) -> None:
    outcome = await runtime.run(text)

    assert (outcome.stdout, outcome.problem, outcome.unmade_calls) == (stdout, None, ())
    assert [key for _, key in desk.order] == list(order)


@pytest.mark.parametrize(
    ("text", "unmade"),
    [
        ("async def main():\n    return await put('a')\ncoroutine = main()\nprint(1)", ("main(...) at line 1",)),
        ("import asyncio\nasyncio.create_task(put('a'))\nprint(1)", ("put(...) at line 2",)),
        ("async def one(k):\n    await put(k)\n[one(k) for k in 'abc']\nprint(1)", ("one(...) at line 1 (3 times)",)),
    ],
)
async def test_a_coroutine_that_never_runs_is_named(
    text: str, unmade: tuple[str, ...], runtime: Runtime, desk: Desk
) -> None:
    outcome = await runtime.run(text)

    assert (outcome.status, outcome.unmade_calls, desk.order) == ("finished", unmade, [])


async def test_a_call_that_was_made_late_is_told_of(runtime: Runtime, desk: Desk) -> None:
    text = "import asyncio\na, b = [put('a'), put('b')]\nawait put('c')\nif len(a) > 5:\n    await asyncio.gather(a, b)\nprint(b['key'])"

    outcome = await runtime.run(text)

    assert [key for _, key in desk.order] == ["c", "a", "b"]
    assert outcome.hints == (
        "put(...) at line 2 was made after later calls, when its value was used; write 'await put(...)'",
    )


@pytest.mark.parametrize(
    "text", ["result = main()", "return main()", "result = 0\nresult = main()", "if 1:\n    return main()"]
)
async def test_the_value_of_a_program_that_forgets_to_await_main_is_what_main_gives(
    text: str, runtime: Runtime, desk: Desk
) -> None:
    main = "async def main():\n    return (await put('a'))['key']\n"

    outcome = await runtime.run(main + text)

    assert (outcome.status, outcome.value, outcome.unmade_calls, desk.order) == ("finished", "a", (), [("put", "a")])


@pytest.mark.parametrize(
    "text",
    [
        "print(globals()['get']('a')['key'])",
        "print(globals()['get']('a')['key'], (await get('a'))['key'][1:])",
        "print((await globals()['get']('a'))['key'])",
        "print((await getattr(tools, 'get')('a'))['key'])",
        "name = 'get'\nf = getattr(tools, name)\nprint((await f('a'))['key'])",
        "print(getattr(tools, 'get')('a')['key'])",
        "t = tools\nprint((await t.get('a'))['key'])",
        "t = tools\nprint(t.get('a')['key'])",
        "f = tools.get\nprint((await f('a'))['key'])",
        "async def call(module, name):\n    return await getattr(module, name)('a')\nprint((await call(tools, 'get'))['key'])",
        "import asyncio\nrows = await asyncio.gather(*[getattr(tools, n)('a') for n in ['get']])\nprint(rows[0]['key'])",
        "import sys\nprint(getattr(sys.modules[__name__], 'get')('a')['key'], *((await get('a'))['tags'] if 0 else []))",
        "import importlib\nprint((await importlib.import_module('tools').get('a'))['key'])",
        "table = {'g': tools.get}\nprint((await table['g']('a'))['key'])",
        "import asyncio\nf = tools.get\nprint((await asyncio.create_task(f('a')))['key'])",
    ],
)
async def test_a_tool_found_by_its_name_can_be_awaited(text: str, runtime: Runtime, desk: Desk) -> None:
    outcome = await runtime.run(text)

    assert (outcome.stdout.strip(), outcome.problem, desk.order[0]) == ("a", None, ("get", "a"))


VALUES_IN_C = [
    "open('o', 'w').write(t)", "print(''.join([t]))", "import re\nprint(re.search('7', t).group())",
    "import sqlite3\nprint(sqlite3.connect(':memory:').execute('select ?', (t,)).fetchone()[0])",
    "from decimal import Decimal\nprint(Decimal(t))", "import hashlib\nhashlib.sha256(t.encode())",
    "import io\nprint(io.StringIO(t).read())", "import datetime\nprint(datetime.date(2026, 1, int(t)))",
    "import pandas as pd\nf = pd.DataFrame({'x': [int(t), 9]})\nprint(f['x'].dtype, f['x'].mean())",
    "import pandas as pd\nprint(pd.Series([t]).astype(int).sum())",
    "import csv, sys\ncsv.writer(sys.stdout).writerow([t])",
]  # fmt: skip


@pytest.mark.parametrize("use", VALUES_IN_C)
@pytest.mark.parametrize("end", ["", "\nif t == 'x':\n    await t"], ids=["used", "also awaited"])
async def test_a_call_is_its_value_in_code_that_is_written_in_c(
    use: str, end: str, runtime: Runtime, desk: Desk
) -> None:
    expected = await runtime.run(f"t = await word('7')\n{use}")
    desk.clear()

    outcome = await runtime.run(f"t = word('7')\n{use}\nawait get('z'){end}")

    assert (outcome.problem, outcome.stdout) == (None, expected.stdout)
    assert desk.order == [("word", "7"), ("get", "z")]


async def test_monty_names_a_call_that_nothing_awaits_in_the_end(desk: Desk) -> None:
    async with Runtime(tools=[DESK.tool("put", read_only=False)], engine="monty") as runtime:
        outcome = await runtime.run(
            "calls = [put('a')]\nprint(1)\ncalls.append(put('b'))\nif not calls:\n    await calls[0]"
        )

    assert (outcome.status, outcome.stdout, desk.order) == ("finished", "1\n", [])
    assert outcome.unmade_line == "not made: put(...) (2 times) were never awaited"


async def test_a_session_names_a_call_once_and_a_later_program_can_await_it(runtime: Runtime, desk: Desk) -> None:
    first = await runtime.run("calls = {'a': put('a'), 'b': put('b')}\nawait calls['a']", session="s", keep_names=True)
    second = await runtime.run("await get('c')\nprint((await calls['b'])['key'])", session="s", keep_names=True)

    assert (first.unmade_calls, second.unmade_calls, second.stdout) == (("put(...) at line 1",), (), "b\n")
    assert desk.order == [("put", "a"), ("get", "c"), ("put", "b")]


async def test_the_command_line_names_a_call_that_was_not_made_in_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "mail.py").write_text("async def send_email(to: str) -> str:\n    return to\n")
    (tmp_path / "program.py").write_text(
        "options = {'a': send_email('ann'),\n           'b': send_email('bob')}\nprint(await options['b'])\n"
    )
    command = [sys.executable, "-m", "toolfold", "run", "program.py", "--tools", "mail.py"]

    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=-1, stderr=-1)
    stdout, stderr = await process.communicate()

    assert (process.returncode, stdout) == (0, b"bob\n")
    assert stderr.decode().splitlines()[0] == "toolfold: not made: send_email(...) at line 1 was never awaited"
