"""Programs that keep coroutines: each lets one call of a tool flow along a random path to what awaits it.

They are valid Python, so that CPython says which calls are made: those that are never chosen are not.
"""

from __future__ import annotations

import ast
import asyncio
import random
import warnings
from typing import Any, Final

from tests.corpora.half_awaited import Service, arena
from toolfold.runtime import Runtime

STEPS: Final = [
    ("@N@ = [@V@, send('x')]", "@N@[0]"),
    ("@N@ = {'a': @V@, 'b': send('x')}", "@N@['a']"),
    ("def @N@(a, b):\n    return a", "@N@(@V@, send('x'))"),
    ("@N@ = (send('x'), @V@)", "@N@[1]"),
    ("class @N@:\n    def __init__(self, a, b):\n        self.a, self.b = a, b", "@N@(@V@, send('x')).a"),
    ("@N@ = {}\n@N@['a'] = send('x')\n@N@['b'] = @V@", "@N@['b']"),
    ("@N@ = []\n@N@.append(send('x'))\n@N@.append(@V@)", "@N@[1]"),
    (
        "import dataclasses\n@dataclasses.dataclass\nclass @N@:\n    a: object\n    b: object\n@N@o = [@N@(1, send('x')), @N@(2, @V@)]",
        "[j.b for j in @N@o if j.a == 2][0]",
    ),
    ("@N@ = [(1, send('x')), (2, @V@)]", "[c for i, c in @N@ if i == 2][0]"),
    ("@N@ = {k: (lambda k=k: send(k)) for k in 'ab'}\n@N@2 = @V@", "@N@2"),
    ("@N@ = @V@", "@N@"),
    ("@N@ = [@V@]", "@N@[0]"),
    ("@N@ = [None, @V@, None]", "@N@[1:][0]"),
    ("@N@ = (@V@, 1)", "@N@[0]"),
    ("@N@, _x = @V@, 1", "@N@"),
    ("@N@ = {'k': @V@}", "@N@['k']"),
    ("@N@ = {}\n@N@['a' + 'b'] = @V@", "@N@.get('ab')"),
    ("@N@ = {'k': @V@}", "list(@N@.values())[0]"),
    ("@N@ = {'k': @V@}", "next(c for k, c in @N@.items())"),
    ("@N@ = []\n@N@.append(@V@)", "@N@.pop()"),
    ("@N@ = []\n@N@ += [@V@]", "@N@[-1]"),
    ("@N@ = []\n@N@.extend([@V@])", "@N@[0]"),
    ("def @N@(x):\n    return x", "@N@(@V@)"),
    ("def @N@(*a, **k):\n    return a[0] if a else k['x']", "@N@(x=@V@)"),
    ("def @N@(*a):\n    return a[0]", "@N@(*[@V@])"),
    ("def @N@():\n    return @V@", "@N@()"),
    ("@N@ = lambda: @V@", "@N@()"),
    ("@N@ = lambda x=None: x", "@N@(@V@)"),
    ("async def @N@(x):\n    return x", "(await @N@(@V@))"),
    ("async def @N@():\n    return [@V@]", "(await @N@())[0]"),
    ("class @N@:\n    def __init__(self, c):\n        self.c = c", "@N@(@V@).c"),
    ("class @N@:\n    pass\n@N@_o = @N@()\n@N@_o.call = @V@", "@N@_o.call"),
    (
        "class @N@:\n    def __init__(self):\n        self.cs = []\n    def add(self, c):\n        self.cs.append(c)\n        return self\n    def take(self):\n        return self.cs.pop()",
        "@N@().add(@V@).take()",
    ),
    ("import dataclasses\n@dataclasses.dataclass\nclass @N@:\n    c: object", "@N@(@V@).c"),
    ("import collections\n@N@ = collections.namedtuple('@N@', 'a c')", "@N@(1, @V@).c"),
    ("from types import SimpleNamespace as @N@", "@N@(c=@V@).c"),
    ("def @N@(x):\n    yield x", "next(@N@(@V@))"),
    ("def @N@(x):\n    yield from [x]", "list(@N@(@V@))[0]"),
    ("async def @N@(x):\n    yield x", "[x async for x in @N@(@V@)][0]"),
    ("@N@ = [c for c in [@V@]]", "@N@[0]"),
    ("@N@ = {k: c for k, c in [('a', @V@)]}", "@N@['a']"),
    ("@N@ = dict(zip(['a'], [@V@]))", "@N@['a']"),
    ("@N@ = [@V@]", "sorted(@N@, key=lambda c: 1)[0]"),
    ("@N@ = [@V@]\n@N@2 = @N@", "@N@2[0]"),
    ("@N@ = []\n@N@2 = @N@\n@N@2.append(@V@)", "@N@[0]"),
    ("@N@, *@N@r = [@V@, 1]", "@N@"),
    ("*@N@, @N@r = [@V@, 1]", "@N@[0]"),
    ("@N@ = @V@ if 1 else None", "@N@"),
    ("@N@ = None or @V@", "@N@"),
    ("@N@ = [@N@w := @V@]", "@N@w"),
    ("for @N@ in [@V@]:\n    pass", "@N@"),
    ("@N@ = None\ndef @N@f(x):\n    global @N@\n    @N@ = x\n@N@f(@V@)", "@N@"),
    (
        "def @N@(x):\n    y = None\n    def inner():\n        nonlocal y\n        y = x\n    inner()\n    return y",
        "@N@(@V@)",
    ),
    ("from collections import deque\n@N@ = deque()\n@N@.appendleft(@V@)", "@N@.popleft()"),
    ("from collections import defaultdict\n@N@ = defaultdict(list)\n@N@['a'].append(@V@)", "@N@['a'][0]"),
    ("import itertools\n@N@ = itertools.chain([@V@], [])", "next(@N@)"),
    ("from functools import partial\n@N@ = partial(lambda x: x, @V@)", "@N@()"),
    ("from functools import reduce\n@N@ = reduce(lambda a, b: a or b, [None, @V@])", "@N@"),
    ("import random\n@N@ = random.choice([@V@])", "@N@"),
    ("import copy\n@N@ = copy.copy([@V@])", "@N@[0]"),
    ("import queue\n@N@ = queue.Queue()\n@N@.put(@V@)", "@N@.get()"),
    ("import asyncio\n@N@ = asyncio.Queue()\nawait @N@.put(@V@)", "(await @N@.get())"),
    ("def @N@(f):\n    def w(*a):\n        return f(*a)\n    return w\n@@N@\ndef @N@g(x):\n    return x", "@N@g(@V@)"),
    (
        "import functools\ndef @N@(f):\n    @functools.wraps(f)\n    def w(*a, **k):\n        return f(*a, **k)\n    return w\n@@N@\ndef @N@g(x):\n    return x",
        "@N@g(@V@)",
    ),
    (
        "from contextlib import contextmanager\n@contextmanager\ndef @N@(x):\n    yield x\nwith @N@(@V@) as @N@c:\n    pass",
        "@N@c",
    ),
    (
        "class @N@:\n    def __init__(self, c):\n        self.c = c\n    def __enter__(self):\n        return self.c\n    def __exit__(self, *a):\n        pass\nwith @N@(@V@) as @N@c:\n    pass",
        "@N@c",
    ),
    ("match {'c': @V@}:\n    case {'c': @N@}:\n        pass", "@N@"),
    ("try:\n    raise RuntimeError(@V@)\nexcept RuntimeError as e:\n    @N@ = e.args[0]", "@N@"),
    ("@N@ = [*[@V@]]", "@N@[0]"),
    ("@N@ = {**{'a': @V@}}", "@N@['a']"),
    ("@N@ = {'a': @V@} | {}", "@N@['a']"),
    ("@N@ = [@V@] + []", "@N@[0]"),
    ("@N@ = list(map(lambda c: c, [@V@]))", "@N@[0]"),
    ("@N@ = list(filter(lambda c: True, [@V@]))", "@N@[0]"),
    ("@N@ = list(enumerate([@V@]))", "@N@[0][1]"),
    ("@N@ = list(reversed([@V@]))", "@N@[0]"),
    ("@N@ = {}\n@N@.update(c=@V@)", "@N@.pop('c')"),
    ("@N@ = {}.setdefault('a', @V@)", "@N@"),
    ("class @N@:\n    @staticmethod\n    def f(x):\n        return x", "@N@.f(@V@)"),
    ("class @N@:\n    @classmethod\n    def f(cls, x):\n        return x", "@N@.f(@V@)"),
    (
        "class @N@:\n    def __init__(self, x):\n        self.x = x\n    @property\n    def p(self):\n        return self.x",
        "@N@(@V@).p",
    ),
    ("class @N@:\n    def __call__(self, x):\n        return x", "@N@()(@V@)"),
    (
        "class @N@:\n    def __getitem__(self, k):\n        return self.d[k]\n    def __setitem__(self, k, x):\n        self.d = {k: x}\n@N@o = @N@()\n@N@o['a'] = @V@",
        "@N@o['a']",
    ),
    (
        "class @N@:\n    def __init__(self, x):\n        self.x = x\n    def __iter__(self):\n        return iter([self.x])",
        "[c for c in @N@(@V@)][0]",
    ),
    ("class @N@b:\n    def __init__(self, x):\n        self.x = x\nclass @N@(@N@b):\n    pass", "@N@(@V@).x"),
    (
        "class @N@b:\n    def __init__(self, x):\n        self.x = x\nclass @N@(@N@b):\n    def __init__(self, x):\n        super().__init__(x)",
        "@N@(@V@).x",
    ),
    ("class @N@:\n    def m(self, x):\n        return x\n@N@f = @N@().m", "@N@f(@V@)"),
    ("class @N@(dict):\n    pass\n@N@d = @N@(a=@V@)", "@N@d['a']"),
    ("class @N@(list):\n    def first(self):\n        return self[0]\n@N@d = @N@([@V@])", "@N@d.first()"),
    ("@N@t = {'id': lambda x: x}", "@N@t['id'](@V@)"),
    ("@N@ = getattr(type('T', (), {'c': @V@}), 'c')", "@N@"),
    ("@N@ = (lambda *a: a)(@V@)", "@N@[0]"),
    ("import operator\n@N@ = operator.itemgetter(0)([@V@])", "@N@"),
    ("def @N@(n, x):\n    return x if n == 0 else @N@(n - 1, x)", "@N@(2, @V@)"),
    (
        "import threading\n@N@ = []\n@N@t = threading.Thread(target=lambda: @N@.append(@V@))\n@N@t.start()\n@N@t.join()",
        "@N@[0]",
    ),
]
"""What keeps a call, and what gives it back: `@V@` is the call, `@N@` a name of its own."""
SINKS: Final = [
    "await @V@",
    "import asyncio\nawait asyncio.gather(@V@)",
    "import asyncio\nawait asyncio.gather(*[@V@])",
    "import asyncio\nt = asyncio.create_task(@V@)\nawait t",
    "import asyncio\nawait asyncio.wait_for(@V@, 5)",
    "async def run(c):\n    return await c\nawait run(@V@)",
    "async def run(cs):\n    for c in cs:\n        await c\nawait run([@V@])",
    "import asyncio\nasync with asyncio.TaskGroup() as tg:\n    tg.create_task(@V@)",
    "import asyncio\nfor f in asyncio.as_completed([@V@]):\n    await f",
    "import asyncio\ntasks = {asyncio.ensure_future(@V@)}\nawait asyncio.wait(tasks)",
    "async def run(**k):\n    await k['c']\nawait run(c=@V@)",
    "class R:\n    async def go(self, c):\n        return await c\nawait R().go(@V@)",
    "x = (await @V@)['key']\nprint(x)",
]
MOST_STEPS: Final = 7


