"""What is certain to fail is told before the first call, with the line and the change to make."""

import sys
from collections.abc import Callable

import pytest

from toolfold import Runtime
from toolfold.models import File, Problem, Program, ToolSpec
from toolfold.program import Checker

TOOLS = (
    ToolSpec(name="get_users", python_name="get_users", read_only=True),
    ToolSpec(
        name="get",
        python_name="get",
        input_schema={
            "type": "object",
            "properties": {"n": {"type": "integer"}, "lang": {"type": "string", "default": None}},
        },
    ),
)
ROWS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"amount": {"type": "number"}, "by": {"$ref": "#/$defs/By"}},
        "additionalProperties": False,
    },
    "$defs": {"By": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}},
}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CHECKER = Checker(
    (
        *TOOLS,
        ToolSpec(name="get_rows", python_name="get_rows", output_schema=ROWS),
        ToolSpec(name="get_open", python_name="get_open", output_schema=OPEN),
    )
)

NAMES = [
    ("users = await get_users()\nprint(usres)", 2, "'usres' is not defined; did you mean 'users'?"),
    ("ok = true", 1, "'true' is not defined; write True"),
    ("x = null", 1, "'null' is not defined; write None"),
    ("console.log(await get_users())", 1, "'console' is not defined; write print(...)"),
    ("client.get_users()", 1, "'client' is not defined; call the tool by its own name: get_users(...)"),
    ("print(heapq.nlargest(1, [1]))", 1, "'heapq' is not defined; add 'import heapq'"),
    ("d = defaultdict(list)", 1, "'defaultdict' is not defined; add 'from collections import defaultdict'"),
    ("for u in await get_users():\n    print(usr)", 2, "'usr' is not defined; give it a value first"),
    ("async def main():\n    print(rows)\nawait main()", 2, "'rows' is not defined; give it a value first"),
    ("print(sorted([1], key=lambda v: w))", 1, "'w' is not defined; give it a value first"),
    ("if a &lt; 3:\n    pass", 1, "'a' is not defined; give it a value first"),
    ("a = 1\nx = a &lt; 3", 2, "'lt' is not defined; write '<' instead of the HTML entity"),
    ("print(total)\ntotal = 1", 1, "'total' is used before it has a value; line 2 is the first to give it one"),
    ("n = n + 1", 1, "'n' is used before it has a value; line 1 is the first to give it one"),
    (
        "def f():\n    print(x)\n    x = 1\nf()",
        2,
        "'x' is used before it has a value; line 3 is the first to give it one",
    ),
    ("rows = [1]\nprint(rows.length)", 2, "'rows' is a list, which has no attribute 'length'; write len(rows)"),
    ("rows = []\nrows.push(1)", 2, "'rows' is a list, which has no attribute 'push'; write rows.append(...)"),
    ("d = {'a': 1}\nprint(d.a)", 2, "'d' is a dict, which has no attribute 'a'; write d['a']"),
    ("s = 'a'\nprint(s.toUpperCase())", 2, "'s' is text, which has no attribute 'toUpperCase'; write s.upper()"),
]
ARGUMENTS = [
    ("def f(a, b):\n    return a\nf(1)", "'f' takes 'a', 'b'; 'b' is missing"),
    ("def f(a):\n    return a\nprint(f(1, 2))", "'f' takes 'a'; got 2 positional arguments"),
    ("def f(a):\n    return a\nprint(f(b=2))", "'f' takes 'a'; it has no argument 'b'"),
    ("def f(a, *, k):\n    return a\nprint(f(1))", "'f' takes 'a', 'k'; 'k' is missing"),
    ("async def f(a):\n    return a\nprint(await f())", "'f' takes 'a'; 'a' is missing"),
    (
        "await asyncio.gather([get(n=1)])",
        "'gather' takes the calls one by one, not in a list; write 'gather(*[...])'",
    ),
]
NOT_AWAITED = [
    (
        "async def two():\n    return 2\nprint(two())",
        "'two' is called but never awaited; write 'await two(...)'",
    ),
    (
        "async def two():\n    return 2\nx = two()\nprint(x + 1)",
        "'two' is called but never awaited; write 'await two(...)'",
    ),
    (
        "async def rows():\n    return []\nfor r in rows():\n    print(r)",
        "'rows' is called but never awaited; write 'await rows(...)'",
    ),
    (
        "async def main():\n    print(await get_users())\nmain()",
        "'main' is called but never awaited; write 'await main(...)'",
    ),
    (
        "async def main():\n    print(1)\nif __name__ == '__main__':\n    main()",
        "'main' is called but never awaited; write 'await main(...)'",
    ),
    ("asyncio.gather(get(n=1), get(n=2))", "'gather' is called but never awaited; write 'await asyncio.gather(...)'"),
    (
        "print(sum(await get(n=i) for i in range(3)))",
        "'sum' cannot read a generator that awaits; write 'sum([...])' with a list inside",
    ),
]
TOOL_USES = [
    ("r = await get.invoke({'n': 1})", "'get' is a function, which has no 'invoke'; call it: await get(...)"),
    (
        "r = await asyncio.gather(*(get.run(n) for n in [1]))",
        "'get' is a function, which has no 'run'; call it: await get(...)",
    ),
    (
        "r = await tools.get.ainvoke(n=1)",
        "'tools.get' is a function, which has no 'ainvoke'; call it: await tools.get(...)",
    ),
    ("r = await tools['get'](n=1)", "'tools' is a module, not a dict; write 'tools.get(...)'"),
    (
        "for name in ['get']:\n    await tools[name](n=1)",
        "'tools' is a module, not a dict; write 'getattr(tools, name)(...)'",
    ),
    ("for u in await get_users:\n    print(u)", "'get_users' is not called; write 'await get_users(...)'"),
    ("for u in get_users:\n    print(u)", "'get_users' is not called; write 'for ... in await get_users(...)'"),
    ("print([u for u in get_users])", "'get_users' is not called; write 'for ... in await get_users(...)'"),
    ("print(f'users: {get_users}')", "'get_users' is not called; write '{await get_users(...)}'"),
    ("print(get_users[0])", "'get_users' is not called; write '(await get_users(...))[...]'"),
    (
        "async for u in get_users():\n    print(u)",
        "the reply of 'get_users' cannot be used in 'async for'; write 'for item in await get_users(...):'",
    ),
    (
        "async with get_users() as u:\n    print(u)",
        "the reply of 'get_users' cannot be used in 'async with'; write 'reply = await get_users(...)'",
    ),
    ("r = await get-users()", "'get-users' is not a valid Python name; write 'get_users'"),
    ("try:\n    await get(n=1)\nexcept ToolErorr:\n    pass", "'ToolErorr' is not defined; did you mean 'ToolError'?"),
    (
        "try:\n    await get(n=1)\nexcept (KeyError, Exeption):\n    pass",
        "'Exeption' is not defined; did you mean 'Exception'?",
    ),
    ("try:\n    await get(n=1)\nexcept tools.Error:\n    pass", "there is no 'tools.Error'; write 'except ToolError'"),
    (
        "try:\n    await get(n=1)\nexcept toolfold.ToolError:\n    pass",
        "there is no 'toolfold.ToolError'; write 'except ToolError'",
    ),
    (
        "import sys\nprint(sys.argv[1])",
        "'sys.argv[1]' does not exist: a program has no arguments; write the value into it",
    ),
    (
        "for i in [1]:\n    print(row)\n    row = await get(n=i)",
        "'row' is used before it has a value; line 3 is the first to give it one",
    ),
    (
        "def f(rows):\n    for r in rows:\n        if r > best:\n            best = r\n    return best\nprint(f([1]))",
        "'best' is used before it has a value; line 4 is the first to give it one",
    ),
]
OLDER = [
    ('x = {"a": 1}\nprint(f"{x["a"]}")', "an f-string cannot have its own quotes or a backslash inside of {...}"),
    ("def first[T](rows: list[T]) -> T:\n    return rows[0]", "it has no type parameters such as 'def f[T]'"),
    ("class Box[T]:\n    pass", "it has no type parameters such as 'def f[T]'"),
    ("type Pair = tuple[int, int]\nprint(1)", "it has no 'type' statement"),
]
CAUGHT_BY_NONE = [
    ("try:\n    print(usres)\nexcept ToolError:\n    pass", "'usres' is not defined; give it a value first"),
    (
        "try:\n    print(usres)\nexcept (KeyError, ValueError):\n    pass",
        "'usres' is not defined; give it a value first",
    ),
    ("try:\n    await get(m=1)\nexcept KeyError:\n    pass", "'get' has no argument 'm'; it takes 'n' and 'lang'"),
    ("try:\n    await get(m=1)\nfinally:\n    print(1)", "'get' has no argument 'm'; it takes 'n' and 'lang'"),
    (
        "try:\n    await get(m=1)\nexcept Exception as e:\n    print(e)\n    raise",
        "'get' has no argument 'm'; it takes 'n' and 'lang'",
    ),
    ("users = await get_users()\nif users:\n    print(usres)", "'usres' is not defined; did you mean 'users'?"),
    ("users = await get_users()\nif users:\n    print(true)", "'true' is not defined; write True"),
    ("users = await get_users()\nif users:\n    printf(users)", "'printf' is not defined; write print(...)"),
    ("for u in await get_users():\n    print(lenght(u))", "'lenght' is not defined; give it a value first"),
]
REPLIES = [
    (
        "rows = await get_rows()\nprint(rows[0]['amout'])",
        "the reply of 'get_rows' has no key 'amout'; did you mean 'amount'?",
    ),
    (
        "for row in await get_rows():\n    print(row['total'])",
        "the reply of 'get_rows' has no key 'total'; it has 'amount', 'by'",
    ),
    (
        "rows = get_rows()\nprint(sum(r['amont'] for r in rows))",
        "the reply of 'get_rows' has no key 'amont'; did you mean 'amount'?",
    ),
    (
        "for row in await get_rows():\n    print(row['by']['nam'])",
        "the reply of 'get_rows' has no key 'nam'; did you mean 'name'?",
    ),
    ("x = await get_open()\nprint(x.a)", "'x' is a dict from 'get_open', which has no attribute 'a'; write x['a']"),
]
FINE = [
    "f = get\nprint(await f(n=1), get.__name__, get.__doc__)",
    "get.calls = 0\nprint(get.calls)",
    "try:\n    await get.invoke(n=1)\nexcept AttributeError:\n    print(await get(n=1))",
    "print(hasattr(get, 'invoke'), [t.__name__ for t in (get, get_users)])",
    "pages = {'get': get}\nprint(await pages['get'](n=1))",
    "tools = {'get': get}\nprint(await tools['get'](n=1))",
    "if False:\n    await get-users()",
    "try:\n    await get(n=1)\nexcept SomeLibraryError:\n    pass",
    "class ToolErorr(Exception):\n    pass\ntry:\n    await get(n=1)\nexcept ToolErorr:\n    pass",
    "import sys\nprint(sys.argv[1] if len(sys.argv) > 1 else 'none', sys.argv[0])",
    "import sys\nsys.argv.append('x')\nprint(sys.argv[1])",
    "import sys\nsys.argv = ['a', 'b']\nprint(sys.argv[1])",
    "async def rows():\n    yield 1\nasync for row in rows():\n    print(row)",
    "for i in [1, 2]:\n    if i > 1:\n        print(row)\n    row = i",
    "for i in [1, 2]:\n    try:\n        print(row)\n    except NameError:\n        pass\n    row = i",
    "for i in [1, 2]:\n    try:\n        n = int('x')\n        print(row)\n    except ValueError:\n        row = i",
    "x = await get_rows()\nfor row in x:\n    row['new'] = 1\nprint(x[0]['new'])",
    "row = (await get_rows())[0]\nrow.update(new=1)\nprint(row['new'])",
    "row = (await get_rows())[0]\nrow.update({'new': 1})\nprint(row['new'])",
    "row = (await get_rows())[0]\nmore = {'new': 1}\nrow.update(more)\nprint(row['new'])",
    "row = (await get_rows())[0]\nrow.setdefault('new', 1)\nprint(row['new'])",
    "row = (await get_rows())[0]\nif 'new' in row:\n    print(row['new'])",
    "row = (await get_rows())[0]\nprint(row['new'] if row.get('new') else 0)",
    "def mark(row, key):\n    row[key] = 1\nrow = (await get_rows())[0]\nmark(row, 'n' + 'ew')\nprint(row['new'])",
    "rows = await get_rows()\nfor k in ('a', 'b'):\n    rows[0][k] = 1\nprint(rows[0]['a'])",
    "import sys, io\nsys.stdin = io.StringIO('a')\nprint(input())",
    "from unittest.mock import patch\nwith patch('builtins.input', return_value='a'):\n    print(input())",
    "if False:\n    print(input())",
    "try:\n    await get(m=1)\nexcept ToolError as e:\n    print(e)",
    "try:\n    await get(m=1)\nexcept Exception as e:\n    print(e)",
    "try:\n    await gett(n=1)\nexcept Exception as e:\n    print(e)",
    "async def safe(t):\n    return await t(m=1)\nfor r in await asyncio.gather(get(m=1), return_exceptions=True):\n"
    "    print(r)",
    "async def work():\n    return await get(m=1)\nprint(await asyncio.gather(work(), return_exceptions=True))",
    "import contextlib\nwith contextlib.suppress(ToolError):\n    await get(m=1)",
    "if False:\n    await get(m=1)",
    "def unused():\n    return get(m=1)",
    "import socket, subprocess, urllib.request, http.client, multiprocessing, smtplib",
    "import subprocess\ntry:\n    subprocess.run(['ls'])\nexcept OSError:\n    print('none')",
    "import requests\nuse_network = len('') > 0\nif use_network:\n    requests.get('http://x')",
    "import requests\ndef load(url=None):\n    if url:\n        return requests.get(url).json()\n    return {}\nload()",
    "import requests\nclass requests:\n    get = print\nrequests.get('x')",
    "import subprocess\nsubprocess.run = print\nsubprocess.run(['ls'])",
    "import subprocess\nfrom unittest import mock\nwith mock.patch('subprocess.run'):\n    subprocess.run(['ls'])",
    "import os\ndef unused():\n    os.system('ls')",
    "import socket\nprint(socket.gethostname(), socket.AF_INET)",
    "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(2)",
    "from urllib.request import Request\nprint(Request('http://x').host)",
    "x = await get_open()\nprint(x.mime, len(x.data))",
    "x = await get_open()\nprint(x['b'], x.get('c'), x.items())",
    "rows = await get_rows()\nrows = [{'x': 1}]\nprint(rows[0]['x'])",
    "rows = await get_rows()\nfor r in rows:\n    r['x'] = 1",
    "rows = await get_rows()\ntry:\n    print(rows[0]['x'])\nexcept KeyError:\n    pass",
    "async def two():\n    return 2\nts = [two(), two()]\nprint(await asyncio.gather(*ts))",
    "async def two():\n    return 2\nx = two()\nx.close()",
    "async def two():\n    return 2\ndef f(c):\n    return c\nprint(await f(two()))",
    "def unused():\n    return missing",
    "class A:\n    def f(self):\n        return missing\nprint(A)",
    "try:\n    print(missing)\nexcept NameError:\n    print('none')",
    "try:\n    print(missing)\nexcept Exception:\n    print('none')",
    "def f():\n    return missing\ntry:\n    f()\nexcept Exception:\n    pass",
    "def f():\n    x: Missing = 1\n    return x\nf()",
    "from __future__ import annotations\ndef f(a: Missing) -> Missing:\n    return a\nf(1)",
    "import sys\nif sys.version_info[0] < 3:\n    text = unicode('a')",
    "exec('made = 1')\nprint(made)",
    "globals()['made'] = 1\nprint(made)",
    "from math import *\nprint(sqrt(4))",
    "def f():\n    global made\n    made = 1\nf()\nprint(made)",
    "for i in range(2):\n    if i:\n        print(last)\n    last = i",
    "def outer():\n    return inner()\ndef inner():\n    return 1\nprint(outer())",
    "f = lambda n: f(n - 1) if n else 0\nprint(f(2))",
    "print([y for x in [[1]] for y in x])",
    "def f(*a, **k):\n    return a\nf(1, 2, c=3)",
    "def f(a, b=1):\n    return a\nargs = [1]\nf(*args)",
    "import functools\n@functools.cache\ndef f(a):\n    return a\nf(1, 2) if False else None",
    "def f(a):\n    return a\nf = print\nf(1, 2)",
    "async def main():\n    return 1\ntask = main()\nprint(await task)",
    "async def gen():\n    yield 1\nasync for x in gen():\n    print(x)",
    "t = asyncio.gather(get(n=1))\nawait t",
    "asyncio.gather(get(n=1))\nawait asyncio.sleep(0)",
    "print(sum(n for n in await get(n=1)))",
    "await asyncio.gather(*[get(n=1)])",
    "rows = [1]\nrows = object()\nprint(getattr(rows, 'length', 0))",
    "class L(list):\n    length = 3\nrows = L()\nprint(rows.length)",
    "def input(prompt):\n    return 1\nprint(input('?'))",
    "await get(n=1, lang=None)",
    "del_me = 1\ndel del_me",
    "with open('a', 'w') as f:\n    f.write('x')\nprint(f.closed)",
    "match [1]:\n    case [x]:\n        print(x)",
    "if (n := 3) > 2:\n    print(n)",
    "try:\n    import tools.nowhere as t\n    print(t.go())\nexcept ImportError:\n    pass",
    "print(__name__, __file__, __doc__)",
    "from sympy import var\nvar('x y')\nprint(x + y)",
    "import sympy as sp\nsp.var('x')\nprint(x)",
    "import enum\n@enum.global_enum\nclass Flag(enum.IntFlag):\n    DEBUG = 1\nprint(DEBUG)",
    "import tkinter, turtle, curses, webbrowser\nprint(turtle.Vec2D(1, 2))",
    "import subprocess, sys\ndef main():\n    if len(sys.argv) < 2:\n        return\n    subprocess.run(['ls'])\nmain()",
    "import subprocess, sys\nif len(sys.argv) < 2:\n    sys.exit(0)\nsubprocess.run(['ls'])",
    "import shutil, subprocess\nif shutil.which('ls'):\n    subprocess.run(['ls'])",
    "import socket\nclass C:\n    def go(self):\n        socket.create_connection(('x', 1))\n"
    "def main(words):\n    if not words:\n        return\n    C().go()\nmain([])",
    "import os.path\nprint(os.path.sep)",
]


