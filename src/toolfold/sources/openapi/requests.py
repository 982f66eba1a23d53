"""HTTP requests of operations: arguments as path, query, headers, cookies and body. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

import httpx2
import msgspec

from toolfold.models import Json, Media, Value
from toolfold.prompts.schema_types import merge_schemas
from toolfold.sources.openapi.document import References
from toolfold.sources.openapi.operation_index import Argument, Body, Operation, argument_name
from toolfold.sources.openapi.paging import with_next
from toolfold.sources.openapi.schemas import Conversion
from toolfold.sources.web.credentials import (
    FORM,
    MULTIPART,
    WebRequest,
    is_json,
    is_text,
    normalize_mime,
    preferred_mime,
)
from toolfold.tools.arguments import bad_argument, wrong

_TEMPLATE: Final = re.compile(r"\{([^{}]+)\}")
_UNSENDABLE: Final = re.compile(r"[\0-\x08\x0a-\x1f\x7f]")
_PATH: Final = "/:@!$&'()*+,;=~%-._?"


def request_of(
    operation: Operation, arguments: Mapping[str, Value], base_url: str, *, tool: str, next_query: str = ""
) -> WebRequest:
    """Request without credentials; `ToolArgumentsInvalid` if an argument cannot be written where it goes."""
    values = {
        argument: arguments[argument.name]
        for argument in operation.arguments
        if arguments.get(argument.name) is not None
    }
    # A query may stand in the path itself; a `#` there only tells operations apart.
    path, _, fixed_query = _path(operation, values, tool).partition("?")
    pairs = (
        f"{key}={text}"
        for argument, value in values.items()
        if argument.place == "query"
        for key, text in query_pairs(argument, value)
    )
    query = "&".join([*([fixed_query] if fixed_query else []), *pairs])
    if next_query:
        query = with_next(query, next_query)
    data, mime = _content(operation, arguments)
    headers = [*_headers(values, tool), ("Accept", f"{operation.accept}, */*;q=0.5" if operation.accept else "*/*")]
    if data is not None:
        headers.append(("Content-Type", mime))
    return WebRequest(
        method=operation.method.upper(), url=f"{base_url.rstrip('/')}{path}" + (f"?{query}" if query else ""),
        headers=tuple(headers), content=data,
    )  # fmt: skip


def _path(operation: Operation, values: Mapping[Argument, Value], tool: str) -> str:
    by_name = {argument.wire: argument for argument in values if argument.place == "path"}
    pieces = _TEMPLATE.split(operation.path.partition("#")[0])
    # Every second piece is a name; the others are the document's own.
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            pieces[index] = quote(piece, safe=_PATH)
            continue
        argument = by_name[piece]
        pieces[index] = path_part(argument, values[argument])
        # An empty one, or one that climbs, would make this another operation.
        if pieces[index] in ("", ".", ".."):
            raise bad_argument(tool, wrong([argument.name], "must be text that can stand in a path", values[argument]))
    return "".join(pieces)


def _headers(values: Mapping[Argument, Value], tool: str) -> Iterator[tuple[str, str]]:
    cookies = []
    for argument, value in values.items():
        if argument.place == "header":
            text = header_text(argument, value)
            if _UNSENDABLE.search(text) or not text.isascii():
                raise bad_argument(tool, wrong([argument.name], "must be text that a header can hold", value))
            yield argument.wire, text
        elif argument.place == "cookie":
            cookies += [f"{key}={text}" for key, text in query_pairs(argument, value)]
    if cookies:
        yield "Cookie", "; ".join(cookies)


def _content(operation: Operation, arguments: Mapping[str, Value]) -> tuple[bytes | None, str]:
    body = operation.body
    if body is None:
        return None, ""
    if body.whole:
        if arguments.get(body.whole) is None and not body.is_required:
            return None, ""
        return content(body, arguments.get(body.whole), {})
    fields = {argument.name: argument for argument in operation.arguments if argument.place == "body"}
    value = {argument.wire: arguments[name] for name, argument in fields.items() if name in arguments}
    if body.is_open:
        declared_names = {argument.name for argument in operation.arguments}
        value.update({name: item for name, item in arguments.items() if name not in declared_names})
    if not value and not body.is_required:
        return None, ""
    return content(body, value, {argument.wire: argument for argument in fields.values()})


# ----------------------------------------------------------------------------------------------------
# Body of an operation as arguments: the fields of an object each become one, anything else is `body`. Pure.

_DEEPEST: Final = 20


@dataclass(slots=True, kw_only=True)
class ArgumentPlan:
    """Arguments of an operation, and their schemas by name."""

    arguments: list[Argument] = field(default_factory=list)
    properties: dict[str, Json] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class BodyPlan(ArgumentPlan):
    """Body, and the arguments that it is made of."""

    body: Body | None = None
    additional_properties: Json = False


def body_plan(request_body: Json, references: References, convert: Conversion, used_names: set[str]) -> BodyPlan:
    """Plan of the body; an empty plan where the operation takes none."""
    request = references.resolve(request_body)
    content = request.get("content") if isinstance(request, Mapping) else None
    if not isinstance(request, Mapping) or not isinstance(content, Mapping) or not content:
        return BodyPlan()
    mime = preferred_mime(content)
    media = content[mime] if isinstance(content[mime], Mapping) else {}
    is_required = request.get("required") is True
    fields = _fields(media.get("schema"), references, set(), 0)
    can_have_fields = is_json(mime) or mime in (FORM, MULTIPART)
    if fields is None or not can_have_fields:
        return _plan_whole_body(mime, media, request, convert, used_names, is_required=is_required)
    return _plan_by_fields(mime, media, fields, convert, used_names, is_required=is_required)


def _plan_by_fields(
    mime: str, media: Mapping[str, Json], fields: Mapping[str, Json], convert: Conversion, used_names: set[str],
    *, is_required: bool,
) -> BodyPlan:  # fmt: skip
    object_schema = convert.schema(fields)
    extra = object_schema.get("additionalProperties", False)
    is_open = extra is not False
    plan = BodyPlan(body=Body(mime=mime, is_required=is_required, is_open=is_open), additional_properties=extra)
    required_names = set(object_schema.get("required", ())) if is_required else set()
    encodings = media.get("encoding")
    for wire, schema in object_schema["properties"].items():
        name = argument_name(wire, used_names, "body")
        plan.arguments.append(_field(name, wire, encodings, schema))
        plan.properties[name] = schema
        if wire in required_names:
            plan.required.add(name)
    return plan


def _plan_whole_body(
    mime: str, media: Mapping[str, Json], request: Mapping[str, Json], convert: Conversion, used_names: set[str],
    *, is_required: bool,
) -> BodyPlan:  # fmt: skip
    name = argument_name("body", used_names, "content")
    schema = convert.schema(media.get("schema"))
    if is_text(mime):
        schema = {"type": "string"}
    elif not is_json(mime) and mime not in (FORM, MULTIPART):
        schema = {"type": "string", "format": "bytes"}
    description = request.get("description")
    if isinstance(schema, dict) and isinstance(description, str) and description and "description" not in schema:
        schema = {**schema, "description": description}
    return BodyPlan(
        body=Body(mime=mime, is_required=is_required, whole=name),
        properties={name: schema},
        required={name} if is_required else set(),
    )


def _field(name: str, wire: str, encodings: Json, schema: Json) -> Argument:
    items = schema.get("items", schema) if isinstance(schema, Mapping) else {}
    encoding = encodings.get(wire) if isinstance(encodings, Mapping) else None
    encoding = encoding if isinstance(encoding, Mapping) else {}
    style, mime = encoding.get("style"), encoding.get("contentType")
    return Argument(
        name=name, wire=wire, place="body", style=style if isinstance(style, str) else "",
        explode=encoding.get("explode") is not False, mime=mime if isinstance(mime, str) else "",
        is_file=isinstance(items, Mapping) and items.get("format") == "bytes",
    )  # fmt: skip


def _fields(source: Json, references: References, visited: set[str], depth: int) -> Mapping[str, Json] | None:
    """The schema as one object with properties, `$ref` and `allOf` merged; `None` if it is no such thing.

    A part that was visited is not merged again: it adds nothing, and parts that name the next one twice have no end.
    """
    target = references.resolve(source)
    if not isinstance(target, Mapping) or depth > _DEEPEST or target.get("nullable") is True:
        return None
    schema: Mapping[str, Json] = target
    for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        pointer = part.get("$ref") if isinstance(part, Mapping) else None
        if isinstance(pointer, str):
            if pointer in visited:
                continue
            visited.add(pointer)
        inner = _fields(part, references, visited, depth + 1)
        if inner is None:
            return None
        schema = merge_schemas({key: value for key, value in schema.items() if key != "allOf"}, inner)
    if schema.get("type", "object") != "object" or not isinstance(schema.get("properties"), Mapping):
        return None
    if not schema["properties"] or any(_chooses(schema.get(word)) for word in ("oneOf", "anyOf")):
        return None
    return schema


def _chooses(branches: Json) -> bool:
    """Whether branches differ in more than in what they require."""
    return isinstance(branches, list) and any(
        isinstance(branch, Mapping) and set(branch) - {"required", "title", "description"} for branch in branches
    )


# ----------------------------------------------------------------------------------------------------
# Content of a request: JSON, a form, parts with files, text or bytes. Pure.

_Part: TypeAlias = tuple[str | None, bytes] | tuple[str | None, bytes, str]
"""A file's name, its content, its media type."""


