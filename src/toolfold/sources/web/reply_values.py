"""Reply bodies as values, and error statuses as the errors that a program reads. Sends nothing."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from toolfold.errors import ToolError, ToolFailed
from toolfold.models import Json, Media, Value
from toolfold.sources.web.credentials import SecretMasker, WebReply, codec_of, is_json, is_text

_FIRST_ERROR: Final = 400
_FIRST_OF_SERVER: Final = 500
_COME_LATER: Final = frozenset({408, 425, 429, 503})
"""Statuses of requests that did nothing."""
_WORDS: Final = ("message", "error_description", "detail", "error", "title", "description", "reason", "msg")
_CODES: Final = ("code", "type", "rule", "constraint", "keyword")
"""Words of an error that has no text."""
_PLACES: Final = ("field", "path", "loc", "pointer", "source", "property", "propertyname", "parameter", "param",
                  "attribute", "location", "instancepath", "datapath", "argument", "name", "key")  # fmt: skip
_DETAILS: Final = re.compile(
    r"error|valid|detail|violation|issue|field|param|context|failure|cause|problem", re.IGNORECASE
)
_MOST_BODY_BYTES: Final = 64 * 1024
_MOST_CHARACTERS: Final = 500
_REASONS: Final = {429: "Too Many Requests"}
_LARGE_BYTES: Final = 256 * 1024
_readers: Final = ThreadPoolExecutor(2, thread_name_prefix="toolfold-bodies")
"""Their own, so that large bodies do not keep others waiting for a thread."""


async def read_reply(reply: WebReply, masker: SecretMasker) -> Value:
    """The value of a reply; a large one is read outside the event loop. Raises as `check_status` and `value_of`."""
    if len(reply.content) < _LARGE_BYTES:
        return _read(reply, masker)
    return await asyncio.get_running_loop().run_in_executor(_readers, _read, reply, masker)


def _read(reply: WebReply, masker: SecretMasker) -> Value:
    check_status(reply, masker)
    return value_of(reply, masker)


def value_of(reply: WebReply, masker: SecretMasker) -> Value:
    """The body: JSON parsed, text as text, media as such, else bytes; `ToolError` if it is not what its type says."""
    if not reply.content:
        return None
    if is_json(reply.mime):
        try:
            return masker.mask_json(reply.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ToolError(f"the API answered {reply.status} with JSON that cannot be read") from None
    if is_text(reply.mime):
        return _text(reply, masker)
    kind = reply.mime.partition("/")[0]
    if kind in ("image", "audio"):
        # mypy cannot see that the text is one of two.
        return Media(kind=kind, mime=reply.mime, data=masker.mask_bytes(reply.content))  # type: ignore[arg-type]
    return masker.mask_bytes(reply.content)


def check_status(reply: WebReply, masker: SecretMasker) -> None:
    """Raise the error of a status of 400 and above, or of a redirect without an address."""
    if reply.status < _FIRST_ERROR and reply.status // 100 != 3:
        return
    message = _error_message(reply, masker)
    status = f"{reply.status} {reply.reason or _REASONS.get(reply.status, '')}".rstrip()
    text = f"{status}: {message}" if message else status
    error: ToolError = ToolFailed(text)
    if reply.status >= _FIRST_OF_SERVER or reply.status in _COME_LATER:
        wait = _retry_after(reply.header("retry-after"))
        error = ToolError(f"{text} (retry after {wait:g} s)" if wait else text)
        error.nothing_ran = reply.status in _COME_LATER
        error.tool_unavailable = reply.status >= _FIRST_OF_SERVER
        error.retry_after_seconds = wait
    error.status, error.body = reply.status, _error_body(reply, masker)
    raise error


def headers_of(reply: WebReply) -> dict[str, Value]:
    """Headers by name; several of one name are joined, as HTTP allows."""
    joined: dict[str, Value] = {}
    for key, value in reply.headers:
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _error_body(reply: WebReply, masker: SecretMasker) -> Value:
    """JSON parsed, else text; a large one is cut, so it is text."""
    if is_json(reply.mime) and len(reply.content) <= _MOST_BODY_BYTES:
        # What claims to be JSON and is not is shown as it is.
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return masker.mask_json(reply.content)
    # Masked before it is cut: half a secret is one still.
    return _text(reply, masker)[:_MOST_BODY_BYTES] or None


def _error_message(reply: WebReply, masker: SecretMasker) -> str:
    if reply.mime == "text/html":
        return ""
    body = _error_body(reply, masker)
    text = " ".join((_message(body, 0) or _text(reply, masker)).split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _message(value: Json, depth: int) -> str:
    """The text of an error body: its own words, and its details with the fields that they are about."""
    if isinstance(value, str):
        return value
    if depth > 6:
        return ""
    if isinstance(value, list):
        return "; ".join(part for part in (_message(item, depth + 1) for item in value[:10]) if part)
    if not isinstance(value, Mapping):
        return ""
    parts = {str(key).lower(): item for key, item in list(value.items())[:100]}
    messages = [part for part in (_message(parts.get(word), depth + 1) for word in _WORDS) if part][:2]
    details = [_detail(key, item, depth) for key, item in parts.items() if key not in _WORDS and _DETAILS.search(key)]
    if depth and not messages and not any(details):
        messages = [code for code in (parts.get(word) for word in _CODES) if isinstance(code, str)][:1]
        if not messages:
            # `{"email": ["is taken"]}`
            texts = ((key, _message(item, depth + 1)) for key, item in list(value.items())[:10])
            return "; ".join(f"{key}: {text}" for key, text in texts if text)
    place = next((text for key in _PLACES if (text := _place(parts.get(key)))), "") if depth else ""
    return ": ".join(dict.fromkeys(part for part in (place, *messages, *details) if part))


def _detail(key: str, value: Json, depth: int) -> str:
    """What a list or an object below a key says; a text there is a word of its own only in a list."""
    return _message(value, depth + 1) if isinstance(value, list | Mapping) and key not in _PLACES else ""


def _place(value: Json) -> str:
    """`email`, `["body", "email"]` or `{"pointer": "/data/email"}` as text."""
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("pointer", "parameter", "header") if key in value), None)
    if isinstance(value, list) and all(isinstance(step, str | int) for step in value):
        return ".".join(map(str, value))
    return value if isinstance(value, str) else ""


def _retry_after(text: str) -> float:
    """Seconds from now; 0 for an unusable text."""
    if text.strip().isdecimal():
        return float(text)
    try:
        retry_time = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, retry_time.timestamp() - time.time())


def _text(reply: WebReply, masker: SecretMasker) -> str:
    """Text, masked before and after decoding: the label may be wrong, and a program could undo the decoding."""
    text = masker.mask_bytes(reply.content).decode(codec_of(reply.header("content-type")), "replace")
    return masker.mask_text(text)
