"""Paging of lists: the next page by a `Link` header, or by a URL, a token or a flag in the body.

The next page is a query string for the same operation, never another address: a program may hold it and hand it back,
and reaches with it nothing that it could not have asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import Json, Value
from toolfold.sources.openapi.operation_index import Argument
from toolfold.tools.arguments import ArgumentCheck, bad_argument

_LINK: Final = re.compile(r"<([^<>]*)>([^<]*)")
_NEXT: Final = re.compile(r"""\brel\s*=\s*["']?[^"']*\bnext\b""", re.IGNORECASE)
_PARAMETERS: Final = frozenset({
    "page", "per_page", "perpage", "page_size", "pagesize", "cursor", "after", "page_token", "pagetoken", "offset",
    "starting_after", "next_token", "nexttoken", "next_cursor", "continuation_token", "marker", "page[after]",
    "page[cursor]", "page[number]", "start_cursor", "next_page", "$skip", "$skiptoken", "skiptoken", "pagination_token",
    "bookmark",
})  # fmt: skip
_TOKENS: Final[Mapping[str, tuple[str, ...]]] = {
    "next_cursor": ("cursor", "next_cursor", "after", "start_cursor"),
    "nextCursor": ("cursor", "nextCursor", "after"),
    "next_page_token": ("page_token", "next_page_token"),
    "nextPageToken": ("pageToken", "nextPageToken"),
    "next_token": ("next_token", "nextToken", "pagination_token"),
    "nextToken": ("nextToken", "next_token"),
    "next_page": ("page", "next_page"),
    "nextPage": ("page", "nextPage"),
    "continuation_token": ("continuation_token",),
    "cursor": ("cursor",),
    "after": ("after",),
    "next_marker": ("marker",),
    "end_cursor": ("after", "cursor"),
    "endCursor": ("after", "cursor"),
    "bookmark": ("bookmark",),
    "next": ("cursor", "after", "page_token", "page"),
}
"""Names of tokens in a body, and of the parameters that take each."""
_WITHIN: Final = ("", "meta", "pagination", "paging", "page", "page_info", "pageInfo", "response_metadata", "links",
                  "_links", "cursors", "cursor")  # fmt: skip
_MOST_CHARACTERS: Final = 2_000
"""Limit of the text beside a link: the search for `next` in it takes time in proportion to its square."""
_MORE: Final = ("has_next_page", "hasNextPage", "has_more", "hasMore")
"""Flags beside a token; where one is false, the token leads nowhere."""
_URLS: Final = ("next", "next_url", "@odata.nextLink", "nextLink", "next_page_url", "next_page_uri")


def is_paged(parameters: Collection[str], has_link: bool) -> bool:
    return has_link or not _PARAMETERS.isdisjoint(name.lower() for name in parameters)


def next_query(link: str, body: Json, parameters: Collection[str]) -> str | None:
    """Query of the next page; `None` after the last."""
    for url, words in _LINK.findall(link):
        if _NEXT.search(words[:_MOST_CHARACTERS]):
            return urlsplit(url).query or None
    for part in _parts(body):
        query = _from_url(part) or _from_token(part, parameters)
        if query:
            return query
    return _from_last_item(body, parameters)


def check_next(following: str, arguments: Collection[Argument], check: ArgumentCheck, *, tool: str) -> None:
    """Refuse a made-up query, with unknown parameters or unfit values, by a `ToolArgumentsInvalid` that names them."""
    parameters = {parameter.wire: parameter for parameter in arguments if parameter.place == "query"}
    texts: dict[str, list[str]] = {}
    for wire, text in parse_qsl(following, keep_blank_values=True):
        texts.setdefault(wire, []).append(text)
    for wire, values in texts.items():
        argument = parameters.get(wire) or parameters.get(wire.partition("[")[0])
        if argument is not None and argument.style != "deepObject":
            _check_value(argument.name, values, check)
        elif argument is None and wire.lower() not in _PARAMETERS:
            raise bad_argument(tool, f"next_query has {wire!r}, which is no parameter; pass `next` of the page before")


def _check_value(name: str, texts: list[str], check: ArgumentCheck) -> None:
    """Check that one of the values that a text may stand for fits."""
    failures = []
    for value in _meanings(texts):
        try:
            check({name: value})
        except ToolArgumentsInvalid as error:
            failures.append(error)
        else:
            return
    raise failures[0]


def _meanings(texts: list[str]) -> Iterator[Value]:
    if len(texts) == 1:
        text = texts[0]
        yield _scalar(text)
        yield text
        texts = text.split(",")
    yield [_scalar(text) for text in texts]
    yield list(texts)


def _scalar(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    # Neither is for a number of a million digits.
    for kind in (int, float) if len(text) < 40 else ():
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def with_next(query: str, following: str) -> str:
    new = parse_qsl(following, keep_blank_values=True)
    names = {name for name, _ in new}
    old = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in names]
    return urlencode([*old, *new])


def _parts(body: Json) -> Iterator[Mapping[str, Json]]:
    if not isinstance(body, Mapping):
        return
    for name in _WITHIN:
        part = body.get(name) if name else body
        if isinstance(part, Mapping):
            yield part
            # `paging.cursors.after`, as Facebook has it.
            cursors = part.get("cursors") if name else None
            if isinstance(cursors, Mapping):
                yield cursors


def _from_url(part: Mapping[str, Json]) -> str | None:
    for name in _URLS:
        url = part.get(name)
        if isinstance(url, Mapping):
            url = url.get("href")
        if isinstance(url, str) and ("://" in url or url.startswith(("/", "?"))):
            return urlsplit(url).query or None
    return None


def _from_token(part: Mapping[str, Json], parameters: Collection[str]) -> str | None:
    if any(part.get(name) is False for name in _MORE):
        return None
    for name, takers in _TOKENS.items():
        token = part.get(name)
        if isinstance(token, bool) or not isinstance(token, str | int) or not token:
            continue
        for taker in takers:
            if taker in parameters:
                return urlencode({taker: token})
    return None


def _from_last_item(body: Json, parameters: Collection[str]) -> str | None:
    """`has_more` and the id of the last item, as Stripe has it."""
    if not isinstance(body, Mapping) or body.get("has_more") is not True or "starting_after" not in parameters:
        return None
    items = body.get("data")
    last = items[-1] if isinstance(items, list) and items else None
    return urlencode({"starting_after": last["id"]}) if isinstance(last, Mapping) and "id" in last else None
