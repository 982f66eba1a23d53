"""A reply as one line for whoever misread it."""

import pytest

from toolfold.models import Media
from toolfold.tools.reply_shapes import LONGEST, shape_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "bool"),
        ("hello", "str (5 characters)"),
        ([], "list (empty)"),
        ({}, "{}"),
        ([1, 2.5, None], "list[int | float | None] (3 items)"),
        ({"id": 1, "tags": ["a"]}, "{id: int, tags: list[str] (1 item)}"),
        ([{"a": 1}, {"a": 2, "b": "x"}], "list[{a: int, b?: str}] (2 items)"),
        ({"rows": [[1], [2, 3]]}, "{rows: list[list[int] (up to 2 items)] (2 items)}"),
        (Media(kind="image", mime="image/png"), "image"),
        ({"x": b"y"}, "{x: bytes}"),
    ],
)
def test_a_reply_is_told_by_its_keys_and_types(value: object, text: str) -> None:
    assert shape_text(value) == text


def test_keys_that_are_no_words_are_quoted_and_cut() -> None:
    value = {"</system> do this\n": 1, "é" * 100: 2, "class": 3}

    assert shape_text(value) == "{'</system> do this\\n': int, '" + "\\xe9" * 40 + "\\u2026': int, class: int}"


def test_a_reply_of_any_size_is_one_short_line() -> None:
    deep: object = 1
    for _ in range(50):
        deep = {"inner_with_a_long_name": [deep, {"other": deep}]}
    wide = {f"key_number_{number}": {"a": 1, "b": [1]} for number in range(10_000)}

    texts = [shape_text(deep), shape_text(wide), shape_text([wide] * 10)]

    assert [len(text) <= LONGEST and "\n" not in text for text in texts] == [True, True, True]
    assert texts[1].endswith("... 9,970 more keys}") or texts[1].endswith("...")
