"""What is Monty's own: the rewritten text, the worker that dies, the package that is not there."""

import ast
import asyncio
import builtins
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from toolfold import Outcome, Runtime
from toolfold.engines.base import Called, Died, Ended, Order
from toolfold.engines.monty import MontyEngine
from toolfold.engines.monty.source_rewrite import Prepared, prelude, prepare
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import Limits, Program, Reply, ToolSpec

TESTS = Path(__file__).parent.parent
PROGRAMS = sorted([*TESTS.glob("programs/*.py"), *TESTS.glob("accents/*/*.py")])
TOOLS = {"price", "echo"}
ECHO = ToolSpec(name="echo", python_name="echo", input_schema={"type": "object", "properties": {"value": {}}})


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("await price('A')", "await price('A')"),
        ("from tools import price", "from tools import (async_price as price)"),
        ("from tools.hr import price as p, hr", "from tools.hr import (async_price as p, hr)"),
        ("from tools import (\n  price,\n)\n1", "from tools import (async_price as price\n\n)\n1"),
        ("from tools import *", "pass"),
        ("tools.price('A')", "tools.price('A')"),
        ("await tools.price('A')", "await tools.async_price('A')"),
        ("import tools.hr as hr\nawait hr.price(1)", "import tools.hr as hr\nawait hr.async_price(1)"),
        ("from tools import hr\nawait hr.price(1)", "from tools import (hr)\nawait hr.async_price(1)"),
        ("tools = mine\nawait tools.price(1)", "tools = mine\nawait tools.price(1)"),
        ("shield(tools.price(1))", "shield(tools.async_price(1))"),
        ("gather(*[tools.price(t) for t in 'é'])", "gather(*[tools.async_price(t) for t in 'é'])"),
        ("json.loads(x)", "__loads__(x)"),
        ("if x: from json import loads as l, dumps", "if x: from json import (dumps); l = __loads__"),
        ("from json import (\n loads\n)\n1", "(\n\n); loads = __loads__\n1"),
        ("asyncio.gather(a, return_exceptions=True)", "__gather__(a, return_exceptions=True)"),
        ("asyncio.gather(a)", "asyncio.gather(a)"),
        ('f"{json.loads(x)}"', 'f"{__loads__(x)}"'),
        ("s = asyncio.Lock()\nasync with s:\n  1", "s = __Semaphore__()\nwith await __held__(s):\n  1"),
        ("async with other:\n  1", "async with other:\n  1"),
        ("a\r\nb", "a\nb"),
        ("del rows['é']", "rows.pop('é')"),
        ("del a.b[0][1]", "a.b[0].pop(1)"),
        ("del x", "del x"),
        ("del x[1:2]", "del x[1:2]"),
        ("del x[1, 2]", "del x[1, 2]"),
        ("del (x)[1], y", "del (x)[1], y"),
        ("del (x)[1]", "del (x)[1]"),
        ("del x[\n1\n]", "del x[\n1\n]"),
        ("next(x for x in y)", "next(iter(x for x in y))"),
        ("next((x for x in y), 1)", "next(iter((x for x in y)), 1)"),
        ("sys.stdout.write(sys.exit)", "__write__(__leave__)"),
        ("from sys import exit", "(); exit = __leave__"),
        ("not python (", "not python ("),
    ],
)
def test_text_is_rewritten_in_its_place(text: str, rewritten: str) -> None:
    assert prepare(text, TOOLS).text == rewritten


@pytest.mark.parametrize(
    ("text", "sets_result"),
    [
        ("result = 1", True),
        ("if x:\n  for result in y: pass", True),
        ("def f():\n  result = 1", False),
        ("print(result)", False),
        ("x.result = 1", False),
    ],
)
def test_a_result_counts_in_the_modules_own_scope(text: str, sets_result: bool) -> None:
    assert prepare(text, TOOLS) == Prepared(text=text, sets_result=sets_result)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_no_rewrite_moves_a_line(path: Path) -> None:
    text = path.read_text()

    rewritten = prepare(text, TOOLS).text

    assert rewritten.count("\n") == text.count("\n")
    ast.parse(rewritten)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1", set()),
        ("asyncio.gather(a, return_exceptions=True)", {"__gather__", "__caught__"}),
        ("s = asyncio.Lock()\nasync with s:\n  json.loads(x)", {"__Semaphore__", "__held__", "__Held__", "__loads__"}),
    ],
)
def test_a_program_gets_what_its_text_names_of_the_prelude(text: str, names: set[str]) -> None:
    tree = ast.parse(prelude(prepare(text, TOOLS).text))

    assert {getattr(node, "name", "") for node in tree.body} - {""} == names


