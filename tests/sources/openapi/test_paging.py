"""All pages of a list, in the styles of public APIs: three pages each, or an error that says what was not read."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import toolfold
from tests.sources.openapi.serving import Answer, Asked, Serving
from toolfold.sources.openapi.source import openapi_tools

ROWS = [{"id": number} for number in range(1, 51)]
SIZE = 20
PAGES = [ROWS[:20], ROWS[20:40], ROWS[40:]]


@dataclass
class Style:
    parameters: dict[str, Any]
    answer: Callable[[dict[str, str], int], Any]
    """Body, or body and headers, of a query; the second argument is the number of the page from 0."""
    start: Callable[[dict[str, str]], int]
    """Which page, from 0, a query asks for."""
    arguments: dict[str, Any] = field(default_factory=dict)


NUMBER, TEXT = {"type": "integer"}, {"type": "string"}


def numbered(name="page", first=1):
    return lambda query: int(query.get(name, first)) - first


def counted(name="offset", first=0):
    return lambda query: (int(query.get(name, first)) - first) // SIZE


def tokened(name):
    return lambda query: int(query[name].removeprefix("t")) if name in query else 0


def rows(at):
    return PAGES[at] if at < len(PAGES) else []


def token(at):
    return f"t{at + 1}" if at < 2 else None


def linked(at, url="https://x.example/l?page={}"):
    return url.format(at + 2) if at < 2 else None


def only(**values):
    """Without what is `None`, as many APIs leave it out."""
    return {key: value for key, value in values.items() if value is not None}


STYLES = {
    "page and total_pages": Style({"page": NUMBER}, lambda q, at: {"data": rows(at), "page": at + 1, "total_pages": 3}, numbered()),
    "page and total_pages without an echo": Style({"page": NUMBER}, lambda q, at: {"data": rows(at), "total_pages": 3}, numbered()),
    "pageNumber and pageCount in meta": Style({"pageNumber": NUMBER}, lambda q, at: {"items": rows(at), "meta": {"pageCount": 3}}, numbered("pageNumber")),
    "Spring, from 0": Style({"page": {**NUMBER, "default": 0}}, lambda q, at: {"content": rows(at), "number": at, "totalPages": 3, "last": at == 2}, numbered(first=0)),
    "from 0 by its echo": Style({"page": NUMBER}, lambda q, at: {"content": rows(at), "page": {"number": at, "totalPages": 3}}, numbered(first=0)),
    "from 0 by its minimum": Style({"page": {**NUMBER, "minimum": 0}}, lambda q, at: {"content": rows(at), "total_pages": 3}, numbered(first=0)),
    "Laravel": Style({"page": NUMBER}, lambda q, at: {"data": rows(at), "current_page": at + 1, "last_page": 3}, numbered()),
    "meta.pagination": Style({"page": NUMBER}, lambda q, at: {"data": rows(at), "meta": {"pagination": {"page": at + 1, "pages": 3}}}, numbered()),
    "Cloudflare": Style({"page": NUMBER, "per_page": NUMBER}, lambda q, at: {"result": rows(at), "result_info": {"page": at + 1, "per_page": SIZE, "total_count": 50}}, numbered()),
    "page and total": Style({"page": NUMBER, "per_page": NUMBER}, lambda q, at: {"items": rows(at), "total": 50}, numbered()),
    "page and has_more": Style({"page": NUMBER}, lambda q, at: {"items": rows(at), "has_more": at < 2}, numbered()),
    "offset, limit and total": Style({"offset": NUMBER, "limit": NUMBER}, lambda q, at: {"items": rows(at), "offset": at * SIZE, "limit": SIZE, "total": 50}, counted()),
    "offset and total without echoes": Style({"offset": NUMBER, "limit": NUMBER}, lambda q, at: {"items": rows(at), "total": 50}, counted()),
    "offset of which the server takes fewer": Style({"offset": NUMBER, "limit": NUMBER}, lambda q, at: {"items": rows(at), "total": 50}, counted(), {"limit": 100}),
    "Jira": Style({"startAt": NUMBER, "maxResults": NUMBER}, lambda q, at: {"issues": rows(at), "startAt": at * SIZE, "maxResults": SIZE, "total": 50}, counted("startAt")),
    "SCIM, from 1": Style({"startIndex": NUMBER, "count": NUMBER}, lambda q, at: {"Resources": rows(at), "startIndex": at * SIZE + 1, "itemsPerPage": len(rows(at)), "totalResults": 50}, counted("startIndex", 1)),
    "$skip and @odata.count": Style({"$skip": NUMBER, "$top": NUMBER}, lambda q, at: {"value": rows(at), "@odata.count": 50}, counted("$skip")),
    "offset and has_more": Style({"offset": NUMBER}, lambda q, at: {"items": rows(at), "hasMore": at < 2}, counted()),
    "Pipedrive": Style({"start": NUMBER}, lambda q, at: {"data": rows(at), "additional_data": {"pagination": only(start=at * SIZE, more_items_in_collection=at < 2, next_start=at * SIZE + SIZE if at < 2 else None)}}, counted("start")),
    "DigitalOcean": Style({"page": NUMBER}, lambda q, at: {"droplets": rows(at), "links": {"pages": only(next=linked(at), last="https://x.example/l?page=3" if at < 2 else None)} if at < 2 else {}, "meta": {"total": 50}}, numbered()),
    "Link header": Style({"page": NUMBER}, lambda q, at: (rows(at), {"Link": f'<{linked(at)}>; rel="next", <https://x.example/l?page=3>; rel="last"'} if at < 2 else {}), numbered()),
    "GitLab": Style({"page": NUMBER}, lambda q, at: (rows(at), {"X-Next-Page": str(at + 2) if at < 2 else "", "X-Total": "50"}), numbered()),
    "X-Total-Count": Style({"page": NUMBER}, lambda q, at: (rows(at), {"X-Total-Count": "50"}), numbered()),
    "WordPress": Style({"page": NUMBER}, lambda q, at: (rows(at), {"X-WP-TotalPages": "3"}), numbered()),
    "X-Pagination": Style({"pageNumber": NUMBER}, lambda q, at: (rows(at), {"X-Pagination": json.dumps({"CurrentPage": at + 1, "TotalPages": 3, "HasNext": at < 2})}), numbered("pageNumber")),
    "Django": Style({"page": NUMBER}, lambda q, at: {"count": 50, "next": linked(at), "previous": None, "results": rows(at)}, numbered()),
    "a relative URL": Style({"page": NUMBER}, lambda q, at: {"results": rows(at), "next": linked(at, "?page={}")}, numbered()),
    "a URL of a path": Style({"page": NUMBER}, lambda q, at: {"results": rows(at), "next_page_url": linked(at, "/v1/l?page={}")}, numbered()),
    "HAL": Style({"page": NUMBER}, lambda q, at: {"_embedded": {"rows": rows(at)}, "_links": {"self": {"href": "/l"}, **({"next": {"href": linked(at)}} if at < 2 else {})}}, numbered()),
    "JSON:API": Style({"page[number]": NUMBER, "page[size]": NUMBER}, lambda q, at: {"data": rows(at), "links": {"next": linked(at, "https://x.example/l?page%5Bnumber%5D={}")}}, numbered("page[number]")),
    "JSON:API without links": Style({"page[number]": NUMBER, "page[size]": NUMBER}, lambda q, at: {"data": rows(at), "meta": {"total-pages": 3}}, numbered("page[number]")),
    "a list of links": Style({"page": NUMBER}, lambda q, at: {"data": rows(at), "links": [{"rel": "self", "href": "/l"}, *([{"rel": "next", "href": linked(at)}] if at < 2 else [])]}, numbered()),
    "@odata.nextLink": Style({"$top": NUMBER}, lambda q, at: only(value=rows(at), **{"@odata.nextLink": f"https://x.example/l?$skiptoken=t{at + 1}" if at < 2 else None}), tokened("$skiptoken")),
    "Azure": Style({}, lambda q, at: only(value=rows(at), nextLink=f"https://x.example/l?%24skiptoken=t{at + 1}" if at < 2 else None), tokened("$skiptoken")),
    "next_cursor": Style({"cursor": TEXT}, lambda q, at: {"data": rows(at), "next_cursor": token(at) or ""}, tokened("cursor")),
    "Slack": Style({"cursor": TEXT}, lambda q, at: {"members": rows(at), "response_metadata": {"next_cursor": token(at) or ""}}, tokened("cursor")),
    "Notion": Style({"start_cursor": TEXT}, lambda q, at: {"results": rows(at), "has_more": at < 2, "next_cursor": token(at)}, tokened("start_cursor")),
    "nextPageToken": Style({"pageToken": TEXT}, lambda q, at: only(files=rows(at), nextPageToken=token(at)), tokened("pageToken")),
    "HubSpot": Style({"after": TEXT}, lambda q, at: {"results": rows(at), **({"paging": {"next": {"after": token(at), "link": f"https://x.example/l?after={token(at)}"}}} if at < 2 else {})}, tokened("after")),
    "Airtable": Style({"offset": TEXT}, lambda q, at: only(records=rows(at), offset=token(at)), tokened("offset")),
    "Kubernetes": Style({"continue": TEXT, "limit": NUMBER}, lambda q, at: {"items": rows(at), "metadata": only(**{"continue": token(at)})}, tokened("continue")),
    "Square": Style({"cursor": TEXT}, lambda q, at: only(customers=rows(at), cursor=token(at)), tokened("cursor")),
    "page[after]": Style({"page[after]": TEXT}, lambda q, at: {"data": rows(at), "meta": {"page": only(after=token(at))}}, tokened("page[after]")),
    "GraphQL": Style({"after": TEXT}, lambda q, at: {"nodes": rows(at), "pageInfo": {"endCursor": token(at) or "t3", "hasNextPage": at < 2}}, tokened("after")),
    "AWS": Style({"Marker": TEXT}, lambda q, at: only(Users=rows(at), IsTruncated=at < 2, Marker=q.get("Marker"), NextMarker=token(at)), tokened("Marker")),
    "Stripe": Style({"starting_after": TEXT}, lambda q, at: {"data": rows(at), "has_more": at < 2}, lambda q: int(q.get("starting_after", 0)) // SIZE),
    "Anthropic": Style({"after_id": TEXT}, lambda q, at: {"data": rows(at), "has_more": at < 2, "last_id": str(rows(at)[-1]["id"])}, lambda q: int(q.get("after_id", 0)) // SIZE),
    "next_page as a number": Style({"page": NUMBER}, lambda q, at: {"data": rows(at), "meta": {"next_page": at + 2 if at < 2 else None}}, numbered()),
    "a full page and no word": Style({"page": NUMBER, "per_page": {**NUMBER, "default": SIZE}}, lambda q, at: rows(at), numbered()),
}  # fmt: skip


def read_all(tmp_path, style, program, **more):
    operation = {
        "operationId": "list",
        "parameters": [{"name": name, "in": "query", "schema": schema} for name, schema in style.parameters.items()],
        "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object", "properties": {"nextLink": TEXT}}}}}},
    }  # fmt: skip
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"openapi": "3.1.0", "paths": {"/l": {"get": operation}}}))
    queries: list[dict[str, str]] = []

    def answer(asked: Asked) -> Answer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        queries.append(query)
        answered = style.answer(query, style.start(query))
        body, headers = answered if isinstance(answered, tuple) else (answered, {})
        return Answer(body=json.dumps(body).encode(), headers=headers)

    with Serving(answer) as server:
        tools = openapi_tools(path, name="api", base_url=f"{server.url}/v1")
        outcome = toolfold.run_sync(program, tools=tools, **more)
    return outcome, queries


ALL = """
def ids(value):
    match value:
        case {"id": number}:
            yield number
        case dict():
            for item in value.values():
                yield from ids(item)
        case list():
            for item in value:
                yield from ids(item)

