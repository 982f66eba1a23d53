"""Tools that turn out to need an answer of the outside while they are served."""

import asyncio
from typing import Any

import pytest

from toolfold import Outcome, Paused, Runtime, tool
from toolfold.errors import Fenced, LedgerFull
from toolfold.ledger.memory import MemoryLedger
from toolfold.runtime import RuntimeSettings
from toolfold.tools.policy import Policy
from toolfold.tools.router import CallRequest, Handler
from toolfold.tools.tool import Decision, Tool

YES = Decision(approved=True)


class Till:
    """A tool that pays; more than 100 only after it has looked, and asked."""

    def __init__(self) -> None:
        self.looked: list[int] = []
        self.paid: list[int] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.began = asyncio.Event()

    def runtime(self, ledger: MemoryLedger, **options: Any) -> Runtime:
        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.began.set()
            await self.is_open.wait()
            self.paid.append(amount)
            return f"paid {amount}"

        def asking(served: Tool, rest: Handler) -> Handler:
            async def serve(request: CallRequest) -> Any:
                if served.spec.name == "pay":
                    assert request.context is not None
                    assert request.context.approve is not None
                    self.looked.append(request.arguments["amount"])
                    if request.arguments["amount"] > 100:
                        await request.context.approve(request.call, served.spec)
                return await rest(request)

            return serve

        return Runtime([pay], ledger=ledger, steps=(asking,), settings=RuntimeSettings(may_ask=True), **options)


PROGRAM = "[await pay(amount=1), *await asyncio.gather(pay(amount=200), pay(amount=2), pay(amount=300))]"


async def test_calls_that_ask_pause_the_program_and_the_others_are_served() -> None:
    till = Till()
    async with till.runtime(MemoryLedger()) as runtime:
        step = await runtime.start(PROGRAM)
        assert isinstance(step, Paused)
        asked = [call.arguments for call in step.approvals]
        end = await runtime.resume(step.execution_id, decisions={call.id: YES for call in step.approvals})

    assert (asked, step.calls) == ([{"amount": 200}, {"amount": 300}], ())
    assert isinstance(end, Outcome)
    assert end.value == ["paid 1", "paid 200", "paid 2", "paid 300"]
    assert sorted(till.paid) == [1, 2, 200, 300]


async def test_in_another_process_they_ask_again_and_nothing_is_done_twice() -> None:
    till, ledger = Till(), MemoryLedger()
    async with till.runtime(ledger) as runtime:
        first = await runtime.start(PROGRAM)
    assert isinstance(first, Paused)

    async with till.runtime(ledger) as runtime:
        again = await runtime.resume(first.execution_id)
        assert isinstance(again, Paused)
        end = await runtime.resume(first.execution_id, decisions={call.id: YES for call in again.approvals})

    assert again == first
    assert isinstance(end, Outcome)
    assert end.value == ["paid 1", "paid 200", "paid 2", "paid 300"]
    assert sorted(till.paid) == [1, 2, 200, 300]
    assert sorted(till.looked) == [1, 2, 200, 200, 300, 300]


async def test_a_released_execution_is_replayed_in_the_same_runtime() -> None:
    till = Till()
    async with till.runtime(MemoryLedger()) as runtime:
        first = await runtime.start(PROGRAM)
        assert isinstance(first, Paused)
        await runtime.executions.release(first.execution_id)
        await runtime.executions.release("0" * 16)
        again = await runtime.resume(first.execution_id)
        end = await runtime.resume(first.execution_id, decisions={call.id: YES for call in first.approvals})

    assert again == first
    assert isinstance(end, Outcome)
    assert sorted(till.paid) == [1, 2, 200, 300]


@pytest.mark.parametrize("policy", [None, Policy(ask=["pay"])], ids=["asks while served", "asks before"])
async def test_a_call_that_was_begun_after_the_answer_is_not_made_again(policy: Policy | None) -> None:
    till, ledger = Till(), MemoryLedger()
    text = "try:\n    print(await pay(amount=200))\nexcept ToolError as error:\n    print(error)"
    async with till.runtime(ledger, policy=policy) as stopped, till.runtime(ledger, policy=policy) as other:
        step = await stopped.start(text)
        assert isinstance(step, Paused)
        till.is_open.clear()
        going_on = asyncio.create_task(stopped.resume(step.execution_id, decisions={1: YES}))
        await till.began.wait()  # the tool has begun, and its host is about to be lost

        end = await other.resume(step.execution_id)

        till.is_open.set()
        with pytest.raises(Fenced):
            await going_on
    assert isinstance(end, Outcome)
    assert end.stdout == "'pay' was called before the host stopped; whether it ran is not known\n"
    assert till.looked == [200]  # by the first host; the other did not serve it


async def test_a_program_that_is_too_large_to_keep_runs_to_its_end_but_cannot_pause() -> None:
    @tool
    async def read(size: int) -> str:
        """As many letters."""
        return "x" * size

    ledger = MemoryLedger(max_execution_bytes=100_000)
    async with Runtime([read], ledger=ledger, settings=RuntimeSettings(may_ask=True)) as runtime:
        end = await runtime.start("sum([len(await read(size=40_000)) for _ in range(5)])")
    till = Till()
    async with till.runtime(MemoryLedger(max_execution_bytes=2_000)) as runtime:
        with pytest.raises(LedgerFull):
            await runtime.start("for _ in range(50): await pay(amount=1)\nawait pay(amount=200)")

    assert isinstance(end, Outcome)
    assert end.value == 200_000
    assert till.paid == [1] * 50