def content(body: Body, value: Value, fields: Mapping[str, Argument]) -> tuple[bytes, str]:
    """The content of a body and its content type; `fields` say how each field is encoded, by its name in the API."""
    mime = normalize_mime(body.mime)
    if is_json(mime):
        return msgspec.json.encode(value), body.mime
    if mime in (FORM, MULTIPART):
        whole = value if isinstance(value, Mapping) else {"body": value}
        return _multipart(whole, fields) if mime == MULTIPART else (_form(whole, fields).encode(), FORM)
    concrete = "application/octet-stream" if "*" in mime else body.mime
    return _raw(value), value.mime if isinstance(value, Media) and "*" in mime else concrete


def _raw(value: Value) -> bytes:
    match value:
        case bytes():
            return value
        case Media():
            return value.data
    return text_of(value).encode()


def _form(value: Mapping[str, Value], fields: Mapping[str, Argument]) -> str:
    pairs: list[str] = []
    for name, item in value.items():
        field = fields.get(name)
        if field is not None and field.style:
            pairs += [f"{key}={element}" for key, element in query_pairs(field, item)]
        else:
            pairs += [urlencode({name: text_of(part)}) for part in (item if isinstance(item, list) else [item])]
    return "&".join(pairs)


def _multipart(value: Mapping[str, Value], fields: Mapping[str, Argument]) -> tuple[bytes, str]:
    parts = [(name, part) for name, item in value.items() for part in _parts(name, item, fields.get(name))]
    # The library writes the parts; where they go is said later. One part at least, or it writes no body.
    request = httpx2.Request("POST", "http://localhost", files=parts or [("", (None, b""))])
    return request.read(), request.headers["content-type"]


