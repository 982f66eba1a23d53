"""Approvals of one execution: who is asked, what is on record while calls wait, and answers that stand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolfold.errors import ToolfoldError, UsageError
from toolfold.events import ApprovalAsked, ApprovalDecided
from toolfold.execution.history import call_key
from toolfold.ledger.base import CallEntry, DecisionEntry, HandoverEntry
from toolfold.models import Call
from toolfold.tools.tool import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolfold.events import Tell
    from toolfold.execution.calls import Dispatch
    from toolfold.execution.execution import ExecutionRecord, Life
    from toolfold.execution.request import ExecutionPlan
    from toolfold.models import ToolSpec
    from toolfold.tools.tool import Approve


# ----------------------------------------------------------------------------------------------------
# Answers that stand for further calls of the same program: what each covers, and how often it still does.
#
# They come from whoever approves, or from the record of a program that goes on; never from a program.


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to one call, and the call it was given to: 0 for this one itself."""

    decision: Decision
    under: int = 0

    def as_entry(self, call: Call) -> DecisionEntry:
        """For the record."""
        decision = self.decision
        return DecisionEntry(
            call.id, decision.approved, decision.reason, decision.by, decision.covers, decision.calls, self.under
        )


@dataclass(slots=True)
class _StandingAnswer:
    call_id: int
    decision: Decision
    calls_left: int | None


class StandingAnswers:
    """Standing answers of one execution.

    Args:
        decided: Calls that asked earlier in the life of this execution, with their answers, in order.
    """

    def __init__(self, decided: Iterable[tuple[Call, DecisionEntry]] = ()) -> None:
        self._by_key: dict[bytes | str, _StandingAnswer] = {}
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
            self._by_key[key] = _StandingAnswer(call.id, decision, calls_left)

    def answer_to(self, call: Call) -> ApprovalAnswer | None:
        """The answer that stands for this call, which counts as one use of it."""
        if not self._by_key:
            return None
        for key in (call_key(call), call.tool):
            standing = self._by_key.get(key)
            if standing is not None and standing.calls_left != 0:
                if standing.calls_left is not None:
                    standing.calls_left -= 1
                return ApprovalAnswer(standing.decision, standing.call_id)
        return None


def _decision(entry: DecisionEntry) -> Decision:
    return Decision(
        approved=entry.approved, reason=entry.reason, covers=entry.covers, calls=entry.calls, by=entry.by
    )  # fmt: skip


class Approvals:
    """The approvals of one execution.

    Args:
        approve: The runtime's own way to ask; without it the outside is asked with the next pause.
        look_again: Has the runtime look whether the program can pause now.
    """

    def __init__(
        self, plan: ExecutionPlan, *, approve: Approve | None, record: ExecutionRecord, life: Life, dispatch: Dispatch,
        look_again: Callable[[], None], tell: Tell | None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._approve = approve
        self._record = record
        self._life = life
        self._dispatch = dispatch
        self._look_again = look_again
        self._tell = tell
        self._standing = StandingAnswers(plan.past.decided if plan.past is not None else ())
        self._undecided: dict[int, tuple[Call, asyncio.Future[ApprovalAnswer]]] = {}
        self._decided: set[int] = set()
        """Calls on record as begun after a yes; their tool may yet leave the answer to the outside."""

    @property
    def can_ask(self) -> bool:
        """Whether there are tools that ask, and somebody who answers."""
        plan = self._plan
        return bool(plan.approval_tools or plan.may_ask) and (plan.can_pause or self._approve is not None)

    @property
    def open(self) -> tuple[Call, ...]:
        """Calls that wait for the outside to decide."""
        return tuple(call for call, _ in self._undecided.values()) if self._approve is None else ()

    async def ask(self, call: Call, spec: ToolSpec) -> Decision:
        """A call that needs a yes: one that stands, the callback's, or the outside's with the next pause."""
        is_begun = call.tool not in self._plan.approval_tools or call.id in self._decided
        self._record.note_call(call)
        answered = self._standing.answer_to(call) or await self._request_answer(call, spec, is_begun=is_begun)
        decision = answered.decision
        entry = answered.as_entry(call)
        if self._tell is not None:
            self._tell(
                ApprovalDecided(
                    self._plan.start_record.execution_id, call, decision.approved, decision.reason, decision.by,
                    decision.covers, decision.calls, answered.under,
                )
            )  # fmt: skip
        self._record.note(
            entry, HandoverEntry(call.id, is_open=False) if is_begun else CallEntry(call, self._record.at)
        )
        self._decided.add(call.id)
        if self._record.is_strict:
            try:
                await self._record.flush()
            except ToolfoldError as error:  # not the program's to catch: nothing may go on that is not on record
                self._life.fail(error)
                raise
        return decision

    async def _request_answer(self, call: Call, spec: ToolSpec, *, is_begun: bool) -> ApprovalAnswer:
        self._record.tell("asked", call_id=call.id, tool=call.tool, arguments=dict(call.arguments), line=call.line)
        if self._tell is not None:
            self._tell(ApprovalAsked(self._plan.start_record.execution_id, call))
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._undecided[call.id] = (call, answer)
        if self._approve is not None:
            return await self._ask_here(self._approve, call, spec, answer)
        if is_begun:
            self._record.note(HandoverEntry(call.id, is_open=True))  # so that a replay asks again
        self._dispatch.step_aside(call.id)
        self._look_again()
        return await answer

    # Any: whichever of the two is first.
    async def _ask_here(
        self, approve: Approve, call: Call, spec: ToolSpec, answer: asyncio.Future[ApprovalAnswer]
    ) -> ApprovalAnswer:
        """Of the callback, which need not answer if an answer to another call stands for this one meanwhile."""
        asking = asyncio.ensure_future(approve(call, spec))
        either: list[asyncio.Future[Any]] = [asking, answer]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            del self._undecided[call.id]
            decision = asking.result()
            self._keep(call, decision)
            return ApprovalAnswer(decision)
        finally:
            asking.cancel()
            self._undecided.pop(call.id, None)

    def note_decided(self, call_id: int) -> None:
        """A replay: the call had its yes, and its tool left the answer to the outside."""
        self._decided.add(call_id)

    def check(self, call_ids: Iterable[int]) -> None:
        """Raises `UsageError` where one of these does not wait for a decision."""
        for call_id in call_ids:
            if call_id not in self._undecided:
                ids = ", ".join(str(open_id) for open_id in self._undecided) or "none"
                raise UsageError(
                    f"call {call_id!r} of execution {self._plan.start_record.execution_id!r} waits for no decision; "
                    f"those that do: {ids}"
                )

    def decide(self, decisions: Mapping[int, Decision]) -> None:
        """Let these calls continue, and those that one of the answers covers."""
        decided = [(self._undecided.pop(call_id), decision) for call_id, decision in decisions.items()]
        for (call, answer), decision in decided:
            self._dispatch.step_back(call.id)
            answer.set_result(ApprovalAnswer(decision))
            self._standing.add(call, decision)
        self._answer_covered()

    def _keep(self, call: Call, decision: Decision) -> None:
        self._standing.add(call, decision)
        if decision.covers != "call":
            self._answer_covered()

    def _answer_covered(self) -> None:
        for call, answer in tuple(self._undecided.values()):
            answered = None if answer.done() else self._standing.answer_to(call)
            if answered is not None:
                del self._undecided[call.id]
                self._dispatch.step_back(call.id)
                answer.set_result(answered)
