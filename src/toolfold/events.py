"""Typed events of running programs, and the listeners that receive them.

The log, OpenTelemetry, a console and your own code are all listeners: a listener is any callable that takes an event.
It is called in the event loop, in the order in which things happen, and must neither wait nor change what it is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from toolfold.models import Call, CallRecord, Covers, Outcome, Problem, Reply, StartRecord

__all__ = [
    "ApprovalAsked", "ApprovalDecided", "DirectCall", "Listener", "ProgramBegan", "ProgramEnded", "ProgramPaused",
    "ProgramPrinted", "ProgramRejected", "ProgramResumed", "RuntimeEvent", "Tell", "ToolCalled", "ToolReplied",
    "ToolRetried",
]  # fmt: skip

_log: Final = logging.getLogger(__name__)


class ProgramRejected(msgspec.Struct, frozen=True):
    """The check refused a program: nothing ran, and no other event has this id."""

    execution_id: str
    text: str
    problem: Problem


class ProgramBegan(msgspec.Struct, frozen=True):
    """A guest has the program. Sent again when another process continues the execution after a restart."""

    execution_id: str
    start_record: StartRecord


class ProgramPrinted(msgspec.Struct, frozen=True):
    """Output, as the guest delivers it: with the program's next calls or its end, or sooner if `output` is read."""

    execution_id: str
    text: str
    stream: Literal["stdout", "stderr"]


class ToolCalled(msgspec.Struct, frozen=True):
    """The program called a tool; `call.line` is the line that did, or 0 if the engine cannot tell."""

    execution_id: str
    call: Call


class ToolRetried(msgspec.Struct, frozen=True):
    """A tool failed and is called again, as part of the same call."""

    execution_id: str
    """Empty for a direct call."""
    call: Call
    attempt: int
    """The one that begins now: 2 for the first retry."""
    error: str
    """What the attempt before failed with."""


class ToolReplied(msgspec.Struct, frozen=True):
    """The program was given the reply to a call. Calls that are still open when it ends have none."""

    execution_id: str
    record: CallRecord


class ApprovalAsked(msgspec.Struct, frozen=True):
    """A call waits for a yes or no: of the runtime's `approve`, or of the outside with the next pause."""

    execution_id: str
    call: Call


class ApprovalDecided(msgspec.Struct, frozen=True):
    """A call was approved or denied. A call that an earlier answer covers has this event and no question."""

    execution_id: str
    call: Call
    approved: bool
    reason: str = ""
    by: str = ""
    """Who decided, as far as the interface knows."""
    covers: Covers = "call"
    calls: int | None = None
    """These two as in `Decision`."""
    under: int = 0
    """The call whose answer stands for this one; 0 where this one was asked for itself."""


class ProgramPaused(msgspec.Struct, frozen=True):
    """The execution waits for replies or decisions of its caller, and its record is safe."""

    execution_id: str
    calls: tuple[Call, ...]
    approvals: tuple[Call, ...]


class ProgramResumed(msgspec.Struct, frozen=True):
    """The caller answered, and the program continues."""

    execution_id: str
    call_ids: tuple[int, ...]
    """Those that were answered or decided."""


class ProgramEnded(msgspec.Struct, frozen=True):
    """The last event of an execution. There is none if its guest broke or another process continues it."""

    execution_id: str
    outcome: Outcome


class DirectCall(msgspec.Struct, frozen=True):
    """`Runtime.call` called a tool, without a program."""

    call: Call
    reply: Reply
    seconds: float


RuntimeEvent: TypeAlias = (
    ProgramRejected | ProgramBegan | ProgramPrinted | ToolCalled | ToolRetried | ToolReplied | ApprovalAsked
    | ApprovalDecided | ProgramPaused | ProgramResumed | ProgramEnded | DirectCall
)  # fmt: skip
"""Any of the events."""
Listener: TypeAlias = Callable[[RuntimeEvent], None]
"""Is called with each event, in the event loop."""
Tell: TypeAlias = Callable[[RuntimeEvent], None]
"""Hands an event to all who listen."""


class Listeners:
    """Several listeners as one. A listener that raises is logged, and disturbs neither the program nor the others.

    A listener may have a property `is_listening`. Where it is false for all of them, `tell` is `None`: nobody makes
    events that nobody reads. The caller's own are told of every end, the `usual` ones only while they listen.
    """

    def __init__(self, listeners: Sequence[Listener], usual: Sequence[Listener] = ()) -> None:
        self._own = tuple(listeners)
        self._usual = tuple(usual)

    @property
    def tell(self) -> Tell | None:
        """To be asked for once per execution: who begins to listen meanwhile hears of the next one, and of this end."""
        for listener in (*self._usual, *self._own):
            if getattr(listener, "is_listening", True):
                return self._tell
        return None

    def tell_end(self, event: ProgramEnded | ProgramRejected | DirectCall) -> None:
        """Once in a life, so that everybody is told, whoever listened when it began."""
        for listener in self._usual:
            if getattr(listener, "is_listening", True):
                self._tell(event)
                return
        if self._own:
            self._tell_each(self._own, event)

    def _tell(self, event: RuntimeEvent) -> None:
        self._tell_each((*self._usual, *self._own), event)

    def _tell_each(self, listeners: Sequence[Listener], event: RuntimeEvent) -> None:
        for listener in listeners:
            try:
                listener(event)
            # Whatever a listener does wrong, the program must not notice.
            except Exception:  # noqa: BLE001
                _log.exception("a listener failed for %s", type(event).__name__)
