"""Values on their way out of a guest."""

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import types
import uuid
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from toolfold_guest.program.value_encoder import Unsendable, encode, encode_value
from toolfold_guest.shared.value_rules import MAX_DEPTH


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Pair(NamedTuple):
    x: int
    y: int


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
    (decimal.Decimal("0.1234567890123456789"), "0.1234567890123456789"),
    (decimal.Decimal("1e400"), "1E+400"),
    (fractions.Fraction(1, 3), "1/3"),
    (fractions.Fraction(4, 2), 2),
    (1 + 2j, "1+2j"),
    ({1, "a", None}, [None, 1, "a"]),
    (Pair(1, 2), [1, 2]),
    (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    (pathlib.PurePosixPath("/a/b"), "/a/b"),
    (Colour.RED, "red"),
    (Point(1, Point(2, None)), {"x": 1, "y": {"x": 2, "y": None}}),
    (float("nan"), None),
    ({1: "a", 2.5: "b", None: "c", False: "d"}, {"1": "a", "2.5": "b", "null": "c", "false": "d"}),
    ({Colour.RED: 1}, {"red": 1}),
    ({datetime.date(2026, 1, 2): 1}, {"2026-01-02": 1}),
    (np.int64(3), 3),
    (np.float64("nan"), None),
    (np.bool_(True), True),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array([1.0, np.nan]), [1.0, None]),
    (np.datetime64("2026-01-02"), "2026-01-02"),
    (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    (pd.DataFrame({"a": [1, 1], "b": [2, 3]}).groupby("a").sum(), [{"a": 1, "b": 5}]),
    (np.array(["2026-01-02T03:04:05"], dtype="datetime64[ns]"), ["2026-01-02T03:04:05"]),
    (pd.Series([1, 2]), [1, 2]),
    (pd.Series(["x", "y", "x"]).value_counts(), {"x": 2, "y": 1}),
    (pd.Series([1, 2], index=["x", "x"]), [{"index": "x", "value": 1}, {"index": "x", "value": 2}]),
    (pd.DataFrame({"a": [1, 3]}, index=["x", "y"]), [{"index": "x", "a": 1}, {"index": "y", "a": 3}]),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), [{"a": 1, "a.1": 2}]),
    (
        pd.DataFrame({"k": ["x", "x"], "v": [1, 3]}).groupby("k").agg({"v": ["sum", "max"]}),
        [{"k": "x", "v_sum": 4, "v_max": 3}],
    ),
    (pd.Period("2026-01"), "2026-01"),
    (pd.Interval(0, 1), "(0, 1]"),
    (pd.Index(["a"]), ["a"]),
    (pd.Categorical(["a"]), ["a"]),
    (np.array([1 + 2j]), ["1+2j"]),
    (np.array([(1, 2.5)], dtype=[("a", int), ("b", float)]), [{"a": 1, "b": 2.5}]),
    (np.array(["2026-01-02T03:04:05.000000001"], dtype="datetime64[ns]"), ["2026-01-02T03:04:05.000000001"]),
    (np.timedelta64(1500, "ms"), 1.5),
    (pd.Timestamp("2026-01-02"), "2026-01-02T00:00:00"),
    (pd.NaT, None),
    (pd.NA, None),
    (10**40, 10**40),
    ("ä\0\x7f", "ä\0\x7f"),
]


@pytest.mark.parametrize(
    ("value", "expected"), CASES, ids=[f"{type(value).__name__}-{at}" for at, (value, _) in enumerate(CASES)]
)
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
        ({frozenset([1]): 3}, "value has a key of type 'frozenset'; keys must be text or numbers"),
        ({"a": "\ud800"}, "value['a'] is text with a lone surrogate, which cannot be sent"),
        ([1.5, float("inf")], "value[1] is infinite, which JSON has no number for; send None or text"),
        ([{1: "a", "1": "b"}], "value[0] has two keys that are both '1' as text; make them different first"),
        ([{"a": {True: 1, "true": 2}}], "value[0]['a'] has two keys that are both 'true' as text; "
         "make them different first"),
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


def test_an_integer_too_long_to_print_is_refused() -> None:
    with pytest.raises(Unsendable) as caught:
        encode({"n": 10**5000}, "value")

    assert str(caught.value) == "value['n'] is an integer of more than 4300 digits, which cannot be sent"


