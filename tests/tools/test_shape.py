"""What tools return, as values that can be sent."""

import dataclasses
import ipaddress
import math
import uuid
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import PurePosixPath
from threading import Lock
from types import MappingProxyType
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold.errors import ToolError
from toolfold.models import Media
from toolfold.tools.sendable_values import LEAVES, is_plain, json_size, to_sized_value, to_value
from toolfold_guest.shared.value_rules import MAX_DEPTH

Point = namedtuple("Point", "x y")  # noqa: PYI024  # the untyped one is the one under test


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    LOW = 1


class Unit(StrEnum):
    MM = "mm"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Row(TypedDict):
    when: date


@dataclasses.dataclass
class Sale:
    when: date
    amount: Decimal


class Model(pydantic.BaseModel):
    at: datetime
    from_: str = pydantic.Field(alias="from")
    link: pydantic.HttpUrl
    sale: Sale


class Struct(msgspec.Struct):
    a: tuple[int, ...]


NOON = datetime(2026, 1, 2, 12, 30, tzinfo=UTC)
IMAGE = Media(kind="image", mime="image/png", data=b"\x89PNG")

KINDS: list[tuple[object, object]] = [
    (None, None),
    (True, True),
    (2**200, 2**200),
    (math.inf, math.inf),
    ("ü", "ü"),
    (b"\x00", b"\x00"),
    (bytearray(b"ab"), b"ab"),
    (memoryview(b"ab"), b"ab"),
    (IMAGE, IMAGE),
    ((1, (2,)), [1, [2]]),
    (Point(1, 2), [1, 2]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    (deque([1]), [1]),
    (range(3), [0, 1, 2]),
    ({"a": 1}.keys(), ["a"]),
    ({"a": 1}.values(), [1]),
    ({"a": 1}.items(), [["a", 1]]),
    (OrderedDict(a=(1,)), {"a": [1]}),
    (defaultdict(list, a=[1]), {"a": [1]}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (Row(when=date(2026, 1, 2)), {"when": "2026-01-02"}),
    (NOON, "2026-01-02T12:30:00+00:00"),
    (date(2026, 1, 2), "2026-01-02"),
    (Decimal("1e999"), "1E+999"),
    (Decimal("0.1234567890123456789"), "0.1234567890123456789"),
    (Fraction(1, 3), "1/3"),
    (1 + 2j, "1+2j"),
    (time(1, 2, 3), "01:02:03"),
    (timedelta(minutes=1.5), 90.0),
    (Decimal("1.10"), 1.1),
    (Decimal("Infinity"), math.inf),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("a/b"), "a/b"),
    (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    (Colour.RED, "red"),
    (Colour.PAIR, [1, 2]),
    (Level.LOW, 1),
    (Unit.MM, "mm"),
    (Text("t"), "t"),
    (Whole(3), 3),
    (Real(1.5), 1.5),
    (Sale(date(2026, 1, 2), Decimal(3)), {"when": "2026-01-02", "amount": 3.0}),
    (
        Model.model_validate({"at": NOON, "from": "a", "link": "http://a.b/", "sale": Sale(NOON.date(), Decimal(1))}),
        {
            "at": "2026-01-02T12:30:00+00:00",
            "from": "a",
            "link": "http://a.b/",
            "sale": {"when": "2026-01-02", "amount": 1.0},
        },
    ),
    (Struct((1, 2)), {"a": [1, 2]}),
    ({1: "a", 1.5: "b", False: "c", None: "d"}, {"1": "a", "1.5": "b", "false": "c", "null": "d"}),
    ({Unit.MM: 1, Text("t"): 2, Level.LOW: 3}, {"mm": 1, "t": 2, "1": 3}),
]


@pytest.mark.parametrize(("obj", "expected"), KINDS, ids=lambda value: type(value).__name__)
def test_each_kind_has_one_form(obj: object, expected: object) -> None:
    value = to_value(obj)

    assert value == expected
    assert is_pure(value)
    assert to_value([{"in": obj}]) == [{"in": expected}]


def test_numpy_comes_out_as_numbers_text_and_lists() -> None:
    np = pytest.importorskip("numpy")

    value = to_value(
        {
            "float": np.float64(1.5),
            "int": np.int64(3),
            "bool": np.bool_(True),
            "text": np.str_("a"),
            "long": np.longdouble(2.5),
            "array": np.array([[1, 2], [3, 4]]),
            "nothing": np.array([]),
            "zero": np.array(5),
            "longs": np.array([1.5], dtype=np.longdouble),
            "objects": np.array([NOON, None], dtype=object),
            "when": np.datetime64("2026-01-02T03:04:05.123456789"),
            "days": np.array(["2026-01-02", "NaT"], dtype="M8[D]"),
            "wait": np.timedelta64(1500, "ms"),
            "masked": np.ma.array([1, 2], mask=[False, True]),
            np.int64(7): np.array([b"x"]),
        }
    )

    assert is_pure(value)
    assert value == {
        "float": 1.5,
        "int": 3,
        "bool": True,
        "text": "a",
        "long": 2.5,
        "array": [[1, 2], [3, 4]],
        "nothing": [],
        "zero": 5,
        "longs": [1.5],
        "objects": ["2026-01-02T12:30:00+00:00", None],
        "when": "2026-01-02T03:04:05.123456789",
        "days": ["2026-01-02", None],
        "wait": 1.5,
        "masked": [1, None],
        "7": [b"x"],
    }


def test_pandas_comes_out_as_records_and_lists() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"team": ["a", "b"], "amount": [1, 2], "when": [pd.Timestamp("2026-01-02"), pd.NaT], 7: [pd.NA, 1.5]}
    )

    value = to_value(
        {
            "frame": frame,
            "grouped": frame.groupby("team")[["amount"]].sum(),
            "series": frame["amount"],
            "index": frame.index,
            "bare": pd.DataFrame(index=[0, 1]),
            "category": pd.Categorical(["x", "y"]),
        }
    )

    assert is_pure(value)
    assert value == {
        "frame": [
            {"team": "a", "amount": 1, "when": "2026-01-02T00:00:00", "7": None},
            {"team": "b", "amount": 2, "when": None, "7": 1.5},
        ],
        "grouped": [{"team": "a", "amount": 1}, {"team": "b", "amount": 2}],
        "series": [1, 2],
        "index": [0, 1],
        "bare": [{}, {}],
        "category": ["x", "y"],
    }


