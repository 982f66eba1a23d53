"""Every annotation that a tool may have, as argument and as return: signature, in the tool, in the program, and back.

A row lists what changes on the way. A value that changes without being in the list fails, and so does a type whose
signature promises another one than the program gets.
"""

import dataclasses
import datetime
import enum
import typing
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
from inline_snapshot import snapshot

from toolfold import Runtime
from toolfold.prompts.python_stubs import signature
from toolfold.sources.function_tools import as_tool


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Row(typing.TypedDict, total=False):
    """Of `typing`, also on Python 3.11, where pydantic by itself refuses it."""

    name: typing.Required[str]
    size: int


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.date


class Order(pydantic.BaseModel):
    name: str
    amount: Decimal
    color: Color = Color.RED


UTC = datetime.UTC
DAY = datetime.datetime(2026, 1, 2)  # noqa: DTZ001 - without a zone, as programs write it
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 500, tzinfo=UTC)

# The annotation, what a program writes, what the tool gets, what the program gets back from a tool that returns it.
TABLE: dict[str, tuple[Any, str, Any, str]] = {
    "of_typed_dict": (Row, "{'name': 'a', 'size': 2}", {"name": "a", "size": 2}, "{'name': 'a', 'size': 2}"),
    "of_bytes": (bytes, "b'\\xff\\x00'", b"\xff\x00", "b'\\xff\\x00'"),
    "of_timedelta": (
        datetime.timedelta,
        "datetime.timedelta(minutes=1, milliseconds=500)",
        datetime.timedelta(seconds=60.5),
        "60.5",
    ),
    "of_decimal": (Decimal, "decimal.Decimal('1.10')", Decimal("1.10"), "1.1"),
    "of_decimal_float": (Decimal, "1.5", Decimal("1.5"), "1.5"),
    "of_decimal_long": (Decimal, "decimal.Decimal('0.12345678901234567890')", Decimal("0.12345678901234567890"), "'0.12345678901234567890'"),
    "of_enum": (Color, "'red'", Color.RED, "'red'"),
    "of_int_enum": (Level, "1", Level.LOW, "1"),
    "of_path": (Path, "pathlib.Path('a/b.txt')", Path("a/b.txt"), "'a/b.txt'"),
    "of_datetime": (datetime.datetime, "datetime.datetime(2026, 1, 2, 12, 0, 0, 500, tzinfo=datetime.timezone.utc)", NOON, "'2026-01-02T12:00:00.000500+00:00'"),
    "of_datetime_naive": (datetime.datetime, "datetime.datetime(2026, 1, 2)", DAY, "'2026-01-02T00:00:00'"),
    "of_date": (datetime.date, "datetime.date(2026, 1, 2)", datetime.date(2026, 1, 2), "'2026-01-02'"),
    "of_dataclass": (Point, "{'x': 1, 'at': '2026-01-02'}", Point(1, datetime.date(2026, 1, 2)), "{'x': 1, 'at': '2026-01-02'}"),
    "of_model": (Order, "{'name': 'a', 'amount': '1.10'}", Order(name="a", amount=Decimal("1.10")), "{'name': 'a', 'amount': 1.1, 'color': 'red'}"),
    "of_set": (set[int], "{1, 2}", {1, 2}, "[1, 2]"),
    "of_tuple": (tuple[int, str], "(1, 'a')", (1, "a"), "[1, 'a']"),
    "of_int_keys": (dict[int, str], "{1: 'a'}", {1: "a"}, "{'1': 'a'}"),
    "of_big_int": (int, "2**70", 2**70, "1180591620717411303424"),
}  # fmt: skip