@pytest.mark.parametrize(
    ("value", "sent", "notes"),
    [
        (len, "<built-in function len>", ["value is a 'builtin_function_or_method', which has no JSON form; its text was sent"]),
        ({"f": ...}, {"f": "Ellipsis"}, ["value['f'] is a 'ellipsis', which has no JSON form; its text was sent"]),
        (object(), "<object object>", ["value is a 'object', which has no JSON form; its text was sent"]),
        ({(1, 2): 3}, {"(1, 2)": 3}, []),
        ([float("-inf")], ["-inf"], ["value[0] is infinite, which JSON has no number for; its text was sent"]),
        ({1: "a", "1": "b"}, [[1, "a"], ["1", "b"]],
         ["value has two keys that are both '1' as text; its items were sent as pairs"]),
        ("\ud800", "\\ud800", ["value is text with a lone surrogate, which cannot be sent; it was escaped"]),
        (range(10**9), "range(0, 1000000000)", ["value is a 'range', which has no JSON form; its text was sent"]),
        (pd.DataFrame({"a": [1, 2]})[1:], [{"a": 2}],
         ["the row numbers of a DataFrame were left out; 'reset_index()' keeps them"]),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [{"a": 1, "a.1": 2}], ["columns of one name were told apart: a.1"]),
    ],
)  # fmt: skip
def test_a_value_is_never_refused_and_a_note_tells_what_became_of_it(value: Any, sent: Any, notes: list[str]) -> None:
    text, told = encode_value(value)

    assert (json.loads(text), told) == (sent, notes)


def test_an_iterator_is_not_consumed_for_its_text() -> None:
    items = iter([1, 2])
    lazy = (item for item in items)

    texts = [json.loads(encode_value(one)[0]) for one in (items, lazy, map(str, items))]

    assert (texts[0], texts[2], list(lazy)) == ("<list_iterator object>", "<map object>", [1, 2])


def test_a_value_whose_own_code_raises_is_sent_as_text() -> None:
    class Broken(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise KeyError("no")

        def __repr__(self) -> str:
            raise ValueError("no")

    text, notes = encode_value(Broken({1: object()}))

    assert json.loads(text) == "<Broken whose repr raises ValueError>"
    assert notes == ["the value could not be read: KeyError; its text was sent"]


def test_figures_and_images_become_pictures() -> None:
    figure, axes = plt.subplots()
    line = axes.plot([1, 2])[0]
    image = Image.new("RGB", (2, 2))

    sent = [json.loads(encode_value(one)[0]) for one in (figure, axes, line, image)]
    plt.close(figure)

    for one in sent:
        ((key, (kind, mime, data, _, _)),) = one.items()
        assert (key, kind, mime, base64.b64decode(data)[:4]) == ("\0m", "image", "image/png", b"\x89PNG")


def _random_value(random: Random, depth: int = 0) -> Any:
    """Of all kinds that programs have at hand."""
    leaves: list[Callable[[], Any]] = [
        lambda: random.choice([None, True, 0, 1, -3, 10**30, 1.5, "a", "", "1", "true", "ä\0", float("nan"), b"\x00"]),
        lambda: decimal.Decimal(random.randint(-(10**20), 10**20)) / 10 ** random.randint(0, 22),
        lambda: fractions.Fraction(random.randint(-9, 9), random.randint(1, 9)),
        lambda: complex(random.randint(0, 3), 1),
        lambda: datetime.datetime(2026, 1, random.randint(1, 28), tzinfo=random.choice([None, datetime.UTC])),
        lambda: datetime.timedelta(seconds=random.randint(0, 10**6)),
        lambda: random.choice([Colour.RED, uuid.UUID(int=1), pathlib.PurePosixPath("/a"), range(3), float("inf"), len]),
        lambda: np.arange(random.randint(0, 4)) * random.choice([1, 0.5]),
        lambda: pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=random.choice([None, ["p", "q"], [5, 6]])),
        lambda: pd.Series([1.0, None], index=random.choice([None, ["p", "q"]])),
    ]
    if depth > 2 or random.random() < 0.4:
        return random.choice(leaves)()
    items = [_random_value(random, depth + 1) for _ in range(random.randint(0, 3))]
    keys = random.sample([1, "1", None, "null", 2.5, (1, 2), "k", datetime.date(2026, 1, 2), True], len(items))
    return random.choice([list, tuple, lambda _: dict(zip(keys, items, strict=True)), lambda _: Point(1, items)])(items)


def test_two_thousand_random_values_are_sent_whole_or_with_a_note() -> None:
    random = Random(14)
    for _ in range(2_000):
        value = _random_value(random)

        text, notes = encode_value(value)

        try:
            strict = encode([value], "value")
        except Unsendable:
            assert notes or "(" in text, value
        else:
            assert json.loads(strict) == [json.loads(text)], value


@pytest.mark.parametrize("holder", [lambda one: Point(1, [one]), lambda one: collections.deque([one])])
def test_two_keys_that_are_one_text_are_told_of_inside_other_objects_too(holder: Callable[[Any], Any]) -> None:
    value = holder({"null": 1, None: 2})

    with pytest.raises(Unsendable):
        encode([value], "value")
    assert encode_value(value)[1] != []
