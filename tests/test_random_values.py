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

import mpmath
import numpy as np
import pandas as pd
import pytest
import pytest_asyncio
import sympy

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
import mpmath
import numpy as np
import pandas as pd
import sympy

class Colour(Enum):
    RED = "red"
    TWO = 2

@dataclass
class Point:
    x: object
    y: object

Pair = namedtuple("Pair", "a b")
rng = Random(14)

x = sympy.Symbol("x")

def precise():
    with mpmath.workdps(rng.choice([15, 30])):
        return mpmath.mpf(rng.randint(-99, 99)) / rng.choice([3, 4, 7])

def column():
    return rng.choice([
        lambda: [rng.randint(0, 9) for _ in range(3)],
        lambda: [0.5, float("nan"), -1.25],
        lambda: ["a", None, "c"],
        lambda: [True, False, True],
        lambda: pd.to_datetime(["2026-01-02", "2026-01-03T04:05", None], format="mixed"),
    ])()

def of_a_library():
    return rng.choice([
        lambda: rng.choice([np.int64(-3), np.uint8(200), np.float64(0.1), np.float32(0.5), np.bool_(True), np.str_("s")]),
        lambda: np.array([rng.randint(-9, 9) for _ in range(rng.choice([0, 2, 6]))]).reshape(rng.choice([(-1,), (2, -1)])),
        lambda: rng.choice([np.array([0.1, np.nan]), np.array(["a", "b"]), np.array(2.5), np.datetime64("2026-01-02")]),
        lambda: rng.choice([pd.Timestamp("2026-01-02T03:04:05"), pd.NaT, pd.NA, pd.Timedelta(seconds=90)]),
        lambda: pd.Series(column()),
        lambda: pd.Series(column(), index=rng.choice([["p", "q", "r"], [3, 5, 7]])),
        lambda: pd.DataFrame({"a": column(), "b": column()}),
        lambda: pd.DataFrame({"a": column()}, index=pd.Index(["p", "q", "r"], name=rng.choice(["k", None]))),
        lambda: pd.DataFrame({"g": ["u", "v", "u"], "n": column()}).groupby("g")["n"].count(),
        lambda: sympy.Rational(rng.randint(-9, 9), rng.randint(1, 9)),
        lambda: sympy.Float(rng.uniform(-9, 9), rng.choice([15, 30])),
        lambda: rng.choice([x**2 + 1, sympy.sqrt(2), sympy.pi, sympy.Matrix([[1, x], [0, 1]]), sympy.true]),
        lambda: rng.choice([precise(), mpmath.mpc(1, -2), mpmath.matrix([[1, 2], [3, 4]])]),
    ])()

def leaf():
    return rng.choice([
        of_a_library, of_a_library, of_a_library,
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
    keys = rng.sample(["k", "1", 1, None, "null", 2.5, True, date(2026, 1, 2), np.int64(7), x], len(items))
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
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas", "sympy", "mpmath"):
        return _of_a_library(value)
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


def _of_a_library(value: Any) -> Any:
    match value:
        case np.datetime64():
            return str(value)
        case np.generic() | np.ndarray():
            return plain(value.tolist())
        case pd.Timedelta():
            return value.total_seconds()
        case pd.DataFrame():
            is_numbered = value.index.equals(pd.RangeIndex(len(value)))
            frame = value if is_numbered else value.reset_index()
            return [plain(row) for row in frame.to_dict("records")]
        case pd.Series():
            is_numbered = value.index.equals(pd.RangeIndex(len(value)))
            return plain(value.tolist() if is_numbered else dict(value.items()))
        case sympy.Integer() | sympy.logic.boolalg.BooleanTrue():
            return int(value) if value.is_number else True
        case sympy.Float() | mpmath.mpf():
            return _read_back(value)
        case sympy.MatrixBase() | mpmath.matrix():
            return [plain(row) for row in value.tolist()]
        case mpmath.mpc():
            return f"{value.real}{value.imag}j"
    return None if pd.isna(value) else value.isoformat() if isinstance(value, datetime) else str(value)


def _read_back(value: Any) -> Any:
    """The number if it is that, else the digits, which make the same number again."""
    with mpmath.workdps(60):
        exact = mpmath.mpf(value._mpf_)
        return float(exact) if mpmath.mpf(float(exact)) == exact else ReadBack(exact)


class ReadBack:
    """A text with all the digits of a number."""

    def __init__(self, number: Any) -> None:
        self._number = number

    def is_in(self, text: Any) -> bool:
        with mpmath.workdps(60):
            return isinstance(text, str) and bool(abs(mpmath.mpf(text) - self._number) <= abs(self._number) * 1e-29)


def _same(got: Any, want: Any) -> bool:
    """The same to the last digit and type."""
    match want:
        case ReadBack():
            return want.is_in(got)
        case list():
            return isinstance(got, list) and len(got) == len(want) and all(map(_same, got, want))
        case dict():
            return isinstance(got, dict) and list(got) == list(want) and all(_same(got[key], want[key]) for key in want)
    return repr(got) == repr(want)


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
        if (refused_too or want != "refused") and not _same(got, want)
    ][:5]
