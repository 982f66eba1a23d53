"""The life of an execution that this process holds, as a table. Pure.

1. Everything that decides what can happen to an execution is in this file.
2. What a process holds is a cache of the ledger. `unread` means that another process paused the execution and
   this one has not read its record yet.
3. A `lost` execution belongs to another process. Late news about it changes nothing.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

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


def after(state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        RuntimeError: The event is not possible in this state, so the door has a bug.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise RuntimeError(f"{event!r} cannot happen to an execution that is {state}")
    return following
