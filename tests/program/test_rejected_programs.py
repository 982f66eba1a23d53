"""Programs that are rejected, each with its whole problem."""

import pytest

from toolfold.models import Problem, Program
from toolfold.program import Checker, check

SYNTAX = [
    pytest.param(
        "x = 1\nprint((x)\n",
        Problem(kind="syntax", message="'(' was never closed", line=2, column=6, source="print((x)\n     ^"),
        id="an unclosed bracket",
    ),
    pytest.param(
        'for x in "ab"\n    print(x)\n',
        Problem(kind="syntax", message="expected ':'", line=1, column=14, source='for x in "ab"\n             ^'),
        id="a missing colon",
    ),
    pytest.param(
        "if True:\nprint(1)\n",
        Problem(
            kind="syntax",
            message="expected an indented block after 'if' statement on line 1",
            line=2,
            column=1,
            source="print(1)\n^",
        ),
        id="bad indentation",
    ),
    pytest.param(
        "Here is the program you asked for\n",
        Problem(
            kind="syntax",
            message="invalid syntax; this line is text, not Python; send the program alone, or write '#' before the text",
            line=1,
            column=13,
            source="Here is the program you asked for\n            ^",
        ),
        id="prose instead of a program",
    ),
    pytest.param(
        "été = 1 +* 2\n",
        Problem(kind="syntax", message="invalid syntax", line=1, column=10, source="été = 1 +* 2\n         ^"),
        id="text after letters of two bytes",
    ),
    pytest.param(
        "if True:\n\tx = = 1\n",
        Problem(kind="syntax", message="invalid syntax", line=2, column=6, source="\tx = = 1\n\t    ^"),
        id="a tab before the place",
    ),
    pytest.param(
        "x = 1\nyield x\n",
        Problem(kind="syntax", message="'yield' outside function", line=2, column=1, source="yield x\n^"),
        id="yield at the top level",
    ),
    pytest.param(
        "if True:\n    break\n",
        Problem(kind="syntax", message="'break' outside loop", line=2, column=5, source="    break\n    ^"),
        id="break outside a loop",
    ),
    pytest.param(
        "class A:\n    return 1\n",
        Problem(kind="syntax", message="'return' outside function", line=2, column=5, source="    return 1\n    ^"),
        id="return in a class",
    ),
    pytest.param(
        "def f(a, a):\n    pass\n",
        Problem(
            kind="syntax",
            message="duplicate argument 'a' in function definition",
            line=1,
            column=10,
            source="def f(a, a):\n         ^",
        ),
        id="a repeated parameter",
    ),
    pytest.param(
        'def f():\n    return await price(ticker="A")\n',
        Problem(
            kind="syntax",
            message="'await' outside async function",
            line=2,
            column=12,
            source='    return await price(ticker="A")\n           ^',
        ),
        id="await in a plain function",
    ),
    pytest.param(
        'def f():\n    é = await price(ticker="A")\n',
        Problem(
            kind="syntax",
            message="'await' outside async function",
            line=2,
            column=9,
            source='    é = await price(ticker="A")\n        ^',
        ),
        id="await in a plain function after letters of two bytes",
    ),
    pytest.param(
        "def f():\n    nonlocal x\n",
        Problem(
            kind="syntax", message="no binding for nonlocal 'x' found", line=2, column=5, source="    nonlocal x\n    ^"
        ),
        id="an unknown nonlocal",
    ),
    pytest.param(
        "if True:\n    return 1\ncontinue\n",
        Problem(kind="syntax", message="'continue' not properly in loop", line=3, column=1, source="continue\n^"),
        id="a top-level return beside a late error",
    ),
    pytest.param(
        "try:\n    pass\nfinally:\n    break\n",
        Problem(kind="syntax", message="'break' outside loop", line=4, column=5, source="    break\n    ^"),
        id="a late error in finally",
    ),
    pytest.param(
        'x = 1\ny = "a\x00b"\n',
        Problem(
            kind="syntax",
            message="the text holds a null character; write '\\0' inside a string",
            line=2,
            column=7,
            source='y = "a?b"\n      ^',
        ),
        id="a null character",
    ),
    pytest.param(
        'x = 1\ny = "\ud800"\n',
        Problem(
            kind="syntax",
            message="the text holds '\\ud800', half of a character pair; write the character itself",
            line=2,
            column=6,
            source='y = "?"\n     ^',
        ),
        id="a lone surrogate",
    ),
]