result = [number async for page in api_list.pages(**ARGUMENTS) for number in ids(page)]
"""


@pytest.mark.parametrize("name", STYLES)
def test_three_pages_are_read_to_the_end_in_every_style(tmp_path, name):
    style = STYLES[name]

    outcome, queries = read_all(tmp_path, style, ALL.replace("ARGUMENTS", repr(style.arguments)))

    assert (outcome.status, outcome.problem) == ("finished", None)
    assert outcome.value == [row["id"] for row in ROWS]
    assert len(queries) == 3


UNREAD = {
    "a total without a parameter for the next page": (
        Style({"per_page": NUMBER}, lambda q, at: {"items": rows(0), "total": 50}, lambda q: 0),
        "it has 50 items, and 20 of them were read",
    ),
    "pages without a parameter for them": (
        Style({"per_page": NUMBER}, lambda q, at: {"items": rows(0), "page": 1, "total_pages": 3}, lambda q: 0),
        "the reply is page 1 of 3, and no parameter asks for another",
    ),
    "has_more and nothing else": (
        Style({"per_page": NUMBER}, lambda q, at: {"items": rows(0), "has_more": True}, lambda q: 0),
        "the reply says that there is more, and not how to ask for it",
    ),
    "a token that no parameter takes": (
        Style({"per_page": NUMBER}, lambda q, at: {"items": rows(0), "next_cursor": "t1"}, lambda q: 0),
        "the reply names a next page that no parameter asks for",
    ),
    "a page at another address": (
        Style({"per_page": NUMBER}, lambda q, at: {"items": rows(0), "next": "https://x.example/l/2"}, lambda q: 0),
        "the next page is at another address",
    ),
    "an address that is none": (
        Style({"per_page": NUMBER}, lambda q, at: (rows(0), {"Link": '<https://[x>; rel="next"'}), lambda q: 0),
        "the next page is at another address",
    ),
    "a cursor that leads to its own page": (
        Style({"cursor": TEXT}, lambda q, at: {"items": rows(at), "next_cursor": "t1"}, tokened("cursor")),
        "the next page that the reply names is the same page",
    ),
    "a count that is not reached": (
        Style({"page": NUMBER}, lambda q, at: {"items": rows(at), "total": 60}, numbered()),
        "it has 60 items, and 50 of them were read",
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_more_than_can_be_read_is_an_error_and_never_a_silent_end(tmp_path, name):
    style, reason = UNREAD[name]

    outcome, _ = read_all(tmp_path, style, "for page in api_list.pages():\n    pass")

    assert outcome.status == "failed"
    assert outcome.problem.message == f"ToolError: api_list.pages() cannot read everything: {reason}"


@pytest.mark.parametrize(
    ("style", "arguments", "count"),
    [
        (STYLES["page and total_pages"], "page=2", 2),
        (STYLES["offset, limit and total"], "offset=20", 2),
        (STYLES["page and total"], "page=3", 1),
        (STYLES["page and total"], "max_pages=1", 1),
        (Style({"per_page": NUMBER}, lambda q, at: {"items": rows(0), "has_more": True}, lambda q: 0), "max_pages=1", 1),
        (Style({"page": NUMBER}, lambda q, at: {"items": [], "total": 0}, numbered()), "", 1),
        (Style({"limit": NUMBER, "page": NUMBER}, lambda q, at: {"items": rows(0), "count": 20, "limit": 30}, numbered()), "", 1),
        (Style({"from": {**TEXT, "format": "date"}, "per_page": NUMBER}, lambda q, at: {"items": rows(0)}, lambda q: 0), "", 1),
    ],
)  # fmt: skip
def test_pages_begin_and_end_where_the_program_says(tmp_path, style, arguments, count):
    outcome, _ = read_all(tmp_path, style, f"print(len([page for page in api_list.pages({arguments})]))")

    assert (outcome.problem, outcome.stdout) == (None, f"{count}\n")


def test_a_hundred_pages_are_not_taken_for_all(tmp_path):
    style = Style({"page": NUMBER}, lambda q, at: {"items": [{"id": at}], "total": 500}, numbered())

    outcome, queries = read_all(tmp_path, style, "for page in api_list.pages():\n    pass")

    assert len(queries) == 100
    assert outcome.problem.message == (
        "ToolError: api_list.pages() has read 100 pages, and there are more; pass max_pages=..."
    )
