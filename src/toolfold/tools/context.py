"""Whose call it is: what a step on the router's path may know of the execution around a call.

Plain data and callables; made by the execution or a door, read by the wrappers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, get_args, runtime_checkable

import msgspec

from toolfold.errors import UsageError
from toolfold.events import Tell
from toolfold.models import Call, Covers, Limits, ToolSpec, Value

if TYPE_CHECKING:
    from toolfold.tools.search import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to a call that needs approval."""

    approved: bool
    reason: str = ""
    """Why not; the program reads it."""
    arguments: Mapping[str, Value] | None = None
    """To be used instead of the program's own; they are checked again."""
    covers: Covers = "call"
    """Which further calls of this program the answer also decides: none, those of the tool with equal arguments, or
    all of the tool."""
    calls: int | None = None
    """How many calls it decides at most, this one included; `None` is as many as the program makes."""
    by: str = ""
    """Who gave it, for the record."""

    def __post_init__(self) -> None:
        if self.covers not in get_args(Covers):
            raise UsageError(f"a decision covers 'call', 'arguments' or 'tool', got {self.covers!r}")
        if self.calls is not None and (type(self.calls) is not int or self.calls < 1 or self.covers == "call"):
            raise UsageError(f"calls is {self.calls!r}; give 1 or more, and what it covers: 'arguments' or 'tool'")
        if self.arguments is not None and self.covers != "call":
            raise UsageError(f"a decision that changes arguments covers one call, not {self.covers!r}")


Approve: TypeAlias = Callable[[Call, ToolSpec], Awaitable[Decision]]


@runtime_checkable
class ApproveByExecution(Protocol):
    """An `Approve` that must know whose call it is, and has the clock of that execution stand still."""

    async def __call__(self, call: Call, spec: ToolSpec, /) -> Decision: ...
    def of(self, execution_id: str, epoch: int, standing: Callable[[], AbstractContextManager[None]]) -> Approve: ...


class Spent(msgspec.Struct):
    """What an execution has used of its budgets so far."""

    calls: dict[str, int] = msgspec.field(default_factory=lambda: defaultdict(int))
    """By the tool's name."""


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """One per execution; `msgspec.structs.replace` gives a call its own idempotency key."""

    execution_id: str = ""
    tenant: str = ""
    """Replies are never remembered across tenants."""
    entry_name: str = ""
    """What the door calls its way in, for messages: `execute_program`."""
    approve: Approve | None = None
    spent: Spent = msgspec.field(default_factory=Spent)
    idempotency_key: str | None = None
    """Given by the caller, a program too; a tool that takes its context has one for every call of a program."""
    outside: tuple[ToolSpec, ...] = ()
    """Tools of this execution's caller; no catalog has them, and a search must find them."""
    limits_left: Callable[[], Limits] | None = None
    """What is left to a program that is run by a call of this execution."""
    tell: Tell | None = None
    """Hands an event to whoever listens; `None` where nobody does."""
    learned: Callable[[Index, str], Awaitable[Index]] | None = None
    """Adds to an index what a tenant's tools were seen to return."""
