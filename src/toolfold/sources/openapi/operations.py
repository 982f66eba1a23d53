"""Operations of an OpenAPI document: parameters, responses, and schemas built on first use. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from toolfold.errors import UsageError
from toolfold.models import Json
from toolfold.sources.openapi.document import References, pack
from toolfold.sources.openapi.operation_index import (
    METHODS,
    VERSION,
    ApiIndex,
    Argument,
    Method,
    Operation,
    Place,
    argument_name,
    name_from_path,
    operation_name,
)
from toolfold.sources.openapi.paging import is_paged, query_schemas
from toolfold.sources.openapi.requests import ArgumentPlan, BodyPlan, body_plan
from toolfold.sources.openapi.schemas import Conversion, ReferenceLookup, with_definitions
from toolfold.sources.web.credentials import is_json, is_text, preferred_mime
from toolfold.tools.arguments import bound_schema

# ----------------------------------------------------------------------------------------------------
# Parameters of an operation as arguments. Pure.

_PLACES: Final[Mapping[str, Place]] = {"path": "path", "query": "query", "header": "header", "cookie": "cookie"}
_USUAL_STYLE: Final[Mapping[str, str]] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_STYLES: Final[Mapping[str, frozenset[str]]] = {
    "path": frozenset({"simple", "label", "matrix"}),
    "query": frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject"}),
    "header": frozenset({"simple"}),
    "cookie": frozenset({"form"}),
}
_NOT_PARAMETERS: Final = frozenset({"accept", "content-type", "authorization", "cookie", "host", "content-length"})
"""Headers that OpenAPI says to ignore here, and those that would forge a request."""
_TEMPLATE: Final = re.compile(r"\{([^{}]+)\}")


def parameter_plan(
    path: str, shared: Json, operation: Mapping[str, Json], references: References, convert: Conversion
) -> ArgumentPlan:
    """Parameters of the path and of the operation, which take precedence; one for each `{name}` of the path."""
    declared = {(parameter["in"], parameter["name"]): parameter for parameters in (shared, operation.get("parameters"))
                for parameter in _declared_parameters(parameters, references)}  # fmt: skip
    in_path = _TEMPLATE.findall(path)
    for name in in_path:
        declared.setdefault(("path", name), {"name": name, "in": "path", "schema": {"type": "string"}})
    plan, used_names = ArgumentPlan(), set[str]()
    for (place, wire), parameter in declared.items():
        if (place == "path" and wire not in in_path) or (place == "header" and wire.lower() in _NOT_PARAMETERS):
            continue
        name = argument_name(wire, used_names, place)
        plan.arguments.append(_argument(name, wire, _PLACES[place], parameter))
        plan.properties[name] = _schema(parameter, convert)
        if place == "path" or parameter.get("required") is True:
            plan.required.add(name)
    return plan


def _declared_parameters(parameters: Json, references: References) -> Iterator[Mapping[str, Json]]:
    for entry in parameters if isinstance(parameters, list) else ():
        parameter = references.resolve(entry)
        if (
            isinstance(parameter, Mapping)
            and isinstance(parameter.get("name"), str)
            and parameter["name"]
            and parameter.get("in") in _PLACES
        ):
            yield parameter


def _argument(name: str, wire: str, place: Place, parameter: Mapping[str, Json]) -> Argument:
    style = parameter.get("style")
    style = style if style in _STYLES[place] else _USUAL_STYLE[place]
    explode = parameter.get("explode")
    return Argument(
        name=name, wire=wire, place=place, style=style,
        explode=explode if isinstance(explode, bool) else style == "form",
        allow_reserved=parameter.get("allowReserved") is True, mime=_content(parameter)[0],
    )  # fmt: skip


def _content(parameter: Mapping[str, Json]) -> tuple[str, Json]:
    content = parameter.get("content")
    if not isinstance(content, Mapping) or not content:
        return "", None
    mime, media = next(iter(content.items()))
    return str(mime), media.get("schema") if isinstance(media, Mapping) else None


def _schema(parameter: Mapping[str, Json], convert: Conversion) -> Json:
    mime, inner = _content(parameter)
    schema = convert.schema(inner if mime else parameter.get("schema"))
    description = parameter.get("description")
    if isinstance(schema, dict) and isinstance(description, str) and description:
        return {**schema, "description": description}
    return schema


MAX_OPERATIONS: Final = 20_000
_MOST_CHARACTERS: Final = 1_500
_MOST_WARNINGS: Final = 20

WITH_RESPONSE: Final = "with_response"
"""The argument that asks for status and headers as well."""
NEXT_QUERY: Final = "next_query"
"""The argument that asks for the page after one that was read."""
_OWN: Final[Mapping[str, Json]] = {
    WITH_RESPONSE: {
        "type": "boolean",
        "description": "Return {status, headers, body, next, unread} instead of the body alone.",
    },
    NEXT_QUERY: {"type": "string", "description": "`next` of the page before."},
}


def read_operations(document: Mapping[str, Json]) -> ApiIndex:
    """Usable operations, with a warning for each thing that is not; `UsageError` if that leaves none, or too many."""
    references = References(document)
    warnings = [f"the remote reference {entry!r} is not followed" for entry in references.remote_references()]
    path_operations = list(_find_operations(document, references, warnings))
    if len(path_operations) > MAX_OPERATIONS:
        raise UsageError(f"has {len(path_operations):,} operations; the most is {MAX_OPERATIONS:,}")
    operations = [
        entry
        for path_operation in _assign_names(path_operations, warnings)
        if (entry := _read_operation(path_operation, references, warnings)) is not None
    ]
    if not operations:
        raise UsageError(f"has no operation that can be called{f': {warnings[0]}' if warnings else ''}")
    if len(warnings) > _MOST_WARNINGS:
        warnings = [*warnings[:_MOST_WARNINGS], f"{len(warnings) - _MOST_WARNINGS} more things are not usable"]
    info = document.get("info")
    return ApiIndex(
        version=VERSION,
        title=str(info.get("title", "")) if isinstance(info, Mapping) else "",
        server=first_server(document.get("servers")),
        # Deprecated ones last, so that lists begin with what should be used.
        operations=tuple(sorted(operations, key=lambda entry: entry.is_deprecated)),
        schemas=references.pack_schemas(),
        warnings=tuple(warnings),
    )


def first_server(servers: Json) -> str:
    """The URL of the first server, its variables filled with their defaults."""
    first = servers[0] if isinstance(servers, list) and servers else None
    if not isinstance(first, Mapping) or not isinstance(first.get("url"), str):
        return ""
    url: str = first["url"]
    variables = first.get("variables")
    for name, variable in variables.items() if isinstance(variables, Mapping) else ():
        if isinstance(variable, Mapping):
            url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    return url


class _PathOperation(msgspec.Struct):
    method: Method
    path: str
    operation: Json
    shared: Mapping[str, Json]
    name: str = ""

    @property
    def place(self) -> str:
        return f"{self.method.upper()} {self.path}"


def _find_operations(
    document: Mapping[str, Json], references: References, warnings: list[str]
) -> Iterator[_PathOperation]:
    for path, declaration in document["paths"].items():
        path_item = references.resolve(declaration)
        if not isinstance(path_item, Mapping):
            if not str(path).startswith("x-"):
                warnings.append(f"path {path!r} is left out: it must be keys with values")
            continue
        for method in METHODS:
            if method not in path_item:
                continue
            entry = _PathOperation(method, str(path), path_item[method], path_item)
            if not entry.path.startswith("/") or entry.path.startswith("//"):
                warnings.append(f"{entry.place} is left out: a path must begin with one slash")
            elif not isinstance(entry.operation, Mapping):
                warnings.append(f"{entry.place} is left out: it must be keys with values")
            else:
                yield entry


def _assign_names(path_operations: list[_PathOperation], warnings: list[str]) -> list[_PathOperation]:
    """Name each operation; the second of two with one name is named after its path."""
    name_counts: Counter[str] = Counter()
    for entry in path_operations:
        entry.name = operation_name(entry.operation.get("operationId"), entry.method, entry.path)
        if entry.name in name_counts:
            duplicate, entry.name = entry.name, name_from_path(entry.method, entry.path)
            warnings.append(f"{entry.place} is named {entry.name!r}: {duplicate!r} is the name of another operation")
        name_counts[entry.name] += 1
        if name_counts[entry.name] > 1:
            entry.name = f"{entry.name}_{name_counts[entry.name]}"
            name_counts[entry.name] += 1
    return path_operations


def _read_operation(entry: _PathOperation, references: References, warnings: list[str]) -> Operation | None:
    try:
        return _operation(entry, references)
    except RecursionError:
        warnings.append(f"{entry.place} is left out: it is nested too deeply")
    except UsageError as error:
        warnings.append(f"{entry.place} is left out: {error}")
    # A stranger's document has mistakes that nobody foresaw; each costs its operation, never the document.
    except Exception as error:  # noqa: BLE001
        warnings.append(f"{entry.place} is left out: it cannot be read: {type(error).__name__}: {error}")
    return None


def _operation(entry: _PathOperation, references: References) -> Operation:
    operation, convert = entry.operation, Conversion(references.lookup, "input")
    parameters = parameter_plan(entry.path, entry.shared.get("parameters"), operation, references, convert)
    used_names = {argument.name for argument in parameters.arguments}
    body = body_plan(operation.get("requestBody"), references, convert, used_names)
    answer = success_response(operation.get("responses"), references)
    schemas = query_schemas(parameters.arguments, {"properties": parameters.properties})
    reply_keys = _reply_keys(answer.schema, references)
    paged = entry.method == "get" and is_paged(schemas, answer.has_link, reply_keys)
    return Operation(
        name=entry.name, method=entry.method, path=entry.path, description=_description(entry),
        is_deprecated=operation.get("deprecated") is True, is_paged=paged,
        arguments=(*parameters.arguments, *body.arguments), body=body.body, accept=answer.mime,
        server=first_server(operation.get("servers") or entry.shared.get("servers")),
        input_schema=pack(_input_schema(parameters, body, convert, paged=paged)),
        output_schema=b"" if answer.schema is None else pack(answer.schema),
    )  # fmt: skip


def _reply_keys(source: Json, references: References) -> set[str]:
    schema = references.resolve(source)
    branches = schema.get("allOf") if isinstance(schema, Mapping) else None
    parts = [schema, *map(references.resolve, branches if isinstance(branches, list) else ())]
    properties = (part.get("properties") for part in parts if isinstance(part, Mapping))
    return {name for keys in properties if isinstance(keys, Mapping) for name in keys}


def _input_schema(parameters: ArgumentPlan, body: BodyPlan, convert: Conversion, *, paged: bool) -> dict[str, Json]:
    properties = {**parameters.properties, **body.properties}
    required = [name for name in properties if name in parameters.required or name in body.required]
    own = {name: entry for name, entry in _OWN.items() if name not in properties and (paged or name != NEXT_QUERY)}
    schema: dict[str, Json] = {
        "type": "object",
        # Required ones first, in the order of positional arguments.
        "properties": {**dict.fromkeys(required), **properties, **own},
        "required": required,
        "additionalProperties": body.additional_properties,
    }
    definitions = convert.definitions()
    return {**schema, "$defs": definitions} if definitions else schema


def _description(path_operation: _PathOperation) -> str:
    summary, text = (path_operation.operation.get(key) for key in ("summary", "description"))
    parts = [part.strip() for part in (summary, text) if isinstance(part, str) and part.strip()]
    if len(parts) == 2 and parts[1].startswith(parts[0]):
        del parts[0]
    if path_operation.operation.get("deprecated") is True:
        parts.insert(0, "Deprecated.")
    description = "\n\n".join(parts)
    if len(description) > _MOST_CHARACTERS:
        description = f"{description[:_MOST_CHARACTERS].rsplit(None, 1)[0]} …"
    return f"{description}\n\n{path_operation.place}" if description else path_operation.place


# ----------------------------------------------------------------------------------------------------
# Responses of successful requests. Pure.


class SuccessResponse(NamedTuple):
    """Media type and schema of a response; `None` if nothing is known."""

    mime: str
    schema: Json | None
    has_link: bool
    """Whether a `Link` header says where the next page is."""


def success_response(declaration: Json, references: References) -> SuccessResponse:
    """Response of the first success status with content, otherwise of the first one."""
    responses = declaration if isinstance(declaration, Mapping) else {}
    order = sorted((status for status in map(str, responses) if status[:1] == "2"), key=str.lower)
    answers = [references.resolve(responses[status]) for status in [*order, *(["default"] if not order else [])]
               if status in responses]  # fmt: skip
    answers = [response for response in answers if isinstance(response, Mapping)]
    for answer in answers:
        content = answer.get("content")
        if isinstance(content, Mapping) and content:
            return _with_content(content, answer.get("headers"))
    # Documents leave bodies out that their servers send; only these statuses never have one.
    has_no_body = bool(answers) and set(order) <= {"204", "205"} and bool(order)
    return SuccessResponse("", {"type": "null"} if has_no_body else None, has_link=False)


def _with_content(content: Mapping[str, Json], headers: Json) -> SuccessResponse:
    mime = preferred_mime(content)
    media = content[mime]
    has_link = isinstance(headers, Mapping) and any(str(name).lower() == "link" for name in headers)
    if is_json(mime):
        schema = media.get("schema") if isinstance(media, Mapping) else None
        return SuccessResponse(mime, schema if isinstance(schema, Mapping) else None, has_link)
    if is_text(mime):
        return SuccessResponse(mime, {"type": "string"}, has_link)
    is_bytes = "*" not in mime and mime.partition("/")[0].lower() not in ("image", "audio")
    return SuccessResponse(mime, {"type": "string", "format": "bytes"} if is_bytes else None, has_link)


# ----------------------------------------------------------------------------------------------------
# Schemas of operations, made on first use: of a thousand, a program reads three.
#
# A large program is checked in another process, so they can be pickled; they are sent as they are stored.


class LazySchema(Mapping[str, Json]):
    """Schema made on first use, by a function that can be pickled."""

    def __init__(self, make: Callable[[], Mapping[str, Json]]) -> None:
        self._make = make

    @cached_property
    def _schema(self) -> Mapping[str, Json]:
        return self._make()

    def __getitem__(self, key: str) -> Json:
        return self._schema[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)

    # Any: the arguments of whatever makes it.
    def __reduce__(self) -> tuple[type[LazySchema], tuple[Any]]:
        return LazySchema, (self._make,)

    def __bool__(self) -> bool:
        """Without making it: this is asked often, and a schema of an operation is never empty."""
        return True


def input_schema(operation: Operation, tool: str) -> Mapping[str, Json]:
    """Schema of the remaining arguments; one that is too large accepts anything."""
    schema: dict[str, Json] = msgspec.msgpack.decode(operation.input_schema)
    names = {entry.name for entry in operation.arguments} | {WITH_RESPONSE, NEXT_QUERY}
    if operation.body is not None:
        names.add(operation.body.whole)
    schema["properties"] = {name: entry for name, entry in schema["properties"].items() if name in names}
    schema["required"] = [name for name in schema["required"] if name in names]
    bounded_schema = bound_schema(schema, tool)
    if bounded_schema is schema:
        return schema
    return {**bounded_schema, "additionalProperties": schema["additionalProperties"] is not False}


def output_schema(packed: bytes, lookup: ReferenceLookup) -> Mapping[str, Json]:
    """Schema of the reply; an empty one where it is nested too deeply."""
    try:
        return with_definitions(msgspec.msgpack.decode(packed), lookup, "output")
    # As above: an unusable schema costs the type of one reply.
    except Exception:  # noqa: BLE001
        return {}