UNKNOWN_TOOLS = [
    pytest.param(
        "prise()\n",
        Problem(
            kind="unknown_tool", message="no tool 'prise'; did you mean 'price'?", line=1, column=1, source="prise()\n^"
        ),
        id="a misspelt tool",
    ),
    pytest.param(
        'x = 1\ny = await prise(ticker="A")\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=2,
            column=11,
            source='y = await prise(ticker="A")\n          ^',
        ),
        id="a misspelt tool, awaited",
    ),
    pytest.param(
        'await asyncio.gather(*[prise(ticker=t) for t in "AB"])\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=1,
            column=24,
            source='await asyncio.gather(*[prise(ticker=t) for t in "AB"])\n                       ^',
        ),
        id="a misspelt tool in gather",
    ),
    pytest.param(
        "async def main():\n    return await get_user(limit=1)\nprint(await main())\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'get_user'; did you mean 'get_users'?",
            line=2,
            column=18,
            source="    return await get_user(limit=1)\n                 ^",
        ),
        id="a misspelt tool in a function",
    ),
    pytest.param(
        "await getUsers(limit=1)\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'getUsers'; did you mean 'get_users'?",
            line=1,
            column=7,
            source="await getUsers(limit=1)\n      ^",
        ),
        id="another spelling",
    ),
    pytest.param(
        'await fetch_price(ticker="A")\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'fetch_price'; did you mean 'price'?",
            line=1,
            column=7,
            source='await fetch_price(ticker="A")\n      ^',
        ),
        id="other words",
    ),
    pytest.param(
        "await frobnicate(1)\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'frobnicate'; the tools are: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=1,
            column=7,
            source="await frobnicate(1)\n      ^",
        ),
        id="an unknown name that is awaited",
    ),
    pytest.param(
        "class A:\n    def prise(self): ...\nawait prise()\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=3,
            column=7,
            source="await prise()\n      ^",
        ),
        id="a tool of the class scope only",
    ),
    pytest.param(
        "def f(prise): ...\nprise()\n",
        Problem(
            kind="unknown_tool", message="no tool 'prise'; did you mean 'price'?", line=2, column=1, source="prise()\n^"
        ),
        id="a parameter of another function",
    ),
    pytest.param(
        'tools.prise(ticker="A")\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=1,
            column=7,
            source='tools.prise(ticker="A")\n      ^',
        ),
        id="an attribute of tools",
    ),
    pytest.param(
        'print(await tools.prise(ticker="A"))\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=1,
            column=19,
            source='print(await tools.prise(ticker="A"))\n                  ^',
        ),
        id="an attribute of tools, awaited",
    ),
    pytest.param(
        "tools.frobnicate()\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'frobnicate'; the tools are: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=1,
            column=7,
            source="tools.frobnicate()\n      ^",
        ),
        id="an unknown attribute of tools",
    ),
    pytest.param(
        'await tools.async_prise(ticker="A")\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=1,
            column=13,
            source='await tools.async_prise(ticker="A")\n            ^',
        ),
        id="an awaitable attribute of tools",
    ),
    pytest.param(
        'x = (tools\n    .prise(ticker="A"))\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=2,
            column=6,
            source='    .prise(ticker="A"))\n     ^',
        ),
        id="an attribute of tools over lines",
    ),
    pytest.param(
        'tools.hr.price(ticker="A")\n',
        Problem(
            kind="unknown_tool",
            message="no tool 'price' in 'tools.hr'; did you mean 'tools.price'?",
            line=1,
            column=10,
            source='tools.hr.price(ticker="A")\n         ^',
        ),
        id="a tool of another domain",
    ),
    pytest.param(
        "tools.hr.get_user(limit=1)\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'get_user' in 'tools.hr'; did you mean 'get_users'?",
            line=1,
            column=10,
            source="tools.hr.get_user(limit=1)\n         ^",
        ),
        id="a misspelt tool of a domain",
    ),
    pytest.param(
        "tools.hrr.get_users(limit=1)\n",
        Problem(
            kind="unknown_tool",
            message="no module 'tools.hrr'; did you mean 'tools.hr'?",
            line=1,
            column=1,
            source="tools.hrr.get_users(limit=1)\n^",
        ),
        id="a misspelt domain",
    ),
    pytest.param(
        "tools.warehouse.count()\n",
        Problem(
            kind="unknown_tool",
            message="no module 'tools.warehouse'; the modules are: tools.market, tools.hr, tools.financial_data",
            line=1,
            column=1,
            source="tools.warehouse.count()\n^",
        ),
        id="an unknown domain",
    ),
    pytest.param(
        "import tools.hr as hr\nhr.get_user(limit=1)\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'get_user' in 'tools.hr'; did you mean 'get_users'?",
            line=2,
            column=4,
            source="hr.get_user(limit=1)\n   ^",
        ),
        id="a domain under another name",
    ),
    pytest.param(
        "from tools import hr\nhr.get_user(limit=1)\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'get_user' in 'tools.hr'; did you mean 'get_users'?",
            line=2,
            column=4,
            source="hr.get_user(limit=1)\n   ^",
        ),
        id="a domain imported from tools",
    ),
    pytest.param(
        "from tools import get_users, prise\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=1,
            column=30,
            source="from tools import get_users, prise\n                             ^",
        ),
        id="an import from tools",
    ),
    pytest.param(
        "import json\nfrom tools.hr import get_user\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'get_user' in 'tools.hr'; did you mean 'get_users'?",
            line=2,
            column=22,
            source="from tools.hr import get_user\n                     ^",
        ),
        id="an import from a domain",
    ),
    pytest.param(
        "from tools.hrr import get_users\n",
        Problem(
            kind="unknown_tool",
            message="no module 'tools.hrr'; did you mean 'tools.hr'?",
            line=1,
            column=1,
            source="from tools.hrr import get_users\n^",
        ),
        id="an import from a misspelt domain",
    ),
    pytest.param(
        "import json, tools.markt\n",
        Problem(
            kind="unknown_tool",
            message="no module 'tools.markt'; did you mean 'tools.market'?",
            line=1,
            column=14,
            source="import json, tools.markt\n             ^",
        ),
        id="an import of a misspelt domain",
    ),
    pytest.param(
        "def f():\n    from tools import prise\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=2,
            column=23,
            source="    from tools import prise\n                      ^",
        ),
        id="an import in a function",
    ),
]

