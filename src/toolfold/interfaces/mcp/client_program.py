"""Program of an MCP client from its first request to its result, with the questions that it asks on the way.

The program runs in its own task, because with newer clients it spans several requests: the result of one
request carries its questions, and the next request brings the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Final

import mcp_types as types
import msgspec

from toolfold.errors import ToolRefused, UsageError
from toolfold.execution.registry import Answers, drive, refuse_approvals
from toolfold.interfaces.mcp.client_questions import CLIENT_ROUNDS, ClientQuestions, approval_form, decision_of
from toolfold.models import (
    Call,
    CallRecord,
    File,
    Language,
    Limits,
    Outcome,
    Paused,
    ProgramOptions,
    RunNames,
    ToolSpec,
)
from toolfold.runtime import Runtime
from toolfold.service.wait_for_execution import WaitableExecution
from toolfold.tools.tool import Decision

CURRENT: Final[ContextVar[McpProgram | None]] = ContextVar("toolfold_running", default=None)
"""The program whose task, or one of whose calls, is running this code."""


class McpProgram(WaitableExecution):
    """A program of one client, from its start to its end, or from where its record ends.

    Unless the client `can_ask` a person, calls that need approval are denied. `asker` is what the client calls itself,
    for the record of what its user approves.
    """

    def __init__(
        self, runtime: Runtime, execution_id: str, *, limits: Limits, session: str = "", can_ask: bool, asker: str = "",
        language: Language = "python",
    ) -> None:  # fmt: skip
        super().__init__(runtime, execution_id)
        self.limits = limits
        self.text = ""
        self._session = session
        self._language = language
        self._asker = asker if can_ask else None
        self._names = RunNames()
        self.questions = ClientQuestions(self._news.set)
        """Questions for the client to ask, and its answers."""

    def start(
        self, text: str, before: Callable[[McpProgram], Awaitable[None]] | None = None, *, files: Sequence[File] = (),
        is_durable: bool = False, names: RunNames | None = None,
    ) -> None:  # fmt: skip
        """Begin the program, after `before`, which may ask as well.

        If it `is_durable` and has no session, other processes can continue it.
        """
        self.text, self._names = text, names or self._names
        self.is_durable = is_durable and not self._session
        self.begin(self._run(text, before, files, is_driven=is_durable))

    def revive(self) -> None:
        """Continue a program from its record."""
        self.is_durable = True
        self.begin(self._drive(self._runtime.resume(self.execution_id)))

    def on_end(self) -> None:
        """Refuse open questions: a server may have asked for its own sake, in no call of the program."""
        self.questions.refuse("the program has ended")
        super().on_end()

    # questions

    @property
    def can_ask(self) -> bool:
        return self._asker is not None

    async def ask(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask the person, and wait; raises `ToolRefused` if the client takes no more questions from this program."""
        if not self.can_ask:
            return types.ElicitResult(action="decline")
        answer = await self.questions.put(types.ElicitRequest(params=params))
        return answer if isinstance(answer, types.ElicitResult) else types.ElicitResult(action="decline")

    async def ask_for_roots(self) -> Sequence[types.Root]:
        """The folders of a newer client, which only names them during a request; raises as `ask`."""
        answer = await self.questions.put(types.ListRootsRequest())
        return answer.roots if isinstance(answer, types.ListRootsResult) else ()

    async def ask_within_a_call(self, params: types.ElicitRequestParams, *, server: str) -> types.ElicitResult:
        """Ask for a bridged server in the middle of a call; the clocks of program and call stop meanwhile."""
        with self._runtime.executions.standing_clock(self.execution_id, f"mcp:{server}"):
            return await self.ask(params)

    def park(self) -> None:
        """Give up the session's turn until the client comes back, so that other programs need not wait."""
        self.questions.rounds += 1
        if self._session:
            self._runtime.sessions.park(self._session, self.execution_id)

    def unpark(self) -> None:
        if self._session:
            self._runtime.sessions.unpark(self._session)

    # the program's task

    async def _run(
        self, text: str, before: Callable[[McpProgram], Awaitable[None]] | None, files: Sequence[File], *,
        is_driven: bool,
    ) -> Outcome:  # fmt: skip
        CURRENT.set(self)
        if before is not None:
            await before(self)
        # Without a session nothing is kept, whatever `keep_names` says; a bash program keeps only files.
        options = ProgramOptions(
            limits=self.limits, on_call=self._note_call, session=self._session,
            keep_names=self._language == "python", execution_id=self.execution_id, files=files, language=self._language,
            **msgspec.structs.asdict(self._names),
        )  # fmt: skip
        if not self.can_ask and not is_driven:
            return await self._runtime.run(text, options=options)
        return await self._drive(self._runtime.start(text, options=options, durable=self.is_durable))

    async def _drive(self, begin: Coroutine[object, None, Paused | Outcome]) -> Outcome:
        CURRENT.set(self)
        step = await drive(self._runtime, await begin, self._answer)
        assert isinstance(step, Outcome), "`_answer` answers every pause, or raises"
        return step

    def _note_call(self, record: CallRecord) -> None:
        ending = " failed" if record.error is not None else ""
        self.note(f"{record.name}{ending} ({record.seconds * 1000:.0f} ms)")

    async def _answer(self, paused: Paused) -> Answers:
        if not paused.approvals:
            raise UsageError("the program waits for calls that only another interface can answer")
        if not self.can_ask:
            return await refuse_approvals(paused)
        calls_by_task = {asyncio.create_task(self._decide(call)): call for call in paused.approvals}
        decisions: dict[int, Decision] = {}
        pending = set(calls_by_task)
        try:
            # Until all are answered, or one of the answers is for more than its own call: what it covers need not be
            # asked, and what it does not is asked again.
            while pending and all(decision.covers == "call" for decision in decisions.values()):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                decisions |= {calls_by_task[task].id: task.result() for task in done}
        finally:
            for task in pending:
                task.cancel()
        return Answers(decisions=decisions)

    async def _decide(self, call: Call) -> Decision:
        is_last = self.questions.rounds >= CLIENT_ROUNDS - 1
        try:
            return decision_of(await self.ask(approval_form(call, is_last=is_last)), by=self._asker or "")
        except ToolRefused as error:
            return Decision(approved=False, reason=str(error))

    async def decide_with_others(self, call: Call) -> Decision | None:
        """The person's decision on a call that others may decide on, too; a `cancel` decides nothing."""
        if not self.can_ask:
            return None
        try:
            answer = await self.ask(approval_form(call))
        except ToolRefused:
            return None
        return None if answer.action == "cancel" else decision_of(answer, by=self._asker or "")


async def ask_client(call: Call, _: ToolSpec) -> Decision | None:
    """Ask the client whose program makes the call."""
    program = CURRENT.get()
    return None if program is None else await program.decide_with_others(call)
