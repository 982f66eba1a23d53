"""One set of rules for values: a guest, a tool's reply and Monty give the same verdict on the same value."""

import base64
import datetime
import json
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolfold.engines.monty.values import UnsendableError, plain
from toolfold.errors import ToolError
from toolfold.tools.sendable_values import to_value
from toolfold_guest.program.value_encoder import Unsendable, encode
from toolfold_guest.shared.value_rules import LONGEST_RANGE, MAX_DEPTH, MAX_DIGITS
from toolfold_guest.shared.wire_format import BYTES_KEY

REFUSED: Final = "refused"


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    LOW = 1


def _from_guest(value: Any) -> Any:
    text = encode({"value": value}, "call")
    return json.loads(text, object_pairs_hook=_revived)["value"]


def _revived(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) == 1 and pairs[0][0] == BYTES_KEY:
        return base64.b64decode(pairs[0][1])
    return {key[1:] if key.startswith("\0\0") else key: item for key, item in pairs}


def _as_reply(value: Any) -> Any:
    return to_value({"value": value})["value"]


def _from_monty(value: Any) -> Any:
    return plain(value, "value", depth=1)


SIDES: Final[dict[str, Callable[[Any], Any]]] = {"guest": _from_guest, "reply": _as_reply, "monty": _from_monty}


def verdicts(value: Any) -> dict[str, Any]:
    """What each side makes of a value."""
    found: dict[str, Any] = {}
    for name, side in SIDES.items():
        try:
            found[name] = repr(side(value))  # by its text: 1, 1.0 and True are equal, and must not be taken for another
        except (Unsendable, UnsendableError, ToolError):
            found[name] = REFUSED
    return found


# By name: Hypothesis prints what it samples from, and Python does not print the longest.
ODD: Final[dict[str, Any]] = {
    "enum": Colour.RED, "pair": Colour.PAIR, "level": Level.LOW, "path": PurePosixPath("/a"), "surrogate": "\udc80",
    "too long": 10**MAX_DIGITS, "longest": 1 - 10**MAX_DIGITS, "long": 2**14_100, "object": object(), "function": len,
    "range": range(LONGEST_RANGE + 1),
}  # fmt: skip
ODD_KEYS: Final[dict[str, Any]] = {
    "enum": Colour.RED, "level": Level.LOW, "mark": "\0", "marks": "\0\0b", "digit": "1", "surrogate": "\udc80",
    "bytes": b"k", "tuple": (1, 2), "too long": 10**MAX_DIGITS, "uuid": uuid.UUID(int=7),
}  # fmt: skip

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.binary(max_size=9) | st.binary(max_size=9).map(bytearray) | st.dates() | st.datetimes() | st.timedeltas()
    | st.decimals(allow_nan=False, allow_infinity=False) | st.fractions() | st.uuids()
    | st.complex_numbers(allow_nan=False, allow_infinity=False) | st.integers(0, 9).map(range)
    | st.sampled_from(list(ODD)).map(lambda name: ODD[name])
)  # fmt: skip
KEYS = (
    st.text(max_size=3) | st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.dates()
    | st.sampled_from(list(ODD_KEYS)).map(lambda name: ODD_KEYS[name])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(deque)
        | st.dictionaries(KEYS, inner, max_size=3)
        | inner.map(Point)
        | st.frozensets(st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=1500, deadline=None)
@given(value=VALUES)
@pytest.mark.long
def test_guest_reply_and_monty_give_the_same_verdict_on_any_value(value: Any) -> None:
    found = verdicts(value)

    assert found == dict.fromkeys(found, found["guest"])


def nested(make: Callable[[Any], Any], levels: int, inmost: Any) -> Any:
    value = inmost
    for _ in range(levels):
        value = make(value)
    return value


BOXES: Final[dict[str, Callable[[Any], Any]]] = {
    "list": lambda inner: [inner],
    "tuple": lambda inner: (inner,),
    "dict": lambda inner: {"k": inner},
    "set": lambda inner: frozenset([inner]),
    "dataclass": Point,
    "deque": lambda inner: deque([inner]),
    "in turns": lambda inner: [Point({"k": (inner,)})],
}


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("inmost", [1, b"x", datetime.date(2026, 1, 31), Colour.RED])
@pytest.mark.parametrize("beyond", [0, 1, 2, 100])
def test_all_count_levels_alike(box: str, inmost: Any, beyond: int) -> None:
    each = 4 if box == "in turns" else 1
    value = nested(BOXES[box], (MAX_DEPTH - 1) // each, inmost)  # the arguments of a call are one level more
    value = nested(lambda inner: [inner], (MAX_DEPTH - 1) % each + beyond, value)

    found = verdicts(value)

    assert {name: verdict == REFUSED for name, verdict in found.items()} == dict.fromkeys(SIDES, beyond > 0)


LINES: Final[dict[str, tuple[Any, bool]]] = {
    "the longest integer": (10**MAX_DIGITS - 1, False),
    "one digit more": (10**MAX_DIGITS, True),
    "the longest below zero": (1 - 10**MAX_DIGITS, False),
    "one digit more below zero": (-(10**MAX_DIGITS), True),
    "a fraction that is a long integer": (Fraction(10**MAX_DIGITS), True),
    "a decimal, which is text": (Decimal(10**MAX_DIGITS), False),
    "a long integer as a key": ({10**MAX_DIGITS: 1}, True),
    "a long range": (range(LONGEST_RANGE + 1), True),
    "a lone surrogate": ("\ud800", True),
    "a lone surrogate in a key": ({"\ud800": 1}, True),
    "a date as a key": ({datetime.date(2026, 1, 31): 1}, False),
    "a tuple as a key": ({(1, 2): 3}, False),
    "bytes as a key": ({b"k": 3}, False),
    "a frozenset as a key": ({frozenset([1]): 3}, True),
    "keys that are the same text": ({1: "a", "1": "b"}, True),
}


@pytest.mark.parametrize("name", LINES)
def test_all_draw_the_line_at_the_same_place(name: str) -> None:
    value, is_refused = LINES[name]

    alone, beside = verdicts(value), verdicts([value, -0.0, {"\0": ()}])

    assert [verdict == REFUSED for verdict in (*alone.values(), *beside.values())] == [is_refused] * 6