ARGUMENTS = [
    pytest.param(
        'await price(tiker="A")\n',
        Problem(
            kind="unknown_argument",
            message="'price' has no argument 'tiker'; did you mean 'ticker'?",
            line=1,
            column=13,
            source='await price(tiker="A")\n            ^',
        ),
        id="an unknown argument",
    ),
    pytest.param(
        'price(tiker="A")\n',
        Problem(
            kind="unknown_argument",
            message="'price' has no argument 'tiker'; did you mean 'ticker'?",
            line=1,
            column=7,
            source='price(tiker="A")\n      ^',
        ),
        id="an unknown argument without await",
    ),
    pytest.param(
        'await price(ticker="A", verbose=True)\n',
        Problem(
            kind="unknown_argument",
            message="'price' has no argument 'verbose'; it takes 'ticker', 'currency' and 'date'",
            line=1,
            column=25,
            source='await price(ticker="A", verbose=True)\n                        ^',
        ),
        id="an unknown argument that is like none",
    ),
    pytest.param(
        'await get_users(dept="eng")\n',
        Problem(
            kind="unknown_argument",
            message="'get_users' has no argument 'dept'; it takes 'department', 'limit' and 'active'",
            line=1,
            column=17,
            source='await get_users(dept="eng")\n                ^',
        ),
        id="an unknown argument of a closed tool",
    ),
    pytest.param(
        'await now(zone="UTC")\n',
        Problem(
            kind="unknown_argument",
            message="'now' has no argument 'zone'; it takes none",
            line=1,
            column=11,
            source='await now(zone="UTC")\n          ^',
        ),
        id="an unknown argument of a tool without any",
    ),
    pytest.param(
        'await price({"tiker": "A"})\n',
        Problem(
            kind="unknown_argument",
            message="'price' has no argument 'tiker'; did you mean 'ticker'?",
            line=1,
            column=14,
            source='await price({"tiker": "A"})\n             ^',
        ),
        id="an unknown argument in a dict",
    ),
    pytest.param(
        'kw = {}\nawait price(tiker="A", **kw)\n',
        Problem(
            kind="unknown_argument",
            message="'price' has no argument 'tiker'; did you mean 'ticker'?",
            line=2,
            column=13,
            source='await price(tiker="A", **kw)\n            ^',
        ),
        id="an unknown argument beside unpacking",
    ),
    pytest.param(
        'tools.price(tiker="A")\n',
        Problem(
            kind="unknown_argument",
            message="'tools.price' has no argument 'tiker'; did you mean 'ticker'?",
            line=1,
            column=13,
            source='tools.price(tiker="A")\n            ^',
        ),
        id="an unknown argument of a tool in a module",
    ),
    pytest.param(
        'from tools.market import price as quote\nawait quote(tiker="A")\n',
        Problem(
            kind="unknown_argument",
            message="'quote' has no argument 'tiker'; did you mean 'ticker'?",
            line=2,
            column=13,
            source='await quote(tiker="A")\n            ^',
        ),
        id="an unknown argument of an imported tool",
    ),
    pytest.param(
        'await mcp__financial_data__query(sq="select 1")\n',
        Problem(
            kind="unknown_argument",
            message="'mcp__financial_data__query' has no argument 'sq'; did you mean 'sql'?",
            line=1,
            column=34,
            source='await mcp__financial_data__query(sq="select 1")\n                                 ^',
        ),
        id="an unknown argument of an alias",
    ),
    pytest.param(
        'await price("A", ticker="B")\n',
        Problem(
            kind="unknown_argument",
            message="'price' got argument 'ticker' twice; leave one out",
            line=1,
            column=18,
            source='await price("A", ticker="B")\n                 ^',
        ),
        id="an argument twice",
    ),
    pytest.param(
        'await get_budget("a", "b")\n',
        Problem(
            kind="unknown_argument",
            message="'get_budget' takes 1 argument: 'team'; got 2",
            line=1,
            column=23,
            source='await get_budget("a", "b")\n                      ^',
        ),
        id="too many arguments",
    ),
    pytest.param(
        'await now("UTC")\n',
        Problem(
            kind="unknown_argument",
            message="'now' takes no positional arguments; got 1",
            line=1,
            column=11,
            source='await now("UTC")\n          ^',
        ),
        id="too many arguments for none",
    ),
    pytest.param(
        "await price()\n",
        Problem(
            kind="missing_argument",
            message="'price' needs the argument 'ticker'",
            line=1,
            column=7,
            source="await price()\n      ^",
        ),
        id="a missing argument",
    ),
    pytest.param(
        'await price(currency="EUR")\n',
        Problem(
            kind="missing_argument",
            message="'price' needs the argument 'ticker'",
            line=1,
            column=7,
            source='await price(currency="EUR")\n      ^',
        ),
        id="a missing argument beside another",
    ),
    pytest.param(
        'await send_email(to="a@b.c")\n',
        Problem(
            kind="missing_argument",
            message="'send_email' needs the arguments 'subject' and 'body'",
            line=1,
            column=7,
            source='await send_email(to="a@b.c")\n      ^',
        ),
        id="two missing arguments",
    ),
    pytest.param(
        'await history("A")\n',
        Problem(
            kind="missing_argument",
            message="'history' needs the argument 'days'",
            line=1,
            column=7,
            source='await history("A")\n      ^',
        ),
        id="a missing argument after a positional one",
    ),
    pytest.param(
        'await price({"currency": "EUR"})\n',
        Problem(
            kind="missing_argument",
            message="'price' needs the argument 'ticker'",
            line=1,
            column=7,
            source='await price({"currency": "EUR"})\n      ^',
        ),
        id="a missing argument in a dict",
    ),
    pytest.param(
        "await price({})\n",
        Problem(
            kind="missing_argument",
            message="'price' needs the argument 'ticker'",
            line=1,
            column=7,
            source="await price({})\n      ^",
        ),
        id="a missing argument in an empty dict",
    ),
    pytest.param(
        "print(tools.add(a=1))\n",
        Problem(
            kind="missing_argument",
            message="'tools.add' needs the argument 'b'",
            line=1,
            column=7,
            source="print(tools.add(a=1))\n      ^",
        ),
        id="a missing argument of a tool in a module",
    ),
    pytest.param(
        "await price(ticker=3)\n",
        Problem(
            kind="wrong_type",
            message="'price' argument 'ticker' must be a string, got 3",
            line=1,
            column=20,
            source="await price(ticker=3)\n                   ^",
        ),
        id="an integer for a string",
    ),
    pytest.param(
        "await price(3)\n",
        Problem(
            kind="wrong_type",
            message="'price' argument 'ticker' must be a string, got 3",
            line=1,
            column=13,
            source="await price(3)\n            ^",
        ),
        id="an integer for a string, by position",
    ),
    pytest.param(
        'await price({"ticker": 3})\n',
        Problem(
            kind="wrong_type",
            message="'price' argument 'ticker' must be a string, got 3",
            line=1,
            column=24,
            source='await price({"ticker": 3})\n                       ^',
        ),
        id="an integer for a string, in a dict",
    ),
    pytest.param(
        'await history(ticker="A", days="30")\n',
        Problem(
            kind="wrong_type",
            message="'history' argument 'days' must be an integer, got '30'",
            line=1,
            column=32,
            source='await history(ticker="A", days="30")\n                               ^',
        ),
        id="a string for an integer",
    ),
    pytest.param(
        'await history(ticker="A", days=1.5)\n',
        Problem(
            kind="wrong_type",
            message="'history' argument 'days' must be an integer, got 1.5",
            line=1,
            column=32,
            source='await history(ticker="A", days=1.5)\n                               ^',
        ),
        id="a fraction for an integer",
    ),
    pytest.param(
        'await history(ticker="A", days=True)\n',
        Problem(
            kind="wrong_type",
            message="'history' argument 'days' must be an integer, got True",
            line=1,
            column=32,
            source='await history(ticker="A", days=True)\n                               ^',
        ),
        id="a boolean for an integer",
    ),
    pytest.param(
        'n = 3\nawait history(ticker="A", days=f"{n}")\n',
        Problem(
            kind="wrong_type",
            message="'history' argument 'days' must be an integer, got an f-string",
            line=2,
            column=32,
            source='await history(ticker="A", days=f"{n}")\n                               ^',
        ),
        id="an f-string for an integer",
    ),
    pytest.param(
        'await set_flag(name="a", on="yes")\n',
        Problem(
            kind="wrong_type",
            message="'set_flag' argument 'on' must be a boolean, got 'yes'",
            line=1,
            column=29,
            source='await set_flag(name="a", on="yes")\n                            ^',
        ),
        id="a string for a boolean",
    ),
    pytest.param(
        'await orders(status="open", tags="a")\n',
        Problem(
            kind="wrong_type",
            message="'orders' argument 'tags' must be a list, got 'a'",
            line=1,
            column=34,
            source='await orders(status="open", tags="a")\n                                 ^',
        ),
        id="a string for a list",
    ),
    pytest.param(
        'await orders(status="open", tags=["a", 3])\n',
        Problem(
            kind="wrong_type",
            message="'orders' argument 'tags[1]' must be a string, got 3",
            line=1,
            column=40,
            source='await orders(status="open", tags=["a", 3])\n                                       ^',
        ),
        id="an integer in a list of strings",
    ),
    pytest.param(
        'await orders(status="open", range={"start": 3})\n',
        Problem(
            kind="wrong_type",
            message="'orders' argument 'range.start' must be a string, got 3",
            line=1,
            column=45,
            source='await orders(status="open", range={"start": 3})\n                                            ^',
        ),
        id="an integer in a nested object",
    ),
    pytest.param(
        "await save(record=[1])\n",
        Problem(
            kind="wrong_type",
            message="'save' argument 'record' must be a dict, got a list",
            line=1,
            column=19,
            source="await save(record=[1])\n                  ^",
        ),
        id="a list for an object",
    ),
    pytest.param(
        "await price(ticker=None)\n",
        Problem(
            kind="wrong_type",
            message="'price' argument 'ticker' must be a string, got None",
            line=1,
            column=20,
            source="await price(ticker=None)\n                   ^",
        ),
        id="None for a string",
    ),
    pytest.param(
        'await price(ticker="A", date=20240101)\n',
        Problem(
            kind="wrong_type",
            message="'price' argument 'date' must be a string or None, got 20240101",
            line=1,
            column=30,
            source='await price(ticker="A", date=20240101)\n                             ^',
        ),
        id="an integer for a string or None",
    ),
    pytest.param(
        "await price(ticker=-3)\n",
        Problem(
            kind="wrong_type",
            message="'price' argument 'ticker' must be a string, got -3",
            line=1,
            column=20,
            source="await price(ticker=-3)\n                   ^",
        ),
        id="a negative integer for a string",
    ),
    pytest.param(
        'await send_email(to=3, subject="s", body="b")\n',
        Problem(
            kind="wrong_type",
            message="'send_email' argument 'to' must be a string or a list, got 3",
            line=1,
            column=21,
            source='await send_email(to=3, subject="s", body="b")\n                    ^',
        ),
        id="an integer for a string or a list",
    ),
    pytest.param(
        "await get_users(active={})\n",
        Problem(
            kind="wrong_type",
            message="'get_users' argument 'active' must be a boolean or None, got a dict",
            line=1,
            column=24,
            source="await get_users(active={})\n                       ^",
        ),
        id="a dict for a boolean or None",
    ),
    pytest.param(
        'await orders(status="done")\n',
        Problem(
            kind="wrong_type",
            message="'orders' argument 'status' must be one of 'open', 'closed', got 'done'",
            line=1,
            column=21,
            source='await orders(status="done")\n                    ^',
        ),
        id="a value that is not in the enum",
    ),
    pytest.param(
        'await paint(colour="blue")\n',
        Problem(
            kind="wrong_type",
            message="'paint' argument 'colour' must be one of 'red', 'green', got 'blue'",
            line=1,
            column=20,
            source='await paint(colour="blue")\n                   ^',
        ),
        id="a value that is not in a referenced enum",
    ),
    pytest.param(
        'await paint(colour="red", size={"w": "wide"})\n',
        Problem(
            kind="wrong_type",
            message="'paint' argument 'size.w' must be an integer, got 'wide'",
            line=1,
            column=38,
            source='await paint(colour="red", size={"w": "wide"})\n                                     ^',
        ),
        id="a wrong value in a referenced object",
    ),
    pytest.param(
        "await price(ticker=0x" + "f" * 5000 + ")\n",
        Problem(
            kind="wrong_type",
            message="'price' argument 'ticker' must be a string, got a very long integer",
            line=1,
            column=20,
            source="await price(ticker=0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\n                   ^",
        ),
        id="an integer too long to print",
    ),
]

