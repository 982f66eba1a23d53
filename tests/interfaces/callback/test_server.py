"""The child as an MCP server, for any client; what gem's own tool makes of it is in `tests/interfaces/gem`."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client

from toolfold.interfaces.callback.child_server import make_server
from toolfold.interfaces.callback.messages import OpenCall, ToolReply
from toolfold.interfaces.gem.program_tool import ParentTools

NAME = "programmatic_tool_calling"


async def test_the_calls_of_a_program_go_to_the_parent_and_its_end_comes_back(tmp_path: Path) -> None:
    async def answer(call: OpenCall) -> ToolReply:
        return ToolReply(id=call.id, parsed=True, has_error=False, observation=json.dumps(call.arguments))

    code = "import asyncio\nresult = [tools.x(i=0), *await asyncio.gather(tools.x(i=1), tools.y(i=2))]"
    async with Client(make_server(tmp_path), extensions=[ParentTools(answer)]) as client:
        end = await client.call_tool(NAME, {"code": code})

    said = json.loads(end.content[0].text)
    assert (end.is_error, said["return_value"]) == (False, [{"i": 0}, {"i": 1}, {"i": 2}])
    assert [call["tool_name"] for call in said["tool_calls"]] == ["x", "x", "y"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_without_the_extension_runs_programs_without_a_parents_tools(tmp_path: Path, mode: str) -> None:
    async with Client(make_server(tmp_path), mode=mode) as client:
        plain = await client.call_tool(NAME, {"code": "print(1)\n2"})
        wanting = await client.call_tool(NAME, {"code": "tools.x()"})
        listed = await client.list_tools()

    assert json.loads(plain.content[0].text)["return_value"] == 2
    assert json.loads(wanting.content[0].text)["error"]["message"].splitlines()[0] == (
        "line 1: no tool 'x'; this program has no tools"
    )
    assert [tool.name for tool in listed.tools] == [NAME]
    assert list(listed.tools[0].input_schema["properties"]) == ["code", "filename", "timeout", "_tools_available"]


async def test_a_cancelled_call_ends_the_program_and_spares_the_others(tmp_path: Path) -> None:
    waiting = asyncio.Event()

    async def answer(call: OpenCall) -> ToolReply:
        if call.name == "forever":
            waiting.set()
            await asyncio.sleep(100)
        return ToolReply(id=call.id, parsed=True, has_error=False, observation="ok")

    async with Client(make_server(tmp_path), extensions=[ParentTools(answer)]) as client:
        stuck = asyncio.create_task(client.call_tool(NAME, {"code": "tools.forever()"}))
        await waiting.wait()
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        other = await client.call_tool(NAME, {"code": "tools.quick()"})

    assert json.loads(other.content[0].text)["return_value"] == "ok"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.evil.example"])
def test_a_server_without_a_token_listens_for_this_machine_only(host: str) -> None:
    source = Path(__file__).parents[3] / "src"
    command = [sys.executable, "-m", "toolfold.interfaces.callback", "--transport", "streamable-http", "--host", host]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (
        1,
        f"toolfold: --host {host!r} can be reached from elsewhere, and this server asks for no token; "
        "listen on 127.0.0.1, or start 'toolfold mcp --callback --http' with a token\n",
    )
