"""What the client outside can do for a bridged server: answer questions, name folders, show progress.

Its types are the SDK's own, so that nothing is lost between a bridged server and the door's client.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol

from mcp_types import ElicitRequestParams, ElicitResult, Root

EXECUTION: Final[ContextVar[str]] = ContextVar("toolfold_execution", default="")
"""The execution whose call a question belongs to, while it is asked in that call's own task."""


class Outer(Protocol):
    """The way out, one for a bridge. Only what it can do is declared to bridged servers, when they connect.

    `execution_id` is that of the program whose call is meant; empty where that cannot be known.
    """

    @property
    def can_elicit(self) -> bool: ...
    @property
    def has_roots(self) -> bool: ...

    async def elicit(self, params: ElicitRequestParams, *, server: str, execution_id: str) -> ElicitResult:
        """Ask the person outside, for as long as it takes.

        Raises:
            ToolError: there is no way to ask any more; the call that the question belongs to fails with its text.
        """
        ...

    async def roots(self) -> Sequence[Root]:
        """The folders that the client works in."""
        ...

    def progress(
        self, *, server: str, tool: str, execution_id: str, progress: float, total: float | None, message: str
    ) -> None:
        """How far a call is; must not block."""
        ...

    # Any: a log message may hold any JSON value.
    def log(self, *, server: str, level: str, data: Any) -> None:
        """What a server has to say beside its replies; must not block."""
        ...