NOT_AWAITED = [
    pytest.param('price(ticker="A")\n', id="a statement"),
    pytest.param(
        'async def main():\n    send_email(to="a@b.c", subject="s", body="b")\nawait main()\n',
        id="a statement in a function",
    ),
    pytest.param(
        'def main():\n    send_email(to="a@b.c", subject="s", body="b")\nmain()\n', id="a statement in a plain function"
    ),
    pytest.param('from tools import price as quote\nquote(ticker="A")\n', id="a statement of an imported tool"),
    pytest.param('tools.async_price(ticker="A")\n', id="an awaitable attribute"),
    pytest.param('print(price(ticker="A"))\n', id="print"),
    pytest.param("n = len(get_users(limit=3))\n", id="len"),
    pytest.param("import json\nprint(json.dumps(get_users(limit=3)))\n", id="json.dumps"),
    pytest.param("x = json.dumps(get_users(limit=3))\n", id="json.dumps without import"),
    pytest.param("df = pd.DataFrame(get_users(limit=3))\n", id="DataFrame"),
    pytest.param("print(f\"costs {price(ticker='A')}\")\n", id="an f-string"),
    pytest.param('x = price(ticker="A")["value"]\n', id="a subscript"),
    pytest.param('x = search(query="x").get("a")\n', id="an attribute"),
    pytest.param("ok = add(a=1, b=2) > 3\n", id="a comparison"),
    pytest.param("x = 1 + add(a=1, b=2)\n", id="arithmetic"),
    pytest.param("x = 1\nx += add(a=1, b=2)\n", id="augmented arithmetic"),
    pytest.param("for row in get_users(limit=3):\n    print(row)\n", id="a loop"),
    pytest.param("rows = [row for row in get_users(limit=3)]\n", id="a comprehension"),
    pytest.param(
        "def f():\n    return [row for row in get_users(limit=3)]\nf()\n", id="a comprehension in a plain function"
    ),
    pytest.param('if get_budget(team="a"):\n    print(1)\n', id="a condition"),
    pytest.param('ok = not get_budget(team="a")\n', id="not"),
    pytest.param("a, b = get_users(limit=2)\n", id="unpacking"),
    pytest.param("print(*get_users(limit=2))\n", id="starring"),
    pytest.param('p = price(ticker="A")\nprint("done")\n', id="a name that is never read"),
    pytest.param('p = price(ticker="A")\nprint(p["value"])\n', id="a name that is subscripted"),
    pytest.param('p = price(ticker="A")\nprint(p)\n', id="a name that is printed"),
    pytest.param(
        "async def main():\n    rows = get_users(limit=3)\n    for row in rows:\n        print(row)\nawait main()\n",
        id="a name that is looped over in a function",
    ),
    pytest.param('result = price(ticker="A")\nprint(result["value"])\n', id="result, used as a value"),
]