def _parts(name: str, value: Value, field: Argument | None) -> Iterator[_Part]:
    mime = "" if field is None else field.mime.partition(",")[0].strip()
    file_name = name if field is not None and field.is_file else None
    for item in value if isinstance(value, list) else [value]:
        match item:
            case Media():
                yield item.name or name, item.data, mime or item.mime
            case bytes():
                yield name, item, mime or "application/octet-stream"
            case dict():
                yield file_name, msgspec.json.encode(item), mime or "application/json"
            case _ if mime or file_name:
                yield file_name, text_of(item).encode(), mime or "text/plain"
            case _:
                yield None, text_of(item).encode()


# ----------------------------------------------------------------------------------------------------
# Values in OpenAPI's styles for paths, queries, headers and cookies. Pure.

_RESERVED: Final = ":/?[]@!$'()*,;"
"""Characters that `allowReserved` keeps; not those that end a query's value."""
_BETWEEN: Final = {"spaceDelimited": "%20", "pipeDelimited": "|", "form": ","}


def text_of(value: Value) -> str:
    """Value as text: JSON for all that is neither text nor bytes."""
    if isinstance(value, str):
        return value
    if isinstance(value, Media):
        value = value.data
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else _as_json(value)


def path_part(argument: Argument, value: Value) -> str:
    """Part of a path: `simple`, `label` or `matrix`."""
    if argument.mime:
        return _escape(_as_json(value))
    items = [_escape(text_of(item)) for item in value] if isinstance(value, list) else None
    pairs = [(_escape(key), _escape(text_of(item))) for key, item in value.items()] if isinstance(value, dict) else None
    name = _escape(argument.wire)
    match argument.style:
        case "label":
            return "." + _join(value, items, pairs, "." if argument.explode else ",", explode=argument.explode)
        case "matrix":
            if pairs is not None and argument.explode:
                return "".join(f";{key}={item}" for key, item in pairs)
            if items is not None and argument.explode:
                return "".join(f";{name}={item}" for item in items)
            return f";{name}=" + _join(value, items, pairs, ",", explode=False)
    return _join(value, items, pairs, ",", explode=argument.explode)


