"""Executions as clients see them: rounds, tokens, one deadline, each continuation answered once.

1. A token belongs to one pause. Using it with the same results again gives the same answer; with
   others it is refused: nothing runs twice.
2. The lock of an execution makes duplicates that arrive together wait for the first one's answer.
3. What is held here is a cache. An execution that is not held is read from the ledger and replayed,
   and the token's number of replies tells whether its continuation was already taken.
4. Among replicas, what is not held here is sent to whoever holds it; only where nobody does, 3 is done.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from toolfold.doors.http import answers
from toolfold.doors.http.answers import Answer
from toolfold.doors.http.files import SessionFiles, key_of, reference_to
from toolfold.doors.http.forwarded import ForwardedRequest, Passed
from toolfold.doors.http.gate import Gate, SessionTurns
from toolfold.doors.http.held import Gone, Held, Start
from toolfold.doors.http.metrics import Metrics
from toolfold.doors.http.records import end_record, ended_before, expired_before, replies_from_outside
from toolfold.doors.http.refusals import (
    CANCELLED,
    EXPIRED,
    HOST_FAILURES,
    INVALID_TOKEN,
    TIMED_OUT,
    Refusal,
    changes_hands,
    cut_off,
    put_off,
    too_many_rounds,
)
from toolfold.doors.http.requests import Requests
from toolfold.doors.http.results import check_calls, refuse_large, replies_of
from toolfold.doors.http.settings import Settings
from toolfold.doors.http.tokens import Token, Tokens
from toolfold.doors.http.wire import ToolResult
from toolfold.errors import Fenced, LedgerFailed, ToolfoldError, UsageError
from toolfold.ledger.record import Ledger
from toolfold.ledger.refusals import fenced
from toolfold.models import Limits, Outcome, Paused, Reply
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from toolfold.doors.http.replicas import Replicas

MAX_REMEMBERED = 2000
"""Ended executions whose last answer is held for a repeated continuation; older ones are read from the ledger."""
_TRIES: Final = 10
"""To find the replica that holds an execution while it changes hands."""
_GRACE_SECONDS = 2.0
"""For the runtime to end a program by its own clock, and so with its output, before we give up on it."""


class _Gone(Exception):
    """What was held of an execution is of the past: look again."""


class Executions:
    """All that run, wait or have just ended here."""

    def __init__(
        self, runtime: Runtime, ledger: Ledger, settings: Settings, *, limits: Limits, gate: Gate, metrics: Metrics,
        clock: Callable[[], float] = time.time, replicas: Replicas | None = None,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._ledger = ledger
        self._settings = settings
        self._limits = limits
        self._gate = gate
        self._metrics = metrics
        self._clock = clock
        self._replicas = replicas
        self._is_draining = False
        self._is_stopping = False
        self._running: list[Held] = []
        self._sessions = SessionTurns()
        self._tokens = Tokens(settings.token_key)
        self._files = SessionFiles(runtime.sessions)
        self._held: dict[str, Held] = {}
        self._over: dict[str, None] = {}
        self._requests = Requests()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Executions whose time ran out just now."""

    async def start(self, start: Start) -> Answer:
        """Run a program to its end or its first pause."""
        self._gate.start(start.tenant)
        given = await asyncio.to_thread(self._files.given, start.tenant, start.session, start.files)
        longest_seconds = self._longest(start, start.timeout_seconds)
        deadline = self._clock() + longest_seconds
        execution_id = start.execution_id or secrets.token_hex(8)
        held = Held(start.tenant, start.session, deadline, turn=execution_id)
        self._requests.add(held, start.request_id)
        step: Paused | Outcome | None = None
        try:
            async with asyncio.timeout(longest_seconds + _GRACE_SECONDS):
                gone = None if start.execution_id else start.gone
                await self._enter_session(held, gone)
                async with self._gate.turn(start.tenant, gone) as waited:
                    self._metrics.observe("queue_seconds", waited)
                    left = max(0.1, deadline - self._clock())
                    limits = replace(self._limits, wall_seconds=min(left, start.timeout_seconds))
                    if held.is_over:  # cancelled while it waited
                        raise Refusal(400, CANCELLED)
                    held.task = asyncio.ensure_future(
                        self._runtime.start(
                            start.code, tools=start.tools, files=given, limits=limits,
                            session=key_of(start.tenant, start.session), tenant=start.tenant,
                            execution_id=execution_id, durable=bool(start.execution_id), expires_at=deadline,
                        )
                    )  # fmt: skip
                    step = await self._step(held)
        except Fenced as error:
            held.is_lost = True
            if self._is_stopping:
                raise await self._failed_start(start, execution_id, error) from error
            raise
        except TimeoutError:
            self._end(held, "timeout")
            return answers.failed(TIMED_OUT, status=408, session=start.session, known_error="Time limit exceeded")
        except UsageError as error:
            if start.execution_id and await self._ledger.load(execution_id) is not None:
                held.is_lost = True
                raise _Gone from error  # another replica began it since this one looked
            raise
        except HOST_FAILURES as error:
            self._end(held, "broken")
            raise await self._failed_start(start, execution_id, error) from error
        finally:
            if step is None:
                self._let_go(held)
        if step is None:
            return await self._cancelled(held)
        held.execution_id = step.execution_id
        if start.execution_id and isinstance(step, Paused):
            # As `_again` says it after a restart: the same token for the same start.
            step = replace(step, seconds_left=limits.wall_seconds)
        answer = await self._answer(held, step)
        if held.is_paused:
            held.last = (0, b"", answer) if start.execution_id else None
            self._hold(held)
        return answer

    async def _failed_start(self, start: Start, execution_id: str, error: Exception) -> Refusal:
        if start.execution_id:
            return put_off(error)
        with suppress(LedgerFailed):
            await end_record(self._ledger, execution_id, "cancelled")  # nobody has a token for it
        called = error.started if isinstance(error, ToolfoldError) else ()
        return cut_off(error, started=not {spec.name for spec in start.tools}.issuperset(called))

    def _longest(self, start: Start, own_seconds: float) -> float:
        """How long it may take until its end, if its program may run for so long itself."""
        return own_seconds if start.counts_pauses else max(own_seconds, self._settings.max_timeout_seconds)

    async def start_once(self, start: Start, request: ForwardedRequest) -> Answer | Passed:
        """Start an execution with a fixed id, unless it was started before: then the answer to that start."""

        async def attempt() -> Answer | Passed:
            answer = await self._elsewhere(start.execution_id, request)
            return answer or await self._again(start) or await self.start(start)

        try:
            return await self._while_it_changes_hands(attempt)
        finally:
            if self._replicas is not None:
                self._replicas.unclaim(start.execution_id)

    async def _elsewhere(self, execution_id: str, request: ForwardedRequest) -> Passed | None:
        """The answer of the replica that took a start first; `None` where this one did."""
        if self._replicas is None or await self._replicas.claim(execution_id):
            return None
        passed = await self._replicas.pass_on(execution_id, request)
        if passed is None:
            raise _Gone  # let go of in the meantime
        return passed

    async def _again(self, start: Start) -> Answer | None:
        """The answer to a start that was taken before, by its fixed id; `None` if none is on record."""
        history = await self._ledger.load(start.execution_id)
        if history is None:
            return None
        session = history.begun.session.removeprefix(key_of(start.tenant, ""))
        begun = history.begun
        deadline = begun.expires_at or begun.began_at + self._longest(start, begun.limits.wall_seconds)
        held = self._held.get(start.execution_id)
        if held is not None and held.last is not None and held.last[0] == 0:
            return held.last[2]
        if replies_from_outside(history) or (held is not None and held.is_known):
            if history.outcome is not None:
                return ended_before(history, session)
            raise Refusal(409, "the execution of this Idempotency-Key has gone on; use its last continuation_token")
        if held is None:
            held = Held(start.tenant, session, deadline, start.execution_id, turn=start.execution_id, is_known=False)
            self._hold(held)
        async with held.lock:
            if held.is_lost or held.is_known:  # while this waited for its turn
                raise _Gone
            token = Token(held.execution_id, 1, 0, session, start.tenant, deadline, begun.limits.wall_seconds)
            try:
                answer = await self._recall(held, token, ())
            except Fenced:
                await self._lose(held)
                raise
            held.last = None if answer is None else (0, b"", answer)
            return answer

    async def go_on(
        self, text: str, results: Sequence[ToolResult], *, tenant: str, session: str | None = None,
        body_bytes: int = 0, request: ForwardedRequest | None = None,
    ) -> Answer | Passed:  # fmt: skip
        """Answer calls of a paused execution and run it to its end or its next pause."""
        token = self._tokens.read_for(text, tenant, session)
        if body_bytes > self._limits.reply_bytes:
            refuse_large(results, self._limits.reply_bytes)
        replies = replies_of(results)
        digest = hashlib.sha256(msgspec.json.encode([result.model_dump() for result in results])).digest()

        async def attempt() -> Answer | Passed:
            held = self._held.get(token.execution_id)
            if self._replicas is not None and request is not None and (held is None or not held.is_known):
                passed = await self._replicas.pass_on(token.execution_id, request)
                if passed is not None:
                    self._metrics.add("forwarded")
                    return passed
            return await self._go_on_here(token, replies, digest, request.request_id if request is not None else "")

        return await self._while_it_changes_hands(attempt)

    async def _while_it_changes_hands(self, attempt: Callable[[], Awaitable[Answer | Passed]]) -> Answer | Passed:
        """Try again while another replica has the execution now, or just had it."""
        for _ in range(_TRIES):
            try:
                return await attempt()
            except _Gone:
                continue
            except Fenced as error:
                if self._is_stopping:
                    raise put_off(error) from error
                if self._replicas is None:
                    raise
            except HOST_FAILURES as error:
                raise put_off(error) from error
        raise changes_hands()

    async def _go_on_here(self, token: Token, replies: Sequence[Reply], digest: bytes, request_id: str) -> Answer:
        held = self._held.get(token.execution_id)
        if token.expires_at < self._clock():
            return await self._expired(held, token)
        if held is None:
            held = Held(token.tenant, token.session, token.expires_at, token.execution_id, is_known=False)
            held.turn = token.execution_id
            self._hold(held)
        self._requests.add(held, request_id)
        async with held.lock:
            try:
                answer = await self._answer_once(held, token, replies, digest)
            except Fenced:
                await self._lose(held)
                raise
            finally:
                if held.is_over or not held.is_known:
                    self._requests.forget(held)
            held.last = (token.round, digest, answer)
            return answer

    async def _answer_once(self, held: Held, token: Token, replies: Sequence[Reply], digest: bytes) -> Answer:
        if held.is_lost:
            raise _Gone
        if not held.is_known:
            found = await self._recall(held, token, replies)
            if found is not None:
                return found
        if held.last is not None and held.last[:2] == (token.round, digest):
            return held.last[2]
        if self._replicas is not None and token.round > held.round:
            # Signed by a replica that has taken this over and gone on: what is held here is of the past.
            raise fenced(held.execution_id)
        if held.is_over and token.round == held.round:
            raise Refusal(400, EXPIRED)
        if token.round != held.round or not held.is_paused:
            raise Refusal(400, INVALID_TOKEN)
        check_calls(replies, held.open_calls)
        return await self._resume(held, replies)

    async def cancel(
        self, tenant: str, *, request_id: str = "", token: str = "", request: ForwardedRequest | None = None
    ) -> None:
        """End what a request started; unknown ids are ignored, so that a cancel can race the end."""
        execution_id = ""
        if token:
            of_token = self._tokens.read_for(token, tenant, None)
            if of_token.expires_at < self._clock():
                raise Refusal(400, EXPIRED)
            execution_id = of_token.execution_id
        for _ in range(_TRIES):
            held = self._requests.find(tenant, request_id) or self._held.get(execution_id)
            if held is None or not (held.is_known or held.task):
                await self._cancel_elsewhere(held.execution_id if held is not None else execution_id, request)
                return
            try:
                await self._cancel_here(held)
            except Fenced:
                await self._lose(held)
            else:
                return

    async def _cancel_here(self, held: Held) -> None:
        held.is_cancelled = not held.is_known
        if held.is_paused:
            self._pause(held, False)
            self._end(held, "cancelled")
        if held.execution_id:
            await self._runtime.cancel(held.execution_id)
        elif held.task is not None:
            held.task.cancel()
        else:
            held.is_over = True

    async def _cancelled(self, held: Held) -> Answer:
        """What its clients hear of a cancel that came first."""
        self._end(held, "cancelled")
        await self._runtime.cancel(held.execution_id)
        return answers.failed(CANCELLED, status=400, session=held.session)

    async def _cancel_elsewhere(self, execution_id: str, request: ForwardedRequest | None) -> None:
        if self._replicas is not None and request is not None:
            if not execution_id:
                await self._replicas.tell_others(request)
            elif await self._replicas.pass_on(execution_id, request) is not None:
                return
        if execution_id:
            await end_record(self._ledger, execution_id, "cancelled")

    async def lose(self, execution_id: str) -> None:
        """Another replica has this execution: end its guest here."""
        held = self._held.get(execution_id)
        if held is None or held.lock.locked():
            await self._runtime.abandon(execution_id)  # whoever waits for its next word hears of it
        else:
            await self._lose(held)

    async def drain(self) -> None:
        """Hand what is paused over to the other replicas, and from now on whatever pauses."""
        if self._replicas is None:
            return
        self._is_draining = True
        paused = [held for held in self._held.values() if held.is_paused and not held.lock.locked()]
        handed_over: list[str] = []
        for held in paused:
            if held.is_paused and not held.lock.locked():  # still: each one before it took a while
                await self._lose(held)
                handed_over.append(held.execution_id)
        await self._replicas.let_go(handed_over)

    def suspend(self) -> None:
        """Cut off what runs: the server does not wait any longer, and the ledger has what others go on with."""
        self._is_stopping = True
        for held in self._running:
            self._runtime.suspend(held.execution_id or held.turn)

    async def close(self) -> None:
        """Stop the clocks; what is paused stays in the ledger for the next process."""
        await self.drain()
        for held in self._held.values():
            if held.timer is not None:
                held.timer.cancel()
        if self._tasks:
            # Not for ever: one may wait for a request that was cut off.
            await asyncio.wait(self._tasks, timeout=_GRACE_SECONDS)

    # one step

    async def _resume(self, held: Held, replies: Sequence[Reply]) -> Answer:
        async with self._gate.turn(held.tenant) as waited:
            self._metrics.observe("queue_seconds", waited)
            if not held.is_paused:  # the deadline, or a cancel, was first
                raise Refusal(400, EXPIRED)
            self._pause(held, False)
            held.replies += len(replies)
            held.task = asyncio.ensure_future(self._runtime.resume(held.execution_id, replies))
            try:
                step = await self._step(held)
            except HOST_FAILURES:
                # The same continuation may be sent again: what was written is not written twice.
                held.replies -= len(replies)
                self._pause(held, True)
                if held.execution_id not in self._runtime.executions:
                    await self._lose(held)  # it was cut off on its way, and only the ledger knows how far it came
                raise
            except Fenced:
                raise
            except BaseException:
                self._end(held, "broken")
                raise
        return await self._cancelled(held) if step is None else await self._answer(held, step)

    async def _step(self, held: Held) -> Paused | Outcome | None:
        """The runtime's next word; `None` where a cancel came first."""
        task = held.task
        assert task is not None
        self._metrics.running += 1
        self._running.append(held)
        try:
            await asyncio.wait([task])
            return None if task.cancelled() else task.result()
        except asyncio.CancelledError:
            # The server stops and will not wait: what is on record goes on elsewhere.
            self._runtime.suspend(held.execution_id or held.turn)
            await asyncio.wait([task], timeout=_GRACE_SECONDS)
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            self._metrics.running -= 1
            self._running.remove(held)
            held.task = None

    async def _answer(self, held: Held, step: Paused | Outcome) -> Answer:
        if isinstance(step, Outcome):
            self._end(held, step.status)
            if step.problem is not None:
                self._metrics.add("problems", kind=step.problem.kind)
            files = [reference_to(held.session, file) for file in step.files]
            return answers.ended(step, session=held.session, files=files)
        held.round += 1
        if held.round > self._settings.max_rounds:
            self._end(held, "rounds")
            text, outcome = too_many_rounds(self._settings.max_rounds), await self._runtime.cancel(held.execution_id)
            return answers.stopped(text, outcome, status=400, session=held.session)
        self._metrics.add("rounds")
        held.open_calls = frozenset(call.id for call in step.calls)
        self._pause(held, True)
        if self._is_draining:
            self._spawn(self._hand_over(held))
        place = (held.execution_id, held.round, held.replies, held.session, held.tenant)
        token = Token(*place, held.deadline, step.seconds_left)
        return answers.tool_calls(step.calls, session=held.session, token=self._tokens.sign(token))

    # tokens and the ledger

    async def _recall(self, held: Held, token: Token, replies: Sequence[Reply]) -> Answer | None:
        """Bring back what another process paused; an answer if this continuation was taken before it stopped."""
        history = await self._ledger.load(token.execution_id)
        if history is None:
            raise Refusal(400, EXPIRED)
        taken = replies_from_outside(history)
        is_the_same = all(taken.get(reply.call_id) == reply for reply in replies)
        is_taken = len(taken) == token.replies + len(replies) and is_the_same
        is_new = len(taken) == token.replies
        if history.state == "ended":
            if is_taken and history.outcome is not None:
                held.is_known, held.is_over, held.round = True, True, token.round
                return ended_before(history, held.session)
            raise Refusal(400, EXPIRED if is_new else INVALID_TOKEN)
        if not is_new and not is_taken:
            raise Refusal(400, INVALID_TOKEN)
        step: Paused | Outcome | None = None
        try:
            async with asyncio.timeout(max(0.0, held.deadline - self._clock())):
                await self._enter_session(held)
                async with self._gate.turn(held.tenant):
                    held.task = asyncio.ensure_future(self._runtime.resume(token.execution_id))
                    step = await self._step(held)
        except TimeoutError as error:
            raise Refusal(400, EXPIRED) from error
        except Fenced:
            held.is_lost = True
            raise
        except UsageError as error:
            history = await self._ledger.load(token.execution_id)
            if history is not None and history.state == "ended":  # by another, in the meantime
                raise _Gone from error
            raise
        finally:
            if step is None:
                self._let_go(held)
        if step is None:
            raise Refusal(400, EXPIRED)
        held.is_known, held.replies = True, len(taken)
        # A new continuation finds the pause as its token says; a taken one is followed by the next pause.
        held.round = token.round - 1 if is_new else token.round
        if isinstance(step, Paused):
            if held.is_cancelled:
                return await self._cancelled(held)
            step = self._with_its_clock(step, token, is_new)
        answer = await self._answer(held, step)
        # Where it did not come as far as its pause, a cancel or the clock was first.
        is_answer = isinstance(step, Outcome) or (is_taken and (not is_new or not replies))
        return answer if is_answer else None

    def _with_its_clock(self, step: Paused, token: Token, is_new: bool) -> Paused:
        """The clock as it was at this pause, or, where the token is of the one before, at most so much."""
        if token.seconds_left is None:
            return step
        left = token.seconds_left if is_new else min(token.seconds_left, step.seconds_left)
        self._runtime.put_clock_back(token.execution_id, left)
        return replace(step, seconds_left=left)

    # what is held

    def _hold(self, held: Held) -> None:
        self._held[held.execution_id] = held
        loop = asyncio.get_running_loop()
        held.timer = loop.call_later(max(0.0, held.deadline - self._clock()), self._expire, held)

    async def _expired(self, held: Held | None, token: Token) -> Answer:
        if held is not None and not held.is_over:
            if held.deadline > self._clock():
                raise Refusal(400, EXPIRED)  # the token alone is: the execution goes on with its last one
            self._expire(held)  # its timer is late
        if (ending := self._ending.get(token.execution_id)) is not None:
            await asyncio.wait([ending])
        if token.execution_id in self._runtime.executions:
            raise Refusal(400, EXPIRED)  # it runs to its end, and whoever let it go on hears of that
        return await expired_before(self._ledger, token, self._clock())

    def _expire(self, held: Held) -> None:
        """The whole execution's time is over, whether it runs or waits; its tokens are, too."""
        if held.timer is not None:
            held.timer.cancel()
        self._held.pop(held.execution_id, None)
        self._over.pop(held.execution_id, None)
        if held.is_over:
            return
        if held.is_paused:
            self._pause(held, False)
            self._end(held, "timeout")
        ending = self._ending[held.execution_id] = self._spawn(self._run_out(held.execution_id))
        ending.add_done_callback(lambda _: self._ending.pop(held.execution_id, None))

    async def _run_out(self, execution_id: str) -> None:
        with suppress(Fenced):  # another process has it, with the same deadline
            await self._runtime.expire(execution_id)

    async def _lose(self, held: Held) -> None:
        """Forget an execution that another process goes on with; nothing of it is written from here."""
        held.is_lost = True
        if self._held.get(held.execution_id) is held:
            if held.is_known and not self._is_draining:
                self._metrics.add("lost")
            del self._held[held.execution_id]
            self._over.pop(held.execution_id, None)
        if held.timer is not None:
            held.timer.cancel()
        if held.is_paused:
            self._pause(held, False)
        self._let_go(held)
        await self._runtime.abandon(held.execution_id)

    async def _hand_over(self, held: Held) -> None:
        assert self._replicas is not None
        async with held.lock:  # its answer is on its way
            if held.is_paused and not held.is_lost:
                await self._lose(held)
                await self._replicas.let_go([held.execution_id])

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _pause(self, held: Held, is_paused: bool) -> None:
        held.is_paused = is_paused
        self._gate.paused(held.tenant, 1 if is_paused else -1)

    def _end(self, held: Held, status: str) -> None:
        held.is_over = True
        self._metrics.add("executions", status=status)
        self._metrics.observe("execution_rounds", held.round)
        if status == "timeout":
            self._metrics.add("timeouts")
        self._let_go(held)
        if held.execution_id in self._held:
            self._over[held.execution_id] = None
        while len(self._over) > MAX_REMEMBERED:
            oldest = next(iter(self._over))
            del self._over[oldest]
            gone = self._held.pop(oldest)
            if gone.timer is not None:
                gone.timer.cancel()

    async def _enter_session(self, held: Held, gone: Gone | None = None) -> None:
        await self._sessions.enter(key_of(held.tenant, held.session), gone)
        held.has_session = True
        if self._replicas is not None:
            await self._replicas.enter_session(key_of(held.tenant, held.session), held.turn, gone)

    def _let_go(self, held: Held) -> None:
        """Of the session, and of the ids that a cancel would name."""
        if held.has_session:
            held.has_session = False
            self._sessions.leave(key_of(held.tenant, held.session))
            if self._replicas is not None:
                self._replicas.leave_session(key_of(held.tenant, held.session), is_lost=held.is_lost)
        self._requests.forget(held)
