"""Rounds with a client: each pause has a token, and each token is answered once.

1. A token belongs to one pause. The same results sent again get the same answer, other results are
   refused, and nothing runs twice.
2. An execution has a lock, so duplicates that arrive together wait for the first one's answer.
3. An execution that is not held is read from its record and replayed. The number of replies in the
   token tells whether the continuation was taken before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from toolfold.doors.http import answers
from toolfold.doors.http.answers import Answer
from toolfold.doors.http.continuation import Continuation, Standing, standing_of
from toolfold.doors.http.files import key_of, reference_to
from toolfold.doors.http.held import Held, Said, Start
from toolfold.doors.http.holding import Holding
from toolfold.doors.http.metrics import Metrics
from toolfold.doors.http.peers import Moved
from toolfold.doors.http.records import ended_before, expired_before
from toolfold.doors.http.refusals import CANCELLED, EXPIRED, INVALID_TOKEN, Refusal, too_many_rounds
from toolfold.doors.http.results import check_calls
from toolfold.doors.http.settings import Settings
from toolfold.doors.http.steps import Steps
from toolfold.doors.http.tokens import Token, Tokens
from toolfold.errors import Fenced, LedgerFailed
from toolfold.execution.history import Recorded
from toolfold.ledger.base import fenced
from toolfold.models import Outcome, Paused
from toolfold.runtime import Runtime

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
            return answers.ended(step, session=held.session, files=files)
        held.round += 1
        if held.round > self._max_rounds:
            self._holding.end(held, "rounds")
            text, outcome = too_many_rounds(self._max_rounds), await self._runtime.cancel(held.execution_id)
            return answers.stopped(text, outcome, session=held.session)
        self._metrics.add("rounds")
        held.open_calls = frozenset(call.id for call in step.calls)
        held.open_approvals = frozenset(call.id for call in step.approvals)
        self._holding.move(held, "pause")
        if self._holding.is_draining:
            self._holding.hand_over_soon(held)
        place = (held.execution_id, held.round, held.replies, held.session, held.tenant)
        token = self._tokens.sign(Token(*place, held.deadline, step.seconds_left))
        return answers.tool_calls(step, session=held.session, token=token)

    async def cancelled(self, held: Held) -> Answer:
        """The answer to whoever waited for an execution that was cancelled."""
        self._holding.end(held, "cancelled")
        await self._runtime.cancel(held.execution_id)
        return answers.failed(CANCELLED, status=400, session=held.session)

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
            raise fenced(held.execution_id)
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
        if recorded.said or recorded.outcome is not None or (held is not None and held.is_known):
            if recorded.first_pause is not None:
                text = self._tokens.sign(token)
                return answers.tool_calls(recorded.first_pause, session=token.session, token=text)
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

    async def take_up(self, execution_id: str, recorded: Recorded) -> Answer:
        """Go on with an execution that no process holds, from its record; its next answer."""
        begun = recorded.begun
        session = begun.session.removeprefix(key_of(begun.tenant, ""))
        deadline = begun.expires_at or begun.began_at + max(begun.limits.wall_seconds, self._max_seconds)
        place = (recorded.rounds + 1, recorded.said, session, begun.tenant)
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
            held.round, held.replies = recorded.rounds, recorded.said
            answer = await (self.cancelled(held) if was_doomed else self.answer(held, step))
            held.last = Said(0, b"", answer)
            return answer

    def _first_token(self, start: Start, recorded: Recorded) -> Token:
        """The token of its first pause."""
        begun = recorded.begun
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
        held.replies = recorded.said
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
