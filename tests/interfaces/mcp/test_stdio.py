"""`toolfold mcp` as a client starts it: an example over stdio, what is printed, how it ends."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.interfaces.mcp.conftest import ERAS, descendants, left_of, run, texts, until

ROOT = Path(__file__).parents[3]
FINANCE = ROOT / "examples" / "finance"
COMMAND = (sys.executable, "-m", "toolfold", "mcp")


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHON": sys.executable, **extra}


def server(config: Path, *options: str, **extra: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--config", str(config), *options], env=environment(**extra)
    )


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
async def test_the_example_runs_against_the_finance_server(mode) -> None:
    async with Client(server(FINANCE / "toolfold.yaml"), mode=mode) as client:
        result = await run(client, (FINANCE / "program.txt").read_text())

    assert texts(result) == [
        "[Script executed successfully]\n"
        "AMZN: $170.0B → $165.3B → $158.9B → $149.2B\n"
        "MSFT: $65.6B → $62.0B → $59.1B → $56.5B\n"
        "GOOG: $96.5B → $88.3B → $85.0B → $80.5B\n"
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("toolfold.yaml", "{project}"),
        (".mcp.json", "{project}"),
        (".cursor/mcp.json", "{project}"),
        ("claude_desktop_config.json", "{current}"),
    ],
)
async def test_a_server_starts_in_the_folder_of_its_config_or_project_not_in_the_clients(
    tmp_path: Path, file: str, place: str
) -> None:
    project, current = tmp_path / "project", tmp_path / "current"
    for folder in (project, current):
        folder.mkdir()
        shutil.copy(ROOT / "tests" / "interfaces" / "cli" / "echo_server.py", folder / "echo.py")
    (project / file).parent.mkdir(exist_ok=True)
    entry = {"command": sys.executable, "args": ["-S", "-E", "echo.py", "--cwd"]}
    servers = {"servers": [{"name": "db", **entry}]} if file == "toolfold.yaml" else {"mcpServers": {"db": entry}}
    (project / file).write_text(json.dumps(servers))
    option = "--config" if file == "toolfold.yaml" else "--import"
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], option, str(project / file)], env=environment(), cwd=current
    )

    async with Client(parameters) as client:
        result = await run(client, "print((await mcp__db__started())['cwd'])")

    assert texts(result) == [f"[Script executed successfully]\n{place.format(project=project, current=current)}\n"]


@pytest.mark.long
async def test_errors_have_the_documented_words() -> None:
    upstream = {"FINANCE_UPSTREAM": "127.0.0.1:9"}
    async with Client(server(FINANCE / "toolfold.yaml", **upstream)) as client:
        code = 'tickers = ["AMZN"]\nfor t in tickers:\n    data = await mcp__financial_data__query_financials(ticker=t)'
        failed = await run(client, code)
        blocked = await run(client, "await mcp__internal_apis__delete_resource(id=1)")
        late = await run(client, "import time\ntime.sleep(9)", timeout_seconds=0.5)

    assert texts(failed) == [
        "[Script execution failed]\n"
        "Traceback (most recent call last):\n"
        '  File "<program>", line 3, in __main__\n'
        "    data = await mcp__financial_data__query_financials(ticker=t)\n"
        "ToolError: 'mcp__financial_data__query_financials' failed: connection refused"
    ]
    assert texts(blocked) == [
        "[Script execution failed]\n"
        "ToolError: 'mcp__internal_apis__delete_resource' is not available in execute_program"
    ]
    assert texts(late) == ["[Script execution failed]\nTimeoutError: Execution exceeded 0.5s limit"]


@pytest.mark.long
async def test_servers_that_do_not_come_up_neither_delay_the_handshake_nor_the_others(tmp_path) -> None:
    config = tmp_path / "toolfold.yaml"
    config.write_text(f"""
servers:
  - name: silent
    command: {sys.executable}
    args: ["-c", "import time; time.sleep(600)"]
    connect_timeout_seconds: 600
  - name: gone
    command: {sys.executable}
    args: ["-c", "raise SystemExit('no database')"]
  - name: nowhere
    transport: sse
    url: http://127.0.0.1:9/mcp
  - name: financial-data
    command: {sys.executable}
    args: ["{FINANCE / "server.py"}"]
ledger: {{where: memory}}
""")
    async with Client(server(config), mode="legacy") as client:
        quote = await run(client, "print((await mcp__financial_data__stock_quote(ticker='MSFT'))['price'])")
        listed = await client.list_tools()
        gone = await run(client, "await mcp__gone__query()")

    assert texts(quote) == ["[Script executed successfully]\n424.0\n"]
    assert "server 'gone' is not connected" in texts(gone)[1]
    # It never answers, so whoever had waited for it would be waiting still.
    assert "waits for them: silent\n" in listed.tools[0].description


@pytest.mark.long
async def test_a_server_whose_variable_is_not_set_is_explained_to_the_model(tmp_path) -> None:
    config = tmp_path / "toolfold.yaml"
    config.write_text("""
servers:
  - name: memory
    command: never-started
    env: {TOKEN: "${MEMORY_API_TOKEN}"}
tools:
  commands:
    - {name: greet, argv: [echo, hello], description: Say hello.}
