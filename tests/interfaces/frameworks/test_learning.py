"""Tools that do not say what they return: what is made for the next conversation shows what was seen."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from toolfold import Runtime
from toolfold.frameworks import anthropic_tool, langchain_tool, openai_tool
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import ToolSpec
from toolfold.tools.tool import Tool

CALLS = "await get_user(id=1)\nawait get_user(id=2)"


async def _user(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": 1, "name": "Ada", "an odd key": 2}


SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
TOOL = Tool(spec=ToolSpec(name="get_user", python_name="get_user", input_schema=SCHEMA), call=_user)


def _anthropic(runtime: Runtime) -> Callable[[], str]:
    tool = anthropic_tool(runtime)
    return lambda: tool.tools[0]["description"]


def _openai(runtime: Runtime) -> Callable[[], str]:
    tool = openai_tool(runtime)
    return lambda: tool.responses_tools[0]["description"]


def _langchain(runtime: Runtime) -> Callable[[], str]:
    tool = langchain_tool(runtime)
    return lambda: tool.description


def signature(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("get_user("))


@pytest.mark.parametrize("made", [_anthropic, _openai, _langchain])
async def test_a_description_stays_as_it_was_and_the_next_one_has_what_was_seen(
    made: Callable[[Runtime], Callable[[], str]], tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    async with Runtime([TOOL], ledger=ledger) as runtime:
        first = made(runtime)
        before = signature(first())
        await runtime.run(CALLS)
        await (
            runtime.catalog.learning.lessons()
        )  # what earlier processes saw is read in a thread, and may not be here yet
        told = (before, signature(first()), signature(made(runtime)()))
    await ledger.close()
    ledger = SqliteLedger(path)
    async with Runtime([TOOL], ledger=ledger) as runtime:
        await runtime.catalog.learning.lessons()
        later = signature(made(runtime)())
    await ledger.close()

    assert told == snapshot(
        ("get_user(id: int)", "get_user(id: int)", "get_user(id: int) -> {id: int, name: str}  # as seen")
    )
    assert later == snapshot("get_user(id: int) -> {id: int, name: str}  # as seen")
