"""One execution as the door holds it, and the request that began it. Plain data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from toolfold.doors.http.answers import Answer
from toolfold.doors.http.life import Event, State, after
from toolfold.doors.http.wire import FileReference
from toolfold.models import Outcome, Paused, ToolSpec

Gone: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A request for a new execution, checked."""

    tenant: str
    session: str
    code: str
    tools: Sequence[ToolSpec] = ()
    files: Sequence[FileReference] = ()
    timeout_seconds: float
    request_id: str = ""
    execution_id: str = ""
    """Fixed where the request may be sent again; empty takes a new one."""
    counts_pauses: bool = True
    """The timeout is of the whole execution; otherwise of the program's own time."""
    gone: Gone | None = None
    """Returns when the client has closed its connection; not asked where the request may be sent again."""


class Said(NamedTuple):
    """The last answer of an execution, and what it answered."""

    round: int
    """0 for a start that may be sent again."""
    digest: bytes
    """Of the results that the client sent."""
    answer: Answer


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """One execution of one tenant."""

    execution_id: str
    """Also names its turn of the session among replicas, so the turn stays its own wherever it continues."""
    tenant: str
    session: str
    deadline: float
    """Seconds since 1970."""
    state: State
    round: int = 0
    replies: int = 0
    """Of the client: results and decisions."""
    open_calls: frozenset[int] = frozenset()
    open_approvals: frozenset[int] = frozenset()
    has_session: bool = False
    """It has its turn of the session, to be given back once."""
    last: Said | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Duplicates that arrive together wait for the first one's answer."""
    task: asyncio.Task[Paused | Outcome] | None = None
    timer: asyncio.TimerHandle | None = None
    request_ids: list[str] = field(default_factory=list)
    """Ids of its requests so far; a cancel may name any of them."""

    @property
    def is_known(self) -> bool:
        """Its record has been read, or this process began it."""
        return self.state not in ("unread", "doomed")

    @property
    def is_paused(self) -> bool:
        """It waits for its client."""
        return self.state == "paused"

    @property
    def is_over(self) -> bool:
        """It has ended."""
        return self.state == "over"

    def move(self, event: Event) -> None:
        """Change its state as the table says."""
        self.state = after(self.state, event)

    def stop_timer(self) -> None:
        """Its deadline no longer matters."""
        if self.timer is not None:
            self.timer.cancel()
