"""Tools that do not say what they return: later conversations are told what was seen."""

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic_ai import Agent

from tests.interfaces.pydantic_ai.talk import Shared, Talk, calls, program
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLS = program("[await get_user(id=1), await get_user(id=2)]")


def people() -> FunctionToolset[Any]:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    async def get_user(id: int):  # type: ignore[no-untyped-def]  # it does not say what it returns
        """Get a user."""
        return {"id": id, "name": "Ada", "an odd key": 2}

    return toolset


def signatures(talk: Talk) -> list[str]:
    """The line of the tool in each request."""
    texts = [one.description or "" for _, info in talk.requests for one in info.function_tools]
    return [line for text in texts for line in text.splitlines() if line.startswith("get_user(")]


async def test_the_next_conversation_reads_what_tools_were_seen_to_return(engine: Shared) -> None:
    toolset = CodeModeToolset(people(), engine=engine)
    first, second = Talk(CALLS, CALLS, "done"), Talk("done")

    await Agent(first.model, toolsets=[toolset]).run("go")
    await Agent(second.model, toolsets=[toolset]).run("go")

    assert signatures(first) == snapshot(["get_user(id: int)", "get_user(id: int)", "get_user(id: int)"])
    assert signatures(second) == snapshot(["get_user(id: int) -> {id: int, name: str}  # as seen"])


async def test_a_small_reader_is_offered_directly_in_the_next_conversation(engine: Shared) -> None:
    functions: FunctionToolset[Any] = FunctionToolset()

    @functions.tool(metadata={"annotations": {"readOnlyHint": True}})
    async def get_user(id: int) -> dict[str, str]:
        """Get a user."""
        return {"name": "Ada"}

    @functions.tool
    async def remove_user(id: int) -> str:
        """Remove a user."""
        return "removed"

    toolset = CodeModeToolset(functions, engine=engine, offers_small=True)
    first = Talk(program("[await get_user(id=1), await get_user(id=2), await remove_user(id=1)]"), "done")
    second = Talk(calls(("get_user", {"id": 3})), "done")

    await Agent(first.model, toolsets=[toolset]).run("go")
    result = await Agent(second.model, toolsets=[toolset]).run("go")

    offered = [[one.name for one in talk.requests[0][1].function_tools] for talk in (first, second)]
    assert offered == [["run_code"], ["get_user", "run_code"]]
    assert signatures(second)[0] == "get_user(...) -> dict[str, str]"
    assert "Ada" in str(result.all_messages())


async def test_a_ledger_keeps_it_for_other_processes_and_off_is_off(engine: Shared, tmp_path: Path) -> None:
    told = []
    for learn in (True, True, False):
        talk = Talk(CALLS, "done")
        toolset = CodeModeToolset(people(), engine=engine, ledger=tmp_path / "ledger.sqlite", learn=learn)
        await Agent(talk.model, toolsets=[toolset]).run("go")
        told.append(signatures(talk)[0])

    assert told == snapshot(
        ["get_user(id: int)", "get_user(id: int) -> {id: int, name: str}  # as seen", "get_user(id: int)"]
    )
