"""The body of an operation as arguments: the fields of an object each become one, anything else is `body`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from toolfold.models import Json
from toolfold.prompts.schema_types import merged
from toolfold.sources.openapi.model import Argument, Body
from toolfold.sources.openapi.names import argument_name
from toolfold.sources.openapi.references import References
from toolfold.sources.openapi.schemas import Conversion
from toolfold.sources.web.media import FORM, MULTIPART, is_json, is_text, preferred

_DEEPEST: Final = 20


@dataclass(slots=True)
class BodyPlan:
    """The body, and the arguments that it is made of."""

    body: Body | None = None
    arguments: list[Argument] = field(default_factory=list)
    properties: dict[str, Json] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    others: Json = False
    """What arguments that nobody declared may be."""


def body_plan(given: Json, references: References, convert: Conversion, taken: set[str]) -> BodyPlan:
    """How to make the body; a plan without one where the operation takes none."""
    request = references.resolve(given)
    content = request.get("content") if isinstance(request, Mapping) else None
    if not isinstance(request, Mapping) or not isinstance(content, Mapping) or not content:
        return BodyPlan()
    mime = preferred(content)
    media = content[mime] if isinstance(content[mime], Mapping) else {}
    is_required = request.get("required") is True
    fields = _fields(media.get("schema"), references, set(), 0)
    can_have_fields = is_json(mime) or mime in (FORM, MULTIPART)
    if fields is None or not can_have_fields:
        return _whole(mime, media, request, convert, taken, is_required=is_required)
    return _by_fields(mime, media, fields, convert, taken, is_required=is_required)


def _by_fields(
    mime: str, media: Mapping[str, Json], fields: Mapping[str, Json], convert: Conversion, taken: set[str],
    *, is_required: bool,
) -> BodyPlan:  # fmt: skip
    shown = convert.schema(fields)
    extra = shown.get("additionalProperties", False)
    is_open = extra is not False
    plan = BodyPlan(body=Body(mime=mime, is_required=is_required, is_open=is_open), others=extra)
    must = set(shown.get("required", ())) if is_required else set()
    encodings = media.get("encoding")
    for wire, schema in shown["properties"].items():
        name = argument_name(wire, taken, "body")
        plan.arguments.append(_field(name, wire, encodings))
        plan.properties[name] = schema
        if wire in must:
            plan.required.add(name)
    return plan


def _whole(
    mime: str, media: Mapping[str, Json], request: Mapping[str, Json], convert: Conversion, taken: set[str],
    *, is_required: bool,
) -> BodyPlan:  # fmt: skip
    name = argument_name("body", taken, "content")
    schema = convert.schema(media.get("schema"))
    if is_text(mime):
        schema = {"type": "string"}
    elif not is_json(mime) and mime not in (FORM, MULTIPART):
        schema = {"type": "string", "format": "binary"}
    words = request.get("description")
    if isinstance(schema, dict) and isinstance(words, str) and words and "description" not in schema:
        schema = {**schema, "description": words}
    return BodyPlan(
        body=Body(mime=mime, is_required=is_required, whole=name),
        properties={name: schema},
        required={name} if is_required else set(),
    )


def _field(name: str, wire: str, encodings: Json) -> Argument:
    own = encodings.get(wire) if isinstance(encodings, Mapping) else None
    own = own if isinstance(own, Mapping) else {}
    style, mime = own.get("style"), own.get("contentType")
    return Argument(
        name=name,
        wire=wire,
        place="body",
        style=style if isinstance(style, str) else "",
        explode=own.get("explode") is not False,
        mime=mime if isinstance(mime, str) else "",
    )


def _fields(given: Json, references: References, seen: set[str], depth: int) -> Mapping[str, Json] | None:
    """The schema as one object with properties, `$ref` and `allOf` taken in; `None` if it is no such thing.

    A part that was `seen` is not taken in again: it adds nothing, and parts that name the next one twice have no end.
    """
    found = references.resolve(given)
    if not isinstance(found, Mapping) or depth > _DEEPEST or found.get("nullable") is True:
        return None
    schema: Mapping[str, Json] = found
    for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        pointer = part.get("$ref") if isinstance(part, Mapping) else None
        if isinstance(pointer, str):
            if pointer in seen:
                continue
            seen.add(pointer)
        inner = _fields(part, references, seen, depth + 1)
        if inner is None:
            return None
        schema = merged({key: one for key, one in schema.items() if key != "allOf"}, inner)
    if schema.get("type", "object") != "object" or not isinstance(schema.get("properties"), Mapping):
        return None
    if not schema["properties"] or any(_chooses(schema.get(word)) for word in ("oneOf", "anyOf")):
        return None
    return schema


def _chooses(branches: Json) -> bool:
    """Whether branches differ in more than in what they require."""
    return isinstance(branches, list) and any(
        isinstance(one, Mapping) and set(one) - {"required", "title", "description"} for one in branches
    )
