"""What a program does to builtins and modules breaks neither its calls nor its end."""

import builtins
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.models import Outcome
from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")

_CALLS = """
second = await asyncio.gather(add(a=1), add(a=2))
third = await add(a=5)
show(first := tools.add(a=1))
"""
_CALL = "third = tools.add(a=5)\nshow(tools.add(a=1))\nthird"
_START = "import builtins, sys, asyncio\nshow, own, delete, put = print, ValueError, delattr, setattr\n"
_NAMES = sorted(name for name in vars(builtins) if name != "__debug__")
_MODULES = [
    "_thread", "ast", "asyncio", "atexit", "base64", "codecs", "collections", "collections.abc", "concurrent.futures",
    "contextlib", "ctypes", "datetime", "functools", "gc", "heapq", "importlib", "io", "itertools", "json",
    "json.encoder", "linecache", "marshal", "math", "operator", "os", "os.path", "random", "re", "select", "selectors",
    "signal", "socket", "string", "struct", "threading", "time", "traceback", "types", "typing", "warnings", "weakref",
]  # fmt: skip


async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[add], engine="process") as runtime:
        yield runtime


def _result(outcome: Outcome) -> object:
    last_line = outcome.problem.message.splitlines()[-1] if outcome.problem else None
    return outcome.status, outcome.value, outcome.stdout, last_line


@pytest.mark.parametrize("change", ["delete(builtins, {!r})", "put(builtins, {!r}, None)"])
async def test_calls_output_and_value_survive_the_loss_of_any_builtin(change: str, runtime: Runtime) -> None:
    results = {
        name: _result(await runtime.run(_START + change.format(name) + _CALLS + "[first, second, third]"))
        for name in _NAMES
    }

    assert results == dict.fromkeys(_NAMES, ("finished", [2, [2, 3], 6], "2\n", None))


async def test_a_failure_is_reported_after_the_loss_of_any_builtin(runtime: Runtime) -> None:
    results = {
        name: _result(await runtime.run(f"{_START}delete(builtins, {name!r})\nshow(1)\nraise own('mine')"))
        for name in _NAMES
    }

    assert results == dict.fromkeys(_NAMES, ("failed", None, "1\n", "ValueError: mine"))


async def test_a_program_can_end_without_any_builtin(runtime: Runtime) -> None:
    outcome = await runtime.run(f"{_START}for name in list(vars(builtins)):\n    delete(builtins, name){_CALLS}third")

    assert _result(outcome) == ("finished", 6, "2\n", None)


@pytest.mark.parametrize("failure", ["", "\nraise own('mine')"])
async def test_modules_that_lost_their_public_names_break_nothing(failure: str, runtime: Runtime) -> None:
    lose = "for name in [name for name in vars(module) if name[0] != '_']:\n    put(module, name, None)\n"
    results = {
        name: _result(
            await runtime.run(f"{_START}import {name}\nmodule = sys.modules[{name!r}]\n{lose}{_CALL}{failure}")
        )
        for name in _MODULES
    }

    assert results == dict.fromkeys(
        _MODULES, ("failed", None, "2\n", "ValueError: mine") if failure else ("finished", 6, "2\n", None)
    )


async def test_a_program_sees_its_own_changes_of_builtins_everywhere_but_in_the_sandbox(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "import builtins, configparser, io\nfrom unittest import mock\n"
        "with mock.patch('builtins.open', lambda *a, **k: io.StringIO('[a]\\nb = 1')):\n"
        "    parser = configparser.ConfigParser()\n    parser.read('nowhere.ini')\n"
        "builtins.len = lambda _: 7\n"
        "open('mine.py', 'w').write('def size(): return len([])')\nimport mine\n"
        "[parser['a']['b'], __builtins__ is builtins, len([]), mine.size()]"
    )

    assert outcome.value == ["1", True, 7, 7]


async def test_a_session_goes_on_after_a_program_that_lost_builtins(runtime: Runtime) -> None:
    first = await runtime.run("import builtins\ndel builtins.len\nx = 1", session="lost", keep_names=True)
    second = await runtime.run("print(await add(a=x))\nlen([])", session="lost", keep_names=True)

    assert (first.status, second.status, second.stdout) == ("finished", "failed", "2\n")
