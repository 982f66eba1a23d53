"""A server's results as values that a program can use.

* `structuredContent` first, whatever JSON it is. Where the output schema only wraps a value in
  `{"result": ...}`, the value; text in it that holds JSON is parsed.
* Else the content: one part is the value, several are a list, none is `None`. Text that starts
  with `{` or `[` is parsed where the tool declares no output schema.
* Images, sounds, links and files are `Media`.
* `isError` is a `ToolFailed` with the text.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import jsonschema_rs
import mcp_types as types
import msgspec

from toolfold.errors import ToolFailed
from toolfold.models import Json, Media, Value
from toolfold.tools.arguments import TOO_LARGE_TO_EXPLAIN, sample

_WRAPPED: Final = "result"
_log: Final = logging.getLogger(__name__)


def value_reader(tool: types.Tool, name: str) -> Callable[[types.CallToolResult], Value]:
    """How to read this tool's results; `name` is for the warning about a result that breaks its schema.

    Raises, when called:
        ToolFailed: the tool says that it failed.
    """
    wraps = _wraps(tool.output_schema)
    check = _Check(tool.output_schema, name) if tool.output_schema is not None else None

    def read(result: types.CallToolResult) -> Value:
        if result.is_error:
            raise ToolFailed(_error_text(result))
        if result.structured_content is None and "structured_content" not in result.model_fields_set:
            if check is not None:
                check.warn("it returned no structured content")
            return content_value(result.content, parses=tool.output_schema is None)
        value = result.structured_content
        if check is not None:
            check(value)
        if wraps and isinstance(value, dict) and value.keys() == {_WRAPPED}:
            inner = value[_WRAPPED]
            return _parsed(inner) if isinstance(inner, str) else inner
        return value

    return read


def output_schema(tool: types.Tool) -> Mapping[str, Json] | None:
    """The schema of what `value_reader` gives; `None` for text that may hold JSON."""
    schema = tool.output_schema
    if schema is None or not _wraps(schema):
        return schema
    inner = schema["properties"][_WRAPPED]
    if not isinstance(inner, dict) or "string" in _types(inner):
        return None
    return {**inner, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}


def content_value(parts: list[types.ContentBlock], *, parses: bool) -> Value:
    """The value of a list of content parts."""
    values = [_part(part, parses=parses) for part in parts]
    if not values:
        return None
    return values[0] if len(values) == 1 else values


def resource_value(contents: types.TextResourceContents | types.BlobResourceContents) -> Value:
    """Text as text, anything else as a file."""
    return contents.text if isinstance(contents, types.TextResourceContents) else _file(contents)


def _part(part: types.ContentBlock, *, parses: bool) -> Value:
    match part:
        case types.TextContent():
            return _parsed(part.text) if parses else part.text
        case types.ImageContent():
            return Media(kind="image", mime=part.mime_type, data=_bytes(part.data))
        case types.AudioContent():
            return Media(kind="audio", mime=part.mime_type, data=_bytes(part.data))
        case types.ResourceLink():
            return Media(kind="link", mime=part.mime_type or "", uri=str(part.uri), name=part.name)
        case types.EmbeddedResource():
            return _file(part.resource)


def _file(contents: types.TextResourceContents | types.BlobResourceContents) -> Media:
    if isinstance(contents, types.TextResourceContents):
        data, kind = contents.text.encode("utf-8", "replace"), "text/plain"
    else:
        data, kind = _bytes(contents.blob), "application/octet-stream"
    uri = str(contents.uri)
    mime = contents.mime_type or kind
    return Media(kind="file", mime=mime, data=data, uri=uri, name=uri.rstrip("/").rpartition("/")[2])


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")  # broken data is still data; the program may look at it


def _parsed(text: str) -> Value:
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text


def _error_text(result: types.CallToolResult) -> str:
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    if not any(texts) and result.structured_content is not None:
        texts = [msgspec.json.encode(result.structured_content).decode()]
    return "\n".join(texts).strip() or "the tool said no more than that it failed"


def _wraps(schema: Mapping[str, Json] | None) -> bool:
    """Whether a schema is there only because structured content had to be an object."""
    return (
        schema is not None
        and schema.get("type") == "object"
        and isinstance(schema.get("properties"), dict)
        and schema["properties"].keys() == {_WRAPPED}
    )


def _types(schema: Mapping[str, Json]) -> list[str]:
    """The types that a schema names, also in its alternatives."""
    kind = schema.get("type", [])
    found = [kind] if isinstance(kind, str) else list(kind)
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        found += _types(option) if isinstance(option, dict) else []
    return found


class _Check:
    """Says once for each tool that its results break its own schema; the data is kept all the same."""

    def __init__(self, schema: Mapping[str, Json], name: str) -> None:
        self._name = name
        self._has_warned = False
        # Any: the validator has no public type.
        self._validator: Any = None
        try:
            # Offline: a `$ref` of a stranger must not make this host fetch it.
            self._validator = jsonschema_rs.validator_for(dict(schema), validate_formats=False, offline=True)
        except ValueError as error:
            self.warn(f"the schema is broken: {str(error).partition(chr(10))[0]}")

    def __call__(self, value: Value) -> None:
        if self._has_warned or self._validator is None or self._validator.is_valid(value):
            return
        # Of the first parts only: an error for each of a million items would stop the host.
        error = next(self._validator.iter_errors(sample(value)), None)
        self.warn(error.message.partition("\n")[0][:200] if error is not None else TOO_LARGE_TO_EXPLAIN)

    def warn(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("results of %r do not fit its output schema: %s", self._name, why)