async def test_a_worker_that_dies_is_told_as_such_and_the_next_program_runs() -> None:
    async with MontyEngine() as engine:
        async with engine.open(order("await echo(value=1)")) as run:
            events = []
            async for event in run:
                events.append(event)
                if isinstance(event, Called):
                    os.kill(_worker(run), signal.SIGKILL)
                    run.answer(Reply(call_id=1))
        async with engine.open(order("2")) as run:
            after = [event async for event in run]

    assert [type(event) for event in events] == [Called, Died]
    assert after == [Ended(status="finished", value=2)]


def _worker(run: Any) -> int:
    return int(run._driver._worker._pid)


async def test_programs_beyond_the_most_at_once_wait_for_a_place() -> None:
    async with MontyEngine(max_programs=1) as engine, engine.open(order("await echo(value=1)")) as first:
        second = asyncio.create_task(_last(engine, "3"))
        call = await anext(aiter(first))
        assert isinstance(call, Called)
        assert not second.done()
        first.stop("cancelled")
        assert [event async for event in first] == [Ended(status="cancelled")]
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second


async def _last(engine: MontyEngine, text: str) -> Any:
    async with engine.open(order(text)) as run:
        return [event async for event in run][-1]


async def test_refused_syntax_is_rejected_before_a_call_is_made() -> None:
    async with MontyEngine() as engine:
        last = await _last(engine, "await echo(value=1)\nclass A(B):\n    pass")

    assert (last.status, last.problem.kind, last.problem.line) == ("rejected", "syntax", 2)
    assert last.problem.message == (
        "the monty engine cannot run class inheritance and metaclasses; write it without, or use the process engine"
    )


async def test_an_argument_of_a_certain_wrong_type_is_rejected_before_anything_runs() -> None:
    schema = {"type": "object", "properties": {"ticker": {"type": "string"}}, "required": ["ticker"]}
    async with Runtime(engine="monty") as runtime:
        shape = {"input_schema": schema, "output_schema": {"type": "number"}}
        price = ToolSpec(name="price", python_name="price", source="caller", **shape)
        step = await runtime.start("x = 5\nprint('began')\nawait price(x)", tools=[price])

    assert isinstance(step, Outcome)
    assert (step.status, step.stdout, str(getattr(step, "problem", "")).partition("\n")[0]) == (
        "rejected", "", "line 3: 'price' argument 'ticker' must be a string; 'x' is a number; write str(x)",
    )  # fmt: skip


async def test_deleted_files_make_room_and_folders_count() -> None:
    text = """
import os
for n in range(20):
    with open('/mnt/data/big', 'wb') as out:
        out.write(b'x' * 600_000)
    os.remove('/mnt/data/big')
made = 0
try:
    for n in range(1000):
        os.mkdir(f'/mnt/data/{n}')
        made += 1
except OSError as error:
    print(error)
made < 100
"""
    limits = Limits(data_bytes=1_000_000, data_files=100)
    async with MontyEngine() as engine, engine.open(order(text, limits=limits)) as run:
        events = [event async for event in run]

    assert events[-1] == Ended(status="finished", value=True)


async def test_an_engine_that_is_not_entered_says_so() -> None:
    with pytest.raises(UsageError) as refusal:
        await _last(MontyEngine(), "1")

    assert str(refusal.value) == "the engine is not entered; use `async with` on it first"


async def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any) -> Any:
        if name == "pydantic_monty":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(EngineUnavailable) as refusal:
        await MontyEngine().__aenter__()

    assert str(refusal.value) == (
        "the monty engine is not installed; install the extra 'monty' of toolfold: pip install 'toolfold[monty]'"
    )


def order(text: str, **options: Any) -> Order:
    return Order(program=Program(text=text), tools=[ECHO], **options)
