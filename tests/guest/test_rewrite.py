"""The dialect that plain `compile` does not speak, seen in what the code does."""

import asyncio
import types
from typing import Any

import pytest

from toolfold_guest.program.compiler import RETURN_NAME, compile_program


class Returned(BaseException):
    pass


class Recorder:
    """Stands for `tools`: says which attribute was asked for."""

    def __getattr__(self, name: str) -> Any:
        if name == "hr":
            return self
        if name.startswith("async_"):
            return lambda *args: asyncio.sleep(0, result=(name, *args))
        return lambda *args: (name, *args)


def run(text: str) -> Any:
    body, last = compile_program(text)
    names: dict[str, Any] = {"tools": Recorder(), RETURN_NAME: Returned, "asyncio": asyncio}

    async def drive() -> Any:
        value = None
        for code in (body, last):
            if code is not None:
                value = eval(code, names)
                if code.co_flags & 0x80:
                    value = await value
        return value

    return asyncio.run(drive())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tools.a(1)", ("a", 1)),
        ("await tools.a(1)", ("async_a", 1)),
        ("await tools.async_a(1)", ("async_a", 1)),
        ("await tools.hr.a(1)", ("async_a", 1)),
        ("await asyncio.gather(tools.a(1), tools.b(2))", [("async_a", 1), ("async_b", 2)]),
        ("await asyncio.gather(*[tools.a(i) for i in (1, 2)])", [("async_a", 1), ("async_a", 2)]),
        ("await asyncio.gather(*(tools.a(i) for i in (1,)))", [("async_a", 1)]),
        ("await asyncio.gather(*[tools.a(1), tools.b(2)])", [("async_a", 1), ("async_b", 2)]),
        ("t = asyncio.create_task(tools.a(1))\nawait t", ("async_a", 1)),
        ("await asyncio.wait_for(tools.a(1), 5)", ("async_a", 1)),
        ("[tools.a(i) for i in (1, 2)]", [("a", 1), ("a", 2)]),
        ("tools = [1]\ntools.append(2)\ntools", [1, 2]),
        ("x = 3", None),
        ("", None),
    ],
)
def test_a_tool_of_the_module_is_awaitable_where_it_is_awaited(text: str, value: Any) -> None:
    assert run(text) == value


@pytest.mark.parametrize(
    "text",
    ["return 5", "if True:\n    return 5", "for x in 'ab':\n    return 5", "with open('/dev/null'):\n    return 5"],
)
def test_a_top_level_return_leaves_with_its_value(text: str) -> None:
    with pytest.raises(Returned) as caught:
        run(text)

    assert caught.value.args == (5,)


def test_a_return_in_a_function_stays_a_return() -> None:
    assert run("def f():\n    return 1\nf()") == 1


def test_code_is_named_as_cpython_names_it() -> None:
    body, last = compile_program("x = '''\na\n'''\nx")

    assert isinstance(last, types.CodeType)
    assert (body.co_name, body.co_filename, last.co_name, last.co_filename) == (
        *("<module>", "<program>"),
        *("<module>", "<program>"),
    )
