"""Parameters of an operation as arguments: where each goes, and how it is written there. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from toolfold.models import Json
from toolfold.sources.openapi.model import Argument, Place
from toolfold.sources.openapi.names import argument_name
from toolfold.sources.openapi.references import References
from toolfold.sources.openapi.schemas import Conversion

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
