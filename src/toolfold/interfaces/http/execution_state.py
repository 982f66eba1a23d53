"""State of an HTTP execution: its transitions, start request, request ids, and the peer protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from toolfold.interfaces.http.render import ApiResponse
from toolfold.interfaces.http.requests import FileReference, ForwardedRequest, ForwardedResponse
from toolfold.models import Outcome, Paused, ProgramOptions, ToolSpec

# ----------------------------------------------------------------------------------------------------
# The life of an execution that this process holds, as a table. Pure.
#
# 1. Everything that decides what can happen to an execution is in this file.
# 2. What a process holds is a cache of the ledger. `unread` means that another process paused the execution and
# this one has not read its record yet.
# 3. A `lost` execution belongs to another process. Late news about it changes nothing.

State: TypeAlias = Literal["starting", "unread", "doomed", "running", "paused", "over", "lost"]
Event: TypeAlias = Literal["begin", "read", "cancel", "pause", "resume", "end", "lose"]

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    ("starting", "begin"): "running",
    ("starting", "end"): "over",  # also if it was cancelled while it waited for its turn
    ("unread", "read"): "running",
    ("unread", "cancel"): "doomed",  # there is nothing to cancel until the replay has brought it back
    ("unread", "end"): "over",  # the record says that it has ended
    ("doomed", "read"): "running",
    ("doomed", "cancel"): "doomed",
    ("doomed", "end"): "over",
    ("running", "pause"): "paused",
    ("running", "end"): "over",
    ("paused", "resume"): "running",
    ("paused", "end"): "over",  # its deadline passed, or it was cancelled
    ("over", "end"): "over",  # cancelled in the queue, and then its time ran out there
    **{(state, "lose"): "lost" for state in get_args(State)},
    **{("lost", event): "lost" for event in get_args(Event)},
}


def next_state(state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        RuntimeError: The event is not possible in this state, so the interface has a bug.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise RuntimeError(f"{event!r} cannot happen to an execution that is {state}")
    return following


Hangup: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A request for a new execution, checked."""

    tenant: str
    session: str
    code: str
    tools: Sequence[ToolSpec] = ()
    files: Sequence[FileReference] = ()
    timeout_seconds: float
    options: ProgramOptions = field(default_factory=ProgramOptions)
    """What else its body says of the program."""
    request_id: str = ""
    execution_id: str = ""
    """Fixed where the request may be sent again; empty takes a new one."""
    counts_pauses: bool = True
    """The timeout is of the whole execution; otherwise of the program's own time."""
    hangup: Hangup | None = None
    """Returns when the client has closed its connection; not asked where the request may be sent again."""


class LastAnswer(NamedTuple):
    """The last answer of an execution, and what it answered."""

    round: int
    """0 for a start that may be sent again."""
    digest: bytes
    """Of the results that the client sent."""
    answer: ApiResponse


@dataclass(slots=True, kw_only=True, eq=False)
class ApiExecution:
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
    last: LastAnswer | None = None
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
        self.state = next_state(self.state, event)

    def stop_timer(self) -> None:
        """Its deadline no longer matters."""
        if self.timer is not None:
            self.timer.cancel()


# ----------------------------------------------------------------------------------------------------
# Which execution a request belongs to, by the id that a cancel would name.

MAX_REQUESTS: Final = 100
"""Of one execution; a client that sends a continuation more often can cancel by its latest ids."""


class RequestIndex:
    """The ids of all requests whose executions are held here."""

    def __init__(self) -> None:
        self._executions: dict[tuple[str, str], ApiExecution] = {}

    def add(self, execution: ApiExecution, request_id: str) -> None:
        """A request of this execution came; an empty id is none."""
        if not request_id or execution.is_over or request_id in execution.request_ids:
            return
        execution.request_ids.append(request_id)
        self._executions[execution.tenant, request_id] = execution
        if len(execution.request_ids) > MAX_REQUESTS:
            self._drop(execution, execution.request_ids.pop(0))

    def find(self, tenant: str, request_id: str) -> ApiExecution | None:
        """The execution of a request; the same id of another tenant is another."""
        return self._executions.get((tenant, request_id))

    def forget(self, execution: ApiExecution) -> None:
        """It is over, or another process has it."""
        for request_id in execution.request_ids:
            self._drop(execution, request_id)
        execution.request_ids.clear()

    def _drop(self, execution: ApiExecution, request_id: str) -> None:
        if self._executions.get((execution.tenant, request_id)) is execution:
            del self._executions[execution.tenant, request_id]


# ----------------------------------------------------------------------------------------------------
# The other processes that share the ledger, as the executions of this one see them.


class ExecutionMoved(Exception):
    """Another process had the execution in the meantime, so look for it again."""


class Peers(Protocol):
    """Other processes that may own an execution: `Replicas`, or `NoPeers` for a single process."""

    @property
    def are_there(self) -> bool:
        """Whether there may be any."""

    async def claim(self, execution_id: str) -> bool:
        """Hold an execution before it begins, until `unclaim`; false if another process does already."""

    def unclaim(self, execution_id: str) -> None:
        """It has begun, or never will."""

    async def forward(self, execution_id: str, request: ForwardedRequest) -> ForwardedResponse | None:
        """The answer of whoever holds an execution; `None` where only this process may."""

    async def broadcast(self, request: ForwardedRequest) -> None:
        """The same request to all of them."""

    async def release(self, executions: list[str]) -> None:
        """Others may take these over at once."""

    async def enter_session(self, session: str, turn: str, hangup: Hangup | None = None) -> None:
        """Wait until no execution of another process has the session."""

    def leave_session(self, session: str, *, is_lost: bool) -> None:
        """Give its turn back, unless another process continues the execution."""


class NoPeers:
    """No other process: everything is here, or on record."""

    are_there = False

    async def claim(self, execution_id: str) -> bool:
        return True

    def unclaim(self, execution_id: str) -> None:
        pass

    async def forward(self, execution_id: str, request: ForwardedRequest) -> ForwardedResponse | None:
        return None

    async def broadcast(self, request: ForwardedRequest) -> None:
        pass

    async def release(self, executions: list[str]) -> None:
        pass

    async def enter_session(self, session: str, turn: str, hangup: Hangup | None = None) -> None:
        pass

    def leave_session(self, session: str, *, is_lost: bool) -> None:
        pass
