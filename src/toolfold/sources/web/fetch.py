"""The tool `fetch`: one request to a host that the operator named. For programs, which have no network of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from toolfold.errors import ToolRefused, UsageError
from toolfold.models import Json, Media, ToolSpec, Value
from toolfold.sources.web.bodies import headers_of, read_reply
from toolfold.sources.web.client import MAX_BYTES, WebClient
from toolfold.sources.web.credentials import Auth
from toolfold.sources.web.hosts import Origin, is_public_name, origin_of
from toolfold.sources.web.messages import WebRequest
from toolfold.tools.tool import Tool

TIMEOUT_SECONDS: Final = 60.0
_SAFE: Final = frozenset({"GET", "HEAD"})
_NOT_FOR_PROGRAMS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "cookie"})
_NO_SECRETS: Final[Mapping[str, Auth]] = {}


def fetch_tool(
    hosts: Sequence[str],
    *,
    methods: Sequence[str] = ("GET",),
    max_bytes: int = MAX_BYTES,
    timeout_seconds: float = TIMEOUT_SECONDS,
    secrets: Mapping[str, Auth] = _NO_SECRETS,
) -> Tool:
    """The tool, for these hosts and methods; `secrets` say how each host is told who calls.

    Raises:
        UsageError: an entry is not a host.
    """
    auth = [(_origin(host), one) for host, one in secrets.items()]
    client = WebClient([*hosts, *secrets], auth=auth, max_bytes=max_bytes)

    # Any: the body is whatever the host answers.
    async def call(arguments: Mapping[str, Any]) -> dict[str, Value]:
        reply = await client.send(_request(arguments))
        body = await read_reply(reply, client.echoes)
        return {"status": reply.status, "headers": headers_of(reply), "body": body}

    spec = ToolSpec(
        name="fetch",
        python_name="fetch",
        description=f"Ask a URL of {', '.join(hosts)}. A status of 400 or above is an error.",
        input_schema=_input_schema(methods),
        output_schema=_OUTPUT_SCHEMA,
        read_only=_SAFE.issuperset(methods),
        timeout_seconds=timeout_seconds,
        source="fetch",
    )
    return Tool(spec=spec, call=call, close=client.close)


def _origin(host: str) -> Origin:
    """Where the secret of a host goes: over HTTPS unless it is this machine."""
    try:
        origin = origin_of(f"https://{host}")
    except ValueError as error:
        raise UsageError(f"secrets: {host!r} {error}") from None
    return origin if is_public_name(origin.host) else origin_of(f"http://{host}")


def _request(arguments: Mapping[str, Any]) -> WebRequest:
    headers = [*(arguments.get("headers") or {}).items()]
    for name, value in headers:
        if name.lower() in _NOT_FOR_PROGRAMS or any(sign in f"{name}{value}" for sign in "\r\n\0"):
            raise ToolRefused(f"the header {name!r} cannot be sent")
    content, mime = _content(arguments.get("body"))
    if mime and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", mime))
    return WebRequest(
        method=arguments.get("method", "GET"), url=arguments["url"], headers=tuple(headers), content=content
    )


def _content(body: Value) -> tuple[bytes | None, str]:
    match body:
        case None:
            return None, ""
        case str():
            return body.encode(), "text/plain; charset=utf-8"
        case bytes():
            return body, "application/octet-stream"
        case Media():
            return body.data, body.mime
    return msgspec.json.encode(body), "application/json"


def _input_schema(methods: Sequence[str]) -> dict[str, Json]:
    properties: dict[str, Json] = {
        "url": {"type": "string", "description": "Whole, with its query."},
        "method": {"enum": list(methods), "default": methods[0]},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    if not _SAFE.issuperset(methods):
        properties["body"] = {"description": "Text, bytes, or anything else as JSON."}
    if len(methods) == 1:
        del properties["method"]
    return {"type": "object", "properties": properties, "required": ["url"], "additionalProperties": False}


_OUTPUT_SCHEMA: Final[Mapping[str, Json]] = {
    "type": "object",
    "title": "Fetched",
    "properties": {
        "status": {"type": "integer"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "body": {"description": "JSON parsed, text as text, all else as bytes."},
    },
    "required": ["status", "headers", "body"],
}
