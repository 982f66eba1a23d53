"""Where an execution is in its life, as a table, and the two ways to end its program from outside.

`stop` ends the program and leaves an outcome; `fail` ends it and leaves the record open, because another process
has the execution or because what happened could not be written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from toolfold.errors import Fenced

if TYPE_CHECKING:
    from toolfold.engines.base import Run
    from toolfold.errors import ToolfoldError
    from toolfold.models import Problem

State: TypeAlias = Literal["opening", "running", "paused", "accepting", "closed", "ended"]
Change: TypeAlias = Literal["open", "pause", "accept", "resume", "refuse", "close", "finish"]
EarlyEnd: TypeAlias = Literal["timeout", "cancelled", "limit"]

TRANSITIONS: Final[dict[tuple[State, Change], State]] = {
    ("opening", "open"): "running",
    ("running", "pause"): "paused",
    # Two callers that ask at once where it stands may both have it parked.
    ("paused", "pause"): "paused",
    # While the answers are being written, nobody else can hand in any.
    ("paused", "accept"): "accepting",
    ("accepting", "resume"): "running",
    # They could not be written: it stands where it stood, and nothing has gone on.
    ("accepting", "refuse"): "paused",
    ("accepting", "pause"): "accepting",
    ("opening", "close"): "closed",
    ("running", "close"): "closed",
    ("paused", "close"): "closed",
    ("accepting", "close"): "closed",
    # Its runtime was left while it waited for the engine or the ledger: what it waited for changes nothing any more.
    ("closed", "open"): "closed",
    ("closed", "pause"): "closed",
    ("closed", "resume"): "closed",
    ("closed", "refuse"): "closed",
    ("closed", "finish"): "ended",
}


class Life:
    """One execution's state, its run, and why it cannot go on if it cannot."""

    run: Run
    """Set by `opened`; until then there is nothing to stop or to answer."""

    def __init__(self) -> None:
        self.state: State = "opening"
        self.is_over = False
        """Whether its guest is gone, so that no reply can reach the program any more."""
        self.failure: ToolfoldError | None = None
        """Why the execution could not go on although its program could."""
        self._stop: tuple[EarlyEnd, Problem | None] | None = None

    def move(self, change: Change) -> None:
        """To the next state; a change that the table does not have is a mistake of ours."""
        self.state = state = TRANSITIONS[self.state, change]
        self.is_over = state == "closed" or state == "ended"

    @property
    def is_paused(self) -> bool:
        """Whether it waits for the outside, and its record is safe."""
        return self.state == "paused"

    @property
    def is_settled(self) -> bool:
        """Whether its end is on its way to the record, or is not for this process to write."""
        return self.state == "ended" or isinstance(self.failure, Fenced)

    def opened(self, run: Run) -> None:
        """The engine has the program."""
        self.run = run
        self.move("open")
        if self._stop is not None:
            run.stop(*self._stop)
        elif self.failure is not None:
            run.stop("cancelled")

    def stop(self, status: EarlyEnd, problem: Problem | None = None) -> None:
        """End the program now, or as soon as it is there: a first guest may take seconds to load its libraries."""
        if hasattr(self, "run"):
            self.run.stop(status, problem)
        else:
            self._stop = status, problem

    def fail(self, reason: ToolfoldError) -> None:
        """End the program; whoever waits for its outcome gets `reason`, and nothing more is written of it."""
        self.failure = reason
        if hasattr(self, "run"):  # else it is being opened, and ends as soon as it is there
            self.run.stop("cancelled")
