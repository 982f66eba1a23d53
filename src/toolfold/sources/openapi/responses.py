"""What an operation answers when all goes well. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from toolfold.models import Json
from toolfold.sources.openapi.references import References
from toolfold.sources.web.media import is_json, is_text, preferred


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