def test_nan_stays_a_float() -> None:
    assert repr(to_value([math.nan, (-math.inf,)])) == "[nan, [-inf]]"


def nested(depth: int, *, box: type = list) -> Any:
    value: Any = box()
    for _ in range(depth - 1):
        value = box([value])
    return value


def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (generator(), "generator"),
        ({"rows": [{}, {}, {}, {"when": len}]}, "builtin_function_or_method at rows[3]['when']"),
        ([{"a b": (Lock(),)}], "lock at [0]['a b'][0]"),
        ({"a b": {object}}, "type at ['a b'][0]"),
        (Sale(date(2026, 1, 2), ValueError()), "ValueError at amount"),
        ({"x": {frozenset([1]): 3}}, "a key of type frozenset at x"),
        ({"x": [1, 10**4300]}, "an integer of more than 4300 digits at x[1]"),
        ({1: 1, "1": 2}, "two keys that are both '1' as text"),
        ({"x": ["ok", "\ud800"]}, "text with a lone surrogate at x[1]"),
        ({"x": {"\ud800": 1}}, "text with a lone surrogate at x['?']"),
        ("\ud800", "text with a lone surrogate"),
        (pydantic.SecretStr("x"), "SecretStr"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_type_and_place(obj: object, text: str) -> None:
    with pytest.raises(ToolError) as caught:
        to_value(obj)

    assert str(caught.value) == f"a value that cannot be sent: {text}"


@pytest.mark.parametrize("box", [list, tuple])
def test_200_levels_are_sent_and_201_are_refused(box: type) -> None:
    assert to_value(nested(MAX_DEPTH, box=box)) == nested(MAX_DEPTH)

    with pytest.raises(ToolError) as caught:
        to_value(nested(MAX_DEPTH + 1, box=box))

    assert str(caught.value) == (
        "a value that cannot be sent: more than 200 lists and dicts within each other at " + "[0]" * 11 + "…"
    )


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(ToolError):
        to_value(endless)


@pytest.mark.parametrize("box", [list, tuple])
def test_a_small_object_that_unfolds_to_billions_is_refused_soon(box: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolfold.tools.sendable_values.MAX_ITEMS", 10_000)
    laugh: Any = box()
    for _ in range(60):
        laugh = box([laugh, laugh])

    with pytest.raises(ToolError) as caught:
        to_value(laugh)

    assert str(caught.value).startswith("a value that cannot be sent: more than 10,000 values at [0]")


@pytest.mark.parametrize("count_each", [False, True])
def test_a_key_that_only_looks_like_a_str_is_seen_among_equal_ones(
    count_each: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolfold.tools.sendable_values._COUNT_EACH", count_each)
    rows = [{"mm": 1}, {Unit.MM: 2}, {"mm": 3}]

    assert not is_plain(rows)
    assert [type(key) for row in to_value(rows) for key in row] == [str, str, str]


def test_the_dict_of_an_instance_hides_nothing() -> None:
    sale = Sale(date(2026, 1, 2), Decimal(1))

    assert to_value([vars(sale), {1: 2, 3: 4}]) == [{"when": "2026-01-02", "amount": 1.0}, {"1": 2, "3": 4}]


def test_plain_data_is_not_copied() -> None:
    rows = [{"a": [1, None, {"b": b"x"}]}, IMAGE]

    assert to_value(rows) is rows


@pytest.mark.parametrize(
    ("value", "size"),
    [(None, 4), ("ü", 4), ([1, {"a": True}], 14), (b"abc", 6), (math.nan, 4), (2**70, 22), ([], 2)],
)
def test_the_size_is_that_of_compact_json(value: object, size: int) -> None:
    assert json_size(value) == size
    assert to_sized_value(value)[1] == size


def test_media_count_as_base64() -> None:
    assert json_size(IMAGE) == len(b'{"kind":"image","mime":"image/png","data":"iVBORw==","uri":"","name":""}')


def is_pure(value: object) -> bool:
    match value:
        case dict():
            return type(value) is dict and all(type(k) is str and is_pure(v) for k, v in value.items())
        case list():
            return type(value) is list and all(map(is_pure, value))
    return type(value) in LEAVES


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary(max_size=5)
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False, min_value=-(10**9), max_value=10**9)
    | st.uuids()
    | st.sampled_from([*Colour, *Level, *Unit, Text("t"), Whole(3), Real(1.5), IMAGE, PurePosixPath("x")])
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(st.integers(), inner, max_size=4)
        | st.builds(Sale, inner, inner)
        | st.builds(deque, st.lists(inner, max_size=3))
        | st.frozensets(st.integers(), max_size=4)
    ),
    max_leaves=20,
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(anything)
def test_every_supported_kind_comes_out_pure_and_only_once_changed(obj: object) -> None:
    value = to_value(obj)

    assert is_pure(value)
    assert is_plain(value)
    assert to_value(value) is value


@given(plain)
def test_plain_data_is_known_as_plain(obj: object) -> None:
    assert is_plain(obj)


@given(anything)
def test_plain_is_said_of_pure_data_only(obj: object) -> None:
    assert is_plain(obj) == is_pure(obj)


@given(plain)
def test_the_size_is_the_length_of_the_json_text(obj: object) -> None:
    assert json_size(obj) == len(msgspec.json.encode(obj))
