"""One `toolfold.yaml` with two servers, an API, a command and a module: the same tools and policy at every interface."""

import ast
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from mcp import Client
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults

import toolfold
from tests.interfaces.mcp.conftest import run, texts
from tests.interfaces.pydantic_ai.talk import Talk, calls, program, returns
from tests.sources.openapi.serving import Answer, Serving
from toolfold.config import load_config
from toolfold.interfaces.config_runtime import config_tools
from toolfold.interfaces.http.server_setup import open_app
from toolfold.interfaces.mcp.server_setup import create_mcp_server
from toolfold.pydantic_ai import CodeModeToolset, ConfigToolset

ECHO = Path(__file__).parent / "cli" / "echo_server.py"
OK = {"200": {"description": "ok", "content": {"application/json": {}}}}
PATHS = {
    "/a": {
        "get": {"operationId": "op", "responses": OK},
        "delete": {"operationId": "drop", "responses": OK},
        "post": {"operationId": "add", "responses": OK},
    }
}
CONFIG = """
servers:
  - {{name: db, command: {python}, args: [-S, -E, {echo}, --db]}}
  - {{name: crm-two, command: {python}, args: [-S, -E, {echo}, --crm]}}
tools:
  block: [shop_drop, "mcp__crm*"]
  modules: [own.py]
  commands: [{{name: shout, argv: [printf, "%s!", "{{word}}"]}}]
  apis: [{{name: shop, spec: api.json, base_url: "{url}"}}]
policies:
  double: {{max_calls: 1}}
http: {{keys: {{acme: key-of-acme}}, tools: {{acme: ["*"]}}, preload_data: false, files: files}}
ledger: {{where: memory}}
"""
PROGRAM = """
import json

async def told(call):
    try:
        return json.dumps(await call())
    except Exception as error:
        # The interface's own name for a program is all that differs.
        return f"{error}".partition(" in ")[0]

# What is blocked stays known where its call says so, and aliases that are no identifiers are for direct calls.
blocked = ("shop_drop", "mcp__crm_two__started")
own = ("mcp", "shop", "shout", "double")
seen = [name for name in dir(tools) if name.split("_")[0] in own and name.isidentifier() and name not in blocked]
said = [
    await told(lambda: mcp__db__started()),
    await told(lambda: shop_op()),
    await told(lambda: shop_add()),
    await told(lambda: shout(word="hey")),
    await told(lambda: double(n=2)),
    await told(lambda: double(n=3)),
    await told(lambda: shop_op(**{"nonsense": 1})),
]
from tools.shop import op
said.append(await told(op))
print((seen, said))
"""
BLOCKED = """
for name in ("shop_drop", "mcp__crm_two__started"):
    try:
        print(await getattr(tools, f"async_{name}")())
    except Exception as error:
        print("refused")
"""
SEEN = ["double", "mcp__db__started", "shop_add", "shop_op", "shout"]
SAID = [
    '{"args": ["--db"], "env": {}}',
    '{"asked": "GET /a"}',
    '{"asked": "POST /a"}',
    '"hey!"',
    "4",
    "'double' is out of budget: 1 of 1 calls used",
    "'shop_op' got a bad argument: no parameter 'nonsense'; it takes with_response",
    '{"asked": "GET /a"}',
]


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "api.json").write_text(json.dumps({"openapi": "3.1.0", "paths": PATHS}))
    (tmp_path / "own.py").write_text('def double(n: int) -> int:\n    """Twice n."""\n    return 2 * n\n')

    def answer(asked):
        return Answer(body=json.dumps({"asked": f"{asked.method} {asked.path}"}).encode())

    with Serving(answer) as server:
        path = tmp_path / "toolfold.yaml"
        path.write_text(CONFIG.format(python=sys.executable, echo=ECHO, url=server.url))
        yield path


async def at_run(path, text):
    """The command line, as people start it."""
    source = path.with_name("program.py")
    source.write_text(text)
    command = [sys.executable, "-m", "toolfold", "run", "--config", str(path), str(source)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


async def at_mcp(path, text):
    config = load_config(path)
    async with create_mcp_server(config, modules=_modules(config)) as mcp_server, Client(mcp_server.server) as client:
        return texts(await run(client, text))[0]


async def at_serve(path, text):
    config = load_config(path)
    app, ledger = await open_app(config, modules=_modules(config))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client,
    ):
        asked = {"code": text, "tools": []}
        answer = await client.post("/exec/programmatic", json=asked, headers={"X-API-Key": "key-of-acme"})
    await ledger.close()
    return answer.json().get("stdout") or answer.text


async def at_library(path, text):
    async with toolfold.from_config(path) as runtime:
        outcome = await runtime.run(text)
    return outcome.stdout or str(outcome.problem)


async def at_pydantic_ai(path, text):
    talk = Talk(program(text), "done")
    result = await Agent(talk.model, toolsets=[CodeModeToolset(ConfigToolset(path))]).run("go")
    return returns(result.all_messages())[0][1]


def _modules(config):
    return [tool for tool in config_tools(config) if tool.spec.source.startswith("function")]


INTERFACES = {"run": at_run, "mcp": at_mcp, "serve": at_serve, "library": at_library, "pydantic ai": at_pydantic_ai}


def printed(text):
    """What the program printed, out of what the interface says around it."""
    [line] = [line for line in text.splitlines() if line.startswith("(")] or [text]
    return ast.literal_eval(line) if line.startswith("(") else text


@pytest.mark.long
async def test_one_config_gives_the_same_tools_names_and_policy_at_every_interface(config_file):
    seen = {name: printed(await interface(config_file, PROGRAM)) for name, interface in INTERFACES.items()}

    assert seen == dict.fromkeys(INTERFACES, (SEEN, SAID))


async def test_an_agent_calls_the_configs_tools_directly_and_is_asked_where_the_config_asks(config_file):
    text = config_file.read_text().replace("  modules:", "  ask: [shop_add]\n  modules:")
    config_file.write_text(text)
    talk = Talk(calls(("double", {"n": 2}), ("shop_op", {"nonsense": 1}), ("shop_add", {})))

    toolset = ConfigToolset(config_file)
    result = await Agent(talk.model, toolsets=[toolset], output_type=[str, DeferredToolRequests]).run("go")

    assert sorted(talk.tool_names) == SEEN
    assert [call.tool_name for call in result.output.approvals] == ["shop_add"]
    assert returns(result.all_messages()) == [
        ("success", 4),
        ("failed", "'shop_op' got a bad argument: no parameter 'nonsense'; it takes with_response"),
    ]
    approved = DeferredToolResults(approvals={result.output.approvals[0].tool_call_id: True})
    talk.says.append(Talk("done").says[0])
    later = await Agent(talk.model, toolsets=[toolset], output_type=[str, DeferredToolRequests]).run(
        message_history=result.all_messages(), deferred_tool_results=approved
    )
    assert returns(later.all_messages())[-1] == ("success", {"asked": "POST /a"})


@pytest.mark.long
async def test_what_the_config_blocks_is_called_at_no_interface(config_file):
    said = {name: (await interface(config_file, BLOCKED)).count("refused") for name, interface in INTERFACES.items()}

    assert said == dict.fromkeys(INTERFACES, 2)
