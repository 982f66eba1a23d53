"""OpenAPI source: `openapi_tools` makes one tool of each operation of a document.

Requests go where the caller says: to `base_url`, to `hosts`, or to where the document came from. A document cannot
widen that: a server that only it names is used if nobody named another, and only at a public address.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from toolfold.errors import UsageError
from toolfold.models import ToolSpec
from toolfold.sources.openapi.document import DocumentStore, PackedSchemas, document_bytes, is_url
from toolfold.sources.openapi.operation_index import ApiIndex, Operation, domain_name
from toolfold.sources.openapi.operations import (
    NEXT_QUERY,
    WITH_RESPONSE,
    LazySchema,
    input_schema,
    output_schema,
    read_operations,
)
from toolfold.sources.openapi.paging import Following, check_next, following_page, query_schemas, split_progress
from toolfold.sources.openapi.requests import request_of
from toolfold.sources.openapi.schemas import ReferenceLookup
from toolfold.sources.web.client import MAX_BYTES, WebClient
from toolfold.sources.web.credentials import ApiAuth
from toolfold.sources.web.guarded_network import host_entry, is_public_name, origin_of
from toolfold.sources.web.reply_values import headers_of, read_reply
from toolfold.tools.arguments import argument_check
from toolfold.tools.error_text import is_secret
from toolfold.tools.tool import Globs, Tool, python_name

_log: Final = logging.getLogger(__name__)
_READ_ONLY: Final = frozenset({"get", "head", "options", "trace"})
_SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
_MOST_ISSUED: Final = 1_000
_MOST_ISSUED_CHARACTERS: Final = 8_000
"""Limits of the remembered pages of an operation that its API named; those need no check."""
_NO_SUCH_PAGE: Final = frozenset({404, 416})
_NO_HEADERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """API as its operator describes it."""

    spec: str | os.PathLike[str]
    """The document: a file or a URL."""
    name: str = ""
    """Prefix of each tool's name, and the module of all: `from tools.<name> import ...`; by default from `spec`."""
    base_url: str = ""
    """Where requests go; by default the first server of the document."""
    auth: ApiAuth | None = None
    """Credentials, sent to `base_url` only, which they need."""
    include: Sequence[str] = ()
    """Patterns of operations: their names, or `GET /repos/*`. Empty for all."""
    exclude: Sequence[str] = ()
    read_only: bool = False
    """Only operations that change nothing."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent to `base_url` with every request."""
    hosts: Sequence[str] = ()
    """Further hosts that may be reached: by redirects, and private addresses."""
    timeout_seconds: float | None = None
    """Limit of one call."""
    max_bytes: int = MAX_BYTES
    """Limit of one reply."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Values in `headers` that must not come back."""


def openapi_tools(
    spec: str | os.PathLike[str], *, name: str = "", base_url: str = "", auth: ApiAuth | None = None,
    include: Sequence[str] = (), exclude: Sequence[str] = (), read_only: bool = False,
    headers: Mapping[str, str] = _NO_HEADERS, hosts: Sequence[str] = (), timeout_seconds: float | None = None,
) -> list[Tool]:  # fmt: skip
    """One tool for each operation of an OpenAPI document; the arguments are those of `Api`.

    Raises:
        UsageError: the document cannot be read, or has nothing to call.
    """
    api = Api(
        spec=spec, name=name, base_url=base_url, auth=auth, include=include, exclude=exclude, read_only=read_only,
        headers=headers, hosts=hosts, timeout_seconds=timeout_seconds,
    )  # fmt: skip
    return api_tools(api)


def api_tools(api: Api, *, store: DocumentStore | None = None) -> list[Tool]:
    """The tools of one API; raises as `openapi_tools`."""
    label = api.name or os.path.basename(os.fspath(api.spec))
    try:
        store = store or DocumentStore()
        index = _index(document_bytes(api, store), store)
        spec = os.fspath(api.spec)
        domain = domain_name(api.name or Path(urlsplit(spec).path if is_url(spec) else spec).stem)
        base_url = _base_url(api, index)
        client = ApiClient(api, base_url, PackedSchemas(index.schemas))
    except UsageError as error:
        raise UsageError(f"API {label!r}: {error}") from error
    for warning in index.warnings:
        _log.warning("API %r: %s", label, warning)
    operations = list(_select_operations(api, domain, index.operations))
    if not operations:
        raise UsageError(f"API {label!r}: none of its {len(index.operations)} operations is included")
    return [client.tool(domain, operation) for operation in operations]


def _index(document: bytes, store: DocumentStore) -> ApiIndex:
    # Imported here: with an index at hand, nothing of YAML is needed.
    from toolfold.sources.openapi.document import read_document  # noqa: PLC0415

    index = store.get(document)
    if index is None:
        index = read_operations(read_document(document))
        store.put(document, index)
    return index


