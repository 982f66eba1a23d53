"""Answers that stand for further calls of the same program: what each covers, and how often it still does.

They come from whoever approves, or from the record of a program that goes on; never from a program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolfold.execution.replay import call_key
from toolfold.ledger.record import Decided
from toolfold.models import Call
from toolfold.tools.tool import Decision


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one call, and the call it was given to: 0 for this one itself."""

    decision: Decision
    under: int = 0

    def as_entry(self, call: Call) -> Decided:
        """For the record."""
        said = self.decision
        return Decided(call.id, said.approved, said.reason, said.by, said.covers, said.calls, self.under)


@dataclass(slots=True)
class _Standing:
    call_id: int
    decision: Decision
    calls_left: int | None


class StandingAnswers:
    """Those of one execution, gone with it.

    Args:
        decided: Calls that asked earlier in the life of this execution, with their answers, in order.
    """

    def __init__(self, decided: Iterable[tuple[Call, Decided]] = ()) -> None:
        self._by_key: dict[bytes | str, _Standing] = {}
        for call, entry in decided:
            if entry.under:
                self.answer_to(call)  # has used one up
            else:
                self.add(call, _decision(entry))

    def add(self, call: Call, decision: Decision) -> None:
        """Keep an answer, if it is for more than its own call."""
        if decision.covers != "call":
            calls_left = None if decision.calls is None else decision.calls - 1
            key = call.tool if decision.covers == "tool" else call_key(call)
            self._by_key[key] = _Standing(call.id, decision, calls_left)

    def answer_to(self, call: Call) -> Answered | None:
        """The answer that stands for this call, which counts as one use of it."""
        if not self._by_key:
            return None
        for key in (call_key(call), call.tool):
            standing = self._by_key.get(key)
            if standing is not None and standing.calls_left != 0:
                if standing.calls_left is not None:
                    standing.calls_left -= 1
                return Answered(standing.decision, standing.call_id)
        return None


def _decision(entry: Decided) -> Decision:
    return Decision(
        approved=entry.approved, reason=entry.reason, covers=entry.covers, calls=entry.calls, by=entry.by
    )  # fmt: skip
