"""A part of the half-awaited programs of `make test NAME=corpora`, and programs that choose among coroutines."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.corpora import kept_coroutines
from tests.corpora.half_awaited import Service, arena, compare, twins
from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")
Arena = tuple[Runtime, Service]

CHOOSERS = [
    "opts = {'a': save('1'), 'b': send('2')}\nk = 'b'\nprint((await opts[k])['key'])",
    "opts = {'a': save('1'), 'b': send('2')}\nprint((await opts['a'])['key'])",
    "opts = [save('1'), send('2'), get_row('3')]\nprint((await opts[-1])['key'])",
    "a, b = save('1'), send('2')\nprint((await (a if 1 > 2 else b))['key'])",
    "calls = [save(k) for k in '123']\nprint((await calls.pop())['key'])",
    "calls = {k: save(k) for k in '123'}\nfor k in '13':\n    print((await calls[k])['key'])",
    "import random\ncalls = [save('1'), save('2')]\nprint((await random.Random(1).choice(calls))['by'])",
    "def make(k):\n    return {'x': save(k), 'y': send(k)}\nprint((await make('1')['y'])['key'])",
    "class Plan:\n    def __init__(self, k):\n        self.yes, self.no = save(k), send(k)\n    async def go(self, ok):\n"
    "        return await (self.yes if ok else self.no)\nprint((await Plan('1').go(False))['key'])",
    "async def first(calls):\n    return await calls[0]\nprint((await first([save('1'), send('2')]))['key'])",
    "async def run(c, *rest):\n    return await c\nprint((await run(save('1'), send('2')))['key'])",
    "plans = [('low', save('1')), ('high', send('2'))]\nfor name, call in plans:\n    if name == 'high':\n        print((await call)['key'])",
    "import asyncio\ncalls = [save('1'), send('2'), get_row('3')]\nprint(len(await asyncio.gather(*calls[:2])))",
    "import itertools\ncalls = (save(k) for k in '123')\nprint([(await c)['key'] for c in itertools.islice(calls, 2)])",
    "make = {'a': lambda: save('1'), 'b': lambda: send('2')}\nprint((await make['b']())['key'])",
    "calls = []\nfor k in '123':\n    calls.append(save(k))\nawait calls[1]\nprint(len(calls))",
    "from types import SimpleNamespace\nn = SimpleNamespace(a=save('1'), b=send('2'))\nprint((await n.b)['key'])",
    "calls = {}\ncalls['a'] = save('1')\ncalls.setdefault('b', send('2'))\nprint((await calls.get('b'))['key'])",
    "def choose(a, b, ok):\n    return a if ok else b\nprint((await choose(save('1'), send('2'), True))['key'])",
    "from collections import deque\nq = deque([save('1')])\nq.appendleft(send('2'))\nprint((await q.popleft())['key'])",
    "import asyncio\ntasks = [asyncio.ensure_future(c) for c in (save('1'), send('2'))]\nawait asyncio.wait(tasks)\nprint(len(tasks))",
    "import dataclasses\n@dataclasses.dataclass\nclass Job:\n    name: str\n    call: object\n"
    "jobs = [Job('a', save('1')), Job('b', send('2'))]\nprint((await next(j for j in jobs if j.name == 'b').call)['key'])",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools() -> AsyncIterator[Arena]:
    async with arena() as both:
        yield both


@pytest.mark.parametrize("forgets_own", [False, True], ids=["tools", "own-functions-too"])
@pytest.mark.parametrize("start", range(100, 160, 10))
async def test_a_half_awaited_program_has_the_effects_of_its_awaited_twin(
    start: int, forgets_own: bool, tools: Arena
) -> None:
    pairs = [twins(seed, forgets_own=forgets_own) for seed in range(start, start + 10)]

    differences = {pair.half: await compare(pair, *tools) for pair in pairs}

    assert {text: difference for text, difference in differences.items() if difference} == {}


@pytest.mark.parametrize("text", CHOOSERS)
async def test_a_program_that_chooses_among_coroutines_makes_the_calls_that_python_makes(
    text: str, tools: Arena
) -> None:
    difference = await kept_coroutines.compare(text, *tools)

    assert difference == ""


@pytest.mark.parametrize("start", range(0, 80, 20))
async def test_a_program_that_keeps_a_coroutine_awaits_it_as_python_does(start: int, tools: Arena) -> None:
    texts = [text for seed in range(start, start + 20) if (text := kept_coroutines.program(seed)) is not None]

    differences = {text: await kept_coroutines.compare(text, *tools) for text in texts}

    assert {text: difference for text, difference in differences.items() if difference} == {}
