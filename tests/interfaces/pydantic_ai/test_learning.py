"""Tools that do not say what they return: later conversations are told what was seen."""

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic_ai import Agent

from tests.interfaces.pydantic_ai.talk import Shared, Talk, program
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
