"""Nothing of the sandbox's own shows where a program would see it in no other Python."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


async def numbers() -> object:
    """Numbers that JSON has none for, and keys."""
    return [float("nan"), float("inf"), {(1, 2): 1, b"k": 2}]


async def keys(value: dict[str, int]) -> list[str]:
    """The keys of a dict."""
    return sorted(value)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[fail, numbers, keys], engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("import asyncio\nasync def main():\n    print(asyncio.current_task().get_name(), asyncio.create_task(asyncio.sleep(0)).get_name())\nasyncio.run(main())", "Task-1 Task-2\n"),
        ("import asyncio\ntask = asyncio.create_task(asyncio.sleep(0))\nprint(asyncio.current_task().get_name(), task.get_name())\nawait task", "Task-1 Task-2\n"),
        ("import asyncio\ntask = asyncio.create_task(asyncio.sleep(0), name='mine')\nprint(task.get_name())\nawait task", "mine\n"),
        ("import doctest\ndef f():\n    '''\n    >>> f()\n    1\n    '''\n    return 1\nfinder = doctest.DocTestFinder(exclude_empty=False)\nimport __main__\nprint([test.name for test in finder.find(__main__)])", "['__main__', '__main__.f']\n"),
        ("try:\n    await fail('x')\nexcept ToolError as error:\n    import traceback\n    traceback.print_exc(limit=0)\n    print(type(error).__name__)", "ToolError\n"),
        ("import pickle\ntry:\n    await fail('x')\nexcept ToolError as error:\n    print(type(pickle.loads(pickle.dumps(error))) is ToolError)", "True\n"),
        ("from multiprocessing import Pool\ndef work(text):\n    tools.fail(text=text)\nwith Pool(1) as pool:\n    try:\n        pool.map(work, ['x'])\n    except ToolError as error:\n        print(error)", "'fail' failed: x\n"),
    ],
)  # fmt: skip
async def test_names_are_those_of_any_python(text: str, printed: str, runtime: Runtime) -> None:
    outcome = await runtime.run(text)

    assert (outcome.status, outcome.stdout) == ("finished", printed), outcome.problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("try:\n    return 5\nexcept BaseException as error:\n    print(repr(error))", 5),
        ("try:\n    try:\n        return 5\n    except:\n        pass\nexcept Exception:\n    pass\nfinally:\n    x = 1", 5),
        ("for n in range(3):\n    try:\n        if n == 1:\n            return n\n        int('x')\n    except:\n        continue", 1),
        ("try:\n    int('x')\nexcept ValueError:\n    return 'caught'\nexcept BaseException:\n    return 'all'", "caught"),
    ],
)  # fmt: skip
async def test_no_handler_of_the_program_stops_a_return_at_the_top_level(
    text: str, value: object, runtime: Runtime
) -> None:
    outcome = await runtime.run(text)

    assert (outcome.status, outcome.value, outcome.stdout) == ("finished", value, "")


async def test_keys_and_numbers_arrive_as_the_docs_say(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "first, second, third = await numbers()\n"
        "[str(first), str(second), third, await keys({(1, 2): 1, b'k': 2, 3: 3, None: 4})]"
    )

    names = {"(1, 2)": 1, "b'k'": 2}
    assert outcome.value == ["nan", "inf", names, ["(1, 2)", "3", "b'k'", "null"]]
