"""`approvals: both`: the client and people at a console are asked at once, and the first real answer counts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.interfaces.mcp.conftest import ERAS, run, texts
from toolfold import tool
from toolfold.config.model import Config
from toolfold.interfaces.mcp.server_setup import create_mcp_server
from toolfold.ledger.base import DecisionEntry, ExecutionFilter, Moment
from toolfold.ledger.remote_approval import arguments_digest, decision_seal, lock
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.sources.function_tools import as_tool
from toolfold.tools.tool import Decision

CODE = "try:\n    print(await pay(amount=5))\nexcept ToolError as error:\n    print(error)\n"


@tool
async def pay(amount: int) -> int:
    """Pay somebody."""
    return amount * 100


def config_of(folder: Path, **more: Any) -> Config:
    said = {"tools": {"ask": ["pay"]}, "ledger": {"where": str(folder / "ledger.sqlite")}, "approvals": "both"}
    return Config.model_validate({**said, **more})


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    """The ledger as another process has it open."""
    opened = SqliteLedger(tmp_path / "ledger.sqlite")
    yield opened
    await opened.close()


async def question(ledger: SqliteLedger) -> tuple[str, Moment]:
    while True:
        for summary in await ledger.search(ExecutionFilter(state="running")):
            story = await ledger.story(summary.execution_id)
            for entry in story.entries if story is not None else ():
                if isinstance(entry, Moment) and entry.kind == "asked":
                    return summary.execution_id, entry
        await asyncio.sleep(0.01)


async def decide(ledger: SqliteLedger, decision: Decision) -> bool:
    execution_id, asked = await question(ledger)
    digest = arguments_digest(asked.facts["arguments"])
    place = {"execution_id": execution_id, "epoch": 0, "call_id": asked.call_id}
    body = lock(decision, decision_seal(ledger), digest=digest, **place)
    return await ledger.decide(execution_id, 0, asked.call_id, body)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cancels_decides_nothing_and_the_console_does(
    tmp_path: Path, console: SqliteLedger, era: str
) -> None:
    async def cancel(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return types.ElicitResult(action="cancel")

    mcp_server = create_mcp_server(config_of(tmp_path), modules=[as_tool(pay)])
    async with mcp_server, Client(mcp_server.server, mode=era, elicitation_callback=cancel) as client:
        running = asyncio.create_task(run(client, CODE))
        counted = await decide(console, Decision(approved=True, by="console"))
        said = texts(await running)

    assert (counted, said) == (True, ["[Script executed successfully]\n500\n"])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (types.ElicitResult(action="accept", content={"approve": True}), "500\n"),
        (types.ElicitResult(action="decline"), "'pay' was denied: the user answered 'decline'\n"),
    ],
)
async def test_an_answer_of_the_client_counts_and_one_of_the_console_after_it_does_not(
    tmp_path: Path, console: SqliteLedger, era: str, answer: types.ElicitResult, said: str
) -> None:
    async def reply(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return answer

    mcp_server = create_mcp_server(config_of(tmp_path), modules=[as_tool(pay)])
    async with mcp_server, Client(mcp_server.server, mode=era, elicitation_callback=reply) as client:
        result = await run(client, CODE)
        while not (ended := await console.search(ExecutionFilter(state="ended"))):
            await asyncio.sleep(0.01)
        late = await console.decide(ended[0].execution_id, 0, 1, b"x")
        history = await console.load(ended[0].execution_id)

    assert history is not None
    assert texts(result) == [f"[Script executed successfully]\n{said}"]
    assert late is False
    assert [bool(one.by) for one in history.entries if isinstance(one, DecisionEntry)] == [True]


async def test_a_client_whose_user_is_away_does_not_hold_up_the_console(tmp_path: Path, console: SqliteLedger) -> None:
    withdrawn = asyncio.Event()

    async def never(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        raise AssertionError("nobody answers")

    mcp_server = create_mcp_server(config_of(tmp_path), modules=[as_tool(pay)])
    async with mcp_server, Client(mcp_server.server, mode="legacy", elicitation_callback=never) as client:
        running = asyncio.create_task(run(client, CODE))
        await decide(console, Decision(approved=True))
        said = texts(await running)

    assert (said, withdrawn.is_set()) == (["[Script executed successfully]\n500\n"], True)


async def test_a_client_that_cannot_ask_leaves_it_to_the_console_for_as_long_as_the_config_says(tmp_path: Path) -> None:
    mcp_server = create_mcp_server(config_of(tmp_path, approvals_wait="0.05s"), modules=[as_tool(pay)])
    async with mcp_server, Client(mcp_server.server, mode="legacy") as client:
        said = texts(await run(client, CODE))

    assert said == ["[Script executed successfully]\n'pay' was denied: nobody answered within 0.05 s\n"]
