"""A document as its operations: what each takes, how that is sent, and what comes back. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from toolfold.errors import UsageError
from toolfold.models import Json
from toolfold.sources.openapi.document import References
from toolfold.sources.openapi.model import (
    METHODS,
    VERSION,
    Argument,
    Index,
    Method,
    Operation,
    Place,
    argument_name,
    name_from_path,
    operation_name,
)
from toolfold.sources.openapi.paging import is_paged
from toolfold.sources.openapi.requests import BodyPlan, body_plan
from toolfold.sources.openapi.schemas import Conversion, Look, closed
from toolfold.sources.web.credentials import is_json, is_text, preferred
from toolfold.tools.arguments import bound_schema

# ----------------------------------------------------------------------------------------------------
# Parameters of an operation as arguments: where each goes, and how it is written there. Pure.

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


@dataclass(slots=True)
class ParameterPlan:
    """The arguments, and their schemas by name."""

    arguments: list[Argument] = field(default_factory=list)
    properties: dict[str, Json] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)


def parameter_plan(
    path: str, shared: Json, operation: Mapping[str, Json], references: References, convert: Conversion
) -> ParameterPlan:
    """Those of the path and of the operation, which count more; each `{name}` of the path has one."""
    declared = {(one["in"], one["name"]): one for given in (shared, operation.get("parameters"))
                for one in _declared(given, references)}  # fmt: skip
    in_path = _TEMPLATE.findall(path)
    for name in in_path:
        declared.setdefault(("path", name), {"name": name, "in": "path", "schema": {"type": "string"}})
    plan, taken = ParameterPlan(), set[str]()
    for (place, wire), one in declared.items():
        if (place == "path" and wire not in in_path) or (place == "header" and wire.lower() in _NOT_PARAMETERS):
            continue
        name = argument_name(wire, taken, place)
        plan.arguments.append(_argument(name, wire, _PLACES[place], one))
        plan.properties[name] = _schema(one, convert)
        if place == "path" or one.get("required") is True:
            plan.required.add(name)
    return plan


def _declared(given: Json, references: References) -> Iterator[Mapping[str, Json]]:
    for entry in given if isinstance(given, list) else ():
        one = references.resolve(entry)
        if isinstance(one, Mapping) and isinstance(one.get("name"), str) and one["name"] and one.get("in") in _PLACES:
            yield one


def _argument(name: str, wire: str, place: Place, given: Mapping[str, Json]) -> Argument:
    style = given.get("style")
    style = style if style in _STYLES[place] else _USUAL_STYLE[place]
    explode = given.get("explode")
    return Argument(
        name=name,
        wire=wire,
        place=place,
        style=style,
        explode=explode if isinstance(explode, bool) else style == "form",
        allow_reserved=given.get("allowReserved") is True,
        mime=_content(given)[0],
    )


def _content(given: Mapping[str, Json]) -> tuple[str, Json]:
    content = given.get("content")
    if not isinstance(content, Mapping) or not content:
        return "", None
    mime, media = next(iter(content.items()))
    return str(mime), media.get("schema") if isinstance(media, Mapping) else None


def _schema(given: Mapping[str, Json], convert: Conversion) -> Json:
    mime, inner = _content(given)
    schema = convert.schema(inner if mime else given.get("schema"))
    words = given.get("description")
    if isinstance(schema, dict) and isinstance(words, str) and words:
        return {**schema, "description": words}
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
        "description": "Return {status, headers, body, next} instead of the body alone.",
    },
    NEXT_QUERY: {"type": "string", "description": "`next` of the page before."},
}

_encode: Final = msgspec.msgpack.Encoder().encode


def read_operations(document: Mapping[str, Json]) -> Index:
    """All that is usable, with one warning for each thing that is not.

    Raises:
        UsageError: there is nothing usable, or too much.
    """
    references = References(document)
    warnings = [f"the remote reference {one!r} is not followed" for one in references.remote()]
    found = list(_found(document, references, warnings))
    if len(found) > MAX_OPERATIONS:
        raise UsageError(f"has {len(found):,} operations; the most is {MAX_OPERATIONS:,}")
    operations = [one for given in _named(found, warnings) if (one := _read(given, references, warnings)) is not None]
    if not operations:
        raise UsageError(f"has no operation that can be called{f': {warnings[0]}' if warnings else ''}")
    if len(warnings) > _MOST_WARNINGS:
        warnings = [*warnings[:_MOST_WARNINGS], f"{len(warnings) - _MOST_WARNINGS} more things are not usable"]
    info = document.get("info")
    return Index(
        version=VERSION,
        title=str(info.get("title", "")) if isinstance(info, Mapping) else "",
        server=first_server(document.get("servers")),
        # Deprecated ones last, so that lists begin with what should be used.
        operations=tuple(sorted(operations, key=lambda one: one.is_deprecated)),
        schemas=references.packed(),
        warnings=tuple(warnings),
    )


def first_server(servers: Json) -> str:
    """The URL of the first server, its variables filled with their defaults."""
    first = servers[0] if isinstance(servers, list) and servers else None
    if not isinstance(first, Mapping) or not isinstance(first.get("url"), str):
        return ""
    url: str = first["url"]
    variables = first.get("variables")
    for name, one in variables.items() if isinstance(variables, Mapping) else ():
        if isinstance(one, Mapping):
            url = url.replace(f"{{{name}}}", str(one.get("default", "")))
    return url


class _Found(msgspec.Struct):
    """An operation where it stands in the document."""

    method: Method
    path: str
    operation: Json
    shared: Mapping[str, Json]
    """The path's own entry."""
    name: str = ""

    @property
    def place(self) -> str:
        return f"{self.method.upper()} {self.path}"


