"""Where a program awaits a call of `tools.x`: the one reading that every engine rewrites by."""

import ast

import pytest

from toolfold_guest.shared.call_style import AWAITERS, awaited_attributes


def found(text: str) -> list[str]:
    return [ast.unparse(attribute) for attribute in awaited_attributes(list(ast.walk(ast.parse(text))))]


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("await tools.a()", ["tools.a"]),
        ("tools.a()", []),
        ("await tools.async_a()", []),
        ("await tools.hr.a()", ["tools.hr.a"]),
        ("import tools as t\nawait t.a()", ["t.a"]),
        ("import tools.hr as hr\nawait hr.a()", ["hr.a"]),
        ("from tools import hr\nawait hr.a()", ["hr.a"]),
        ("from .tools import hr\nawait hr.a()", []),
        ("tools = mine\nawait tools.a()", []),
        ("def f(tools):\n    return gather(tools.a())", []),
        ("await other.a()", []),
        ("await tools.a", []),
        ("gather(*[tools.a(x) for x in y], *(tools.b(x) for x in y))", ["tools.a", "tools.b"]),
        ("as_completed([tools.a(), tools.b()])\nas_completed((tools.c(),))", ["tools.a", "tools.b", "tools.c"]),
        ("print(tools.a())", []),
    ],
)
def test_the_attributes_of_awaited_calls_are_found(text: str, attributes: list[str]) -> None:
    assert found(text) == attributes


@pytest.mark.parametrize("name", sorted(AWAITERS))
def test_an_argument_of_each_function_that_awaits_is_awaited(name: str) -> None:
    assert found(f"asyncio.{name}(tools.a())\n{name}(tools.b())") == ["tools.a", "tools.b"]