IMPORTS = [
    pytest.param(
        "import subprocess\nsubprocess.run(['ls'])\n",
        Problem(
            kind="import",
            message="'subprocess.run' cannot work here: no process can be started; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=2,
            column=1,
            source="subprocess.run(['ls'])\n^",
        ),
        id="subprocess",
    ),
    pytest.param(
        "import json\nimport requests\nrequests.get('http://x')\n",
        Problem(
            kind="import",
            message="'requests.get' cannot work here: there is no network; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=3,
            column=1,
            source="requests.get('http://x')\n^",
        ),
        id="requests",
    ),
    pytest.param(
        "import json, requests\nprint(json.dumps(requests.post('http://x').json()))\n",
        Problem(
            kind="import",
            message="'requests.post' cannot work here: there is no network; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=2,
            column=18,
            source="print(json.dumps(requests.post('http://x').json()))\n                 ^",
        ),
        id="requests among others",
    ),
    pytest.param(
        "from requests import get as fetch\nfetch('http://x')\n",
        Problem(
            kind="import",
            message="'requests.get' cannot work here: there is no network; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=2,
            column=1,
            source="fetch('http://x')\n^",
        ),
        id="a name from requests",
    ),
    pytest.param(
        "import urllib.request\nurllib.request.urlopen('http://x')\n",
        Problem(
            kind="import",
            message="'urllib.request.urlopen' cannot work here: there is no network; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=2,
            column=1,
            source="urllib.request.urlopen('http://x')\n^",
        ),
        id="urllib.request",
    ),
    pytest.param(
        "from urllib.request import urlopen\nurlopen('http://x')\n",
        Problem(
            kind="import",
            message="'urllib.request.urlopen' cannot work here: there is no network; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=2,
            column=1,
            source="urlopen('http://x')\n^",
        ),
        id="a name from urllib.request",
    ),
    pytest.param(
        "from urllib import request\nrequest.urlopen('http://x')\n",
        Problem(
            kind="import",
            message="'urllib.request.urlopen' cannot work here: there is no network; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=2,
            column=1,
            source="request.urlopen('http://x')\n^",
        ),
        id="request from urllib",
    ),
    pytest.param(
        "import socket as s\ns.socket()\n",
        Problem(
            kind="import",
            message="'socket.socket' cannot work here: there is no network; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=2,
            column=1,
            source="s.socket()\n^",
        ),
        id="socket",
    ),
    pytest.param(
        "import tkinter as tk\nroot = tk.Tk()\n",
        Problem(
            kind="import",
            message="'tkinter.Tk' cannot work here: there is no display; print, or save a figure with matplotlib",
            line=2,
            column=8,
            source="root = tk.Tk()\n       ^",
        ),
        id="tkinter",
    ),
    pytest.param(
        "import pexpect\nawait prise()\n",
        Problem(
            kind="import",
            message="'pexpect' cannot work here: no process can be started; call a tool instead: price, history, get_users, get_expenses, get_budget, send_email, ...",
            line=1,
            column=8,
            source="import pexpect\n       ^",
        ),
        id="an import before another problem",
    ),
    pytest.param(
        "await prise()\nimport pexpect\n",
        Problem(
            kind="unknown_tool",
            message="no tool 'prise'; did you mean 'price'?",
            line=1,
            column=7,
            source="await prise()\n      ^",
        ),
        id="an import after another problem",
    ),
]


