"""Steps of the runtime: each runs a program to its next pause or its end, in a turn of its tenant.

It knows sessions, turns and deadlines, but neither tokens nor responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolfold.doors.http.files import key_of
from toolfold.doors.http.gate import Gate
from toolfold.doors.http.held import Held, Start
from toolfold.doors.http.holding import GRACE_SECONDS, Holding
from toolfold.doors.http.metrics import Metrics
from toolfold.doors.http.peers import Moved
from toolfold.doors.http.refusals import CANCELLED, EXPIRED, HOST_FAILURES, Refusal
from toolfold.errors import Fenced, UsageError
from toolfold.ledger.base import suspended
from toolfold.models import File, Limits, Outcome, Paused, Reply
from toolfold.runtime import Runtime
from toolfold.tools.tool import Decision


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
            raise suspended(held.execution_id)
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
