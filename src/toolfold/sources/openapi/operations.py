"""A document as its operations: what each takes, how that is sent, and what comes back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from toolfold.errors import UsageError
from toolfold.models import Json
from toolfold.sources.openapi.bodies import BodyPlan, body_plan
from toolfold.sources.openapi.model import METHODS, VERSION, Index, Method, Operation
from toolfold.sources.openapi.names import name_from_path, operation_name
from toolfold.sources.openapi.paging import is_paged
from toolfold.sources.openapi.parameters import ParameterPlan, parameter_plan
from toolfold.sources.openapi.references import References
from toolfold.sources.openapi.responses import success
from toolfold.sources.openapi.schemas import Conversion

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
