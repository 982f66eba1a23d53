"""Which of the two protocol eras a server speaks, found out once and remembered.

Asking costs: some servers ignore the question (so it has a time limit), some exit on it (so the
next connection does not ask). What was found is kept in a file of the user's cache folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import platformdirs
from mcp import ClientSession, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

Era: TypeAlias = Literal["legacy", "modern"]

PROBE_SECONDS: Final = 2.0
_KEPT_SECONDS: Final = 7 * 24 * 3600
"""Then the server is asked again: it may have been updated."""
_KEPT_SERVERS: Final = 500
_log: Final = logging.getLogger(__name__)


async def negotiate(session: ClientSession, known: Era | None) -> Era:
    """Agree on a version; `known` spares the question or the time limit.

    Raises:
        MCPError: the server speaks no version that we do, or hung up.
    """
    if known != "legacy" and await _discovers(session, None if known == "modern" else PROBE_SECONDS):
        return "modern"
    try:
        await session.initialize()
    except MCPError as error:
        # It was updated since; or it starts slowly, and read our question after its time was up.
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()
        return "modern"
    return "legacy"


async def _discovers(session: ClientSession, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            raw = await session.send_discover(LATEST_MODERN_VERSION)
        result = DiscoverResult.model_validate(raw)
    except (MCPError, ValidationError, TimeoutError) as error:
        _log.debug("no new era: %s", error)
        return False
    if not any(version in result.supported_versions for version in MODERN_PROTOCOL_VERSIONS):
        return False
    session.adopt(result)
    return True


class Eras:
    """What is remembered, by server. Never fails: without a file it remembers in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or platformdirs.user_cache_path("toolfold", appauthor=False) / "mcp-eras.json"
        self._known: dict[str, tuple[Era, float]] | None = None

    def get(self, identity: str) -> Era | None:
        found = self._all().get(identity)
        return found[0] if found is not None and time.time() - found[1] < _KEPT_SECONDS else None

    def put(self, identity: str, era: Era) -> None:
        if self.get(identity) == era:
            return
        # Read again: other processes write the same file.
        known = self._known = {**self._read(), **self._all(), identity: (era, time.time())}
        kept = sorted(known.items(), key=lambda item: -item[1][1])[:_KEPT_SERVERS]
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(f".{os.getpid()}")
            draft.write_bytes(msgspec.json.encode(dict(kept)))
            draft.replace(self._path)

    def _all(self) -> dict[str, tuple[Era, float]]:
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[str, tuple[Era, float]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[Era, float]])
        except (OSError, msgspec.MsgspecError):
            return {}
