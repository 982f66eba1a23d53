"""Programs that take longer than a run of their agent waits: one deferred call, and its result in a later run."""

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, UserError
from pydantic_ai.messages import ModelMessage

from tests.interfaces.pydantic_ai.talk import Shared, Talk, program, returns
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset, NestedApprovals

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Desk:
    """An agent with one program that waits at a gate, and whoever waits for the program."""

    def __init__(self, engine: Shared, text: str, **options: Any) -> None:
        self.opened = asyncio.Event()
        self.entered = asyncio.Event()
        self.calls: list[str] = []
        self.toolset: CodeModeToolset[None] = CodeModeToolset(
            self._tools(), engine=engine, yield_after_seconds=0.3, **options
        )
        self.agent: Agent[None, Any] = Agent(
            Talk(program(text), "done").model,
            toolsets=[self.toolset],
            output_type=[str, DeferredToolRequests],
            capabilities=[NestedApprovals()],
        )
        self.history: list[ModelMessage] = []

    def _tools(self) -> FunctionToolset[None]:
        async def gate() -> str:
            """Wait."""
            self.calls.append("gate")
            self.entered.set()
            await self.opened.wait()
            return "open"

        def pay(amount: int) -> str:
            """Pay."""
            self.calls.append(f"pay {amount}")
            return f"paid {amount}"

        functions: FunctionToolset[None] = FunctionToolset([gate])
        functions.add_function(pay, requires_approval=True)
        return functions

    async def run(self, **options: Any) -> Any:
        result = await self.agent.run(message_history=self.history or None, **options)
        self.history = result.all_messages()
        return result.output


async def test_a_long_program_is_a_deferred_call_whose_result_a_later_run_gets(engine: Shared) -> None:
    desk = Desk(engine, "print('one')\nprint(await gate())\n2")
    async with desk.agent:
        asked = await desk.run(user_prompt="go")
        (call,) = asked.calls
        note = asked.metadata[call.tool_call_id]["toolfold"]
        early = await desk.run(deferred_tool_results=await desk.toolset.wait(asked, timeout_seconds=0.01))
        desk.opened.set()
        output = await desk.run(deferred_tool_results=await desk.toolset.wait(early))

    assert (call.tool_name, asked.approvals) == ("run_code", [])
    assert (note["is_running"], note["open_calls"]) == (True, ["gate"])
    assert [one.tool_call_id for one in early.calls] == [call.tool_call_id]
    assert output == "done"
    assert returns(desk.history) == [("success", {"printed": "one\nopen", "result": 2})]
    assert desk.calls == ["gate"]


async def test_a_short_program_is_answered_in_its_own_run(engine: Shared) -> None:
    desk = Desk(engine, "1 + 1")
    async with desk.agent:
        output = await desk.run(user_prompt="go")

    assert (output, returns(desk.history)) == ("done", [("success", 2)])


async def test_a_long_program_that_comes_to_need_a_yes_asks_for_it_in_the_next_run(engine: Shared) -> None:
    desk = Desk(engine, "await gate()\n[await pay(amount=5), await pay(amount=6)]")
    async with desk.agent:
        asked = await desk.run(user_prompt="go")
        desk.opened.set()
        questions = await desk.run(deferred_tool_results=await desk.toolset.wait(asked))
        (question,) = questions.approvals
        paid_by_then = list(desk.calls)
        yes = {question.tool_call_id: True}
        note = {question.tool_call_id: {"toolfold": {"covers": "tool"}}}
        output = await desk.run(deferred_tool_results=questions.build_results(approvals=yes, metadata=note))

    assert (question.tool_name, question.args) == ("pay", {"amount": 5})
    assert paid_by_then == ["gate"]  # waiting for it approves nothing
    assert (output, returns(desk.history)) == ("done", [("success", ["paid 5", "paid 6"])])
    assert desk.calls == ["gate", "pay 5", "pay 6"]


async def test_a_program_whose_agent_was_left_goes_on_from_its_record_and_makes_no_call_twice(engine: Shared) -> None:
    desk = Desk(engine, "print(await gate())\nawait asyncio.sleep(1)\n'end'")
    desk.opened.set()
    asked = await desk.run(user_prompt="go")  # leaves its agent, and so its engine
    async with desk.agent:
        asked = await desk.run(deferred_tool_results=await desk.toolset.wait(asked))
        output = await desk.run(deferred_tool_results=await desk.toolset.wait(asked))

    assert output == "done"
    assert returns(desk.history) == [("success", {"printed": "open", "result": "end"})]
    assert desk.calls == ["gate"]


async def test_a_run_that_is_cancelled_while_it_waits_leaves_a_program_that_has_yielded_alone(engine: Shared) -> None:
    desk = Desk(engine, "await gate()")
    async with desk.agent:
        asked = await desk.run(user_prompt="go")
        results = await desk.toolset.wait(asked, timeout_seconds=0)
        waiting = asyncio.create_task(desk.run(deferred_tool_results=results))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        desk.opened.set()
        output = await desk.run(deferred_tool_results=await desk.toolset.wait(asked))

    assert (output, returns(desk.history)) == ("done", [("success", "open")])
    assert desk.calls == ["gate"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
async def test_a_time_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(UserError, match="yield_after_seconds must be above 0"):
        CodeModeToolset(FunctionToolset[None]([]), yield_after_seconds=seconds)
