"""The bytes of a document: from a file, or from the one URL that was named."""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from toolfold.errors import ToolError, ToolFailed, ToolRefused, UsageError
from toolfold.sources.openapi.document import MAX_BYTES
from toolfold.sources.openapi.store import Copy, Store
from toolfold.sources.web.bodies import check_status
from toolfold.sources.web.client import WebClient
from toolfold.sources.web.hosts import host_entry, origin_of
from toolfold.sources.web.messages import WebReply, WebRequest

if TYPE_CHECKING:
    from toolfold.sources.openapi.source import Api

_log: Final = logging.getLogger(__name__)
_SECONDS: Final = 60.0
_NOT_MODIFIED: Final = 304


def is_url(spec: str | os.PathLike[str]) -> bool:
    """Whether a document is named by its URL."""
    return os.fspath(spec).startswith(("http://", "https://"))


def document_bytes(api: Api, store: Store) -> bytes:
    """What the document says; one from a URL is only sent again by its server if it has changed.

    Raises:
        UsageError: it cannot be read; the text says why.
    """
    if is_url(api.spec):
        # In a thread: whoever asks may be in an event loop, and needs the tools before it goes on.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _fetched(api, store)).result()
    try:
        with open(api.spec, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the document cannot be read: {(error.strerror or str(error)).lower()}") from None


async def _fetched(api: Api, store: Store) -> bytes:
    url = os.fspath(api.spec)
    copy = store.copy_of(url)
    try:
        reply = await _asked(api, url, copy)
    except (ToolError, TimeoutError) as error:
        # What a server refuses is refused; one that is not there today had it the last time.
        if copy is None or isinstance(error, ToolFailed | ToolRefused):
            raise _unfetched(error) from None
        _log.warning("the document %s cannot be fetched, so the last copy is used: %s", url.partition("?")[0], error)
        return copy.content
    except ValueError as error:
        raise UsageError(f"the document cannot be fetched: its URL {error}") from None
    if reply.status == _NOT_MODIFIED and copy is not None:
        return copy.content
    fresh = Copy(url=url, content=reply.content, etag=reply.header("etag"), modified=reply.header("last-modified"))
    if fresh != copy:
        store.keep(fresh)
    return reply.content


async def _asked(api: Api, url: str, copy: Copy | None) -> WebReply:
    origin_of(url)
    client = WebClient([host_entry(url), *api.hosts], max_bytes=MAX_BYTES)
    conditions = () if copy is None else copy.conditions
    try:
        async with asyncio.timeout(_SECONDS):
            reply = await client.send(WebRequest(method="GET", url=url, headers=(("Accept", "*/*"), *conditions)))
        if reply.status != _NOT_MODIFIED or not conditions:
            check_status(reply, client.echoes)
        return reply
    finally:
        await client.close()


def _unfetched(error: Exception) -> UsageError:
    return UsageError(f"the document cannot be fetched: {str(error) or 'no answer in time'}")
