"""Calls of programs that wait for a person or another system, through Pydantic AI's deferred tools."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ExternalToolset,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from tests.interfaces.pydantic_ai.talk import Shared, Talk, calls, program, returns
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset, NestedApprovals, fold, unfold

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[3]


class Desk:
    """An agent with one program, and the person who answers for it."""

    def __init__(self, engine: Shared, toolset: Any, text: str, *, is_native: bool = True, **options: Any) -> None:
        capabilities = [NestedApprovals()] if is_native else []
        self.agent: Agent[None, Any] = Agent(
            Talk(program(text), "done").model,
            toolsets=[CodeModeToolset(toolset, engine=engine)],
            capabilities=[*capabilities, *options.pop("capabilities", [])],
            output_type=[str, DeferredToolRequests],
            **options,
        )
        self.history: list[ModelMessage] = []

    async def ask(self) -> DeferredToolRequests:
        return await self._run(user_prompt="go")

    async def answer(self, results: DeferredToolResults) -> Any:
        output = await self._run(deferred_tool_results=results)
        return output if isinstance(output, DeferredToolRequests) else returns(self.history)[-1]

    async def _run(self, **options: Any) -> Any:
        result = await self.agent.run(message_history=self.history or None, **options)
        self.history = result.all_messages()
        return result.output


def shown(requests: list[ToolCallPart]) -> list[tuple[str, Any]]:
    return [(one.tool_name, one.args) for one in requests]


@pytest.fixture
def files() -> tuple[FunctionToolset[Any], list[str]]:
    toolset: FunctionToolset[Any] = FunctionToolset()
    done: list[str] = []

    @toolset.tool
    def list_files() -> list[str]:
        done.append("list")
        return ["a", "b", "c"]

    @toolset.tool(requires_approval=True)
    async def delete(ctx: RunContext[Any], name: str) -> str:
        done.append(f"delete {name} {ctx.tool_call_approved} {ctx.tool_call_metadata}")
        return f"{name} deleted"

    return toolset, done


GATHERED = """
names = await list_files()
print(names)
[str(one) for one in await asyncio.gather(*[delete(name=name) for name in names], return_exceptions=True)]
"""


@pytest.mark.long
async def test_20_calls_are_one_request_that_is_answered_in_another_process_and_no_tool_runs_twice(
    tmp_path: Path,
) -> None:
    def process(verb: str) -> str:
        command = [sys.executable, "-m", "tests.interfaces.pydantic_ai.approving", str(tmp_path), verb]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    process("ask")
    asked = TypeAdapter(DeferredToolRequests).validate_json((tmp_path / "requests.json").read_bytes())
    done_before = (tmp_path / "done.txt").read_text()
    answered = json.loads(process("answer"))

    assert (shown(asked.approvals), asked.calls) == ([("delete", {"name": f"f{at:02}"}) for at in range(20)], [])
    assert done_before == "list\n"
    assert answered == {
        "output": "cleaned up",
        "returns": [
            ["success", {"printed": "20 files\n15 deleted", "result": ["'delete' was denied: keep it"] * 5}],
        ],
    }
    assert sorted((tmp_path / "done.txt").read_text().split()) == [*(f"f{at:02}" for at in range(15)), "list"]


LOOP = """
said = []
for n in range(50):
    try:
        said.append(await delete(name=f"f{n}"))
    except ToolError as error:
        said.append(str(error))
