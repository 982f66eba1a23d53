"""Programs that a type checker finds wrong, and programs about which it must hold its tongue."""

import asyncio
import importlib.util
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.program.conftest import TOOLS
from tests.program.test_valid_programs import PROGRAMS
from tests.programs_support import read, tools
from tests.test_programs import PROGRAMS as FILES
from toolfold import Outcome, Runtime, ToolSpec
from toolfold.engines.monty import type_checker
from toolfold.engines.monty.type_check import TypeChecker
from toolfold.program.type_check import question

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def types() -> AsyncIterator[TypeChecker]:
    if importlib.util.find_spec("pydantic_monty") is None:
        pytest.skip("not proved here: types of programs (toolfold[monty] is not installed)")
    checker = type_checker()
    yield checker
    await checker.close()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "x = 5\nr = await price(ticker=x)",
            "line 2: 'price' argument 'ticker' must be a string, got 5\nr = await price(ticker=x)\n                ^",
        ),
        (
            "names = ['A']\nprint(await price(names))",
            "line 2: 'price' argument 'ticker' must be a string, got a list\nprint(await price(names))\n                  ^",
        ),
        (
            "rows = await asyncio.gather(*[price(n) for n in range(3)])",
            "line 1: 'price' argument 'ticker' must be a string, got an integer\n"
            "rows = await asyncio.gather(*[price(n) for n in range(3)])\n                                    ^",
        ),
        (
            "from tools import (\n    history as h,\n)\nawait h('A', str(3))",
            "line 4: 'history' argument 'days' must be an integer, got a string\nawait h('A', str(3))\n             ^",
        ),
        (
            "days = f'{7}'\ntools.history('é', days)",
            "line 2: 'history' argument 'days' must be an integer, got '7'\n"
            "tools.history('é', days)\n                   ^",
        ),
        (
            "import tools.market\nimport tools\nawait tools.market.async_price(2 * 3)",
            "line 3: 'price' argument 'ticker' must be a string, got 6\n"
            "await tools.market.async_price(2 * 3)\n                               ^",
        ),
        (
            "from __future__ import annotations\ndef ticker() -> str:\n    return 5\nx = {'a': price}\n"
            "await x['a'](len('abc'))\nreturn 1",
            "line 5: 'price' argument 'ticker' must be a string, got 3\nawait x['a'](len('abc'))\n             ^",
        ),
        (
            "limit = None\nawait get_users('hr', limit=limit)",
            "line 2: 'get_users' argument 'limit' must be an integer, got None\n"
            "await get_users('hr', limit=limit)\n                      ^",
        ),
        (
            "total = await price('A')\nprint(total.price)",
            "line 2: a reply has no attribute 'price'; a reply is plain data: write ['price']\n"
            "print(total.price)\n            ^",
        ),
        (
            "for user in await get_users():\n    print(user['team'].budget)",
            "line 2: a reply has no attribute 'budget'; a reply is plain data: write ['budget']\n"
            "    print(user['team'].budget)\n                       ^",
        ),
        (
            "users = await get_users()\nfor key, user in users.itmes():\n    print(key)",
            "line 2: a reply has no attribute 'itmes'; did you mean 'items'?\n"
            "for key, user in users.itmes():\n                       ^",
        ),
    ],
)
async def test_what_is_certainly_wrong_is_said(text: str, problem: str, types: TypeChecker) -> None:
    assert str(await types.problem(text, TOOLS)) == problem


@pytest.mark.parametrize(
    "text",
    [
        "rows = [1]\ndef fill(r): r[0] = 'A'\nfill(rows)\nawait price(rows[0])",
        "rows = {'a': 1}\ndef fill(r): r['a'] = 'A'\nfill(rows)\nfor row in rows.values(): await price(row)",
        "x = None\ndef fill():\n    global x\n    x = 'A'\nfill()\nawait price(x)",
        "def outer():\n    x = None\n    def fill():\n        nonlocal x\n        x = 'A'\n    fill()\n    return price(x)\nawait outer()",
        "class C:\n    x = None\ndef fill(c): c.x = 'A'\nc = C()\nfill(c)\nawait price(c.x)",
        "async def get(t: int = None):\n    return await price(t)\nawait get('A')",
        "def name(x) -> int:\n    return str(x)\nawait price(name(1))",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    t: int\nawait price(P('A').t)",
        "def name(\n    x: int,\n    y: dict[\n        str, int] = {},\n) -> int: return 'A'\nawait price(name(1))",
        "try:\n    await price(len('a'))\nexcept ToolError:\n    pass",
        "import contextlib\nwith contextlib.suppress(Exception):\n    await price(len('a'))",
        "x = {'ticker': 'A'}\nawait price(x)",
        "await price(*['A'])\nawait price(**{'ticker': 'A'})",
        "def price(n): return n\nprint(price(5))",
        "async def main(price):\n    return await price(5)\nprint(main)",
        "price = lambda n: n\nprice(3)",
        "import datetime\nawait price(datetime.date.today())",
        "x = 5 if await now() else 'A'\nawait price(x)",
        "x = 1.0\nawait history('A', x)",
        "x = 1\nawait add(x, 2.5)",
        "r = await price('A')\nif hasattr(r, 'total'):\n    print(r.total)",
        "r = await price('A')\nprint(r.mime, r.upper(), r.get('x').anything, r.name)",
        "rows = await get_users()\ndef wrap(rows):\n    for n, row in enumerate(rows):\n        rows[n] = Row(row)\nclass Row:\n    def __init__(self, row): self.total = 1\nwrap(rows)\nprint(rows[0].total)",
        "from typing import cast\nx = cast(int, 'A')\nawait price(x)",
        "from typing import TYPE_CHECKING\nx = 'A'\nif TYPE_CHECKING:\n    x = 5\nawait price(x)",
        "import sys\nif sys.version_info >= (3, 99):\n    x = 'A'\nelse:\n    x = 5\nprint(price, x)",
        "x = 5\nasync def get():\n    return await price(x)\nx = 'A'\nawait get()",
        "rows = [1]\ndef more(r):\n    r += ['A']\nmore(rows)\nfor row in rows[1:]:\n    await price(row)",
        "import heapq\nrows = [1]\nheapq.heappush(rows, 'A')\nawait price(rows[-1])",
        "rows = await get_users()\nrows = [type('Row', (), row)() for row in rows]\nprint(rows[0].total)",
        "users = await get_users()\nimport pandas as pd\nusers = pd.DataFrame(users)\nprint(users.total, users.groupby)",
        "exec('price = lambda n: n')\nprice(3)",
        "tools = {'price': str}\ntools['price'](3)",
        "not python at all (",
        "",
    ],
)
async def test_what_may_be_right_is_let_through(text: str, types: TypeChecker) -> None:
    assert await types.problem(text, TOOLS) is None