def _found(document: Mapping[str, Json], references: References, warnings: list[str]) -> Iterator[_Found]:
    for path, given in document["paths"].items():
        item = references.resolve(given)
        if not isinstance(item, Mapping):
            if not str(path).startswith("x-"):
                warnings.append(f"path {path!r} is left out: it must be keys with values")
            continue
        for method in METHODS:
            if method in item:
                yield from _usable(_Found(method, str(path), item[method], item), warnings)


def _usable(found: _Found, warnings: list[str]) -> Iterator[_Found]:
    if not found.path.startswith("/") or found.path.startswith("//"):
        warnings.append(f"{found.place} is left out: a path must begin with one slash")
    elif not isinstance(found.operation, Mapping):
        warnings.append(f"{found.place} is left out: it must be keys with values")
    else:
        yield found


def _named(found: list[_Found], warnings: list[str]) -> list[_Found]:
    """With a name for each; of two that have one name, the second is named after its path."""
    taken: Counter[str] = Counter()
    for one in found:
        one.name = operation_name(one.operation.get("operationId"), one.method, one.path)
        if one.name in taken:
            twin, one.name = one.name, name_from_path(one.method, one.path)
            warnings.append(f"{one.place} is named {one.name!r}: {twin!r} is the name of another operation")
        taken[one.name] += 1
        if taken[one.name] > 1:
            one.name = f"{one.name}_{taken[one.name]}"
            taken[one.name] += 1
    return found


def _read(found: _Found, references: References, warnings: list[str]) -> Operation | None:
    try:
        return _operation(found, references)
    except RecursionError:
        warnings.append(f"{found.place} is left out: it is nested too deeply")
    except UsageError as error:
        warnings.append(f"{found.place} is left out: {error}")
    return None


def _operation(found: _Found, references: References) -> Operation:
    convert = Conversion(references.look, "input")
    parameters = parameter_plan(found.path, found.shared.get("parameters"), found.operation, references, convert)
    body = body_plan(
        found.operation.get("requestBody"), references, convert, {one.name for one in parameters.arguments}
    )
    answer = success(found.operation.get("responses"), references)
    paged = found.method == "get" and is_paged({one.wire for one in parameters.arguments}, answer.has_link)
    return Operation(
        name=found.name,
        method=found.method,
        path=found.path,
        description=_description(found),
        is_deprecated=found.operation.get("deprecated") is True,
        is_paged=paged,
        arguments=(*parameters.arguments, *body.arguments),
        body=body.body,
        accept=answer.mime,
        server=first_server(found.operation.get("servers") or found.shared.get("servers")),
        input_schema=_encode(_input_schema(parameters, body, convert, paged=paged)),
        output_schema=b"" if answer.schema is None else _encode(answer.schema),
    )


