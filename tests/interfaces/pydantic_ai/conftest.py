"""One engine for all tests of a file: starting it takes longer than most tests."""

import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from pydantic_ai import Agent, DeferredToolRequests

from tests.interfaces.pydantic_ai.talk import Shared, Talk, program, returns
from toolfold.engines.registry import engine_named
from toolfold.pydantic_ai import CodeModeToolset


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Shared]:
    async with engine_named(os.environ.get("ENGINES", "process")) as opened:
        yield Shared(opened)


@pytest.fixture
def run(engine: Shared) -> Callable[..., Any]:
    """One program over a toolset, in a real agent: what the model got back."""

    async def run(toolset: Any, text: str, *, options: dict[str, Any] | None = None, **agent_options: Any) -> Any:
        code = CodeModeToolset(toolset, engine=engine, max_retries=1, **(options or {}))
        deps = agent_options.pop("deps", None)
        usage_limits = agent_options.pop("usage_limits", None)
        talk = Talk(program(text), "done")
        agent = Agent(talk.model, toolsets=[code], output_type=[str, DeferredToolRequests], **agent_options)
        result = await agent.run("go", deps=deps, usage_limits=usage_limits)
        found = returns(result.all_messages())
        return found[0] if found else result.output

    return run
