"""Arguments of a call as the request that the API expects. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from toolfold.models import Value
from toolfold.sources.openapi.contents import content
from toolfold.sources.openapi.model import Argument, Operation
from toolfold.sources.openapi.paging import with_next
from toolfold.sources.openapi.styles import header_text, path_part, query_pairs
from toolfold.sources.web.messages import WebRequest
from toolfold.tools.arguments import bad_argument, wrong

_TEMPLATE: Final = re.compile(r"\{([^{}]+)\}")
_UNSENDABLE: Final = re.compile(r"[\0-\x08\x0a-\x1f\x7f]")
_PATH: Final = "/:@!$&'()*+,;=~%-._"


def request_of(
    operation: Operation, arguments: Mapping[str, Value], base_url: str, *, tool: str, next_query: str = ""
) -> WebRequest:
    """The request, without what proves who sends it.

    Raises:
        ToolArgumentsInvalid: an argument cannot be written where it goes.
    """
    given = {one: arguments[one.name] for one in operation.arguments if arguments.get(one.name) is not None}
    path = _path(operation, {one.wire: (one, value) for one, value in given.items() if one.place == "path"}, tool)
    query = "&".join(
        f"{key}={text}" for one, value in given.items() if one.place == "query" for key, text in query_pairs(one, value)
    )
    if next_query:
        query = with_next(query, next_query)
    data, mime = _content(operation, arguments)
    headers = [*_headers(given, tool), ("Accept", f"{operation.accept}, */*;q=0.5" if operation.accept else "*/*")]
    if data is not None:
        headers.append(("Content-Type", mime))
    return WebRequest(
        method=operation.method.upper(),
        url=f"{base_url.rstrip('/')}{path}" + (f"?{query}" if query else ""),
        headers=tuple(headers),
        content=data,
    )


def _path(operation: Operation, given: Mapping[str, tuple[Argument, Value]], tool: str) -> str:
    def fill(match: re.Match[str]) -> str:
        argument, value = given[match[1]]
        part = path_part(argument, value)
        # An empty one, or one that climbs, would make this another operation.
        if part in ("", ".", ".."):
            raise bad_argument(tool, wrong([argument.name], "must be text that can stand in a path", value))
        return part

    pieces = _TEMPLATE.split(operation.path)
    # Every second piece is a name; what stands between is the document's own.
    return "".join(
        quote(piece, safe=_PATH) if at % 2 == 0 else _TEMPLATE.sub(fill, f"{{{piece}}}")
        for at, piece in enumerate(pieces)
    )


def _headers(given: Mapping[Argument, Value], tool: str) -> Iterator[tuple[str, str]]:
    cookies = []
    for one, value in given.items():
        if one.place == "header":
            text = header_text(one, value)
            if _UNSENDABLE.search(text) or not text.isascii():
                raise bad_argument(tool, wrong([one.name], "must be text that a header can hold", value))
            yield one.wire, text
        elif one.place == "cookie":
            cookies += [f"{key}={text}" for key, text in query_pairs(one, value)]
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
    fields = {one.name: one for one in operation.arguments if one.place == "body"}
    value = {one.wire: arguments[name] for name, one in fields.items() if name in arguments}
    if body.is_open:
        known = {one.name for one in operation.arguments}
        value.update({name: item for name, item in arguments.items() if name not in known})
    if not value and not body.is_required:
        return None, ""
    return content(body, value, {one.wire: one for one in fields.values()})
