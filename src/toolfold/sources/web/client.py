"""HTTP client of one API: allow-list, secrets, redirects, size limit. Every request of a source uses it.

The secret is added below every library that logs, and only to requests to its own origin. A redirect is followed to
another host only where that is named, without the secret, and only if nothing can happen twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode, urljoin

import httpx2
import msgspec

from toolfold.errors import ToolError, ToolRefused, UsageError
from toolfold.models import MIB, Json, Media, ToolSpec, Value
from toolfold.sources.shell_commands import ENVIRONMENT
from toolfold.sources.web.credentials import ApiAuth, Credentials, SecretMasker, WebReply, WebRequest
from toolfold.sources.web.guarded_network import (
    AddressRefused,
    GuardedTransport,
    Hosts,
    Origin,
    Resolve,
    host_entry,
    is_public_name,
    origin_of,
    read_url,
    system_resolve,
)
from toolfold.sources.web.reply_values import headers_of, read_reply
from toolfold.tools.router_steps import PerLoop
from toolfold.tools.tool import Tool

MAX_BYTES: Final = 10 * MIB
_MOST_REDIRECTS: Final = 5
_CONNECT_SECONDS: Final = 10.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SAFE: Final = frozenset({"GET", "HEAD"})
_UNASKED: Final = frozenset({"set-cookie", "set-cookie2"})


class WebClient:
    """Client for named hosts; `auth` and `headers` go by origin, `secrets` are further values to mask."""

    def __init__(
        self, hosts: Iterable[str], *, auth: Sequence[tuple[Origin, ApiAuth]] = (),
        headers: Sequence[tuple[Origin, tuple[tuple[str, str], ...]]] = (), secrets: Iterable[str] = (),
        max_bytes: int = MAX_BYTES, resolve: Resolve = system_resolve,
    ) -> None:  # fmt: skip
        self.hosts = Hosts([*hosts, *(host_entry(server.token_url) for _, server in auth if server.token_url)])
        self.masker = SecretMasker(secrets)
        self._max_bytes = max_bytes
        self._headers = dict(headers)
        self._transports = PerLoop(lambda: GuardedTransport(self.hosts, resolve))
        environment = {key: os.environ[key] for key in ENVIRONMENT if key in os.environ}
        self._credentials = {
            origin: Credentials(origin_auth, self.masker, self._send_plain, environment) for origin, origin_auth in auth
        }

    async def send(self, request: WebRequest) -> WebReply:
        """The reply, whatever its status, without secrets.

        Raises:
            ToolRefused: nobody named the host; nothing was sent.
            ToolError: no reply came; `nothing_ran` says whether the request may have arrived.
        """
        for _ in range(_MOST_REDIRECTS + 1):
            reply = await self._send_renewing(request)
            redirect = self._redirect(request, reply)
            if redirect is None:
                return self._mask_reply(reply)
            request = redirect
        raise ToolError(f"redirected more than {_MOST_REDIRECTS} times")

    async def close(self) -> None:
        """Close idle connections; the next request opens new ones."""
        transport = self._transports.take()
        if transport is not None:
            await transport.aclose()

    # one request

    async def _send_renewing(self, request: WebRequest) -> WebReply:
        """Send once more with a new secret where the old one is refused: a refused request did nothing."""
        origin = origin_of(self._check_url(request.url))
        credentials = self._credentials.get(origin)
        reply = await self._send_once(request, origin, credentials)
        if reply.status != httpx2.codes.UNAUTHORIZED or credentials is None or not credentials.can_renew:
            return reply
        credentials.forget()
        return await self._send_once(request, origin, credentials)

    async def _send_once(self, request: WebRequest, origin: Origin, credentials: Credentials | None) -> WebReply:
        own_headers = self._headers.get(origin, ())
        headers, query = ((), ()) if credentials is None else await credentials.parts()
        if credentials is not None and credentials.is_cookie:
            # One header has all cookies; those of the program and of the operator's headers stay.
            cookies = [text for name, text in (*request.headers, *own_headers) if name.lower() == "cookie"]
            headers = (("Cookie", "; ".join([*cookies, *(text for _, text in headers)])),)
            own_headers = tuple(pair for pair in own_headers if pair[0].lower() != "cookie")
        operator_names = {name.lower() for name, _ in (*own_headers, *headers)}
        # What the operator sends counts more than what a program sends.
        program_headers = tuple(pair for pair in request.headers if pair[0].lower() not in operator_names)
        return await self._send_plain(
            replace(request, url=_with_query(request.url, query), headers=(*program_headers, *own_headers, *headers))
        )

    async def _send_plain(self, request: WebRequest) -> WebReply:
        url = self._check_url(request.url)
        try:
            http_request = httpx2.Request(
                request.method, url,
                headers=[("Accept-Encoding", "gzip, deflate"), ("User-Agent", "toolfold"), *request.headers],
                content=request.content, extensions={"timeout": {"connect": _CONNECT_SECONDS}},
            )  # fmt: skip
            return await self._read(await self._transports.get().handle_async_request(http_request))
        except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
            raise ToolRefused(self.masker.mask_text(f"the request cannot be sent: {error}")) from None
        except httpx2.TransportError as error:
            raise self._failure(error, origin_of(url).host) from None

    async def _read(self, response: httpx2.Response) -> WebReply:
        content = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > self._max_bytes:
                    raise ToolError(f"the reply has more than {self._max_bytes:,} bytes")
        except httpx2.DecodingError as error:
            raise ToolError("the reply is not compressed as it says") from error
        finally:
            await response.aclose()
        headers = tuple((key.lower(), value) for key, value in response.headers.multi_items() if key not in _UNASKED)
        return WebReply(
            status=response.status_code, reason=response.reason_phrase, headers=headers, content=bytes(content)
        )

    def _failure(self, error: httpx2.TransportError, host: str) -> ToolError:
        """Error without the library's own text, which may hold the URL."""
        if isinstance(error.__cause__, AddressRefused):
            return ToolRefused(str(error.__cause__))
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
            failure = ToolError(f"{host!r} cannot be reached: {self.masker.mask_text(str(error)) or 'no answer'}")
            failure.nothing_ran = True
        else:
            failure = ToolError(f"the connection to {host!r} was lost: {type(error).__name__}")
        failure.tool_unavailable = True
        return failure

    # where it may lead

    def _check_url(self, url: str) -> httpx2.URL:
        try:
            parsed = read_url(url)
        except ValueError as error:
            raise ToolRefused(self.masker.mask_text(f"the URL {error}")) from None
        host = origin_of(parsed).host
        if not self.hosts.permits(origin_of(parsed)):
            raise ToolRefused(f"{host!r} is not among the hosts that the config names")
        return parsed

    def _redirect(self, request: WebRequest, reply: WebReply) -> WebRequest | None:
        """The request that a redirect asks for; `None` for any other reply."""
        location = reply.header("location")
        if reply.status not in _REDIRECTS or not location:
            return None
        origin = origin_of(request.url)
        try:
            url = urljoin(request.url, location)
            target = origin_of(url)
        except ValueError:
            raise ToolRefused("the API redirected to what is no URL") from None
        if target == origin:
            return _redirected_request(request, url, reply.status)
        if not self.hosts.permits(target) or (request.method not in _SAFE and reply.status != httpx2.codes.SEE_OTHER):
            host = self.masker.mask_text(target.host)
            raise ToolRefused(
                f"the API redirected to {host!r}, which is not followed; name it in 'hosts' if it is meant"
            )
        return replace(_redirected_request(request, url, reply.status), headers=_harmless_headers(request.headers))

    def _mask_reply(self, reply: WebReply) -> WebReply:
        """Mask headers and reason; the content is masked once it is decoded, for it may be escaped."""
        clean = self.masker.mask_text
        headers = tuple((clean(key), clean(value)) for key, value in reply.headers)
        return replace(reply, reason=clean(reply.reason), headers=headers)


