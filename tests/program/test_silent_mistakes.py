"""Mistakes that Python does not tell, and those in a program's own functions and classes."""

import pytest

from toolfold import Runtime
from toolfold.models import Problem, Program
from toolfold.program import Checker
from toolfold.sources.function_tools import as_tool


def price(ticker: str) -> float:
    """The price of a share."""
    return len(ticker) * 1.5


CHECKER = Checker([as_tool(price).spec])
CART = """class Cart:
    def __init__(self, owner, limit=3):
        self.owner = owner
        self.items = []
    def add(self, item):
        self.items.append(item)
    async def total(self):
        return sum([await price(item) for item in self.items])
"""
CERTAIN = {
    "main is never called": (
        "async def main():\n    print(await price('A'))\n",
        1,
        "nothing calls 'main'; end the program with 'await main()'",
    ),
    "a function that calls main is never called": (
        "import asyncio\nasync def main():\n    print(await price('A'))\ndef start():\n    asyncio.run(main())\n",
        4,
        "nothing calls 'start'; end the program with 'start()'",
    ),
    "a function of another name has the calls": (
        "LIMIT = 3\nasync def report(ticker):\n    return await price(ticker)\n",
        2,
        "nothing calls 'report'; end the program with 'await report(...)'",
    ),
    "the name of main without its underscores": (
        "def main():\n    print(1)\nif __name__ == 'main':\n    main()\n",
        3,
        "'__name__' is never 'main'; write '__main__'",
    ),
    "main is named, not called": (
        "def main():\n    print(1)\nif __name__ == '__main__':\n    main\n",
        4,
        "'main' is not called here; write 'main(...)'",
    ),
    "a coroutine function is awaited": (
        "async def main():\n    print(1)\nawait main\n",
        3,
        "'main' is not called here; write 'main(...)'",
    ),
    "a function of a module is printed": (
        "import statistics\nprint(statistics.mean)\n",
        2,
        "'statistics.mean' is not called here; write 'statistics.mean(...)'",
    ),
    "a function is the result": (
        "def total():\n    return 1\nresult = total\nprint(f'{result}')\n",
        3,
        "'total' is not called here; write 'total(...)'",
    ),
    "a function is the value of the program": (
        "async def total():\n    return await price('A')\nresult = total\n",
        3,
        "'total' is not called here; write 'total(...)'",
    ),
    "a method is printed": (
        "for word in ['a']:\n    print(word.upper)\n",
        2,
        "'word.upper' is not called here; write 'word.upper(...)'",
    ),
    "a method is tested": (
        "for word in ['a']:\n    if word.isdigit:\n        print(word)\n",
        2,
        "'word.isdigit' is not called here; write 'word.isdigit(...)'",
    ),
    "a value is assigned and not returned": (
        "def double(n):\n    doubled = n * 2\nprint(double(2))\n",
        2,
        "'double' returns nothing here; write 'return doubled'",
    ),
    "tasks whose values are assigned and not returned": (
        "import asyncio\nasync def load(t):\n    quote = await price(t)\n"
        "replies = await asyncio.gather(*[load(t) for t in 'AB'])\nprint(replies[0])\n",
        3,
        "'load' returns nothing here; write 'return quote'",
    ),
    "a function without return is added": (
        "def note(n):\n    print(n)\ntotal = 1 + note(2)\n",
        3,
        "'note' (line 1) has no 'return', so this is None; add one",
    ),
    "an async generator is awaited": (
        "async def rows():\n    yield await price('A')\nfor row in await rows():\n    print(row)\n",
        3,
        "'rows' is an async generator, for it has 'yield'; write '[item async for item in rows(...)]'",
    ),
    "an async generator in a plain loop": (
        "async def rows():\n    yield await price('A')\nfor row in rows():\n    print(row)\n",
        3,
        "'rows' is an async generator, for it has 'yield'; write 'async for item in rows(...)'",
    ),
    "a generator is indexed": (
        "def rows():\n    yield 1\nprint(rows()[0])\n",
        3,
        "'rows' is a generator, for it has 'yield'; write 'list(rows(...))'",
    ),
    "a text with a computation and no f": (
        "rows = [1]\nprint('{len(rows)} rows')\n",
        2,
        "{len(rows)} stands in a text that is no f-string; write f before its quote",
    ),
    "a text is raised": (
        "n = await price('A')\nif n > 1:\n    raise 'too much'\n",
        3,
        "only exceptions can be raised; write 'raise ValueError(...)' around it",
    ),
    "an attribute is misspelt": (
        f"{CART}cart = Cart('a')\nprint(cart.ownr)\n",
        10,
        "'Cart' has no 'ownr'; did you mean 'owner'?",
    ),
    "a method is misspelt in a loop that uses the name again": (
        f"{CART}for o in 'ab':\n    cart = Cart(o)\n    cart.ad(1)\nfor cart in []:\n    print(cart)\n",
        11,
        "'Cart' has no 'ad'; did you mean 'add'?",
    ),
    "an argument of a class is missing": (
        f"{CART}cart = Cart()\n",
        9,
        "'Cart' takes 'owner', 'limit'; 'owner' is missing",
    ),
    "a class has no such argument": (
        "from dataclasses import dataclass\n@dataclass\nclass Row:\n    name: str\n    size: int = 0\nprint(Row(nme='a'))\n",
        6,
        "'Row' takes 'name', 'size'; it has no argument 'nme'",
    ),
    "a method gets too many arguments": (
        f"{CART}cart = Cart('a')\ncart.add(1, 2)\n",
        10,
        "'add' takes 'item'; got 2 positional arguments",
    ),
    "a method of a class without an instance": (
        f"{CART}cart = Cart\ncart.add(1)\n",
        10,
        "'Cart' is a class; make an instance of it first, with 'Cart(...)'",
    ),
    "a method is not awaited": (
        f"{CART}cart = Cart('a')\nprint(cart.total() + 1)\n",
        10,
        "'cart.total' is called but never awaited; write 'await cart.total(...)'",
    ),
    "a constructor is misspelt": (
        f"{CART.replace('__init__', '_init_')}cart = Cart('a')\n",
        2,
        "nothing calls '_init_'; write 'def __init__' to prepare instances",
    ),
    "a list of calls in a name is gathered": (
        "import asyncio\njobs = [price(t) for t in 'AB']\nprint(await asyncio.gather(jobs))\n",
        3,
        "'gather' takes the calls one by one, not in a list; write 'gather(*jobs)'",
    ),
    "texts are joined from a generator that awaits": (
        "print(', '.join(str(await price(t)) for t in 'AB'))\n",
        1,
        "'join' cannot read a generator that awaits; write 'join([...])' with a list inside",
    ),
}
HINTS = {
    "a text with a name and no f": (
        "total = await price('A')\nprint('Total: {total}')\n",
        "line 2: {total} stands in a text that is no f-string; write f before its quote",
        "Total: {total}\n",
    ),
    "a handler after one that catches the same": (
        "try:\n    int('a')\nexcept Exception:\n    print(1)\nexcept ValueError:\n    print(2)\n",
        "line 5: 'except ValueError' never runs, for 'except Exception' before it catches the same; put it first",
        "1\n",
    ),
    "a text raised where the error is caught": (
        "try:\n    raise 'no'\nexcept Exception as error:\n    print(error)\n",
        "line 2: only exceptions can be raised; write 'raise ValueError(...)' around it",
        "exceptions must derive from BaseException\n",
    ),
    "what is probably a method is printed": (
        "for word in ['a b']:\n    print(word.title)\n",
        "line 2: 'word.title' is not called here; write 'word.title(...)'",
        None,
    ),
    "a tool is printed": (
        "quote = price\nprint(f'{quote}')\n",
        "line 1: 'price' is not called here; write 'price(...)'",
        None,
    ),
    "a value of None is printed": (
        "def show(n):\n    print(n)\nprint(show(1))\n",
        "line 3: 'show' (line 1) has no 'return', so this is None; add one",
        "1\nNone\n",
    ),
    "a method of who knows what gives None": (
        "class A:\n    def show(self):\n        text = 'a'\nfor a in sorted([A()], key=id):\n    print(a.show())\n",
        "line 3: 'show' returns nothing here; write 'return text'",
        "None\n",
    ),
    "main is never called beside other work": (
        "async def main():\n    print(await price('A'))\nprint('ready')\n",
        "line 1: nothing calls 'main'; end the program with 'await main()'",
        "ready\n",
    ),
}
FINE = {
    "definitions without calls": "def area(r):\n    return 3 * r * r\nclass A:\n    pass\n",
    "a wrapped function": "def log(f):\n    return f\n@log\nasync def f():\n    return await price('A')\n",
    "functions as values": "def f(x):\n    return -x\nprint(sorted([1, 2], key=f), list(map(f, [1])), f.__name__)\n",
    "methods as values": "words = ['a']\nprint(list(map(str.upper, words)), max(words, key=words.count))\n",
    "fields named as methods": "class A:\n    def __init__(self):\n        self.split = 2\nprint(A().split)\n",
    "properties": "class A:\n    @property\n    def strip(self):\n        return 1\na = A()\nprint(a.strip)\n",
    "a template": "name = 'a'\ntext = 'Hello {name}'\nprint(text.format(name=name))\n",
    "a placeholder that is replaced": "name = 'a'\nprint('Hi {name}'.replace('{name}', name))\n",
    "json in a text": 'a = 1\nprint(\'{"a": 1}\', "{}", "{{a}}", "{0}")\n',
    "attributes set from outside": f"{CART}cart = Cart('a')\ncart.note = 1\nprint(cart.note)\n",
    "attributes of a subclass": "class A:\n    def f(self):\n        return self.x\nclass B(A):\n    x = 1\nprint(B().f())\n",
    "attributes on demand": "class A:\n    def __getattr__(self, name):\n        return name\na = A()\nprint(a.b)\n",
    "a method of the class with its instance": f"{CART}cart = Cart('a')\nCart.add(cart, 1)\n",
    "another value for the name": f"{CART}cart = Cart('a')\nif cart.items:\n    cart = 'text'\nprint(cart.strip)\n"[:-2]
    + "())\n",
    "errors from narrow to broad": "try:\n    int('a')\nexcept ValueError:\n    print(1)\nexcept Exception:\n    print(2)\n",
    "a procedure that assigns last": "def f(d):\n    d['a'] = 1\n    d = None\nf({})\n",
    "tasks that are only awaited": "import asyncio\nasync def f(t):\n    reply = await price(t)\n"
    "tasks = [f(t) for t in 'AB']\nawait asyncio.gather(*tasks)\n",
    "methods of one name": "class A:\n    def show(self):\n        text = 'a'\nclass B:\n    def show(self):\n"
    "        return 'b'\nfor b in [B()]:\n    print(b.show())\n",
    "None that is tested": "def f(n):\n    if n:\n        print(n)\nif f(1) is None:\n    print('none')\n",
    "a generator that is used": "def g():\n    yield 1\nprint(list(g()), sum(g()), next(g()))\nfor x in g():\n    print(x)\n",
    "another module's name": "if __name__ == 'tests.main_menu':\n    print(1)\n",
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), CERTAIN.values(), ids=CERTAIN)
def test_a_certain_mistake_is_told_with_its_line_and_the_change(text: str, line: int, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.line, problem.message) == (line, message)


