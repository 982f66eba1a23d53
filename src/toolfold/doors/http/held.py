"""One execution as the door holds it, and the request that began it. Plain data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolfold.doors.http.answers import Answer
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


@dataclass(slots=True)
class Held:
    """One execution of one tenant."""

    tenant: str
    session: str
    deadline: float
    """Seconds since 1970."""
    execution_id: str = ""
    round: int = 0
    replies: int = 0
    open_calls: frozenset[int] = frozenset()
    is_paused: bool = False
    is_over: bool = False
    has_session: bool = False
    turn: str = ""
    """What its turn of the session is called among replicas: the same wherever it goes on."""
    is_lost: bool = False
    """Another process has it."""
    is_known: bool = True
    """False until the ledger was asked, after a restart."""
    last: tuple[int, bytes, Answer] | None = None
    """Round, digest and answer of the last continuation; round 0 is a start that may be sent again."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[Paused | Outcome] | None = None
    timer: asyncio.TimerHandle | None = None
    is_cancelled: bool = False
    """While it was being brought back; done as soon as it is there."""
    request_ids: list[str] = field(default_factory=list)
    """Of its requests so far; any of them may be named by a cancel."""