[len(said), said[-1]]
"""


@pytest.mark.parametrize(
    ("answer", "note", "expected", "asks_again"),
    [
        (ToolApproved(), {"covers": "tool", "by": "ann"}, [50, "f49 deleted"], False),
        (ToolDenied("keep them"), {"covers": "tool"}, [50, "'delete' was denied: keep them"], False),
        (ToolApproved(), {"covers": "tool", "calls": 7}, "f7", True),
        (ToolApproved(), {"covers": "arguments"}, "f1", True),
    ],
)
async def test_one_answer_may_stand_for_a_loop(
    engine: Shared, files: Any, answer: Any, note: Any, expected: Any, asks_again: bool
) -> None:
    toolset, _ = files
    desk = Desk(engine, toolset, LOOP)

    requests = await desk.ask()
    (request,) = requests.approvals
    found = await desk.answer(
        requests.build_results(
            approvals={request.tool_call_id: answer}, metadata={request.tool_call_id: {"toolfold": note}}
        )
    )

    if asks_again:
        assert shown(found.approvals) == [("delete", {"name": expected})]
    else:
        assert found == ("success", expected)


async def test_arguments_may_be_changed_by_whoever_approves(engine: Shared, files: Any) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, "await delete(name='a')")

    requests = await desk.ask()
    (request,) = requests.approvals
    found = await desk.answer(
        requests.build_results(
            approvals={request.tool_call_id: ToolApproved(override_args={"name": "z"})},
            metadata={request.tool_call_id: {"by": "ann"}},
        )
    )

    assert found == ("success", "z deleted")
    assert done == ["delete z True {'by': 'ann'}"]


async def test_answers_may_come_a_few_at_a_time(engine: Shared, files: Any) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, GATHERED)

    first = await desk.ask()
    ids = [one.tool_call_id for one in first.approvals]
    second = await desk.answer(DeferredToolResults(approvals={ids[1]: True}))
    found = await desk.answer(second.build_results(approvals={ids[0]: False, ids[2]: True}))

    assert [one.tool_call_id for one in second.approvals] == [ids[0], ids[2]]
    assert found == (
        "success",
        {
            "printed": "['a', 'b', 'c']",
            "result": ["'delete' was denied: The tool call was denied.", "b deleted", "c deleted"],
        },
    )
    assert done == ["list", "delete b True None", "delete c True None"]


async def test_a_program_may_wait_again_and_again(engine: Shared, files: Any) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, "[await delete(name=name) for name in await list_files()]")

    found = await desk.ask()
    rounds = 0
    while isinstance(found, DeferredToolRequests):
        rounds += 1
        found = await desk.answer(found.build_results(approve_all=True))

    assert (rounds, found) == (3, ("success", ["a deleted", "b deleted", "c deleted"]))
    assert done == ["list", *(f"delete {name} True None" for name in "abc")]


async def test_an_answer_that_was_used_is_not_taken_a_second_time(engine: Shared, files: Any) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, "await delete(name='a')")
    requests = await desk.ask()
    before = desk.history

    await desk.answer(requests.build_results(approve_all=True))
    desk.history = before
    found = await desk.answer(requests.build_results(approve_all=True))

    assert done == ["delete a True None"]
    assert found[0] == "retried"
    assert found[1].endswith("has ended; there is nothing to resume")


async def test_a_history_that_is_run_again_without_answers_asks_again_and_repeats_nothing(
    engine: Shared, files: Any
) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, GATHERED)

    first = await desk.ask()
    second = await desk.agent.run(message_history=desk.history)
    found = await desk.answer(second.output.build_results(approve_all=True))

    assert [one.tool_call_id for one in second.output.approvals] == [one.tool_call_id for one in first.approvals]
    assert found == ("success", {"printed": "['a', 'b', 'c']", "result": [f"{name} deleted" for name in "abc"]})
    assert done == ["list", *(f"delete {name} True None" for name in "abc")]


async def test_external_tools_get_their_results_from_outside(engine: Shared) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    outside: ExternalToolset[Any] = ExternalToolset([ToolDefinition(name="ask-oracle", parameters_json_schema=schema)])
    text = """
replies = await asyncio.gather(*[ask_oracle(q=q) for q in 'abcde'], return_exceptions=True)
[str(one) if isinstance(one, Exception) else one for one in replies]
"""
    desk = Desk(engine, outside, text)

    requests = await desk.ask()
    ids = [one.tool_call_id for one in requests.calls]
    answers = [True, {"x": [1]}, ToolReturn("said"), ModelRetry("not so"), "text"]
    found = await desk.answer(requests.build_results(calls=dict(zip(ids, answers, strict=True))))

    assert (shown(requests.calls), requests.approvals) == ([("ask-oracle", {"q": q}) for q in "abcde"], [])
    assert found == ("success", [True, {"x": [1]}, "said", "'ask-oracle' failed: not so", "text"])


async def test_a_call_that_does_not_fit_an_external_tool_is_not_deferred(engine: Shared) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    outside: ExternalToolset[Any] = ExternalToolset([ToolDefinition(name="ask-oracle", parameters_json_schema=schema)])
    text = """