def _with_query(url: str, query: tuple[tuple[str, str], ...]) -> str:
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _redirected_request(request: WebRequest, url: str, status: int) -> WebRequest:
    """Follow as browsers do: only 307 and 308 keep a method that changes things."""
    url = url.partition("#")[0]
    if request.method in _SAFE or status in (307, 308):
        return replace(request, url=url)
    headers = tuple(pair for pair in request.headers if not pair[0].lower().startswith("content-"))
    return replace(request, url=url, method="GET", content=None, headers=headers)


def _harmless_headers(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Headers of a program that another host may read."""
    return tuple(pair for pair in headers if pair[0].lower() in ("accept", "accept-language"))


# ----------------------------------------------------------------------------------------------------
# Tool `fetch`: one request to a host that the operator named. For programs, which have no network of their own.

TIMEOUT_SECONDS: Final = 60.0
_NOT_FOR_PROGRAMS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "cookie"})
_NO_SECRETS: Final[Mapping[str, ApiAuth]] = {}


def fetch_tool(
    hosts: Sequence[str], *, methods: Sequence[str] = ("GET",), max_bytes: int = MAX_BYTES,
    timeout_seconds: float = TIMEOUT_SECONDS, secrets: Mapping[str, ApiAuth] = _NO_SECRETS,
) -> Tool:  # fmt: skip
    """The tool, for these hosts and methods; `secrets` are credentials by host. `UsageError` if an entry is no host."""
    auth = [(_origin(host), host_auth) for host, host_auth in secrets.items()]
    client = WebClient([*hosts, *secrets], auth=auth, max_bytes=max_bytes)

    # Any: the body is whatever the host answers.
    async def call(arguments: Mapping[str, Any]) -> dict[str, Value]:
        reply = await client.send(_request(arguments))
        body = await read_reply(reply, client.masker)
        return {"status": reply.status, "headers": headers_of(reply), "body": body}

    spec = ToolSpec(
        name="fetch", python_name="fetch",
        description=f"Ask a URL of {', '.join(hosts)}. A status of 400 or above is an error.",
        input_schema=_input_schema(methods), output_schema=_OUTPUT_SCHEMA, read_only=_SAFE.issuperset(methods),
        timeout_seconds=timeout_seconds, source="fetch",
    )  # fmt: skip
    return Tool(spec=spec, call=call, close=client.close)


def _origin(host: str) -> Origin:
    """Origin that the secret of a host goes to: over HTTPS unless it is this machine."""
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
