"""The life of an execution that this process holds, as a table. Pure.

1. Everything that decides what an execution can become is in this file.
2. What is held is a cache of the ledger: `unread` is one that another process paused, and that nobody
   here has looked up yet.
3. What is lost belongs to another process. Whatever is heard of it late changes nothing.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

State: TypeAlias = Literal["starting", "unread", "doomed", "running", "paused", "over", "lost"]
Happening: TypeAlias = Literal["begin", "read", "cancel", "pause", "resume", "end", "lose"]

TRANSITIONS: Final[dict[tuple[State, Happening], State]] = {
    ("starting", "begin"): "running",
    ("starting", "end"): "over",  # also one that was cancelled while it waited for its turn
    ("unread", "read"): "running",
    ("unread", "cancel"): "doomed",  # there is nothing to cancel before the replay has brought it back
    ("unread", "end"): "over",  # its record says so
    ("doomed", "read"): "running",
    ("doomed", "cancel"): "doomed",
    ("doomed", "end"): "over",
    ("running", "pause"): "paused",
    ("running", "end"): "over",
    ("paused", "resume"): "running",
    ("paused", "end"): "over",  # by its deadline, or by a cancel
    ("over", "end"): "over",  # cancelled in the queue, and then its time ran out there
    **{(state, "lose"): "lost" for state in get_args(State)},
    **{("lost", happening): "lost" for happening in get_args(Happening)},
}


def after(state: State, happening: Happening) -> State:
    """What becomes of an execution.

    Raises:
        RuntimeError: It cannot happen in this state, so the door has a bug.
    """
    following = TRANSITIONS.get((state, happening))
    if following is None:
        raise RuntimeError(f"{happening!r} cannot happen to an execution that is {state}")
    return following
