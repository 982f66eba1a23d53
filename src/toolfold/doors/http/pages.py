"""Two pages for people: what this server is, and its API, which is there for programs, too.

Both are whole as they are sent: no script, no other host.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from toolfold.doors.http.responses import json_response
from toolfold.outcome_views import escape

_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "code,pre{font-family:monospace}pre{background:#f4f4f4;padding:.7em;overflow:auto}"
    "summary{cursor:pointer}details{margin:.6em 0}b{display:inline-block;min-width:4.5em}"
)
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def add_pages(app: FastAPI, base_path: str, version: str) -> None:
    """`/openapi.json`; `/` and `/docs`, which say nothing that it does not."""
    one_at_a_time = asyncio.Lock()

    # Not coroutines of a class: they share nothing but the app.
    async def index(_: Request) -> Response:
        return _page("toolfold", "".join(_index(base_path, version)))

    # In another thread: it is made when it is first asked for, and others are served meanwhile.
    async def made() -> dict[str, Any]:
        async with one_at_a_time:
            return await asyncio.to_thread(app.openapi)

    async def document(_: Request) -> Response:
        return json_response(200, await made())

    async def docs(_: Request) -> Response:
        return _page("toolfold API", "".join(_docs(await made(), base_path)))

    app.add_api_route(base_path or "/", index, methods=["GET"], include_in_schema=False)
    if base_path:
        app.add_api_route(f"{base_path}/", index, methods=["GET"], include_in_schema=False)
    app.add_api_route(f"{base_path}/docs", docs, methods=["GET"], include_in_schema=False)
    app.router.add_route(f"{base_path}/openapi.json", document, include_in_schema=False)


def _page(title: str, body: str) -> Response:
    text = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>{body}'
    return Response(text, media_type="text/html", headers=_HEADERS)


def _index(base_path: str, version: str) -> Iterator[str]:
    yield f"<h1>toolfold {escape(version)}</h1>"
    yield "<p>This server runs programs that language models write, in a sandbox, and calls their tools.</p><ul>"
    for path, text in (
        ("/docs", "the API, for people"),
        ("/openapi.json", "the API, for programs"),
        ("/health", "whether the process answers"),
        ("/ready", "whether it takes programs"),
    ):
        yield f'<li><a href="{base_path}{path}">{base_path}{path}</a>: {text}</li>'
    yield "</ul>"


# Any, here and below: parts of an OpenAPI document.
def _docs(document: Mapping[str, Any], base_path: str) -> Iterator[str]:
    yield f"<h1>API</h1><p>As one document: <a href='{base_path}/openapi.json'>{base_path}/openapi.json</a></p>"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(method, path, operation)
    yield "<h2>Schemas</h2>"
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        yield f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{_markup(schema)}</details>"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    summary = escape(operation.get("summary", ""))
    yield f"<details><summary><b>{method.upper()}</b><code>{escape(path)}</code> {summary}</summary>"
    if text := operation.get("description"):
        yield f"<p>{escape(text)}</p>"
    for title, key in (("Parameters", "parameters"), ("Body", "requestBody"), ("Responses", "responses")):
        if part := operation.get(key):
            yield f"<h4>{title}</h4>{_markup(part)}"
    yield "</details>"


def _markup(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1, ensure_ascii=False))}</pre>"