@pytest.mark.parametrize(("text", "line", "message"), NAMES)
def test_a_name_that_is_not_there_is_told(text: str, line: int, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.line, problem.message) == ("name", line, message)


@pytest.mark.parametrize(("text", "message"), ARGUMENTS)
def test_arguments_that_a_function_of_the_program_does_not_take_are_told(text: str, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message) == ("arguments", message)


@pytest.mark.parametrize(("text", "message"), REPLIES)
def test_a_key_or_attribute_that_no_reply_has_is_told(text: str, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message) == ("reply", message)


@pytest.mark.parametrize(("text", "message"), TOOL_USES)
def test_a_tool_used_as_something_else_than_a_function_is_told(text: str, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert problem.message == message


@pytest.mark.parametrize(("text", "reason"), OLDER)
def test_syntax_of_a_newer_python_is_told_with_the_version_that_runs_programs(text: str, reason: str) -> None:
    problem = CHECKER.check(text)

    if sys.version_info >= (3, 12):
        assert isinstance(problem, Program)
    else:
        assert isinstance(problem, Problem)
        assert f"programs run on Python 3.{sys.version_info.minor} here: {reason}" in problem.message


async def test_an_import_in_a_function_that_is_called_is_told_before_the_first_call() -> None:
    calls: list[int] = []
    async with Runtime([_noting(calls)]) as runtime:
        outcome = await runtime.run("await note()\ndef load():\n    import left_pad\n    return left_pad\nload()")
        unused = await runtime.run("await note()\ndef load():\n    import left_pad\n    return left_pad\nprint(1)")

    assert (outcome.status, outcome.problem and outcome.problem.line) == ("rejected", 3)
    assert (unused.status, calls) == ("finished", [1])


@pytest.mark.parametrize(("text", "message"), CAUGHT_BY_NONE)
def test_what_no_handler_catches_and_a_slip_on_a_branch_are_told(text: str, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert problem.message == message


async def test_a_wrong_call_that_the_program_catches_is_a_hint() -> None:
    async with Runtime([_noting([])]) as runtime:
        outcome = await runtime.run("try:\n    await note(x=1)\nexcept Exception as e:\n    print(type(e).__name__)")

    assert (outcome.status, outcome.stdout) == ("finished", "ToolError\n")
    assert outcome.hints[0] == "line 2: 'note' has no argument 'x'; it takes none"


@pytest.mark.parametrize(("text", "message"), NOT_AWAITED)
def test_a_coroutine_of_the_program_that_nobody_awaits_is_told(text: str, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message) == ("not_awaited", message)


def test_input_is_told() -> None:
    problem = CHECKER.check("users = await get_users()\nname = input('which? ')")

    assert problem == Problem(
        kind="input",
        message="'input' cannot work here: nobody is there to type; write the value into the program",
        line=2,
        column=8,
        source="name = input('which? ')\n       ^",
    )


@pytest.mark.parametrize("text", FINE)
def test_what_may_work_is_let_through(text: str) -> None:
    assert isinstance(CHECKER.check(text), Program)


@pytest.mark.parametrize("literal", ["'5'", "True", "5.0", "5"])
def test_a_literal_is_judged_as_its_tool_would_judge_the_value(literal: str) -> None:
    lenient = Checker([ToolSpec(name="f", python_name="f", input_schema=TOOLS[1].input_schema, is_lenient=True)])

    assert isinstance(lenient.check(f"await f(n={literal})"), Program)


def test_a_literal_that_no_tool_can_read_is_told_to_a_lenient_one_too() -> None:
    lenient = Checker([ToolSpec(name="f", python_name="f", input_schema=TOOLS[1].input_schema, is_lenient=True)])

    problem = lenient.check("await f(n='five')")

    assert isinstance(problem, Problem)
    assert problem.message == "'f' argument 'n' must be an integer, got 'five'"


def test_a_literal_is_judged_by_a_schema_that_refers_to_itself() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    tree = Checker([ToolSpec(name="f", python_name="f", input_schema=schema)])

    problem = tree.check("await f(child={'child': 3})")

    assert isinstance(problem, Problem)
    assert problem.message == "'f' argument 'child.child' must be a dict, got 3"


def test_an_output_schema_whose_definitions_are_broken_judges_nothing() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": 3}
    broken = Checker([ToolSpec(name="f", python_name="f", output_schema=schema)])

    assert isinstance(broken.check("r = await f()\nprint(r['a']['b'])"), Program)


async def test_a_library_that_is_not_there_is_told_before_the_first_call() -> None:
    made: list[int] = []
    async with Runtime([_noting(made)]) as runtime:
        outcome = await runtime.run("import json\nawait note()\nimport left_pad")

    assert (outcome.status, made) == ("rejected", [])
    assert str(outcome.problem) == (
        "line 3: 'left_pad' (package 'left-pad') is not installed here; use the standard library or call a tool: note, "
        "search_tools; installed are numpy, pandas, matplotlib, scipy, sklearn, seaborn, sympy, openpyxl, tabulate; "
        "the operator can add 'left-pad' to libraries.packages\n"
        "import left_pad\n       ^"
    )


@pytest.mark.parametrize(
    "text",
    [
        "import numpy, pandas, matplotlib.pyplot, scipy, sklearn, openpyxl",
        "try:\n    import left_pad\nexcept ImportError:\n    pass",
        "if False:\n    import left_pad",
        "open('left_pad.py', 'w').write('x = 1')\nimport left_pad",
        "import sys\nsys.path.insert(0, 'lib')\nprint(1)",
        "import own.part, mine",
    ],
)
async def test_a_library_that_may_be_there_is_let_through(text: str) -> None:
    files = [File(name="mine.py", data=b""), File(name="own/part.py", data=b"")]
    async with Runtime() as runtime:
        outcome = await runtime.run(text, files=files)

    assert (outcome.status, outcome.problem) == ("finished", None)


def _noting(made: list[int]) -> Callable[[], None]:
    def note() -> None:
        """Make a note."""
        made.append(1)

    return note


UNKNOWN_ON_A_PATH_NOT_TAKEN = [
    "if len('a') > 9:\n    print(missing)",
    "if False:\n    print(missing)",
    "DEBUG = False\nif DEBUG:\n    trace(1)",
    "mode = 'fast'\nif mode == 'slow':\n    crawl()\nelse:\n    print(mode)",
    "rows = [1]\nif not rows:\n    fall_back()",
    "rows = [1]\nprint(rows[0] if rows else fallback)",
    "rows = [1]\nprint(rows and rows[0] or fallback)",
    "print(True or fallback)",
    "for row in []:\n    handle(row)",
    "for row in range(0):\n    handle(row)",
    "while False:\n    spin()",
    "def f():\n    return 1\n    unreachable()\n\nf()",
    "def f():\n    if True:\n        return 1\n    unreachable()\n\nf()",
    "for i in range(3):\n    continue\n    unreachable()",
    "import contextlib\nwith contextlib.suppress(Exception):\n    unreachable()",
    "class Quiet:\n    def __enter__(self):\n        return self\n    def __exit__(self, *e):\n        return True\n\n"
    "with Quiet():\n    print(missing)",
    "f = lambda: missing\nprint(f is not None)",
    "late = (missing for _ in [1])\nprint(late is not None)",
    "assert True, missing",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nowhere import Thing",
    "if __name__ == 'other':\n    print(missing)",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    print('none')\nelse:\n    report()",
    "match 2:\n    case 1:\n        print(missing)",
    "def never():\n    return missing\n\nif len('') > 1:\n    never()",
    "def f(a):\n    for i in a:\n        if i > 9:\n            print(operations)\n\nf([1])",
    "def f(a):\n    if a > 9:\n        return 0\n    elif a in operations:\n        return 1\n\nf(10)",
    "def f(a):\n    return a > 0 and -TOL <= a\n\nprint(f(-1))",
    "def f(a):\n    return mhat(a) if a else 0\n\nprint(f(0))",
    "def f(a):\n    match a:\n        case 1:\n            return mhat\n\nf(2)",
    "class C:\n    def __str__(self):\n        return Missing.text\n\nC()",
    "class C:\n    def __getitem__(self, ns):\n        return parse(ns)\n\nC()",
    "class C:\n    def __lt__(self, o):\n        return Future\n    def __ge__(self, o):\n        return not self.__lt__(o)\nC()",
    "class C:\n    class E(Exception):\n        def __str__(self):\n            return E.text\n\nC.E()",
    "def g():\n    diffutil.go()\n\ndef f(a):\n    if a:\n        g()\n\nf(0)",
    "class C:\n    def __init__(self, p=None):\n        if p:\n            self.b(p)\n"
    "    @staticmethod\n    def b(p):\n        return mhat(p)\n\nC()",
    "class C:\n    def next(self):\n        return util.go(self.part.next())\n\nC()",
    "class C:\n    def next(self):\n        return util\n    def never(self):\n        return self.next()\n\nC()",
    "class C:\n    def next(self):\n        return util\n\ndef never():\n    return C().next()\n\nC()",
    "class C:\n    def next(self):\n        return util\n\nclass D:\n    def next(self):\n        return 1\n\nC, D().next()",
]


@pytest.mark.parametrize("text", UNKNOWN_ON_A_PATH_NOT_TAKEN)
def test_a_name_that_a_function_may_never_come_to_is_no_fault(text: str) -> None:
    assert isinstance(CHECKER.check(text), Program)
    exec(text, {"__name__": "__main__"})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f():\n    for i in [1]:\n        print(usres)\n\nf()", 3),
        ("def f(a):\n    if a > usres:\n        return 1\n\nf(1)", 2),
        ("class C:\n    def __init__(self):\n        self.go()\n    def go(self):\n        return usres\n\nC()", 5),
        ("class C:\n    @staticmethod\n    def go():\n        return usres\n\nC.go()", 4),
    ],
)
def test_a_name_that_every_call_comes_to_is_told(text: str, line: int) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.line, problem.message) == (line, "'usres' is not defined; give it a value first")
