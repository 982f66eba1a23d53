"""Results to values."""

import base64
from typing import Any

import mcp_types as types
import pytest

from toolfold.errors import ToolFailed
from toolfold.models import Media, Value
from toolfold.sources.mcp.bridge import output_schema, value_reader

WRAPPED = {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}
WRAPPED_TEXT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
RECORD = {"type": "object", "properties": {"rows": {"type": "array"}}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def read(schema: Any = None, **result: Any) -> Value:
    tool = types.Tool(name="t", input_schema={"type": "object"}, output_schema=schema)
    return value_reader(tool, "t")(types.CallToolResult.model_validate({"content": [], **result}))


@pytest.mark.parametrize(
    ("schema", "result", "value"),
    [
        (None, {"content": []}, None),
        (None, {"content": [text("plain")]}, "plain"),
        (None, {"content": [text('{"a": 1}')]}, {"a": 1}),
        (None, {"content": [text("[1, 2]")]}, [1, 2]),
        (None, {"content": [text("[not json")]}, "[not json"),
        (None, {"content": [text("12")]}, "12"),
        (None, {"content": [text("a"), text("[1]")]}, ["a", [1]]),
        (RECORD, {"content": [text('{"rows": []}')]}, '{"rows": []}'),
        (RECORD, {"structuredContent": {"rows": [1]}, "content": [text("one row")]}, {"rows": [1]}),
        (None, {"structuredContent": {"a": 1}, "content": [text("other")]}, {"a": 1}),
        (None, {"structuredContent": {"result": 1}}, {"result": 1}),
        (None, {"structuredContent": None, "content": [text("null")]}, None),
        (WRAPPED, {"structuredContent": {"result": [1]}}, [1]),
        (WRAPPED, {"structuredContent": {"result": [1], "more": 2}}, {"result": [1], "more": 2}),
        (WRAPPED_TEXT, {"structuredContent": {"result": "plain"}}, "plain"),
        (WRAPPED_TEXT, {"structuredContent": {"result": '{"a": [1]}'}}, {"a": [1]}),
    ],
)
def test_a_result_is_the_value_a_program_would_expect(schema: Any, result: Any, value: Value) -> None:
    assert read(schema, **result) == value


def test_images_sounds_links_and_files_are_media() -> None:
    data = base64.b64encode(b"\x00\x01").decode()

    value = read(
        content=[
            {"type": "image", "data": data, "mimeType": "image/png"},
            {"type": "audio", "data": data, "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a/b.txt", "name": "b", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "file:///a/c.csv", "text": "x,y", "mimeType": "text/csv"}},
            {"type": "resource", "resource": {"uri": "file:///a/d", "blob": data}},
        ]
    )

    assert value == [
        Media(kind="image", mime="image/png", data=b"\x00\x01"),
        Media(kind="audio", mime="audio/wav", data=b"\x00\x01"),
        Media(kind="link", mime="text/plain", uri="file:///a/b.txt", name="b"),
        Media(kind="file", mime="text/csv", data=b"x,y", uri="file:///a/c.csv", name="c.csv"),
        Media(kind="file", mime="application/octet-stream", data=b"\x00\x01", uri="file:///a/d", name="d"),
    ]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"content": [text("no such row"), text("ask for another")]}, "no such row\nask for another"),
        ({"structuredContent": {"code": 7}}, '{"code":7}'),
        ({}, "the tool said no more than that it failed"),
    ],
)
def test_an_error_is_raised_with_its_words(result: Any, words: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        read(isError=True, **result)

    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("schema", "seen"),
    [
        (None, None),
        (RECORD, RECORD),
        (WRAPPED, {"type": "array"}),
        (WRAPPED_TEXT, None),
        ({**WRAPPED, "$defs": {"x": {}}}, {"type": "array", "$defs": {"x": {}}}),
        ({"type": "object", "properties": {"result": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, None),
    ],
)
def test_the_schema_programs_see_is_that_of_the_value(schema: Any, seen: Any) -> None:
    assert output_schema(types.Tool(name="t", input_schema={"type": "object"}, output_schema=schema)) == seen


def test_a_broken_schema_warns_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert read({"type": "nonsense"}, structuredContent={"a": 1}) == {"a": 1}
    assert "the schema is broken" in caplog.text