LATE = {
    "try:\n    pass\nexcept:\n    pass\nexcept ValueError:\n    pass\n": (3, "default 'except:' must be last"),
    "class A(metaclass=type, metaclass=type):\n    x = 1\n": (1, "keyword argument repeated: metaclass"),
    "def f():\n    from math import *\n": (2, "import * only allowed at module level"),
    "f = lambda: await price('A')\n": (1, "'await' outside async function"),
    "def f():\n    async with g() as a:\n        pass\n": (2, "'async with' outside async function"),
    "def f(a, *a):\n    pass\n": (1, "duplicate argument 'a' in function definition"),
    "def f(a):\n    return a\nx = *f\n": (3, "can't use starred expression here"),
    "class A:\n    x = await price('A')\n": (2, "'await' outside function"),
}


@pytest.mark.parametrize("text", LATE)
def test_what_only_the_compiler_sees_in_a_block_is_rejected(text: str) -> None:
    problem = check(text)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.line, problem.message) == ("syntax", *LATE[text])


@pytest.mark.parametrize(("text", "problem"), SYNTAX)
def test_a_syntax_error_is_told_in_the_words_of_python_with_its_place(
    text: str, problem: Problem, checker: Checker
) -> None:
    assert checker.check(text) == problem


@pytest.mark.parametrize(("text", "problem"), UNKNOWN_TOOLS)
def test_an_unknown_tool_is_named_with_the_one_that_was_meant(text: str, problem: Problem, checker: Checker) -> None:
    assert checker.check(text) == problem


