"""The description of `execute_program` for each client: in which style, within which length, from what is known."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from toolfold.doors.mcp.description import Known, Listed, program_description
from toolfold.doors.mcp.texts import CONTRACT, program_schema
from toolfold.errors import ToolfoldError
from toolfold.ledger.record import Ledger
from toolfold.models import Json, ToolSpec

_MOST_CLIENTS: Final = 1_000
_MOST_EXECUTIONS: Final = 30
_WAIT_SECONDS: Final = 0.5
"""For the ledger: the first list of tools waits for it."""
_log: Final = logging.getLogger(__name__)


class Describing:
    """Writes the description, and keeps the last one: writing many signatures takes a while.

    Args:
        is_contract: In the specification's own words, without any tool.
        max_characters: What clients show of it; `None` takes what is known of each client.
        history: Gives what earlier programs have shown of the tools. It is read once for each client, so that the
            text does not change under a client whose prompt is cached.
    """

    def __init__(
        self, *, is_contract: bool = False, max_characters: int | None = None,
        history: Callable[[], Awaitable[Known]] | None = None,
    ) -> None:  # fmt: skip
        self.is_contract = is_contract
        self._max_characters = max_characters
        self._history = history
        self._known: dict[str, Known] = {}
        self._last: tuple[tuple[object, ...], tuple[str, bool]] | None = None

    async def meet(self, client: str) -> None:
        """Read what is known, if this client is new."""
        if self._history is None or client in self._known:
            return
        self._known[client] = Known()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                self._known[client] = await self._history()
        # A ledger that is slow or away costs the order of the tools, not the list.
        except (TimeoutError, ToolfoldError, OSError) as error:
            _log.warning("earlier programs could not be read: %s", str(error) or "too slow")
        while len(self._known) > _MOST_CLIENTS:
            del self._known[next(iter(self._known))]

    def text(
        self, servers: Sequence[Listed], specs: Sequence[ToolSpec], *, kept_characters: int, client: str = ""
    ) -> tuple[str, bool]:
        """The description, and whether every signature is in it."""
        if self.is_contract:
            return CONTRACT, False
        room, known = self._max_characters or kept_characters, self._known.get(client)
        key = (room, tuple(servers), tuple(specs), id(known))
        if self._last is None or self._last[0] != key:
            self._last = (key, program_description(servers, specs, max_characters=room, known=known))
        return self._last[1]

    def schema(self, max_seconds: float) -> dict[str, Json]:
        """Of the arguments."""
        return program_schema(max_seconds, is_contract=self.is_contract)


async def known_from(ledger: Ledger) -> Known:
    """Which tools the latest programs called, and how often."""
    used: Counter[str] = Counter()
    for summary in await ledger.list(limit=_MOST_EXECUTIONS, tenant=""):
        history = await ledger.load(summary.execution_id) if summary.calls else None
        if history is not None and history.outcome is not None:
            used.update(call.name for call in history.outcome.calls)
    return Known(used=used)