def query_pairs(argument: Argument, value: Value) -> Iterator[tuple[str, str]]:
    """Names and values, encoded."""
    safe = _RESERVED if argument.allow_reserved else ""
    name = quote(argument.wire, safe="[]" if argument.style == "deepObject" else "")
    if argument.mime:
        yield name, quote(_as_json(value), safe=safe)
    elif isinstance(value, list):
        items = [quote(text_of(item), safe=safe) for item in value]
        if argument.explode or argument.style == "deepObject":
            yield from ((name, item) for item in items)
        elif items:
            yield name, _BETWEEN.get(argument.style, ",").join(items)
    elif isinstance(value, dict):
        yield from _query_of_object(argument, name, value, safe)
    else:
        yield name, quote(text_of(value), safe=safe)


def header_text(argument: Argument, value: Value) -> str:
    if argument.mime:
        return _as_json(value)
    if isinstance(value, list):
        return ",".join(map(text_of, value))
    if isinstance(value, dict):
        between = "=" if argument.explode else ","
        return ",".join(f"{key}{between}{text_of(item)}" for key, item in value.items())
    return text_of(value)


def _query_of_object(argument: Argument, name: str, value: Mapping[str, Value], safe: str) -> Iterator[tuple[str, str]]:
    if argument.style == "deepObject":
        yield from _deep(name, value, safe)
    elif argument.explode:
        yield from ((quote(key, safe=""), quote(text_of(item), safe=safe)) for key, item in value.items())
    else:
        parts = [part for key, item in value.items() for part in (key, text_of(item))]
        yield name, _BETWEEN.get(argument.style, ",").join(quote(part, safe=safe) for part in parts)


def _deep(name: str, value: Value, safe: str) -> Iterator[tuple[str, str]]:
    """`filter[size][min]=1`; items of a list have one name."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _deep(f"{name}[{quote(key, safe='')}]", item, safe)
    elif isinstance(value, list):
        for item in value:
            yield from _deep(name, item, safe)
    else:
        yield name, quote(text_of(value), safe=safe)


def _join(
    value: Value, items: list[str] | None, pairs: list[tuple[str, str]] | None, between: str, *, explode: bool
) -> str:
    if items is not None:
        return between.join(items)
    if pairs is not None:
        return between.join(f"{key}={item}" if explode else f"{key},{item}" for key, item in pairs)
    return _escape(text_of(value))


def _escape(text: str) -> str:
    return quote(text, safe="")


def _as_json(value: Value) -> str:
    return msgspec.json.encode(value).decode()