@pytest.mark.parametrize(("text", "problem"), ARGUMENTS)
def test_a_call_that_the_schema_cannot_accept_is_rejected(text: str, problem: Problem, checker: Checker) -> None:
    assert checker.check(text) == problem


@pytest.mark.parametrize("text", NOT_AWAITED)
def test_a_call_that_nothing_awaits_passes(text: str, checker: Checker) -> None:
    assert isinstance(checker.check(text), Program)


@pytest.mark.parametrize(("text", "problem"), IMPORTS)
def test_an_import_that_cannot_work_says_what_to_use_instead(text: str, problem: Problem, checker: Checker) -> None:
    assert checker.check(text) == problem


def test_without_tools_the_texts_do_not_point_to_any() -> None:
    assert [check(text) for text in ("await prise()", "import pexpect", "import tools.hr")] == [
        Problem(
            kind="unknown_tool", message="no tool 'prise'; this program has no tools", line=1, column=7,
            source="await prise()\n      ^",
        ),
        Problem(
            kind="import", message="'pexpect' cannot work here: no process can be started, and this program has no tools",
            line=1, column=8, source="import pexpect\n       ^",
        ),
        Problem(
            kind="unknown_tool", message="no module 'tools.hr'; all tools are in 'tools'", line=1, column=8,
            source="import tools.hr\n       ^",
        ),
    ]  # fmt: skip


def test_a_long_line_is_shown_around_the_place() -> None:
    text = "x = [" + "1, " * 200 + "await prise()]"

    assert check(text) == Problem(
        kind="unknown_tool",
        message="no tool 'prise'; this program has no tools",
        line=1,
        column=612,
        source=text[611 - 80 :] + "\n" + " " * 80 + "^",
    )
