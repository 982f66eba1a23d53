"""A program that pauses for a person, in Pydantic AI: `python -m examples.pydantic_ai_approvals`.

The model is played by a function, so that this runs without a network. The person at the keyboard is
played, too: refunds of up to 100 are approved.
"""

import asyncio
import tempfile
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolDenied
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset, NestedApprovals

PROGRAM = """
complaints = await list_complaints(month="May")
late = [one for one in complaints if one["days_late"] > 3]
print(f"{len(late)} of {len(complaints)} parcels were late")
replies = await asyncio.gather(
    *[refund(order=one["order"], amount=one["paid"]) for one in late], return_exceptions=True
)
[str(reply) for reply in replies]
"""


def played(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The model: one program, then a sentence on what came back."""
    last = messages[-1].parts[-1]
    if not isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[ToolCallPart("run_code", {"code": PROGRAM})])
    return ModelResponse(parts=[TextPart(f"Done: {last.content}")])


def clerk(folder: Path) -> Agent[None, str | DeferredToolRequests]:
    """The agent; a web application would make one for each request."""
    toolset: FunctionToolset[None] = FunctionToolset()

    @toolset.tool
    def list_complaints(month: str) -> list[dict[str, str | int]]:
        """Complaints of one month."""
        return [{"order": f"{month} {number}", "days_late": number % 7, "paid": 20 * number} for number in range(1, 13)]

    @toolset.tool(requires_approval=True)
    def refund(order: str, amount: int) -> str:
        """Pay money back."""
        return f"{amount} paid back for order {order}"

    return Agent(
        FunctionModel(played),
        toolsets=[CodeModeToolset(toolset, ledger=str(folder / "ledger.sqlite"))],
        capabilities=[NestedApprovals()],
        output_type=[str, DeferredToolRequests],
    )


async def main(folder: Path) -> None:
    """Ask, decide, go on."""
    first = await clerk(folder).run("Pay back what came too late in May")
    requests = first.output
    assert isinstance(requests, DeferredToolRequests)
    decisions: dict[str, bool | ToolDenied] = {}
    for call in requests.approvals:
        arguments = call.args_as_dict()
        is_small = arguments["amount"] <= 100
        print("approved" if is_small else "denied", call.tool_name, arguments)
        decisions[call.tool_call_id] = is_small or ToolDenied("ask the manager")
    second = await clerk(folder).run(
        message_history=first.all_messages(), deferred_tool_results=requests.build_results(approvals=decisions)
    )
    print(second.output)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