class ApiClient:
    """Client that calls the operations of one API."""

    def __init__(self, api: Api, base_url: str, lookup: ReferenceLookup) -> None:
        self._api = api
        self._base_url = base_url
        self._lookup = lookup
        origin = origin_of(base_url)
        own_headers = tuple(api.headers.items())
        trusted_url = api.base_url or (os.fspath(api.spec) if is_url(api.spec) else "")
        self._client = WebClient(
            # A server that only the document names gets no say in which private addresses are reached.
            [host_entry(trusted_url) if trusted_url else origin.host, *api.hosts],
            auth=[] if api.auth is None else [(origin, api.auth)],
            headers=[(origin, own_headers)] if own_headers else [],
            secrets=[*api.secrets, *_secret_values(api.headers)],
            max_bytes=api.max_bytes,
        )

    def tool(self, domain: str, operation: Operation) -> Tool:
        operation = self._without_auth(operation)
        name = f"{domain}_{operation.name}"
        identifier = python_name(name)
        output = operation.output_schema
        paged_note = f"\n\nAll pages: `async for page in {identifier}.pages(...)`." if operation.is_paged else ""
        spec = ToolSpec(
            name=name, python_name=identifier, domain=domain, short_name=operation.name,
            description=operation.description + paged_note,
            input_schema=LazySchema(partial(input_schema, operation, name)),
            output_schema=LazySchema(partial(output_schema, output, self._lookup)) if output else None,
            read_only=operation.method in _READ_ONLY, idempotent=operation.method in _READ_ONLY | {"put", "delete"},
            destructive=operation.method == "delete", timeout_seconds=self._api.timeout_seconds, source=f"api:{domain}",
        )  # fmt: skip
        return Tool(spec=spec, call=self._call(operation, spec), close=self._client.close)

    # Any: the body is whatever the API answers.
    def _call(self, operation: Operation, spec: ToolSpec) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
        server = self._server(operation) if operation.server else self._base_url
        issued_queries: deque[str] = deque(maxlen=_MOST_ISSUED)
        schemas = partial(query_schemas, operation.arguments, spec.input_schema)

        async def call(arguments: Mapping[str, Any]) -> Any:
            own_names = {WITH_RESPONSE, NEXT_QUERY} - {argument.name for argument in operation.arguments}
            options = {key: value for key, value in arguments.items() if key in own_names}
            request_arguments = {key: value for key, value in arguments.items() if key not in own_names}
            page_query = options.get(NEXT_QUERY) or ""
            sent_query, progress = split_progress(page_query)
            if sent_query and sent_query not in issued_queries:
                parts = argument_check(replace(spec, input_schema={**spec.input_schema, "required": []}))
                check_next(sent_query, operation.arguments, parts, tool=spec.name)
            request = request_of(operation, request_arguments, server, tool=spec.name, next_query=sent_query)
            reply = await self._client.send(request)
            headers = headers_of(reply)
            if reply.status in _NO_SUCH_PAGE and "guess" in progress:
                return {"status": reply.status, "headers": headers, "body": None, "next": None, "unread": None}
            body = await read_reply(reply, self._client.masker)
            if not options.get(WITH_RESPONSE):
                return body
            page = Following()
            if operation.method == "get":
                page = following_page(headers, body, urlsplit(request.url).query, page_query, schemas())
            if page.query is not None and len(page.query) < _MOST_ISSUED_CHARACTERS:
                issued_queries.append(split_progress(page.query)[0])
            return {"status": reply.status, "headers": headers, "body": body, "next": page.query, "unread": page.unread}

        return call

    def _server(self, operation: Operation) -> str:
        """The operation's own server where that may be reached, else that of the API."""
        own_url = urljoin(f"{self._base_url}/", operation.server)
        try:
            return own_url if self._client.hosts.permits(origin_of(own_url)) else self._base_url
        except ValueError:
            return self._base_url

    def _without_auth(self, operation: Operation) -> Operation:
        """Without the argument that carries the secret: the operator gives it, and no program may."""
        auth = self._api.auth
        if auth is None or auth.type not in ("header", "query", "cookie"):
            return operation
        secret = auth.type, auth.name.lower()
        arguments = (entry for entry in operation.arguments if (entry.place, entry.wire.lower()) != secret)
        return msgspec.structs.replace(operation, arguments=tuple(arguments))


def _select_operations(api: Api, domain: str, operations: Iterable[Operation]) -> Iterable[Operation]:
    include, exclude = Globs(api.include), Globs(api.exclude)
    for operation in operations:
        names = (operation.name, f"{domain}_{operation.name}", f"{operation.method.upper()} {operation.path}")
        is_included = not api.include or any(map(include.match_text, names))
        is_allowed = not api.read_only or operation.method in _READ_ONLY
        if is_included and is_allowed and not any(map(exclude.match_text, names)):
            yield operation


def _base_url(api: Api, index: ApiIndex) -> str:
    """Where requests go; `UsageError` if nothing says so, or the document names a server that its origin may not."""
    if api.auth is not None and not api.base_url:
        raise UsageError("'auth' needs 'base_url', which says where the secret may be sent")
    source = os.fspath(api.spec) if is_url(api.spec) else ""
    url = api.base_url or urljoin(source, index.server or "/")
    try:
        origin = origin_of(url)
    except ValueError as error:
        raise _bad_base_url(api, index, error) from None
    if not source and not api.base_url and not is_public_name(origin.host):
        raise UsageError(
            f"the document's server {origin.host!r} is at a private address; if that is meant, set 'base_url', "
            "or --api-base-url on the command line"
        )
    if source and not api.base_url and origin.host != origin_of(source).host:
        raise UsageError(f"the document comes from another host than its server {origin.host!r}; set 'base_url'")
    return url.partition("?")[0].rstrip("/")


def _bad_base_url(api: Api, index: ApiIndex, error: ValueError) -> UsageError:
    if api.base_url:
        return UsageError(f"'base_url' {error}")
    if is_url(index.server or ""):
        return UsageError(f"the document's server {error}; set 'base_url'")
    return UsageError("the document does not say where its server is; set 'base_url'")


def _secret_values(headers: Mapping[str, str]) -> list[str]:
    """Values of headers that are named like secrets, and the part of each behind `Bearer`."""
    values = [
        value for name, value in headers.items() if name.lower() in _SECRET_HEADERS or is_secret(name.replace("-", "_"))
    ]
    return [*values, *(value.partition(" ")[2] for value in values)]
