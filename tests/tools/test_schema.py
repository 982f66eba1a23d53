"""Arguments against a JSON Schema."""

import logging
from types import MappingProxyType
from typing import Any

import pytest

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import Media, ToolSpec
from toolfold.tools.arguments import SAMPLE_PARTS, argument_check, sample

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ticker": {"type": "string"},
        "count": {"type": ["integer", "null"], "minimum": 3},
        "side": {"enum": ["buy", "sell"]},
        "version": {"const": 2},
        "rows": {"type": "array", "items": {"type": "object", "required": ["when"], "additionalProperties": False,
                                            "properties": {"when": {"type": "string", "format": "date"}}}},
        "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "limit": {"oneOf": [{"type": "null"}, {"enum": ["all"]}]},
        "flag": {"type": "boolean"},
    },
    "required": ["ticker"],
    "additionalProperties": False,
}  # fmt: skip


def spec(schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec(name="price", python_name="price", input_schema=schema)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"ticker": 3}, "ticker must be a string, got 3"),
        ({}, "ticker is missing"),
        ({"ticker": "A", "tiker": 1}, "no parameter 'tiker'; did you mean 'ticker'?"),
        (
            {"ticker": "A", "xyz": 1},
            "no parameter 'xyz'; it takes ticker, count, side, version, rows, id, limit, flag",
        ),
        ({"ticker": "A", "count": "x"}, "count must be an integer or null, got 'x'"),
        ({"ticker": "A", "count": 1}, "count: 1 is less than the minimum of 3"),
        ({"ticker": "A", "side": "hold"}, "side must be one of 'buy', 'sell', got 'hold'"),
        ({"ticker": "A", "version": 1}, "version must be 2, got 1"),
        ({"ticker": "A", "rows": [{"when": "x"}, {}]}, "rows[1]['when'] is missing"),
        ({"ticker": "A", "rows": [{"when": "x", "who": 1}]}, "rows[0] has no key 'who'"),
        ({"ticker": "A", "id": []}, "id must be a string or an integer, got []"),
        ({"ticker": "A", "limit": "some"}, "limit must be one of 'all', got 'some'"),
        ({"ticker": 1, "flag": "yes"}, "ticker must be a string, got 1 (and 1 more)"),
        ({"ticker": ["x" * 200]}, "ticker must be a string, got ['" + "x" * 77 + "…"),
    ],
)
def test_arguments_that_do_not_fit_are_explained_in_one_line(arguments: dict[str, Any], text: str) -> None:
    check = argument_check(spec(SCHEMA))

    with pytest.raises(ToolArgumentsInvalid) as caught:
        check(arguments)

    assert str(caught.value) == f"'price' got a bad argument: {text}"


def test_fitting_arguments_come_back_and_formats_are_not_checked() -> None:
    arguments = {"ticker": "A", "rows": [{"when": "no date"}], "id": 2**80}

    assert argument_check(spec(SCHEMA))(arguments) is arguments
    assert argument_check(spec(SCHEMA))(MappingProxyType(arguments)) == arguments


def test_bytes_and_media_are_text_and_objects_to_a_schema() -> None:
    image = Media(kind="image", mime="image/png", data=b"x")
    schema = {"properties": {"data": {"type": "string"}, "image": {"type": "object"}, "count": {"type": "integer"}}}
    check = argument_check(spec(schema))

    assert check({"data": b"\xff", "image": image}) == {"data": b"\xff", "image": image}
    with pytest.raises(ToolArgumentsInvalid) as caught:
        check({"count": b"abc"})
    assert str(caught.value) == "'price' got a bad argument: count must be an integer, got 'YWJj'"


@pytest.mark.parametrize(
    "schema",
    [{"type": "nope"}, {"$ref": "#/nowhere"}, {"$ref": "http://127.0.0.1:9/schema.json"}, {"pattern": "("}],
)
def test_a_broken_schema_checks_nothing_and_fetches_nothing(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        check = argument_check(spec(schema))

    assert check({"any": 1}) == {"any": 1}
    assert [record.name for record in caplog.records] == ["toolfold.tools.arguments"]
    assert "\n" not in caplog.text.strip()


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (["x"] * 200_000, "numbers[0] must be an integer, got 'x'"),
        ([1] * 2_000_000 + ["x"], "they do not fit its schema, and are too large to say where"),
        ([1] * 20_000 + ["x"] + [2] * 20_000, "numbers[20000] must be an integer, got 'x'"),
    ],
)
def test_many_mistakes_are_one_line(items: list[Any], text: str) -> None:
    choice = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]}
    check = argument_check(spec({"properties": {"numbers": choice}}))

    with pytest.raises(ToolArgumentsInvalid) as caught:
        check({"numbers": items})

    assert str(caught.value) == f"'price' got a bad argument: {text}"


@pytest.mark.parametrize(
    "value",
    [
        [n + 0.5 for n in range(8_000)],
        [[[n] * 20 for n in range(20)] for _ in range(20)],
        {str(n): {str(m): [1, 2] for m in range(50)} for n in range(50)},
    ],
)
def test_only_the_first_parts_of_a_large_value_are_looked_at_for_an_explanation(value: Any) -> None:
    assert 100 < _parts(sample(value)) <= SAMPLE_PARTS


def test_a_long_text_among_mistakes_is_cut_before_it_is_explained() -> None:
    check = argument_check(spec({"properties": {"names": {"type": "array", "items": {"type": "integer"}}}}))

    with pytest.raises(ToolArgumentsInvalid) as caught:
        check({"names": ["x" * 100_000] * 50})

    shown = "'" + "x" * 78 + "…"
    assert str(caught.value) == f"'price' got a bad argument: names[0] must be an integer, got {shown} (and 49 more)"


def _parts(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_parts, value.values()))
    return 1 + sum(map(_parts, value)) if isinstance(value, list) else 1
