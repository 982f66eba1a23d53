"""Code written for code mode and tool search, block by block, with only its import lines changed."""

from typing import Any, Literal

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from tests.interfaces.pydantic_ai.talk import Talk, calls, program, returns
from toolfold.pydantic_ai import (
    CodeModeToolset,
    FunctionToolset,
    ToolSearchToolset,
    signature_from_function,
    signature_from_schema,
)

# Importing the provider's package takes seconds on a loaded machine.
pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none: the model is replaced before it is asked")


async def test_the_code_mode_block_runs_a_program() -> None:
    # Define tools
    toolset = FunctionToolset()

    @toolset.tool
    def get_user(user_id: str) -> dict:
        """Fetch user by ID."""
        return {"id": user_id, "name": "Alice"}

    @toolset.tool
    def get_orders(user_id: str) -> list[dict]:
        """Fetch orders for user."""
        return [{"id": "1", "total": 100.0}]

    # Wrap in code mode - ALL tools become code-callable
    code_toolset = CodeModeToolset(wrapped=toolset)

    agent = Agent("anthropic:claude-sonnet-4-5", toolsets=[code_toolset])

    talk = Talk(
        program(
            "user = await get_user(user_id='7')\n"
            "orders = await get_orders(user_id=user['id'])\n"
            "f\"{user['name']}: {sum(one['total'] for one in orders)}\""
        ),
        "done",
    )
    with agent.override(model=talk.model):
        result = await agent.run("What did 7 order?")

    assert talk.tool_names == ["run_code"]
    assert returns(result.all_messages()) == [("success", "Alice: 100.0")]


def test_the_signature_block_gives_the_expected_text() -> None:
    def get_user(user_id: str) -> dict:
        """Fetch user by ID."""
        return {"id": user_id}

    # Native function -> signature
    result = signature_from_function(
        get_user,
        name="get_user",
        description="Fetch user by ID.",
        include_return_type=True,
    )
    assert result.signature == 'def get_user(user_id: str) -> dict:\n    """Fetch user by ID."""'

    # JSON schema -> signature
    result = signature_from_schema(
        name="mcp_tool",
        parameters_json_schema={"type": "object", "properties": {"query": {"type": "string"}}},
        description="Search something.",
    )
    assert result.signature == 'async def mcp_tool(*, query: str = ...) -> Any:\n    """Search something."""'


def marked() -> FunctionToolset[Any]:
    toolset = FunctionToolset()

    # As such code has it; ours is in `toolfold.pydantic_ai`.
    AllowedCallers = Literal["direct", "code", "both"]  # noqa: F841, N806

    @toolset.tool(allowed_callers="code")
    def aggregate_data(items: list[dict]) -> dict:
        """Complex aggregation - should use code mode."""

    @toolset.tool(allowed_callers="direct")  # default
    def get_weather(city: str) -> str:
        """Simple lookup - direct call is fine."""

    @toolset.tool(allowed_callers="both")
    def search_docs(query: str) -> list[dict]:
        """Can be called either way."""

    return toolset


async def test_the_allowed_callers_block_marks_tools() -> None:
    model = TestModel(call_tools=["get_weather", "search_docs"])

    await Agent(model, toolsets=[marked()]).run("go")

    assert model.last_model_request_parameters is not None
    assert [tool.name for tool in model.last_model_request_parameters.function_tools] == ["get_weather", "search_docs"]


async def test_the_combined_agent_block_has_direct_code_and_found_tools() -> None:
    some_toolset: FunctionToolset[Any] = FunctionToolset()
    direct_toolset: FunctionToolset[Any] = FunctionToolset()

    @some_toolset.tool
    def double(number: int) -> int:
        return 2 * number

    @direct_toolset.tool
    def get_weather(city: str) -> str:
        return f"sun in {city}"

    shelf: FunctionToolset[Any] = FunctionToolset()

    @shelf.tool(allowed_callers="code")
    def aggregate_data(items: list[int]) -> int:
        """Add it all up."""
        return sum(items)

    def search_tools(query: str) -> list[Any]:
        return [aggregate_data]

    # Tools explicitly in CodeModeToolset -> allowed_callers='code'
    code_toolset = CodeModeToolset(wrapped=some_toolset)

    # Tools in ToolSearchToolset with allowed_callers='code' ->
    # added to code mode once discovered
    search_toolset = ToolSearchToolset(
        search_fn=search_tools,
        # Tools marked allowed_callers='code' become code-callable when found
    )

    # Combined agent has both direct and code-callable tools
    agent = Agent(
        "anthropic:claude-sonnet-4-5",
        toolsets=[
            direct_toolset,  # Direct-call tools
            code_toolset,  # Code-mode tools (known upfront)
            search_toolset,  # Discoverable tools (some may be code-callable)
        ],
    )

    talk = Talk(
        calls(("get_weather", {"city": "Rome"}), ("search_tools", {"query": "sums"})),
        program("await double(number=await aggregate_data(items=[1, 2, 3]))"),
        "done",
    )
    with agent.override(model=talk.model):
        result = await agent.run("go")

    assert talk.tool_names == ["get_weather", "run_code", "search_tools"]
    assert [returns(result.all_messages())[at] for at in (0, 2)] == [("success", "sun in Rome"), ("success", 12)]
