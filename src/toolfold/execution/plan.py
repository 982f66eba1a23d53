"""What one execution is made from: what is wanted of it, and what serves it. Plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from toolfold.engines.base import Order
from toolfold.execution.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.engines.base import Engine, Taped
    from toolfold.events import Listeners
    from toolfold.execution.replay import Past, Rerun
    from toolfold.ledger.record import Ledger
    from toolfold.models import Begun, CallRecord
    from toolfold.sessions import Session
    from toolfold.tools.learning import Learning
    from toolfold.tools.router import Router
    from toolfold.tools.tool import CallContext


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Who serves an execution: a runtime's, the same for all that begin with the same tools."""

    engine: Engine
    router: Router
    ledger: Ledger
    listeners: Listeners
    learning: Learning
    context: CallContext
    """Of calls outside of any execution; each execution has a copy with its own id, approvals and budget."""
    door: str = ""
    """On record with each execution."""
    alarm: Alarm = msgspec.field(default_factory=Alarm)
    """Of the executions' clocks."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of one execution, once its program has passed the check."""

    begun: Begun
    outside: frozenset[str]
    """Names of the tools that only the caller can answer."""
    tape: Taped | None
    """Set if the execution can be replayed; not empty if it is."""
    can_pause: bool
    session: Session | None = None
    on_call: Callable[[CallRecord], None] | None = None
    past: Past | None = None
    """The execution went on in another process, and this is its record there."""
    rerun: Rerun | None = None
    """Replies of an earlier execution that need not be fetched again."""
    epoch: int = 0
    """Of the ledger; whoever takes the execution over raises it."""
    asked: frozenset[str] = frozenset()
    """Tools whose calls need a yes before they begin."""
    may_ask: bool = False
    """Any tool may ask while it is served; otherwise only those in `asked` do, and before they begin."""
    is_durable: bool = False
    """The start is safe before the program runs, and the outcome before it is returned."""

    def order(self, on_frozen: Callable[[int], None] | None) -> Order:
        """What the engine is asked to run."""
        begun, session, past = self.begun, self.session, self.past
        return Order(
            program=begun.program,
            tools=begun.tools,
            limits=begun.limits,
            files=begun.files,
            session=session.id if session is not None and session.keeps_names else "",
            seed=begun.seed,
            tape=self.tape,
            snapshot=past.snapshot.state if past is not None and past.snapshot is not None else b"",
            report_waiting=self.can_pause,
            # Others compare each call with a record, here, before it is made.
            may_serve=self.tape is None and self.rerun is None,
            on_frozen=on_frozen if self.can_pause else None,
        )
