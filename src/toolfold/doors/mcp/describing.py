"""The description of `execute_program` for each client: in which style, within which length, from what is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from toolfold.doors.mcp.description import Known, Listed, program_description
from toolfold.doors.mcp.texts import CONTRACT, program_schema
from toolfold.errors import ToolfoldError
from toolfold.execution.described_files import DescribedFiles
from toolfold.models import File, Json, ToolSpec

_MOST_CLIENTS: Final = 1_000
_WAIT_SECONDS: Final = 0.5
"""For the ledger: the first list of tools waits for it."""
_log: Final = logging.getLogger(__name__)


class History(Protocol):
    """What programs have shown of tools, at one moment."""

    @property
    def uses(self) -> Mapping[str, int]:
        """By tool name, how often it was called."""

    def schemas(self, specs: Iterable[ToolSpec]) -> Mapping[str, Mapping[str, Json]]:
        """By tool name, what was seen of the replies of those that do not declare it."""


class Describing:
    """Writes the description, and keeps the last one: writing many signatures takes a while.

    Args:
        is_contract: In the specification's own words, without any tool.
        max_characters: What clients show of it; `None` takes what is known of each client.
        history: Gives what earlier programs have shown of the tools. It is read once for each client, so that the
            text does not change under a client whose prompt is cached.
        files: In the data folder of every program.
    """

    def __init__(
        self, *, is_contract: bool = False, max_characters: int | None = None,
        history: Callable[[], Awaitable[History]] | None = None, files: Sequence[File] = (),
    ) -> None:  # fmt: skip
        self.is_contract = is_contract
        self._max_characters = max_characters
        self._history = history
        self.files = DescribedFiles.of(files)
        """What is in them is known once a guest has read them."""
        self._known: dict[str, History | None] = {}
        self._last: tuple[tuple[object, ...], tuple[str, bool]] | None = None

    async def meet(self, client: str) -> None:
        """Read what is known, if this client is new."""
        if self._history is None or client in self._known:
            return
        self._known[client] = None
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
        room, history = self._max_characters or kept_characters, self._known.get(client)
        key = (room, tuple(servers), tuple(specs), id(history), self.files.lines)
        if self._last is None or self._last[0] != key:
            known = Known() if history is None else Known(used=history.uses, learned=history.schemas(specs))
            self._last = (key, program_description(servers, specs, max_characters=room, known=known, files=self.files))
        return self._last[1]

    def schema(self, max_seconds: float, *, yields: bool = False) -> dict[str, Json]:
        """Of the arguments."""
        return program_schema(max_seconds, is_contract=self.is_contract, yields=yields)