def _input_schema(parameters: ParameterPlan, body: BodyPlan, convert: Conversion, *, paged: bool) -> dict[str, Json]:
    properties = {**parameters.properties, **body.properties}
    required = [name for name in properties if name in parameters.required or name in body.required]
    # What must be given comes first: it is the order of positional arguments.
    ordered = {name: properties[name] for name in (*required, *(name for name in properties if name not in required))}
    own = {name: one for name, one in _OWN.items() if name not in ordered and (paged or name != NEXT_QUERY)}
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {**ordered, **own},
        "required": required,
        "additionalProperties": body.others,
    }
    definitions = convert.definitions()
    return {**schema, "$defs": definitions} if definitions else schema


def _description(found: _Found) -> str:
    summary, text = (found.operation.get(key) for key in ("summary", "description"))
    parts = [part.strip() for part in (summary, text) if isinstance(part, str) and part.strip()]
    if len(parts) == 2 and parts[1].startswith(parts[0]):
        del parts[0]
    if found.operation.get("deprecated") is True:
        parts.insert(0, "Deprecated.")
    whole = "\n\n".join(parts)
    if len(whole) > _MOST_CHARACTERS:
        whole = f"{whole[:_MOST_CHARACTERS].rsplit(None, 1)[0]} …"
    return f"{whole}\n\n{found.place}" if whole else found.place


# ----------------------------------------------------------------------------------------------------
# What an operation answers when all goes well. Pure.


class Success(NamedTuple):
    """The answer's media type and schema; `None`: nothing is known."""

    mime: str
    schema: Json | None
    has_link: bool
    """It says with a `Link` header where the next page is."""


def success(given: Json, references: References) -> Success:
    """That of the first status of 200 and above that has content, else of the first."""
    responses = given if isinstance(given, Mapping) else {}
    order = sorted((status for status in map(str, responses) if status[:1] == "2"), key=str.lower)
    answers = [references.resolve(responses[status]) for status in [*order, *(["default"] if not order else [])]
               if status in responses]  # fmt: skip
    answers = [one for one in answers if isinstance(one, Mapping)]
    for answer in answers:
        content = answer.get("content")
        if isinstance(content, Mapping) and content:
            return _with_content(content, answer.get("headers"))
    return Success("", {"type": "null"} if answers and order else None, has_link=False)


def _with_content(content: Mapping[str, Json], headers: Json) -> Success:
    mime = preferred(content)
    media = content[mime]
    has_link = isinstance(headers, Mapping) and any(str(name).lower() == "link" for name in headers)
    if is_json(mime):
        schema = media.get("schema") if isinstance(media, Mapping) else None
        return Success(mime, schema if isinstance(schema, Mapping) else None, has_link)
    return Success(mime, {"type": "string"} if is_text(mime) else None, has_link)


# ----------------------------------------------------------------------------------------------------
# Schemas of operations, made when somebody first looks into them: of a thousand, a program reads three.
#
# A large program is checked in another process, so they can be pickled; they are sent as they are stored.


class LazySchema(Mapping[str, Json]):
    """A schema that is still to be made, by a function that can be pickled."""

    def __init__(self, make: Callable[[], Mapping[str, Json]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, Json]:
        return self._make()

    def __getitem__(self, key: str) -> Json:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    # Any: the arguments of whatever makes it.
    def __reduce__(self) -> tuple[type[LazySchema], tuple[Any]]:
        return LazySchema, (self._make,)

    def __bool__(self) -> bool:
        """Asked often, of every tool; a schema of an operation is never empty."""
        return True


def input_schema(operation: Operation, tool: str) -> Mapping[str, Json]:
    """Of the arguments that the operation still has; one that stands for too much takes anything."""
    schema: dict[str, Json] = msgspec.msgpack.decode(operation.input_schema)
    known = {one.name for one in operation.arguments} | {WITH_RESPONSE, NEXT_QUERY}
    if operation.body is not None:
        known.add(operation.body.whole)
    schema["properties"] = {name: one for name, one in schema["properties"].items() if name in known}
    schema["required"] = [name for name in schema["required"] if name in known]
    within = bound_schema(schema, tool)
    if within is schema:
        return schema
    return {**within, "additionalProperties": schema["additionalProperties"] is not False}


def output_schema(packed: bytes, look: Look) -> Mapping[str, Json]:
    """Of what comes back; nothing is said where it is nested too deeply for whoever asks."""
    try:
        return closed(msgspec.msgpack.decode(packed), look, "output")
    except RecursionError:
        return {}
