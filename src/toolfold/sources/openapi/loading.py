"""The bytes of a document: from a file, or from the one URL that was named."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from toolfold.errors import ToolError, UsageError
from toolfold.sources.openapi.document import MAX_BYTES
from toolfold.sources.web.bodies import check_status
from toolfold.sources.web.client import WebClient
from toolfold.sources.web.hosts import origin_of
from toolfold.sources.web.messages import WebRequest

if TYPE_CHECKING:
    from toolfold.sources.openapi.source import Api

_SECONDS: Final = 60.0


def is_url(spec: str | os.PathLike[str]) -> bool:
    """Whether a document is named by its URL."""
    return os.fspath(spec).startswith(("http://", "https://"))


def document_bytes(api: Api) -> bytes:
    """What the document says.

    Raises:
        UsageError: it cannot be read; the text says why.
    """
    if is_url(api.spec):
        # In a thread: whoever asks may be in an event loop, and needs the tools before it goes on.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _fetched(api)).result()
    try:
        with open(api.spec, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the document cannot be read: {(error.strerror or str(error)).lower()}") from None


async def _fetched(api: Api) -> bytes:
    url = os.fspath(api.spec)
    client = WebClient([urlsplit(url).netloc, *api.hosts], max_bytes=MAX_BYTES)
    try:
        origin_of(url)
        async with asyncio.timeout(_SECONDS):
            reply = await client.send(WebRequest(method="GET", url=url, headers=(("Accept", "*/*"),)))
        check_status(reply, client.echoes)
    except (ValueError, ToolError, TimeoutError) as error:
        raise UsageError(f"the document cannot be fetched: {str(error) or 'no answer in time'}") from None
    finally:
        await client.close()
    return reply.content