ledger: {where: memory}
""")
    imported = tmp_path / "other.json"
    imported.write_text('{"mcpServers": {"crm": {"command": "never-started", "args": ["${CRM_KEY}"]}}}')
    lines = [
        "server 'memory' is left out: variable 'MEMORY_API_TOKEN' is not set",
        "server 'crm' is left out: variable 'CRM_KEY' is not set",
    ]
    async with Client(server(config, "--import", str(imported)), mode="legacy") as client:
        memory = await run(client, "await mcp__memory__read_graph()")
        crm = await run(client, "await tools.crm.find()")
        other = await run(client, "await greeet()")
        found = await client.call_tool("search_tools", {"query": "say hello", "detail": "name"})
        nothing = await client.call_tool("search_tools", {"query": "quantum"})

    assert [texts(one)[1:] for one in (memory, crm, other)] == [[lines[0]], [lines[1]], []]
    assert texts(found) == ["greet: Say hello.\n\n" + "\n\n".join(lines)]
    assert texts(nothing)[0].endswith("\n\n" + "\n\n".join(lines))


@pytest.mark.long
def test_nothing_but_the_protocol_is_written_to_stdout_and_a_signal_leaves_no_process(tmp_path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(
        "print('imported')\ndef shout(text: str) -> str:\n    print('called', flush=True)\n    return text\n"
    )
    config = tmp_path / "toolfold.yaml"
    config.write_text("tools: {modules: [tools.py]}\nledger: {where: memory}\n")
    process = subprocess.Popen(
        [*COMMAND, "--config", str(config)], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    hello = '"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}'
    code = '"name":"execute_program","arguments":{"code":"print(await shout(text=1 * \\"hi\\"))"}'
    for line in (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{' + hello + "}}",
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{' + code + "}}",
    ):
        process.stdin.write(line + "\n")
        process.stdin.flush()
    answers = [process.stdout.readline(), process.stdout.readline()]
    children = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)  # with stdin still open
    _, errors = process.communicate()

    assert [answer.startswith('{"jsonrpc":"2.0","id":') for answer in answers] == [True, True]
    assert '"text":"[Script executed successfully]\\nhi\\n"' in answers[1]
    assert "called" in errors
    assert children
    assert left_of(children) == set()
    assert process.returncode == 0


@pytest.mark.long
async def test_a_client_that_leaves_in_the_middle_of_a_program_leaves_no_process(tmp_path) -> None:
    config = tmp_path / "toolfold.yaml"
    began = tmp_path / "began"
    config.write_text(f"tools: {{commands: [{{name: mark, argv: [touch, {began}]}}]}}\nledger: {{where: memory}}\n")
    before = descendants(os.getpid())

    async with Client(server(config)) as client:
        task = asyncio.create_task(run(client, "await mark()\nwhile True: pass"))
        await until(began.exists)
        children = descendants(os.getpid()) - before
        task.cancel()

    assert len(children) > 1
    assert left_of(children) == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("servrs: []", "toolfold.yaml:1: servrs: unknown key; did you mean 'servers'?"),
        (
            "tools:\n  allow: [a]\n  block: [b]",
            "toolfold.yaml:3: tools.block: cannot stand beside tools.allow; keep one of the two",
        ),
        (
            "servers:\n  - name: a\n    transport: stdio",
            "toolfold.yaml:2: servers[0].command: is missing; a server with transport 'stdio' needs it",
        ),
        ("servers: [", "toolfold.yaml:2: not YAML: expected the node content, but found '<stream end>'"),
        (
            "servers:\n  - {name: a, url: 'localhost:1'}",
            "toolfold.yaml:2: servers[0].url: must be a URL such as http://localhost:8080/mcp, got 'localhost:1'",
        ),
        (
            "tools:\n  folders:\n    - {name: docs, path: nowhere}",
            "toolfold.yaml:3: tools.folders[0]: folder 'nowhere' is not a folder; create it first",
        ),
    ],
)
def test_a_mistake_in_the_config_is_one_line_with_its_place_and_exit_2(tmp_path, text, message) -> None:
    (tmp_path / "toolfold.yaml").write_text(text + "\n")

    ended = subprocess.run(COMMAND, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)

    assert ended.stderr.replace(f"{tmp_path}/", "") == f"toolfold: {message}\n"
    assert (ended.returncode, ended.stdout) == (2, "")


def test_a_server_whose_variable_is_not_set_is_left_out_with_one_line_and_a_client_that_is_not_there_ends_it(
    tmp_path,
) -> None:
    (tmp_path / "toolfold.yaml").write_text("servers:\n  - name: a\n    command: ${NOT_SET_HERE}\n")

    ended = subprocess.run(
        COMMAND, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )

    assert ended.stderr.replace(f"{tmp_path}/", "") == (
        "toolfold: toolfold.yaml:2: server 'a' is left out: variable 'NOT_SET_HERE' is not set; set it\n"
    )
    assert (ended.returncode, ended.stdout) == (0, "")


def test_without_a_config_the_next_step_is_told(tmp_path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    ended = subprocess.run(COMMAND, cwd=tmp_path, env=environment(**home), capture_output=True, text=True, check=False)

    assert ended.stderr == (
        "toolfold: no toolfold.yaml in this or a parent folder; write one with 'toolfold init', or name one with --config\n"
    )
    assert ended.returncode == 2
