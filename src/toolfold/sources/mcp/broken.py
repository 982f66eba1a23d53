"""Replies that cannot be read: whose they are, so that their calls end at once and not at their timeout."""

from __future__ import annotations

import re
from typing import Final

import mcp_types as types
import msgspec

UNREADABLE: Final = "the server's reply could not be read, so it is unknown whether the call took effect"
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")')
_BODY: Final = re.compile(rb'"(?:result|error)"\s*:')


def broken_reply(line: bytes) -> types.JSONRPCError | None:
    """An error for the call that a broken line seems to answer; `None` for anything else that a server prints."""
    if not line.lstrip().startswith(b"{") or b'"jsonrpc"' not in line or _BODY.search(line) is None:
        return None
    found = _request_id(line)
    if found is None:
        return None
    return types.JSONRPCError(
        jsonrpc="2.0", id=found, error=types.ErrorData(code=types.INTERNAL_ERROR, message=UNREADABLE)
    )


def _request_id(line: bytes) -> int | str | None:
    try:
        message = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return _likely_id(line)
    found = message.get("id") if "method" not in message else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _likely_id(line: bytes) -> int | str | None:
    """The first id if it stands before the body, where a body has no part in it; else the last."""
    ids = list(_ID.finditer(line))
    body = _BODY.search(line)
    if not ids or body is None:
        return None
    chosen = ids[0] if ids[0].start() < body.start() else ids[-1]
    text = chosen[1].decode(errors="replace")
    return text[1:-1] if text.startswith('"') else int(text)