@pytest.mark.parametrize(("text", "hint", "stdout"), HINTS.values(), ids=HINTS)
async def test_a_probable_mistake_is_a_hint_of_the_outcome(text: str, hint: str, stdout: str | None) -> None:
    async with Runtime([price]) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.status, outcome.line_hints, outcome.stdout) == ("finished", [hint], stdout or outcome.stdout)


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_what_only_looks_like_a_mistake_passes_without_a_hint(text: str) -> None:
    program = CHECKER.check(text)

    assert isinstance(program, Program), program
    assert program.notes == ()


async def test_a_session_may_define_functions_for_its_next_program() -> None:
    async with Runtime([price]) as runtime:
        first = await runtime.run("async def main():\n    return await price('AB')", session="s", keep_names=True)
        second = await runtime.run("print(await main())", session="s", keep_names=True)

    assert (first.status, first.hints, second.stdout) == ("finished", (), "3.0\n")


async def test_a_program_that_calls_nothing_is_rejected_at_the_runtime() -> None:
    async with Runtime([price]) as runtime:
        outcome = await runtime.run("async def main():\n    print(await price('A'))")

    assert (outcome.status, str(outcome.problem).splitlines()[0], outcome.calls) == (
        "rejected",
        "line 1: nothing calls 'main'; end the program with 'await main()'",
        (),
    )
