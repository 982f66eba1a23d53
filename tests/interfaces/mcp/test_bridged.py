"""The interface over the real bridge: questions of bridged servers in all four mixes of eras, progress, roots, callback."""

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client

from tests.interfaces.mcp.conftest import ERAS, descendants, left_of, run, texts
from toolfold.config import parse_config
from toolfold.interfaces.mcp.client_questions import NO_MORE_QUESTIONS
from toolfold.interfaces.mcp.server_setup import create_mcp_server

SERVERS = Path(__file__).parents[2] / "sources" / "mcp"


@asynccontextmanager
async def opened(config: str, mode: str, *, callback: bool = False, **client):
    mcp_server = create_mcp_server(parse_config(f"{config}\nledger: {{where: memory}}\n"), callback=callback)
    async with mcp_server, Client(mcp_server.server, mode=mode, **client) as found:
        yield found


def one_server(name: str, file: str) -> str:
    return f"servers: [{{name: {name}, command: '{sys.executable}', args: ['{SERVERS / file}']}}]"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    """The bridge remembers eras in the user's cache folder and tools in the state folder; tests have their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("name", "file", "call"),
    [("raw", "raw_server.py", "mcp__raw__ask(text='Who?')"), ("sdk", "sdk_server.py", "mcp__sdk__greet()")],
    ids=["older server", "newer server"],
)
async def test_a_bridged_server_asks_in_the_middle_of_a_program_and_gets_the_persons_answer(
    mode, name, file, call
) -> None:
    asked: list[str] = []

    async def answer(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with opened(one_server(name, file), mode, elicitation_callback=answer) as client:
        result = await run(client, f"for _ in range(2):\n    print('Ada' in str(await {call}))")

    assert len(asked) == 2
    assert texts(result) == ["[Script executed successfully]\nTrue\nTrue\n"]


@pytest.mark.long
async def test_a_bridged_server_that_asks_after_the_clients_last_round_fails_its_call_with_the_reason() -> None:
    async def answer(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    code = """
for n in range(11):
    try:
        await mcp__sdk__greet()
    except ToolError as error:
        print(n, error)
"""
    async with opened(one_server("sdk", "sdk_server.py"), "auto", elicitation_callback=answer) as client:
        result = await run(client, code)

    assert texts(result) == [f"[Script executed successfully]\n10 'mcp__sdk__greet' failed: {NO_MORE_QUESTIONS}\n"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
async def test_what_a_bridged_server_says_of_its_progress_is_passed_on(mode) -> None:
    seen: list[str] = []

    async def show(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")

    async with opened(one_server("sdk", "sdk_server.py"), mode) as client:
        code = "print(await mcp__sdk__count(to=3))"
        result = await client.call_tool("execute_program", {"code": code}, progress_callback=show)

    assert texts(result) == ["[Script executed successfully]\ncounted\n"]
    assert [message.partition(" (")[0] for message in seen] == [
        "mcp__sdk__count 1/3 at 1",
        "mcp__sdk__count 2/3 at 2",
        "mcp__sdk__count 3/3 at 3",
        "mcp__sdk__count",
    ]


@pytest.mark.long
async def test_the_clients_folders_are_told_to_a_bridged_server() -> None:
    async def folders(_) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])

    async with opened(one_server("raw", "raw_server.py"), "legacy", list_roots_callback=folders) as client:
        result = await run(client, "print('file:///work' in str(await mcp__raw__folders()))")

    assert texts(result) == ["[Script executed successfully]\nTrue\n"]


@pytest.mark.long
async def test_the_tools_of_a_config_are_there_and_no_process_is_left(tmp_path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    before = descendants(os.getpid())
    config = f"""{one_server("raw", "raw_server.py")}
tools:
  block: ["mcp__raw__d*"]
  commands:
    - {{name: shout, argv: [echo, "{{text}}!"]}}
  folders:
    - {{name: notes, path: '{tmp_path}'}}
policies:
  mcp__raw__slow: {{timeout_seconds: 0.2}}
"""
    async with opened(config, "auto") as client:
        text = "shout(text=await notes_read_file(path='note.txt'))"
        local = await run(client, f"print(await {text})")
        slow = await run(client, "await mcp__raw__slow(seconds=5)")
        blocked = await run(client, "await mcp__raw__die()")
        started = descendants(os.getpid()) - before

    assert texts(local) == ["[Script executed successfully]\nhello!\n"]
    assert texts(slow)[0].endswith("ToolError: 'mcp__raw__slow' timed out after 0.2 s")
    assert texts(blocked) == [
        "[Script execution failed]\nToolError: 'mcp__raw__die' is not available in execute_program"
    ]
    assert started
    assert left_of(started) == set()


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
async def test_with_callback_the_parents_tool_is_served_beside_ours(mode, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened("engine: auto", mode, callback=True) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        theirs = await client.call_tool("programmatic_tool_calling", {"code": "result = 6 * 7"})
        ours = await run(client, "print(1)")

    assert names == ["execute_program", "programmatic_tool_calling"]
    assert '"return_value": 42' in texts(theirs)[0]
    assert texts(ours) == ["[Script executed successfully]\n1\n"]
