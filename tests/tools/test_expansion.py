"""A schema of a stranger that stands for too much is cut down when it is taken in."""

import logging
from typing import Any

import pytest

from toolfold.tools.arguments import MAX_DEPTH, bound_schema, is_bounded


def doubling(levels: int, word: str = "anyOf") -> dict[str, Any]:
    """A few lines for each level, and twice as many alternatives."""
    parts: dict[str, Any] = {
        f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)
    }
    parts[f"d{levels}"] = {"type": "integer"}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}, "y": {"type": "string"}}, "required": ["x"]}
    return {**schema, "$defs": parts}


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
def test_a_parameter_whose_references_double_takes_anything(word: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        taken = bound_schema(doubling(40, word), "mcp__evil__x")

    assert taken == {"type": "object", "properties": {"x": {}, "y": {"type": "string"}}, "required": ["x"]}
    assert caplog.messages == [
        "the schema of 'mcp__evil__x' is used only in part: it is too large with its references resolved"
    ]


def test_the_definitions_of_the_other_parameters_stay() -> None:
    schema = doubling(40)
    schema["properties"]["z"] = {"items": {"$ref": "#/$defs/small~1one"}}
    schema["$defs"] |= {"small/one": {"anyOf": [{"$ref": "#/$defs/number"}]}, "number": {"type": "number"}}

    taken = bound_schema(schema, "x")

    assert taken["properties"] == {"x": {}, "y": {"type": "string"}, "z": schema["properties"]["z"]}
    assert taken["$defs"] == {"number": {"type": "number"}, "small/one": {"anyOf": [{"$ref": "#/$defs/number"}]}}


def test_many_parameters_without_an_end_are_not_all_weighed() -> None:
    schema = doubling(40)
    schema["properties"] = {f"p{n}": {"$ref": "#/$defs/d0"} for n in range(10_000)}

    taken = bound_schema(schema, "x")

    assert taken == {"type": "object", "properties": {f"p{n}": {} for n in range(10_000)}, "required": []}


def test_a_flood_of_such_schemas_is_no_flood_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger("toolfold.tools.arguments")
    # Of its own: other tests come in the same minute.
    monkeypatch.setattr(log, "filters", [type(one)() for one in log.filters])
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            bound_schema(doubling(40), f"tool_{number}")

    assert 100 <= len(caplog.messages) <= 200  # a minute may end meanwhile


def test_a_plain_schema_stays_as_it_is() -> None:
    schema = doubling(5)

    assert bound_schema(schema, "x") is schema


def test_a_schema_that_refers_to_itself_stays_as_it_is() -> None:
    value = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/value"}}]}
    schema = {"properties": {"x": {"$ref": "#/$defs/value"}, "y": {"$ref": "#"}}, "$defs": {"value": value}}

    assert bound_schema(schema, "x") is schema


def test_a_schema_nested_beyond_reason_is_cut_down_too() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(MAX_DEPTH + 1):
        schema = {"type": "array", "items": schema}

    assert not is_bounded({"properties": {"x": schema}})


@pytest.mark.parametrize("reference", ["#/nowhere", "#/properties/x/0/9", "http://127.0.0.1:9/x.json", "#/%zz", ""])
def test_a_reference_to_nothing_here_counts_as_little(reference: str) -> None:
    assert is_bounded({"properties": {"x": {"$ref": reference}}})