def program(seed: int) -> str | None:
    """`None` where the pieces do not fit together."""
    rng = random.Random(seed)
    value, lines = "save('1')", []
    for index in range(rng.randint(1, MOST_STEPS)):
        code, expression = (part.replace("@N@", f"n{index}") for part in rng.choice(STEPS))
        lines.append(code.replace("@V@", value))
        value = expression.replace("@V@", value)
    text = "\n".join([*lines, rng.choice(SINKS).replace("@V@", value)])
    if rng.random() < 0.4 and "global" not in text:
        body = "\n".join(f"    {line}" for line in text.split("\n"))
        text = f"async def main():\n{body}\nawait main()"
    try:
        compile(text, "<program>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return None  # an `await` in a function that is not asynchronous
    return text


async def compare(text: str, runtime: Runtime, service: Service) -> str:
    """Empty if the calls are those of CPython; else how they differ."""
    expected = await asyncio.to_thread(_entries_in_cpython, text)
    service.clear()
    outcome = await runtime.run(text)
    if (outcome.status, service.entries) == ("finished", expected):
        return ""
    return f"{expected} in CPython, here {service.entries}, {outcome.status} {outcome.problem}"


async def measure(seeds: range) -> int:
    texts = [text for seed in seeds if (text := program(seed)) is not None]
    wrong = 0
    async with arena() as both:
        for text in texts:
            difference = await compare(text, *both)
            if difference:
                wrong += 1
                print(f"{text}\n{difference}")
    print(f"{len(texts)} programs that keep coroutines, {wrong} wrong")
    return wrong


def _entries_in_cpython(text: str) -> list[tuple[str, Any]]:
    service = Service()
    names: dict[str, Any] = {"print": lambda *_: None}
    for tool in service.tools():
        names[tool.spec.name] = lambda key, call=tool.call: call({"key": key})
    code = compile(text, "<program>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        await eval(code, names)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what is not chosen is never awaited
        asyncio.run(run())
        del names["print"]
        for name in [name for name in names if name != "__builtins__"]:
            del names[name]
    return service.entries
