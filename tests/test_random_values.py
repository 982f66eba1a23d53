"""Random values through a tool and back, and as the program's value: what the table of the docs says, nothing else."""

import math
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from toolfold import Limits, Runtime
from toolfold.errors import EngineUnavailable

MAKER = """\
from collections import deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from random import Random
from uuid import UUID

class Colour(Enum):
    RED = "red"
    TWO = 2

@dataclass
class Point:
    x: object
    y: object

Pair = namedtuple("Pair", "a b")
rng = Random(14)

def leaf():
    return rng.choice([
        lambda: rng.choice([None, True, False, 0, -1, 2**53 + 1, 10**30, "", "a", "1", "ä\\u200b", "null", "x" * 300]),
        lambda: rng.uniform(-1e9, 1e9),
        lambda: rng.choice([0.1, -0.0, 1e300, 5e-324, float("nan"), float("inf"), b"", b"\\x00\\xff"]),
        lambda: Decimal(rng.randint(-10**20, 10**20)) / 10 ** rng.randint(0, 22),
        lambda: Fraction(rng.randint(-9, 9), rng.randint(1, 9)),
        lambda: datetime(2026, 1, rng.randint(1, 28), 3, 4, 5, tzinfo=rng.choice([None, UTC])),
        lambda: rng.choice([date(2026, 1, 2), time(3, 4), timedelta(seconds=rng.randint(0, 10**6))]),
        lambda: rng.choice([Colour.RED, Colour.TWO, UUID(int=rng.getrandbits(128)), PurePosixPath("/a/b")]),
        lambda: range(rng.randint(0, 4)),
        lambda: frozenset(rng.sample(range(9), 3)),
    ])()

def value(depth=0):
    if depth > 2 or rng.random() < 0.4:
        return leaf()
    items = [value(depth + 1) for _ in range(rng.randint(0, 3))]
    keys = rng.sample(["k", "1", 1, None, "null", 2.5, True, date(2026, 1, 2)], len(items))
    return rng.choice([
        lambda: items, lambda: tuple(items), lambda: deque(items), lambda: dict(zip(keys, items)),
        lambda: Point(1, items), lambda: Pair(items, "b"),
    ])()

values = [value() for _ in range(2000)]
"""


class Refused(Exception):
    """JSON cannot hold it."""


def plain(value: Any) -> Any:
    """What `docs/programs.md` says becomes of a value, written anew."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str() | bytes():
            return value
        case float():
            if math.isinf(value):
                raise Refused
            return None if math.isnan(value) else value
        case Decimal():
            return _number(value)
        case Fraction():
            return value.numerator if value.denominator == 1 else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID() | PurePath():
            return str(value)
        case frozenset():
            return sorted(value)
        case list() | tuple() | deque() | range():
            return [plain(item) for item in value]
        case dict():
            return _object(value)
    assert is_dataclass(value)
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def _number(value: Decimal) -> float | str:
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def _object(value: dict[Any, Any]) -> dict[str, Any]:
    words = {True: "true", None: "null"}
    keys = [words[key] if key is True or key is None else str(key) for key in value]
    if len(set(keys)) < len(keys):
        raise Refused
    return {key: plain(item) for key, item in zip(keys, value.values(), strict=True)}


def _or_refused(value: Any) -> Any:
    try:
        return plain(value)
    except Refused:
        return "refused"


def _made() -> list[Any]:
    names: dict[str, Any] = {"__name__": "made"}
    exec(MAKER, names)
    return list(names["values"])


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[Runtime]:
    def echo(value: Any) -> Any:
        return value

    runtime = Runtime(tools=[echo], engine="process", limits=Limits(calls=5000))
    try:
        await runtime.__aenter__()
    except EngineUnavailable as reason:
        pytest.skip(f"not proved here: values between a program and its tools ({reason})")
    yield runtime
    await runtime.__aexit__(None, None, None)


@pytest.mark.long
async def test_two_thousand_random_values_come_back_from_a_tool_as_the_table_says(runtime: Runtime) -> None:
    program = MAKER + (
        "back = []\nfor one in values:\n    try:\n        back.append(await echo(value=one))\n"
        "    except (TypeError, ValueError):\n        back.append('refused')\nback\n"
    )

    outcome = await runtime.run(program)

    assert outcome.problem is None
    assert _differences(outcome.value) == []


@pytest.mark.long
async def test_two_thousand_random_values_are_the_programs_value_as_the_table_says(runtime: Runtime) -> None:
    outcome = await runtime.run(MAKER + "values\n")

    assert outcome.problem is None
    assert _differences(outcome.value, refused_too=False) == []
    assert outcome.hints != ()


def _differences(sent: Any, *, refused_too: bool = True) -> list[tuple[Any, Any, Any]]:
    wanted = [(value, _or_refused(value)) for value in _made()]
    assert len(sent) == len(wanted)
    return [
        (value, want, got)
        for (value, want), got in zip(wanted, sent, strict=True)
        if (refused_too or want != "refused") and repr(got) != repr(want)
    ][:5]
