"""Values on their way out of a guest."""

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import types
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pytest

from toolfold_guest.values import MAX_DEPTH, Unsendable, encode


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Colour(enum.Enum):
    RED = "red"


CASES: list[tuple[Any, Any]] = [
    ((1, (2,)), [1, [2]]),
    ({3}, [3]),
    (frozenset("a"), ["a"]),
    (collections.deque([1]), [1]),
    (range(3), [0, 1, 2]),
    ({"a": 1}.keys(), ["a"]),
    (collections.OrderedDict(a=1), {"a": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC), "2026-01-02T03:04:00+00:00"),
    (datetime.date(2026, 1, 2), "2026-01-02"),
    (datetime.timedelta(minutes=1), 60.0),
    (decimal.Decimal("1.10"), 1.1),
    (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    (pathlib.PurePosixPath("/a/b"), "/a/b"),
    (Colour.RED, "red"),
    (Point(1, Point(2, None)), {"x": 1, "y": {"x": 2, "y": None}}),
    (float("nan"), None),
    ([1.5, float("inf")], [1.5, None]),
    ({1: "a", 2.5: "b", None: "c", False: "d"}, {"1": "a", "2.5": "b", "null": "c", "false": "d"}),
    ({Colour.RED: 1}, {"red": 1}),
    ({datetime.date(2026, 1, 2): 1}, {"2026-01-02": 1}),
    (np.int64(3), 3),
    (np.float64("nan"), None),
    (np.bool_(True), True),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array([1.0, np.nan]), [1.0, None]),
    (np.datetime64("2026-01-02"), "2026-01-02T00:00:00"),
    (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    (pd.DataFrame({"a": [1, 1], "b": [2, 3]}).groupby("a").sum(), [{"a": 1, "b": 5}]),
    (np.array(["2026-01-02T03:04:05"], dtype="datetime64[ns]"), ["2026-01-02T03:04:05"]),
    (pd.Series([1, 2]), [1, 2]),
    (pd.Timestamp("2026-01-02"), "2026-01-02T00:00:00"),
    (pd.NaT, None),
    (pd.NA, None),
    (10**40, 10**40),
    ("ä\0\x7f", "ä\0\x7f"),
]


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[repr(value)[:30] for value, _ in CASES])
def test_each_kind_has_a_json_form(value: Any, expected: Any) -> None:
    assert json.loads(encode(value, "value")) == expected
    assert json.loads(encode({"nested": [value]}, "value")) == {"nested": [expected]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "value is a 'object', which cannot be sent; make it JSON values or bytes first"),
        ({"rows": [1, {"f": len}]}, "value['rows'][1]['f'] is a 'builtin_function_or_method', which cannot be sent; "
         "make it JSON values or bytes first"),
        ({"g": (n for n in [])}, "value['g'] is a 'generator', which cannot be sent; make it JSON values or bytes first"),
        ({(1, 2): 3}, "value has a key of type 'tuple'; keys must be text or numbers"),
        ({"a": "\ud800"}, "value['a'] is text with a lone surrogate, which cannot be sent"),
        (1j, "value is a 'complex', which cannot be sent; make it JSON values or bytes first"),
        (pathlib, "value is a 'module', which cannot be sent; make it JSON values or bytes first"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(Unsendable) as caught:
        encode(value, "value")

    assert str(caught.value) == message


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(Unsendable, match=f"nested more than {MAX_DEPTH} levels"):
        encode(loop, "value")


def test_an_error_leaves_no_trace_in_the_next_encoding() -> None:
    shared = {"a": 1}
    with pytest.raises(Unsendable):
        encode([shared, object()], "value")

    assert encode([shared, shared], "value") == '[{"a":1},{"a":1}]'


def test_depth_is_limited_on_the_fast_path_too() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]

    with pytest.raises(Unsendable, match="nested more than 200 levels"):
        encode(deep, "value")


def test_an_integer_too_long_to_print_is_refused_by_its_size() -> None:
    with pytest.raises(Unsendable) as caught:
        encode({"n": 10**5000}, "value")

    assert str(caught.value) == "value['n'] is an integer of 16610 bits; the limit is 14000"