values = [1, 'a']
replies = await asyncio.gather(*[ask_oracle(q=q) for q in values], return_exceptions=True)
[str(one) if isinstance(one, Exception) else one for one in replies]
"""
    desk = Desk(engine, outside, text)

    requests = await desk.ask()
    found = await desk.answer(requests.build_results(calls={requests.calls[0].tool_call_id: "yes"}))

    assert (shown(requests.calls), requests.approvals) == ([("ask-oracle", {"q": "a"})], [])
    assert found == ("success", ["'ask-oracle' got a bad argument: q must be a string, got 1", "yes"])


async def test_a_tool_may_ask_while_it_runs_and_is_run_again_only_once_it_is_answered(engine: Shared) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()
    ran: list[str] = []

    @toolset.tool
    async def pay(ctx: RunContext[Any], amount: int) -> str:
        ran.append(f"{amount} {ctx.tool_call_approved}")
        if amount > 100 and not ctx.tool_call_approved:
            raise ApprovalRequired({"reason": "much"})
        return f"paid {amount}"

    @toolset.tool
    async def order(what: str) -> str:
        ran.append(what)
        raise CallDeferred({"job": 7})

    desk = Desk(engine, toolset, "[await pay(amount=5), *await asyncio.gather(pay(amount=500), order(what='ink'))]")

    requests = await desk.ask()
    (approval,), (call,) = requests.approvals, requests.calls
    found = await desk.answer(
        requests.build_results(approvals={approval.tool_call_id: True}, calls={call.tool_call_id: "in the post"})
    )

    assert [{key: one[key] for key in one if key != "toolfold"} for one in requests.metadata.values()] == [
        {"reason": "much"},
        {"job": 7},
    ]
    assert found == ("success", ["paid 5", "paid 500", "in the post"])
    assert ran == ["5 False", "500 False", "ink", "500 True"]


async def test_an_approved_tool_may_hand_its_work_on(engine: Shared) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool(requires_approval=True)
    def ship(what: str) -> str:
        raise CallDeferred

    desk = Desk(engine, toolset, "await ship(what='ink')")

    asked = await desk.ask()
    deferred = await desk.answer(asked.build_results(approve_all=True))
    found = await desk.answer(deferred.build_results(calls={deferred.calls[0].tool_call_id: "shipped"}))

    assert (shown(asked.approvals), shown(deferred.calls)) == ([("ship", {"what": "ink"})], [("ship", {"what": "ink"})])
    assert found == ("success", "shipped")


async def test_a_handler_of_the_agent_answers_without_a_pause(engine: Shared, files: Any) -> None:
    toolset, done = files

    async def handle(_: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        (request,) = requests.approvals
        return requests.build_results(approvals={request.tool_call_id: request.args != {"name": "b"}})

    desk = Desk(engine, toolset, GATHERED, capabilities=[HandleDeferredToolCalls(handler=handle)])

    await desk.ask()

    assert returns(desk.history) == [
        (
            "success",
            {
                "printed": "['a', 'b', 'c']",
                "result": ["a deleted", "'delete' was denied: The tool call was denied.", "c deleted"],
            },
        )
    ]
    assert done == ["list", "delete a True None", "delete c True None"]


async def test_what_a_handler_let_run_is_not_run_again_after_a_pause(engine: Shared, files: Any) -> None:
    toolset, done = files

    async def handle(_: Any, requests: DeferredToolRequests) -> DeferredToolResults | None:
        small = {one.tool_call_id: True for one in requests.approvals if one.args == {"name": "a"}}
        return requests.build_results(approvals=small) if small else None

    desk = Desk(engine, toolset, GATHERED, capabilities=[HandleDeferredToolCalls(handler=handle)])

    requests = await desk.ask()
    found = await desk.answer(requests.build_results(approve_all=True))

    assert shown(requests.approvals) == [("delete", {"name": "b"}), ("delete", {"name": "c"})]
    assert found == ("success", {"printed": "['a', 'b', 'c']", "result": [f"{name} deleted" for name in "abc"]})
    assert done == ["list", *(f"delete {name} True None" for name in "abc")]


async def test_a_call_that_nobody_saw_cannot_be_approved_beforehand(engine: Shared, files: Any) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, "[await delete(name='a'), await delete(name='b')]")

    first = await desk.ask()
    (asked,) = first.approvals
    unseen = asked.tool_call_id.removesuffix("::1") + "::2"
    second = await desk.answer(DeferredToolResults(approvals={asked.tool_call_id: True, unseen: True}))

    assert shown(second.approvals) == [("delete", {"name": "b"})]
    assert done == ["delete a True None"]


async def test_without_the_capability_the_program_is_one_request_and_a_yes_is_a_yes_to_all(
    engine: Shared, files: Any
) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, GATHERED, is_native=False)

    requests = await desk.ask()
    found = await desk.answer(requests.build_results(approve_all=True))

    assert [one.tool_name for one in requests.approvals] == ["run_code"]
    assert [(one["tool"], one["arguments"]) for one in requests.metadata["c1"]["toolfold"]["calls"]] == [
        ("delete", {"name": name}) for name in "abc"
    ]
    assert found == ("success", {"printed": "['a', 'b', 'c']", "result": [f"{name} deleted" for name in "abc"]})
    assert done == ["list", *(f"delete {name} True None" for name in "abc")]


async def test_without_the_capability_requests_are_unfolded_and_answers_folded_by_hand(
    engine: Shared, files: Any
) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, GATHERED, is_native=False)

    requests = unfold(await desk.ask())
    said = {one.tool_call_id: one.args == {"name": "b"} or ToolDenied("no") for one in requests.approvals}
    found = await desk.answer(fold(requests.build_results(approvals=said)))

    assert found == (
        "success",
        {"printed": "['a', 'b', 'c']", "result": ["'delete' was denied: no", "b deleted", "'delete' was denied: no"]},
    )
    assert done == ["list", "delete b True None"]


async def test_streamed_runs_and_steps_by_hand_show_each_call_too(engine: Shared, files: Any) -> None:
    toolset, done = files
    agent = Desk(engine, toolset, "await delete(name='a')").agent

    async def said(messages: list[ModelMessage], _: Any) -> AsyncIterator[Any]:
        if len(messages) == 1:
            code = json.dumps({"code": "await delete(name='a')"})
            yield {0: DeltaToolCall(name="run_code", json_args=code, tool_call_id="c1")}
        else:
            yield str(returns(messages)[-1][1])

    async with agent.iter("go") as stepped:
        async for _ in stepped:
            pass
    assert stepped.result is not None
    asked = unfold(stepped.result.output)
    with agent.override(model=FunctionModel(stream_function=said)):
        async with agent.run_stream("go") as streamed:
            requests = await streamed.get_output()
        answers = requests.build_results(approve_all=True)
        async with agent.run_stream(message_history=streamed.all_messages(), deferred_tool_results=answers) as again:
            output = await again.get_output()

    assert (shown(asked.approvals), shown(requests.approvals)) == (
        [("delete", {"name": "a"})],
        [("delete", {"name": "a"})],
    )
    assert (output, done) == ("a deleted", ["delete a True None"])


async def test_a_denied_program_is_not_gone_on_with(engine: Shared, files: Any) -> None:
    toolset, done = files
    desk = Desk(engine, toolset, GATHERED, is_native=False)

    requests = await desk.ask()
    found = await desk.answer(requests.build_results(approvals={"c1": ToolDenied("stop it")}))

    assert (found, done) == (("denied", "stop it"), ["list"])


async def test_other_deferred_calls_of_the_same_answer_stay_what_they_are(engine: Shared, files: Any) -> None:
    toolset, done = files
    direct: FunctionToolset[Any] = FunctionToolset()

    @direct.tool(requires_approval=True)
    def reboot() -> str:
        done.append("reboot")
        return "rebooted"

    talk = Talk(calls(("run_code", {"code": "await delete(name='a')"}), ("reboot", {})), "done")
    agent: Agent[None, Any] = Agent(
        talk.model,
        toolsets=[CodeModeToolset(toolset, engine=engine), direct],
        capabilities=[NestedApprovals()],
        output_type=[str, DeferredToolRequests],
    )

    first = await agent.run("go")
    second = await agent.run(
        message_history=first.all_messages(), deferred_tool_results=first.output.build_results(approve_all=True)
    )

    assert sorted(shown(first.output.approvals)) == [("delete", {"name": "a"}), ("reboot", {})]
    assert sorted(returns(second.all_messages())) == [("success", "a deleted"), ("success", "rebooted")]
    assert sorted(done) == ["delete a True None", "reboot"]


async def test_an_agent_that_cannot_defer_says_what_to_do(engine: Shared, files: Any) -> None:
    toolset, _ = files
    agent = Agent(Talk(program(GATHERED), "done").model, toolsets=[CodeModeToolset(toolset, engine=engine)])

    with pytest.raises(Exception, match="`DeferredToolRequests` is not among output types"):
        await agent.run("go")
