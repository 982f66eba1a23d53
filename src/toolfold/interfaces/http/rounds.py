"""Rounds with a client: each pause has a token, and each token is answered once.

1. A token belongs to one pause. The same results sent again get the same answer, other results are
   refused, and nothing runs twice.
2. An execution has a lock, so duplicates that arrive together wait for the first one's answer.
3. An execution that is not held is read from its record and replayed. The number of replies in the
   token tells whether the continuation was taken before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolfold.errors import Fenced, LedgerFailed, UsageError
from toolfold.execution.history import RecordedExecution
from toolfold.interfaces.http import render
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.access.tokens import Token, Tokens
from toolfold.interfaces.http.execution_state import Held, Moved, Said, Start
from toolfold.interfaces.http.files import ended_before, expired_before, key_of, reference_to
from toolfold.interfaces.http.metrics import Metrics
from toolfold.interfaces.http.registry import GRACE_SECONDS, Holding
from toolfold.interfaces.http.render import (
    CANCELLED,
    EXPIRED,
    HOST_FAILURES,
    INVALID_TOKEN,
    Answer,
    Refusal,
    too_many_rounds,
)
from toolfold.interfaces.http.requests import Continuation, Standing, check_calls, standing_of
from toolfold.interfaces.http.settings import Settings
from toolfold.ledger.base import fenced_error, suspended_error
from toolfold.models import File, Limits, Outcome, Paused, Reply
from toolfold.runtime import Runtime
from toolfold.tools.tool import Decision

# ----------------------------------------------------------------------------------------------------
# Steps of the runtime: each runs a program to its next pause or its end, in a turn of its tenant.
#
# It knows sessions, turns and deadlines, but neither tokens nor responses.


class Steps:
    """The steps that run now. A step returns `None` if it was cancelled."""

    def __init__(
        self, runtime: Runtime, holding: Holding, *, limits: Limits, gate: Gate, metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._holding = holding
        self._limits = limits
        self._gate = gate
        self._metrics = metrics
        self._clock = clock
        self._running: list[Held] = []
        self._is_stopping = False

    async def begin(self, held: Held, start: Start, files: Sequence[File]) -> Paused | Outcome | None:
        """Run the first step of a new execution.

        Raises:
            TimeoutError: Its time ran out, and the runtime did not end it.
            Moved: Another process began it meanwhile.
        """
        gone = None if start.execution_id else start.gone
        step: Paused | Outcome | None = None
        try:
            async with asyncio.timeout(held.deadline - self._clock() + GRACE_SECONDS):
                await self._holding.enter_session(held, gone)
                async with self._gate.turn(start.tenant, gone) as waited:
                    self._metrics.observe("queue_seconds", waited)
                    if held.is_over:  # cancelled while it waited
                        raise Refusal(400, CANCELLED)
                    left = max(0.1, held.deadline - self._clock())
                    limits = replace(self._limits, wall_seconds=min(left, start.timeout_seconds))
                    step = await self._step(held, self._program(held, start, files, limits))
        except Fenced:
            self._holding.move(held, "lose")  # before `leave_session`: the session's turn belongs to the other process
            raise
        except UsageError as error:
            if start.execution_id and await self._runtime.recorded(held.execution_id) is not None:
                self._holding.move(held, "lose")
                raise Moved from error
            raise
        finally:
            if step is None:
                self._holding.leave_session(held)
        if step is not None:
            self._holding.move(held, "begin")
        if start.execution_id and isinstance(step, Paused):
            # As a replay after a restart would report it: the same start must get the same token.
            step = replace(step, seconds_left=limits.wall_seconds)
        return step

    def _program(
        self, held: Held, start: Start, files: Sequence[File], limits: Limits
    ) -> Coroutine[Any, Any, Paused | Outcome]:
        return self._runtime.start(
            start.code, tools=start.tools, files=files, limits=limits, session=key_of(start.tenant, start.session),
            tenant=start.tenant, execution_id=held.execution_id, durable=bool(start.execution_id),
            expires_at=held.deadline,
        )  # fmt: skip

    async def resume(
        self, held: Held, replies: Sequence[Reply], decisions: Mapping[int, Decision]
    ) -> Paused | Outcome | None:
        """Run the next step of an execution that is paused here."""
        async with self._gate.turn(held.tenant) as waited:
            self._metrics.observe("queue_seconds", waited)
            if not held.is_paused:  # the deadline, or a cancel, was first
                raise Refusal(400, EXPIRED)
            self._holding.move(held, "resume")
            said = len(replies) + len(decisions)
            held.replies += said
            try:
                return await self._step(held, self._runtime.resume(held.execution_id, replies, decisions=decisions))
            except HOST_FAILURES:
                # The client may send the same continuation again; the ledger does not write it twice.
                held.replies -= said
                self._holding.move(held, "pause")
                if held.execution_id not in self._runtime.executions:
                    await self._holding.lose(held)  # it was cut off, and only the ledger knows how far it came
                raise
            except Fenced:
                raise
            except BaseException:
                self._holding.end(held, "broken")
                raise

    async def bring_back(self, held: Held) -> Paused | Outcome:
        """Replay an execution that another process paused, up to where it waits.

        Raises:
            Refusal: Its time is over, or it was cancelled.
            Moved: Another process has ended it meanwhile.
        """
        step: Paused | Outcome | None = None
        try:
            async with asyncio.timeout(max(0.0, held.deadline - self._clock())):
                await self._holding.enter_session(held)
                async with self._gate.turn(held.tenant):
                    step = await self._step(held, self._runtime.resume(held.execution_id))
        except TimeoutError as error:
            raise Refusal(400, EXPIRED) from error
        except Fenced:
            self._holding.move(held, "lose")
            raise
        except UsageError as error:
            found = await self._runtime.recorded(held.execution_id)
            if found is not None and found.has_ended:
                raise Moved from error
            raise
        finally:
            if step is None:
                self._holding.leave_session(held)
        if step is None:
            raise Refusal(400, EXPIRED)
        return step

    def suspend(self) -> None:
        """Stop what runs, and begin nothing more; other processes can continue from the ledger."""
        self._is_stopping = True
        for held in self._running:
            self._runtime.suspend(held.execution_id)

    async def _step(self, held: Held, work: Coroutine[Any, Any, Paused | Outcome]) -> Paused | Outcome | None:
        if self._is_stopping:
            # It waited for a turn that a stopped one has left. Whatever ran from here on would be cut off for good.
            work.close()
            raise suspended_error(held.execution_id)
        task = held.task = asyncio.ensure_future(work)
        self._metrics.running += 1
        self._running.append(held)
        try:
            await _over(task)
            return None if task.cancelled() else task.result()
        except asyncio.CancelledError:
            # The server is shutting down and will not wait. Other processes can continue from the ledger.
            self._runtime.suspend(held.execution_id)
            await asyncio.wait([task], timeout=GRACE_SECONDS)
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            self._metrics.running -= 1
            self._running.remove(held)
            held.task = None


async def _over(task: asyncio.Future[Any]) -> None:
    """Wait for its end, whatever that is; to be cancelled meanwhile leaves it alone. As `asyncio.wait`, for one."""
    if task.done():
        return
    waiter = task.get_loop().create_future()

    def tell(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(tell)
    try:
        await waiter
    finally:
        task.remove_done_callback(tell)


_GONE_ON = "the execution of this Idempotency-Key has gone on; use its last continuation_token"


class Rounds:
    """Answers continuations, and starts that are sent again, from memory, by a step, or from the record."""

    def __init__(
        self, runtime: Runtime, holding: Holding, steps: Steps, settings: Settings, *, metrics: Metrics,
        clock: Callable[[], float], has_peers: bool,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._holding = holding
        self._steps = steps
        self._max_rounds = settings.max_rounds
        self._max_seconds = settings.max_timeout_seconds
        self._tokens = Tokens(settings.token_key)
        self._metrics = metrics
        self._clock = clock
        self._has_peers = has_peers

    def read(self, text: str, tenant: str, session: str | None = None) -> Token:
        """A token that belongs to the tenant, and to the session if one is given."""
        return self._tokens.read_for(text, tenant, session)

    def longest_seconds(self, start: Start, own_seconds: float) -> float:
        """How long an execution may take in all, if its program may run for `own_seconds`."""
        return own_seconds if start.counts_pauses else max(own_seconds, self._max_seconds)

    async def answer(self, held: Held, step: Paused | Outcome) -> Answer:
        """Render a step of the runtime for the client: its calls with a token, or the end."""
        if isinstance(step, Outcome):
            self._holding.end(held, step.status)
            if step.problem is not None:
                self._metrics.add("problems", kind=step.problem.kind)
            files = [reference_to(held.session, file) for file in step.files]
            return render.ended(step, session=held.session, files=files)
        held.round += 1
        if held.round > self._max_rounds:
            self._holding.end(held, "rounds")
            text, outcome = too_many_rounds(self._max_rounds), await self._runtime.cancel(held.execution_id)
            return render.stopped(text, outcome, session=held.session)
        self._metrics.add("rounds")
        held.open_calls = frozenset(call.id for call in step.calls)
        held.open_approvals = frozenset(call.id for call in step.approvals)
        self._holding.move(held, "pause")
        if self._holding.is_draining:
            self._holding.hand_over_soon(held)
        place = (held.execution_id, held.round, held.replies, held.session, held.tenant)
        token = self._tokens.sign(Token(*place, held.deadline, step.seconds_left))
        return render.tool_calls(step, session=held.session, token=token)

    async def cancelled(self, held: Held) -> Answer:
        """The answer to whoever waited for an execution that was cancelled."""
        self._holding.end(held, "cancelled")
        await self._runtime.cancel(held.execution_id)
        return render.failed(CANCELLED, status=400, session=held.session)

    # continuations

    async def go_on(self, sent: Continuation) -> Answer:
        """Answer a continuation here, whether or not its execution is held."""
        token = sent.token
        held = self._holding.get(token.execution_id)
        if token.expires_at < self._clock():
            return await self._expired(held, token)
        if held is None:
            held = self._unread(token)
        self._holding.requests.add(held, sent.request_id)
        async with held.lock:
            try:
                answer = await self._answer_once(held, sent)
            except Fenced:
                await self._holding.lose(held)
                raise
            finally:
                if held.is_over or not held.is_known:
                    self._holding.requests.forget(held)
            held.last = Said(token.round, sent.digest, answer)
            return answer

    def _unread(self, token: Token) -> Held:
        held = Held(
            execution_id=token.execution_id, tenant=token.tenant, session=token.session, deadline=token.expires_at,
            state="unread",
        )  # fmt: skip
        self._holding.hold(held)
        return held

    async def _answer_once(self, held: Held, sent: Continuation) -> Answer:
        token = sent.token
        if held.state == "lost":
            raise Moved
        if not held.is_known:
            found = await self._read_record(held, sent)
            if found is not None:
                return found
        if held.last is not None and held.last[:2] == (token.round, sent.digest):
            return held.last.answer
        if self._has_peers and token.round > held.round:
            # A replica that took it over has signed this token, so what is held here is out of date.
            raise fenced_error(held.execution_id)
        if held.is_over and token.round == held.round:
            await self._check_end(held)
            raise Refusal(400, EXPIRED)
        if token.round != held.round or not held.is_paused:
            raise Refusal(400, INVALID_TOKEN)
        check_calls((reply.call_id for reply in sent.replies), held.open_calls)
        check_calls(sent.decisions, held.open_approvals, "approval")
        step = await self._steps.resume(held, sent.replies, sent.decisions)
        return await self.cancelled(held) if step is None else await self.answer(held, step)

    async def _check_end(self, held: Held) -> None:
        """Refuse to tell of an end that is not on record yet: the next process would go on with the pause."""
        recorded = await self._runtime.recorded(held.execution_id)
        if recorded is not None and not recorded.has_ended:
            raise LedgerFailed("the end of the execution is not on record yet; send the same request again")

    async def _expired(self, held: Held | None, token: Token) -> Answer:
        if held is not None and not held.is_over:
            if held.deadline > self._clock():
                raise Refusal(400, EXPIRED)  # only this token has expired; the execution has a newer one
            self._holding.expire(held)  # its timer is late
        await self._holding.wait_for_end(token.execution_id)
        if token.execution_id in self._runtime.executions:
            raise Refusal(400, EXPIRED)  # it still runs, and whoever resumed it gets the outcome
        return await expired_before(self._runtime, token, self._clock())

    # starts that are sent again

    async def start_again(self, start: Start) -> Answer | None:
        """The answer to a start that was taken before, by its fixed id; `None` if none is on record."""
        recorded = await self._runtime.recorded(start.execution_id)
        if recorded is None:
            return None
        token = self._first_token(start, recorded)
        held = self._holding.get(start.execution_id)
        if held is not None and held.last is not None and held.last.round == 0:
            return held.last.answer
        if recorded.answer_count or recorded.outcome is not None or (held is not None and held.is_known):
            if recorded.first_pause is not None:
                text = self._tokens.sign(token)
                return render.tool_calls(recorded.first_pause, session=token.session, token=text)
            if recorded.outcome is None:
                raise Refusal(409, _GONE_ON)
            return ended_before(recorded.outcome, token.session)
        if held is None:
            held = self._unread(token)
        async with held.lock:
            if held.is_known:  # another request was faster, or it was lost
                raise Moved
            try:
                answer = await self._read_record(held, Continuation(token=token))
            except Fenced:
                await self._holding.lose(held)
                raise
            held.last = None if answer is None else Said(0, b"", answer)
            return answer

    async def take_up(self, execution_id: str, recorded: RecordedExecution) -> Answer:
        """Go on with an execution that no process holds, from its record; its next answer."""
        begun = recorded.start_record
        session = begun.session.removeprefix(key_of(begun.tenant, ""))
        deadline = begun.expires_at or begun.began_at + max(begun.limits.wall_seconds, self._max_seconds)
        place = (recorded.rounds + 1, recorded.answer_count, session, begun.tenant)
        held = self._holding.get(execution_id) or self._unread(Token(execution_id, *place, deadline))
        async with held.lock:
            if held.is_known:
                if held.last is None or held.state == "lost":
                    raise Moved
                return held.last.answer  # of the request that had it meanwhile
            try:
                step = await self._steps.bring_back(held)
            except Fenced:
                await self._holding.lose(held)
                raise
            was_doomed = held.state == "doomed"
            self._holding.move(held, "read")
            held.round, held.replies = recorded.rounds, recorded.answer_count
            answer = await (self.cancelled(held) if was_doomed else self.answer(held, step))
            held.last = Said(0, b"", answer)
            return answer

    def _first_token(self, start: Start, recorded: RecordedExecution) -> Token:
        """The token of its first pause."""
        begun = recorded.start_record
        seconds = begun.limits.wall_seconds
        session = begun.session.removeprefix(key_of(start.tenant, ""))
        deadline = begun.expires_at or begun.began_at + self.longest_seconds(start, seconds)
        return Token(start.execution_id, 1, 0, session, start.tenant, deadline, seconds)

    # what is on record

    async def _read_record(self, held: Held, sent: Continuation) -> Answer | None:
        """Bring back an execution that another process paused; the answer, if that one took this continuation."""
        token = sent.token
        recorded = await self._runtime.recorded(token.execution_id)
        if recorded is None:
            raise Refusal(400, EXPIRED)
        standing = standing_of(sent, recorded)
        if recorded.has_ended:
            return self._ended(held, sent, standing, recorded.outcome)
        step = await self._steps.bring_back(held)
        was_doomed = held.state == "doomed"
        self._holding.move(held, "read")
        held.replies = recorded.answer_count
        # A new continuation finds the pause that its token names; a taken one finds the pause after it.
        held.round = token.round - 1 if standing == "new" else token.round
        if isinstance(step, Paused):
            if was_doomed:
                return await self.cancelled(held)
            step = self._with_its_clock(step, token, standing)
        answer = await self.answer(held, step)
        # An outcome here means that a cancel or the clock ended it before it reached its pause.
        is_answer = isinstance(step, Outcome) or standing == "taken" or sent.is_start
        return answer if is_answer else None

    def _ended(self, held: Held, sent: Continuation, standing: Standing, outcome: Outcome | None) -> Answer:
        if outcome is not None and (standing == "taken" or sent.is_start):
            self._holding.move(held, "end")
            held.round = sent.token.round
            return ended_before(outcome, held.session)
        raise Refusal(400, EXPIRED if standing == "new" else INVALID_TOKEN)

    def _with_its_clock(self, step: Paused, token: Token, standing: Standing) -> Paused:
        """Set the clock to what the token says; a token of the pause before is only an upper limit."""
        if token.seconds_left is None:
            return step
        left = token.seconds_left if standing == "new" else min(token.seconds_left, step.seconds_left)
        self._runtime.put_clock_back(token.execution_id, left)
        return replace(step, seconds_left=left)
