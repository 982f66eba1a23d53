"""What a signature promises of a value, and the value that then comes: the same, both ways."""

import datetime
import typing
from decimal import Decimal

import pytest

import toolfold
from toolfold import Runtime
from toolfold.prompts.python_stubs import stub_of
from toolfold.prompts.schema_types import Types
from toolfold.sources.function_tools import as_tool


class Inner(typing.TypedDict):
    n: int


class Row(typing.TypedDict, total=False):
    id: typing.Required[int]
    inner: list[Inner]
    note: str | None
    parent: "Row"


@toolfold.tool
def raw(data: bytes = b"q") -> bytes:
    """Twice."""
    return data * 2


@toolfold.tool
def wait(time: datetime.timedelta = datetime.timedelta(seconds=3)) -> datetime.timedelta:
    """Twice."""
    assert isinstance(time, datetime.timedelta)
    return time * 2


@toolfold.tool
def price(x: Decimal = Decimal("1.5")) -> Decimal:
    """The same."""
    assert isinstance(x, Decimal)
    return x


@toolfold.tool
def more(a: int = 0, **rest: int) -> int:
    """The sum."""
    return a + sum(rest.values())


@toolfold.tool
def rows(first: Row, others: dict[str, Row] | None = None) -> list[Row]:
    """All of them."""
    return [first, *(others or {}).values()]


def shown(function: object) -> tuple[str, str, list[str]]:
    types = Types()
    stub = stub_of(as_tool(function).spec, types)
    return ", ".join(stub.arguments()), stub.returns, list(types.declarations)


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (raw, ("*, data: bytes = ...", "bytes", [])),
        (wait, ("*, time: float | str = 3.0", "float", [])),
        (price, ("*, x: float | str = 1.5", "float | str", [])),
        (more, ("*, a: int = 0, **more: int", "int", [])),
        (rows, ("*, first: Row, others: dict[str, Row] | None = None", "list[Row]", ["Row", "Inner"])),
    ],
)
def test_a_signature_says_what_comes(function: object, signature: tuple[str, str, list[str]]) -> None:
    assert shown(function) == signature


async def test_the_values_are_those_that_the_signature_says() -> None:
    text = """
from datetime import timedelta
from decimal import Decimal

print(await raw(), await raw(data=b"x"))
print(await wait(), await wait(time=2), await wait(time="PT4S"), await wait(time=timedelta(seconds=5)))
print([await price(), await price(x=0.1), await price(x=Decimal("1.1000000000000000001"))])
print(await more(a=1, b=2), await more(c=3))
print(await rows(first={"id": 1, "inner": [{"n": 2}]}, others={"x": {"id": 3}}))
for arguments in ({"b": "2x"}, {"a": 1, "b": "2x"}):
    try:
        await more(**arguments)
    except ToolError as error:
        print(error)
values = {"id": 1, "inner": [{"n": "two"}]}
try:
    await rows(first=values)
except ToolError as error:
    print(error)
"""
    async with Runtime([raw, wait, price, more, rows]) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.problem, outcome.stderr) == (None, "")
    assert outcome.stdout.splitlines() == [
        "b'qq' b'xx'",
        "6.0 4.0 8.0 10.0",
        "[1.5, 0.1, '1.1000000000000000001']",
        "3 3",
        "[{'id': 1, 'inner': [{'n': 2}]}, {'id': 3}]",
        "'more' got a bad argument: b must be an integer, got '2x'",
        "'more' got a bad argument: b must be an integer, got '2x'",
        "'rows' got a bad argument: first['inner'][0]['n'] must be an integer, got 'two'",
    ]