@pytest.mark.long
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
async def test_no_program_of_the_corpora_is_rejected(ending: str, types: TypeChecker) -> None:
    specs = [tool.spec for tool in tools()]
    asked = [(name, text, TOOLS) for name, text in PROGRAMS.items()]
    asked += [(path.stem, read(path)[0], specs) for path in FILES]

    rejected = {
        name: str(problem)
        for name, text, given in asked
        if (problem := await types.problem(text.replace("\n", ending), given)) is not None
    }

    assert rejected == {}
    assert len(asked) > 550


@pytest.mark.parametrize(
    "text", ["while True:\n    pass\nprice", "import os\nos.abort()\nprice", "raise SystemExit\nprice"]
)
async def test_a_program_that_is_checked_does_not_run(text: str, types: TypeChecker) -> None:
    assert await types.problem(text, TOOLS) is None
    assert await types.problem("x = 5\nawait price(x)", TOOLS) is not None


async def test_a_question_moves_no_line_and_no_column() -> None:
    for text in PROGRAMS.values():
        asked = question(text, TOOLS)
        if asked is None:
            continue
        lines = asked.text.split("\n")[-len(text.split("\n")) :]
        for before, after in zip(text.split("\n"), lines, strict=True):
            # Imports of tools, their names and annotations are blanked out or shortened in their place.
            if after != before and not re.search(r"import|tools|:|->", before) and after:
                pytest.fail(f"{before!r} became {after!r}")
            assert len(after) == len(before) or not after or "import" in before


@pytest.mark.long
@pytest.mark.parametrize(
    "hostile",
    [
        "x = " + "[" * 150 + "price" + "]" * 150,
        "x = price" + ".a" * 3000,
        "tools" + ".price" * 3000,
        "x = " + "-" * 3000 + "1; price",
        "x = " + "+".join(["1"] * 3000) + "; price(x)",
        "\n".join(f"x{n} = (x{n - 1}, x{n - 1})" if n else "x0 = 1" for n in range(60)) + "\nawait price(x59)",
        "price(" * 90 + ")" * 90,
        "\x0cprice\x0c\n\x0cprice(5 - 3)",
    ],
    ids=range(8),
)
async def test_a_text_that_is_too_much_is_let_through_and_the_next_one_is_checked(
    hostile: str, types: TypeChecker
) -> None:
    problems = await asyncio.gather(*[types.problem(text, TOOLS) for text in (hostile, "x = 5\nawait price(x)")])

    assert (
        str(problems[1]) == "line 2: 'price' argument 'ticker' must be a string, got 5\nawait price(x)\n            ^"
    )


async def test_a_session_may_have_bound_the_name_before(types: TypeChecker) -> None:
    assert await types.problem("print(price(5))", TOOLS, known_names={"price"}) is None


PRICE = ToolSpec(
    name="price",
    python_name="price",
    input_schema={"type": "object", "properties": {"ticker": {"type": "string"}}, "required": ["ticker"]},
    source="caller",
)


@pytest.mark.parametrize(
    ("engine", "options", "status"),
    [
        ("monty", {}, "rejected"),
        ("monty", {"type_check": False}, "failed"),
        ("process", {"type_check": True}, "rejected"),
        ("process", {}, "failed"),
    ],
)
async def test_a_runtime_rejects_before_anything_is_called(engine: str, options: dict[str, bool], status: str) -> None:
    async with Runtime(engine=engine, **options) as runtime:
        step = await runtime.start("x = 5\nprint('began')\nawait price(x)", tools=[PRICE])

    assert isinstance(step, Outcome)
    assert (step.status, step.stdout) == (status, "began\n" if status == "failed" else "")
    if status == "rejected":
        assert str(getattr(step, "problem", "")) == (
            "line 3: 'price' argument 'ticker' must be a string, got 5\nawait price(x)\n            ^"
        )