# What a program gets back in another form than the tool returned, and what its signature says of it.
CHANGES = {
    "of_timedelta": ("seconds", "float"),
    "of_decimal": ("a number where a float is as exact, else its text", "float | str"),
    "of_decimal_float": ("the same", "float | str"),
    "of_decimal_long": ("the same", "float | str"),
    "of_enum": ("its value", "Literal['red']"),
    "of_int_enum": ("its value", "Literal[1]"),
    "of_path": ("its text", "str"),
    "of_datetime": ("ISO 8601 text", "str"),
    "of_datetime_naive": ("the same, without a zone", "str"),
    "of_date": ("the same", "str"),
    "of_dataclass": ("a dict of its fields", "Point"),
    "of_model": ("the same", "Order"),
    "of_set": ("a list", "list[int]"),
    "of_tuple": ("a list of as many", "tuple[int, str]"),
    "of_int_keys": ("keys are text", "dict[str, str]"),
}


def echo(name: str, annotation: Any, seen: dict[str, Any]) -> Callable[..., Any]:
    def tool(x: Any) -> Any:
        """The same."""
        seen[name] = x
        return x

    tool.__name__ = name
    tool.__annotations__ = {"x": annotation, "return": annotation}
    return tool


async def test_each_type_in_the_tool_and_in_the_program() -> None:
    seen: dict[str, Any] = {}
    tools = [echo(name, row[0], seen) for name, row in TABLE.items()]
    calls = "\n".join(f"got[{name!r}] = repr(await {name}({row[1]}))" for name, row in TABLE.items())
    async with Runtime(tools) as runtime:
        outcome = await runtime.run(f"import datetime, decimal, pathlib\ngot = {{}}\n{calls}\ngot")

    assert outcome.problem is None
    assert seen == {name: row[2] for name, row in TABLE.items()}
    assert {name: type(value) for name, value in seen.items()} == {name: type(row[2]) for name, row in TABLE.items()}
    assert outcome.value == {name: row[3] for name, row in TABLE.items()}
    changed = {name for name, value in seen.items() if repr(value) != outcome.value[name]}
    assert changed == set(CHANGES)


def test_each_signature_says_what_a_program_gets() -> None:
    said = {name: signature(as_tool(echo(name, row[0], {})).spec).partition(":\n")[0] for name, row in TABLE.items()}

    assert {name: text.rpartition(" -> ")[2] for name, text in said.items() if name in CHANGES} == {
        name: promised for name, (_, promised) in CHANGES.items()
    }
    assert [said[name].rpartition(" -> ")[2] for name in TABLE if name not in CHANGES] == ["Row", "bytes", "int"]
    assert {name: text[text.index("x:") : text.index(") ->")] for name, text in said.items()} == snapshot(
        {
            "of_typed_dict": "x: Row",
            "of_bytes": "x: bytes",
            "of_timedelta": "x: float | str",
            "of_decimal": "x: float | str",
            "of_decimal_float": "x: float | str",
            "of_decimal_long": "x: float | str",
            "of_enum": "x: Literal['red']",
            "of_int_enum": "x: Literal[1]",
            "of_path": "x: str",
            "of_datetime": "x: str",
            "of_datetime_naive": "x: str",
            "of_date": "x: str",
            "of_dataclass": "x: Point",
            "of_model": "x: Order",
            "of_set": "x: list[int]",
            "of_tuple": "x: tuple[int, str]",
            "of_int_keys": "x: dict[str, str]",
            "of_big_int": "x: int",
        }
    )


async def test_free_keywords_and_bound_methods_keep_their_types() -> None:
    class Account:
        total = Decimal(0)

        def add(self, amount: Decimal, **notes: datetime.date) -> dict[str, datetime.date]:
            """Add."""
            self.total += amount
            return notes

    account = Account()
    async with Runtime([account.add]) as runtime:
        outcome = await runtime.run("import datetime\nawait add(amount='1.10', on=datetime.date(2026, 1, 2))")
        wrong = await runtime.run("await add(amount='1.10', on='soon')")

    assert (outcome.problem, outcome.value) == (None, {"on": "2026-01-02"})
    assert account.total == Decimal("1.10")
    assert wrong.status == "failed"
    assert "on" in str(wrong.problem)
