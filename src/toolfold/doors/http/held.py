"""One execution as the door holds it, and the request that began it. Plain data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from toolfold.doors.http.answers import Answer
from toolfold.doors.http.life import Happening, State, after
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
    """The last answer of an execution, and to what."""

    round: int
    """0 is a start that may be sent again."""
    digest: bytes
    """Of the results that the client sent."""
    answer: Answer


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """One execution of one tenant."""

    execution_id: str
    """Also what its turn of the session is called among replicas: the same wherever it goes on."""
    tenant: str
    session: str
    deadline: float
    """Seconds since 1970."""
    state: State
    round: int = 0
    replies: int = 0
    open_calls: frozenset[int] = frozenset()
    has_session: bool = False
    """It has the turn of its session, and gives it back once."""
    last: Said | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Duplicates that arrive together wait for the first one's answer."""
    task: asyncio.Task[Paused | Outcome] | None = None
    timer: asyncio.TimerHandle | None = None
    request_ids: list[str] = field(default_factory=list)
    """Of its requests so far; any of them may be named by a cancel."""

    @property
    def is_known(self) -> bool:
        """What the ledger says of it is known here."""
        return self.state not in ("unread", "doomed")

    @property
    def is_paused(self) -> bool:
        """It waits for its client, who can go on with it."""
        return self.state == "paused"

    @property
    def is_over(self) -> bool:
        """Nothing of it goes on."""
        return self.state == "over"

    def move(self, happening: Happening) -> None:
        """Something happened to it."""
        self.state = after(self.state, happening)

    def stop_timer(self) -> None:
        """Its deadline is of no interest any more."""
        if self.timer is not None:
            self.timer.cancel()
