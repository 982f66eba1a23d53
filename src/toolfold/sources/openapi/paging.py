"""Paging of lists: the next page by a link, a token, a page number or an offset, in headers or in the body.

The next page is a query string for the same operation, never another address: a program may hold it and hand it back,
and reaches with it nothing that it could not have asked for. Behind a `#`, which is not sent, it says how far a count
has come. A reply that says that there is more, but not how to ask for it, is told apart from the last one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import Json, Value
from toolfold.sources.openapi.operation_index import Argument
from toolfold.tools.arguments import ArgumentCheck, bad_argument

_LINK: Final = re.compile(r"<([^<>]*)>([^<]*)")
_NEXT: Final = re.compile(r"""\brel\s*=\s*["']?[^"']*\bnext\b""", re.IGNORECASE)
_URL: Final = re.compile(r"[a-z]+://|[/?]|[^\s=]*\?[^\s=]+=")
_MOST_CHARACTERS: Final = 2_000
"""Limit of the text beside a link: the search for `next` in it takes time in proportion to its square."""
_MOST_KEYS: Final = 500
_DEEPEST: Final = 4

# Names of parameters and of keys, in lower case and without signs: `page[number]` is `pagenumber`.
_PAGES: Final = ("page", "pagenumber", "pageno", "pagenum", "pageindex", "currentpage", "pg", "p")
_OFFSETS: Final = ("offset", "skip", "startat", "startindex", "startposition", "startrow", "firstresult", "pageoffset",
                   "recordoffset", "sysparmoffset", "start", "from")  # fmt: skip
_LIMITS: Final = ("perpage", "pagesize", "limit", "pagelimit", "maxresults", "itemsperpage", "resultsperpage",
                  "maxpagesize", "pagelength", "size", "top", "take", "rows", "max")  # fmt: skip
_CURSORS: Final = (
    "cursor", "after", "pagetoken", "nextpagetoken", "nexttoken", "nextcursor", "startcursor", "pagecursor",
    "pageafter", "startingafter", "continuationtoken", "paginationtoken", "marker", "bookmark", "afterid", "nextpage",
    "skiptoken", "continuation", "continue", "scrollid", "startafter", "exclusivestartkey", "startkey", "nextkey",
    "aftercursor", "lastid", "pageid", "nextpageid", "next",
    "until",
)  # fmt: skip
_LAST_IDS: Final = ("startingafter", "after", "afterid", "startafter", "lastid")
_AMBIGUOUS: Final = frozenset({"start", "from", "until", "p", "pg"})
"""Parameters of pages only where they are numbers; else a date, a place or a person."""
_RANGES: Final = {"from": "to", "start": "end"}
"""Nor where they begin a range."""
_SENDABLE: Final = frozenset({*_PAGES, *_OFFSETS, *_CURSORS, "perpage", "pagesize"})
_TOKENS: Final = frozenset({
    "cursor", "after", "endcursor", "continuationtoken", "continuation", "continue", "bookmark", "marker", "scrollid",
    "lastevaluatedkey", "paginationtoken", "pagetoken", "offset", "aftercursor",
})  # fmt: skip
"""Keys of a token, besides those that begin with `next`."""
_MORE: Final = ("hasmore", "hasnextpage", "hasnext", "more", "moreresults", "moreavailable", "moreitemsincollection",
                "istruncated", "truncated", "hasmoreitems", "hasmoreresults", "hasmorepages", "morepages")  # fmt: skip
_LAST: Final = ("islast", "last", "islastpage")
_PAGE_COUNTS: Final = ("totalpages", "pagecount", "pages", "numpages", "lastpage", "pagestotal", "totalpagecount",
                       "nbpages", "maxpage")  # fmt: skip
_ITEM_COUNTS: Final = (
    "total", "totalcount", "totalresults", "totalitems", "totalrecords", "totalentries", "totalelements", "totalsize",
    "totalhits", "totalrows", "nbhits", "numfound", "odatacount", "recordcount", "itemcount", "resultcount", "count",
)  # fmt: skip
_ITEMS: Final = ("data", "items", "results", "records", "entries", "value", "values", "list", "rows", "hits")
_CURRENT: Final = ("page", "currentpage", "pagenumber", "number", "pageindex", "pageno")
_HEADERS: Final = {
    "x-total-count": "total", "x-total": "total", "x-wp-total": "total", "x-total-pages": "totalpages",
    "x-wp-totalpages": "totalpages", "x-page": "page", "x-next-page": "nextpage", "x-next-cursor": "nextcursor",
}  # fmt: skip
_CONTAINER: Final = re.compile(
    r"pag(e|in)|meta|links?$|cursor|info$|^(next|response|result|data|additionaldata|d|list)"
)
"""Objects of a body that may say where the next page is."""


class Following(NamedTuple):
    """The page after a reply."""

    query: str | None = None
    """`None` after the last."""
    unread: str | None = None
    """How the reply says that there is more, where no query asks for it."""


def is_paged(parameters: Mapping[str, Json], has_link: bool, reply_keys: Collection[str] = ()) -> bool:
    """Whether an operation has pages; `parameters` are schemas by name in the API."""
    names = _page_parameters(parameters).keys()
    return has_link or not _SENDABLE.isdisjoint(names) or any(_is_next(_plain(key)) for key in reply_keys)


def following_page(
    headers: Mapping[str, Value], body: Json, sent: str, page_query: str, parameters: Mapping[str, Json]
) -> Following:
    """The page after the reply to the query `sent`; `page_query` is that of this page, empty for the first."""
    facts, items = _facts(headers, body), _items(body)
    url = _next_url(str(headers.get("link", "")), facts)
    if url is not None:
        query = url.partition("#")[0].partition("?")[2]
        following = Following(query) if query else Following(unread="the next page is at another address")
    else:
        following = _ReplyPage(facts, items, sent, page_query, parameters).following()
    if following.query is None or with_next(sent, split_progress(following.query)[0]) != with_next(sent, ""):
        return following
    # At the end of a feed, a cursor may lead back to its own page; before that, it hides the rest.
    return Following(unread="the next page that the reply names is the same page") if items else Following()


def query_schemas(arguments: Collection[Argument], input_schema: Mapping[str, Json]) -> dict[str, Json]:
    """Schemas of the query by name in the API; those within a `deepObject` each have one: `page[number]`."""
    properties, schemas = input_schema.get("properties", {}), dict[str, Json]()
    for argument in arguments:
        if argument.place != "query":
            continue
        schema = properties.get(argument.name)
        inner = schema.get("properties") if isinstance(schema, Mapping) and argument.style == "deepObject" else None
        if isinstance(inner, Mapping):
            schemas.update({f"{argument.wire}[{name}]": subschema for name, subschema in inner.items()})
        else:
            schemas[argument.wire] = schema
    return schemas


def split_progress(page_query: str) -> tuple[str, dict[str, str]]:
    """What is sent of a page's query, and what is not."""
    query, _, progress = page_query.partition("#")
    return query, dict(parse_qsl(progress, keep_blank_values=True))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_next(name: str) -> bool:
    return name.startswith("next") or name.endswith("nextlink")


def _page_parameters(parameters: Mapping[str, Json]) -> dict[str, str]:
    """Names in the API by plain name, without those that are dates."""
    names: dict[str, str] = {}
    for name, declaration in parameters.items():
        schema = declaration if isinstance(declaration, Mapping) else {}
        is_date = str(schema.get("format")).startswith("date") or _RANGES.get(name) in parameters
        if not is_date and (_plain(name) not in _AMBIGUOUS or schema.get("type") in ("integer", "number")):
            names.setdefault(_plain(name), name)
    return names


def _next_url(link: str, facts: Mapping[str, Json]) -> str | None:
    for url, words in _LINK.findall(link):
        if _NEXT.search(words[:_MOST_CHARACTERS]):
            return str(url)
    for name, text in facts.items():
        if _is_next(name) and not name.endswith(("token", "cursor")) and isinstance(text, str) and _URL.match(text):
            return text
    return None


def _facts(headers: Mapping[str, Value], body: Json) -> dict[str, Json]:
    """What headers and body say of pages, by plain name; what stands further out counts more."""
    facts: dict[str, Json] = {
        name: int(text) if text.isdecimal() and len(text) < 20 else text
        for header, name in _HEADERS.items()
        if isinstance(text := headers.get(header), str)
    }
    level: list[tuple[str, Json]] = [("", body)]
    with contextlib.suppress(msgspec.DecodeError):
        level.insert(0, ("", msgspec.json.decode(str(headers.get("x-pagination", "")))))
    for _ in range(_DEEPEST):
        inner: list[tuple[str, Json]] = []
        for prefix, part in level:
            for key, value in list(part.items())[:_MOST_KEYS] if isinstance(part, Mapping) else ():
                name = _plain(str(key))
                if isinstance(value, Mapping) and _CONTAINER.search(name):
                    inner.append(("next" if name == "next" else "", value))
                elif isinstance(value, list) and name in ("links", "link"):
                    inner += [("", {"next": entry.get("href")}) for entry in value if _leads_on(entry)]
                elif not isinstance(value, Mapping | list):
                    facts.setdefault(prefix + name, value)
        level = inner
    return facts


def _leads_on(entry: Json) -> bool:
    """An entry of `[{"rel": "next", "href": ...}]`."""
    return isinstance(entry, Mapping) and entry.get("rel") == "next"


def _items(body: Json) -> list[Json] | None:
    """The list that the page consists of: one with the usual name, else the longest."""
    if isinstance(body, list):
        return body
    level: list[Mapping[str, Json]] = [body] if isinstance(body, Mapping) else []
    for _ in range(3):
        pairs = [(str(key).lower(), value) for part in level for key, value in list(part.items())[:_MOST_KEYS]]
        lists = [(name, value) for name, value in pairs if isinstance(value, list)]
        if lists:
            return max(lists, key=lambda pair: (pair[0] in _ITEMS, len(pair[1])))[1]
        level = [value for _, value in pairs if isinstance(value, Mapping)]
    return None


class _ReplyPage:
    """One page, read for what comes after it."""

    def __init__(
        self, facts: Mapping[str, Json], items: list[Json] | None, sent: str, page_query: str,
        parameters: Mapping[str, Json],
    ) -> None:  # fmt: skip
        self._facts, self._items, self._count = facts, items or [], len(items or ())
        self._is_list = items is not None
        self._sent = dict(parse_qsl(sent))
        self._parameters, self._schemas = _page_parameters(parameters), parameters
        self._progress = split_progress(page_query)[1]
        self._is_from_link = bool(page_query) and not self._progress
        more, last = self._flag(_MORE), self._flag(_LAST)
        self._has_more = not last if more is None and last is not None else more

    def following(self) -> Following:
        if self._has_more is False:
            return Following()
        token = self._by_token()
        if token is not None:
            return token
        is_end = any(_is_next(name) and value in (None, "", False) for name, value in self._facts.items())
        if self._has_more is None and (is_end or self._is_from_link):
            return Following()
        ways = (self._by_number(_PAGES), self._by_number(_OFFSETS), self._by_last_item())
        return next((way for way in ways if way is not None), None) or Following(unread=self._unread())

    def _by_token(self) -> Following | None:
        """By a token in the reply; a plain name such as `cursor` may be an echo of what was sent."""
        for name, token in sorted(self._facts.items(), key=lambda fact: not _is_next(fact[0])):
            if isinstance(token, bool) or not isinstance(token, str | int) or token in ("", 0):
                continue
            is_echo = name not in _TOKENS or isinstance(token, int) or token.isdecimal()
            parameter = self._taker(name, token) if _is_next(name) or not is_echo else None
            if parameter is not None and (_is_next(name) or self._sent.get(parameter) != str(token)):
                return Following(urlencode({parameter: str(token)}))
        return None

    def _taker(self, name: str, token: str | int) -> str | None:
        """The parameter for a token: one with its name, else the operation's cursor, page or offset."""
        bare = re.sub(r"^(next|end)(page)?", "", name)
        names = [name, *([f"page{bare}", bare] if bare and bare != "token" else [f"page{bare}"] if bare else [])]
        is_number = isinstance(token, int) or token.isdecimal()
        families: tuple[str, ...] = (*_PAGES, *_OFFSETS, *_CURSORS) if is_number else _CURSORS
        if "offset" in name or "start" in name:
            families = (*_OFFSETS, *_CURSORS)
        return self._find((*names, *families))

    def _by_last_item(self) -> Following | None:
        """By `has_more` and the id of the last item, as Stripe has it."""
        parameter, last = self._find(_LAST_IDS), self._items[-1] if self._items else None
        if not self._has_more or parameter is None or not isinstance(last, Mapping):
            return None
        return Following(urlencode({parameter: str(last["id"])})) if isinstance(last.get("id"), str | int) else None

    def _by_number(self, family: Sequence[str]) -> Following | None:
        """By counting pages or items."""
        parameter = self._find(family)
        if parameter is None or not self._count:
            return None
        is_offset = family is _OFFSETS
        position, first = self._position(parameter, is_offset=is_offset)
        limit = self._number(_LIMITS)
        step = max(limit or 0, self._count) if is_offset else 1
        seen = self._seen(position - first, is_offset=is_offset)
        pages, total = self._number(_PAGE_COUNTS), self._total()
        guess: dict[str, str] = {}
        if pages is not None and not is_offset:
            remains = position - first + 1 < pages
        elif total is not None and (is_offset or limit):
            remains = position - first + step < total if is_offset else (position - first + 1) * (limit or 1) < total
        elif total is not None and seen is not None:
            remains = seen < total
        else:
            remains = self._has_more is True or self._is_full()
            guess = {} if self._has_more else {"guess": "1"}
        if not remains:
            return None
        progress = {"first": str(first), **({} if seen is None else {"seen": str(seen)}), **guess}
        return Following(f"{urlencode({parameter: position + step})}#{urlencode(progress)}")

    def _position(self, parameter: str, *, is_offset: bool) -> tuple[int, int]:
        """Number of this page or of its first item, and that of the first of all."""
        schema = self._schemas.get(parameter)
        schema = schema if isinstance(schema, Mapping) else {}
        usual = next((schema[key] for key in ("default", "minimum") if isinstance(schema.get(key), int)), None)
        echo = self._number((_plain(parameter), *(_OFFSETS if is_offset else _CURRENT)))
        own = _as_number(self._sent.get(parameter))
        start = next((number for number in (echo, usual) if number is not None), 0 if is_offset else 1)
        position = start if own is None else own
        first = usual if own is not None else position
        if first not in (0, 1):
            first = 0 if is_offset or position == 0 else 1
        recorded = _as_number(self._progress.get("first"))
        return position, min(first if recorded is None else recorded, position)

    def _seen(self, before: int, *, is_offset: bool) -> int | None:
        """Items up to the end of this page; `None` if the reading began somewhere in the middle."""
        recorded = _as_number(self._progress.get("seen"))
        if recorded is not None:
            return recorded + self._count
        return before + self._count if is_offset or not before else None

    def _is_full(self) -> bool:
        """As many items as were asked for, so that a reply without a word of more may have more."""
        names = [self._parameters[name] for name in _LIMITS if name in self._parameters]
        schemas = (self._schemas.get(name) for name in names)
        usual = (schema.get("default") for schema in schemas if isinstance(schema, Mapping))
        limits = [*(_as_number(self._sent.get(name)) for name in names), *usual]
        return next((limit for limit in limits if isinstance(limit, int)), -1) == self._count

    def _unread(self) -> str | None:
        """How a reply without a way to the next page says that there is one."""
        if self._has_more:
            return "the reply says that there is more, and not how to ask for it"
        if any(_is_next(name) and isinstance(value, str | int) and value for name, value in self._facts.items()):
            return "the reply names a next page that no parameter asks for"
        pages, total = self._number(_PAGE_COUNTS), self._total()
        page = self._number(_CURRENT)
        seen = (_as_number(self._progress.get("seen")) or 0) + self._count
        if pages is not None and self._find(_PAGES) is None and page is not None and page < pages:
            return f"the reply is page {page} of {pages}, and no parameter asks for another"
        is_counted = not self._sent.keys() & {self._parameters.get(name) for name in (*_PAGES, *_OFFSETS, *_CURSORS)}
        if pages is None and total is not None and self._is_list and seen < total and (is_counted or self._progress):
            return f"it has {total} items, and {seen} of them were read"
        return None

    def _find(self, names: Sequence[str]) -> str | None:
        return next((self._parameters[name] for name in names if name in self._parameters), None)

    def _flag(self, names: Sequence[str]) -> bool | None:
        return next((value for name in names if isinstance(value := self._facts.get(name), bool)), None)

    def _number(self, names: Sequence[str]) -> int | None:
        values = (self._facts.get(name) for name in names)
        return next((value for value in values if type(value) is int and value >= 0), None)

    def _total(self) -> int | None:
        """Items of all pages; a `count` of as many as were asked for is the limit."""
        limits = {_as_number(self._sent.get(self._parameters.get(name, ""))) for name in _LIMITS}
        total = self._number(_ITEM_COUNTS)
        return None if total is not None and total == self._number(("count",)) and total in limits else total


def _as_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


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
        elif argument is None and _plain(wire) not in _SENDABLE:
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
