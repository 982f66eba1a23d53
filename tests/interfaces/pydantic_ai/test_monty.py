"""The same toolset on the portable engine."""

from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests

from tests.interfaces.pydantic_ai.talk import Talk, program, returns
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset, NestedApprovals


async def test_a_program_waits_for_approvals_on_monty_too(tmp_path: Path) -> None:
    done: list[str] = []
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    async def list_files() -> list[str]:
        done.append("list")
        return ["a", "b"]

    @toolset.tool(requires_approval=True)
    async def delete(name: str) -> str:
        done.append(name)
        return f"{name} deleted"

    def agent() -> Agent[None, Any]:
        talk = Talk(program("await asyncio.gather(*[delete(name=name) for name in await list_files()])"), "done")
        return Agent(
            talk.model,
            toolsets=[CodeModeToolset(toolset, engine="monty", ledger=str(tmp_path / "ledger.sqlite"))],
            capabilities=[NestedApprovals()],
            output_type=[str, DeferredToolRequests],
        )

    first = await agent().run("go")
    second = await agent().run(
        message_history=first.all_messages(), deferred_tool_results=first.output.build_results(approve_all=True)
    )

    assert returns(second.all_messages()) == [("success", ["a deleted", "b deleted"])]
    assert done == ["list", "a", "b"]
