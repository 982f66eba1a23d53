"""`toolfold init` over the configs that people have, and the step after it: `toolfold mcp` with what it wrote."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, StdioServerParameters

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT

SCRIPT = Path(sys.executable).with_name("toolfold")
"""This command, as a client finds it that knows nothing of the environment."""
SET_THESE = "set these variables where toolfold will run; a server whose variable is not set is left out:"
ECHO = str(Path(__file__).with_name("echo_server.py"))
SECRETS = (
    "hunter2",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "lin_api_9aF3kLm2Q8",
    "sk-proj-4hT9xZ",
    "ntn_5512mA",
    "NjM4ZTIx0WYtYmQ4Zi00",
)


def echo(*args: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", "-E", ECHO, *args], **more}


@dataclass
class Case:
    """The files of one client, and what is to come of them."""

    files: dict[str, Any]
    out: list[str]
    """The lines between the first and the last."""
    err: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """What a person then sets."""
    started: dict[str, Any] = field(default_factory=dict)
    """What each server says of its start, with these variables."""
    others: dict[str, Any] = field(default_factory=dict)
    """Entries of servers that are not started here: those at an address."""


CASES = {
    "claude_code_project": Case(
        files={
            "here/.mcp.json": {
                "mcpServers": {
                    "github": echo(env={"MCP_TEST_TOKEN": SECRETS[1]}),
                    "linear": echo(env={"MCP_TEST_TOKEN": SECRETS[2], "MCP_TEST_REGION": "eu-central-1"}),
                    "postgres": echo("postgresql://ada:hunter2@db.example.org:5432/app"),
                }
            }
        },
        out=[
            "  github    from .mcp.json",
            "  linear    from .mcp.json",
            "  postgres  from .mcp.json",
            "replaced 3 secrets with variables, so that the file contains no secrets: "
            "GITHUB_MCP_TEST_TOKEN, LINEAR_MCP_TEST_TOKEN, POSTGRES_PASSWORD",
            SET_THESE,
            "  GITHUB_MCP_TEST_TOKEN  .mcp.json: mcpServers.github.env.MCP_TEST_TOKEN",
            "  LINEAR_MCP_TEST_TOKEN  .mcp.json: mcpServers.linear.env.MCP_TEST_TOKEN",
            "  POSTGRES_PASSWORD      .mcp.json: mcpServers.postgres.args[3]",
        ],
        variables={"GITHUB_MCP_TEST_TOKEN": "g", "LINEAR_MCP_TEST_TOKEN": "l", "POSTGRES_PASSWORD": "p"},
        started={
            "github": {"args": [], "env": {"MCP_TEST_TOKEN": "g"}},
            "linear": {"args": [], "env": {"MCP_TEST_TOKEN": "l", "MCP_TEST_REGION": "eu-central-1"}},
            "postgres": {"args": ["postgresql://ada:p@db.example.org:5432/app"], "env": {}},
        },
    ),
    "claude_code_home": Case(
        files={
            "home/.claude.json": {
                "numStartups": 41,
                "mcpServers": {"everywhere": echo("--verbose"), "paused": echo()},
                "projects": {
                    "{here}": {
                        "mcpServers": {"here": echo("${MCP_TEST_MODE:-fast}", env={"MCP_TEST_HOME": "${HOME}"})},
                        "disabledMcpServers": ["paused"],
                        "disabledMcpjsonServers": ["unwanted"],
                    },
                    "/elsewhere": {"mcpServers": {"there": echo()}},
                },
            },
            "here/.mcp.json": {"mcpServers": {"unwanted": echo(), "rejected": echo()}},
            "here/.claude/settings.local.json": {"disabledMcpjsonServers": ["rejected"]},
        },
        out=["  everywhere  from {home}/.claude.json", "  here        from {home}/.claude.json"],
        err=[
            "left out: .mcp.json: mcpServers.unwanted: is disabled in {home}/.claude.json",
            "left out: .mcp.json: mcpServers.rejected: is disabled in .claude/settings.local.json",
            "left out: {home}/.claude.json: mcpServers.paused: is disabled in {home}/.claude.json",
        ],
        started={
            "everywhere": {"args": ["--verbose"], "env": {}},
            "here": {"args": ["fast"], "env": {"MCP_TEST_HOME": "{home}"}},
        },
    ),
    "claude_desktop": Case(
        files={
            "home/.config/Claude/claude_desktop_config.json": {
                "globalShortcut": "",
                "mcpServers": {
                    "brave-search": echo(env={"MCP_TEST_API_KEY": "hunter2"}),
                    "notion": echo(env={"MCP_TEST_HEADERS": '{"Authorization": "Bearer ntn_5512mA", "V": "1"}'}),
                    "port": echo("--port", 8080),  # type: ignore[arg-type]  # as people write it
                },
            }
        },
        out=[
            "  brave-search  from {home}/.config/Claude/claude_desktop_config.json",
            "  notion        from {home}/.config/Claude/claude_desktop_config.json",
            "  port          from {home}/.config/Claude/claude_desktop_config.json",
            "replaced 2 secrets with variables, so that the file contains no secrets: "
            "BRAVE_SEARCH_MCP_TEST_API_KEY, NOTION_AUTHORIZATION",
            SET_THESE,
            "  BRAVE_SEARCH_MCP_TEST_API_KEY  {home}/.config/Claude/claude_desktop_config.json: "
            "mcpServers.brave-search.env.MCP_TEST_API_KEY",
            "  NOTION_AUTHORIZATION           {home}/.config/Claude/claude_desktop_config.json: "
            "mcpServers.notion.env.MCP_TEST_HEADERS",
        ],
        variables={"BRAVE_SEARCH_MCP_TEST_API_KEY": "b", "NOTION_AUTHORIZATION": "n"},
        started={
            "brave-search": {"args": [], "env": {"MCP_TEST_API_KEY": "b"}},
            "notion": {"args": [], "env": {"MCP_TEST_HEADERS": '{"Authorization": "Bearer n", "V": "1"}'}},
            "port": {"args": ["--port", "8080"], "env": {}},
        },
    ),
    "cursor": Case(
        files={
            "here/.cursor/mcp.json": {
                "mcpServers": {
                    "figma": echo("--figma-api-key", "hunter2", "--stdio"),
                    "flags": echo("--api-key=sk-proj-4hT9xZ", "-e", "MCP_TEST_TOKEN=hunter2"),
                    "inherits": echo(env={"MCP_TEST_X": "${env:MCP_TEST_OUTER}"}),
                    "zapier": {"url": "https://mcp.example.org/s/NjM4ZTIx0WYtYmQ4Zi00/mcp"},
                }
            }
        },
        out=[
            "  figma     from .cursor/mcp.json",
            "  flags     from .cursor/mcp.json",
            "  inherits  from .cursor/mcp.json",
            "  zapier    from .cursor/mcp.json",
            "replaced 4 secrets with variables, so that the file contains no secrets: "
            "FIGMA_API_KEY, FLAGS_API_KEY, FLAGS_MCP_TEST_TOKEN, ZAPIER_URL",
            SET_THESE,
            "  FIGMA_API_KEY         .cursor/mcp.json: mcpServers.figma.args[4]",
            "  FLAGS_API_KEY         .cursor/mcp.json: mcpServers.flags.args[3]",
            "  FLAGS_MCP_TEST_TOKEN  .cursor/mcp.json: mcpServers.flags.args[5]",
            "  MCP_TEST_OUTER        .cursor/mcp.json: mcpServers.inherits.env.MCP_TEST_X",
            "  ZAPIER_URL            .cursor/mcp.json: mcpServers.zapier.url",
        ],
        variables={"FIGMA_API_KEY": "f", "FLAGS_API_KEY": "a", "FLAGS_MCP_TEST_TOKEN": "t", "MCP_TEST_OUTER": "o"},
        started={
            "figma": {"args": ["--figma-api-key", "f", "--stdio"], "env": {}},
            "flags": {"args": ["--api-key=a", "-e", "MCP_TEST_TOKEN=t"], "env": {}},
            "inherits": {"args": [], "env": {"MCP_TEST_X": "o", "MCP_TEST_OUTER": "o"}},
        },
        others={"zapier": {"transport": "http", "url": "https://mcp.example.org/s/${ZAPIER_URL}/mcp"}},
    ),
    "vs_code_with_inputs": Case(
        files={
            "here/.vscode/mcp.json": """{
  // asked for once, and kept by the editor
  "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
  "servers": {
    "first": {"type": "stdio", "command": "{python}", "args": ["-S", "-E", "{echo}", "${workspaceFolder}/data"],
      "env": {"MCP_TEST_KEY": "${input:api-key}",},},
    /* the same id for another server */
    "second": {"command": "{python}", "args": ["-S", "-E", "{echo}"], "env": {"MCP_TEST_KEY": "${input:api-key}"}},
  },
}"""
        },
        out=[
            "  first   from .vscode/mcp.json",
            "  second  from .vscode/mcp.json",
            SET_THESE,
            "  FIRST_API_KEY   .vscode/mcp.json: servers.first.env.MCP_TEST_KEY",
            "  SECOND_API_KEY  .vscode/mcp.json: servers.second.env.MCP_TEST_KEY",
        ],
        variables={"FIRST_API_KEY": "1", "SECOND_API_KEY": "2"},
        started={
            "first": {"args": ["{here}/data"], "env": {"MCP_TEST_KEY": "1"}},
            "second": {"args": [], "env": {"MCP_TEST_KEY": "2"}},
        },
    ),
    "env_file": Case(
        files={
            "here/.vscode/mcp.json": {
                "servers": {
                    "db": echo(envFile="${workspaceFolder}/.env", env={"MCP_TEST_REGION": "eu"}),
                    "lost": echo(envFile="${workspaceFolder}/none.env"),
                }
            },
            "here/.env": "MCP_TEST_PASSWORD=hunter2\nMCP_TEST_REGION=us\n",
        },
        out=["  db    from .vscode/mcp.json", "  lost  from .vscode/mcp.json"],
        started={"db": {"args": [], "env": {"MCP_TEST_PASSWORD": "hunter2", "MCP_TEST_REGION": "eu"}}},
        others={"lost": {"env_file": "{here}/none.env"}},
    ),
    "http_with_headers": Case(
        files={
            "here/.mcp.json": {
                "mcpServers": {
                    "api": {
                        "type": "http",
                        "url": "https://api.example.org/mcp?api_key=hunter2&team=a",
                        "headers": {"Authorization": "Bearer sk-proj-4hT9xZ", "X-Team": "a", "X-Own": "${OWN_HEADER}"},
                    },
                    "old": {"type": "sse", "url": "http://localhost:1/sse"},
                    "odd": {"type": "carrier-pigeon", "url": "http://localhost:1"},
                    "local": echo(),
                }
            }
        },
        out=[
            "  api    from .mcp.json",
            "  old    from .mcp.json",
            "  local  from .mcp.json",
            "replaced 2 secrets with variables, so that the file contains no secrets: API_KEY, API_AUTHORIZATION",
            SET_THESE,
            "  API_KEY            .mcp.json: mcpServers.api.url",
            "  API_AUTHORIZATION  .mcp.json: mcpServers.api.headers.Authorization",
            "  OWN_HEADER         .mcp.json: mcpServers.api.headers.X-Own",
        ],
        err=["left out: .mcp.json: mcpServers.odd: type must be 'stdio', 'http' or 'sse', got 'carrier-pigeon'"],
        started={"local": {"args": [], "env": {}}},
        others={
            "api": {
                "transport": "http",
                "url": "https://api.example.org/mcp?api_key=${API_KEY}&team=a",
                "headers": {"Authorization": "Bearer ${API_AUTHORIZATION}", "X-Team": "a", "X-Own": "${OWN_HEADER}"},
            },
            "old": {"transport": "sse", "url": "http://localhost:1/sse"},
        },
    ),
    "null_disabled_and_incomplete_entries": Case(
        files={
            "here/.mcp.json": {
                "mcpServers": {
                    "nothing": None,
                    "text": "npx",
                    "off": echo(disabled=True),
                    "also-off": echo(enabled=False),
                    "unfinished": {"args": ["-y"]},
                    "no-address": {"type": "http"},
                    "good": echo(),
                    "good.x": echo(),
                    "good x": echo(),
                    "toolfold": {"command": "toolfold", "args": ["mcp"]},
                }
            }
        },
        out=["  good    from .mcp.json", "  good.x  from .mcp.json"],
        err=[
            "left out: .mcp.json: mcpServers.nothing: must be keys with values, got null",
            "left out: .mcp.json: mcpServers.text: must be keys with values, got 'npx'",
            "left out: .mcp.json: mcpServers.off: is disabled there",
            "left out: .mcp.json: mcpServers.also-off: is disabled there",
            "left out: .mcp.json: mcpServers.good x: tools of 'good.x' would have the same names; rename one of the two",
            "left out: .mcp.json: mcpServers.unfinished: command: is missing; a server with transport 'stdio' needs it",
            "left out: .mcp.json: mcpServers.no-address: url: is missing; a server with transport 'http' needs it",
        ],
        started={"good": {"args": [], "env": {}}, "good.x": {"args": [], "env": {}}},
    ),
}


class Machine:
    """A home and a folder with the files of a case."""

    def __init__(self, root: Path, case: Case) -> None:
        self.here, self.home = root / "here", root / "home"
        for folder in (self.here, self.home):
            folder.mkdir()
        for name, value in case.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.filled(value if isinstance(value, str) else json.dumps(value)))
        self.environment = {
            **{name: value for name, value in ENVIRONMENT.items() if not name.startswith("XDG_")},
            "HOME": str(self.home),
        }

    # Any: JSON of whatever shape.
    def filled(self, value: Any) -> Any:
        known = {"{here}": self.here, "{home}": self.home, "{python}": sys.executable, "{echo}": ECHO}
        text = value if isinstance(value, str) else json.dumps(value)
        for name, place in known.items():
            text = text.replace(name, str(place))
        return text if isinstance(value, str) else json.loads(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments], cwd=self.here, env=self.environment, capture_output=True, text=True, check=False
        )


NOTHING = """\
wrote toolfold.yaml with no servers
no MCP servers found in the config files of other clients; searched:
  .mcp.json (not found)
  .cursor/mcp.json
  .vscode/mcp.json (not found)
  .gemini/settings.json (not found)
  .codex/config.toml (not found)
  opencode.json (not found)
  opencode.jsonc (not found)
  .zed/settings.json (not found)
  {home}/.claude.json (not found)
  {home}/.cursor/mcp.json (not found)
  {home}/.codeium/windsurf/mcp_config.json (not found)
  {home}/.gemini/settings.json (not found)
  {home}/.continue/config.yaml (not found)
  {home}/.codex/config.toml (not found)
  {home}/.config/Claude/claude_desktop_config.json (not found)
  {home}/.config/Code/User/mcp.json (not found)
  {home}/.config/goose/config.yaml (not found)
  {home}/.config/zed/settings.json (not found)
  {home}/.config/opencode/opencode.json (not found)
  {home}/.config/opencode/opencode.jsonc (not found)
next: add a server below 'servers:' in toolfold.yaml, as its comment shows; 'toolfold tools list'
then lists its tools. Your own tools need no server: toolfold run --tools FILE.py PROGRAM.py
"""


def test_init_without_servers_says_where_it_looked_and_how_to_add_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Case(files={"here/.cursor/mcp.json": {"mcpServers": {}}}, out=[]))

    done = machine.run("init")

    assert done.stdout == machine.filled(NOTHING)


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    return Machine(tmp_path, CASES[request.param])


@pytest.mark.parametrize(("machine", "case"), CASES.items(), ids=CASES, indirect=["machine"])
@pytest.mark.long
async def test_init_writes_what_the_next_step_can_use(machine: Machine, case: Case) -> None:
    # `machine` was made from the name that stands in its place.
    done = machine.run("init")
    text = (machine.here / "toolfold.yaml").read_text()

    first, *rest, last = done.stdout.splitlines()
    count = len(case.started) + len(case.others)
    assert first == f"wrote toolfold.yaml with {count} server{'' if count == 1 else 's'}"
    assert rest == [machine.filled(line) for line in case.out]
    assert done.stderr.splitlines() == [machine.filled(line) for line in case.err]
    needed = [line.split()[0] for line in case.out[case.out.index(SET_THESE) + 1 :]] if SET_THESE in case.out else []
    assert last == " ".join([
        "next: claude mcp add toolfold", *[f"-e {name}=..." for name in needed], "--", str(SCRIPT), "mcp --config",
        str(machine.here / "toolfold.yaml"),
    ])  # fmt: skip
    assert [secret for secret in SECRETS if secret in text] == []
    entries = {entry["name"]: entry for entry in yaml.safe_load(text)["servers"]}
    for name, entry in case.others.items():
        assert {key: entries[name][key] for key in entry} == machine.filled(entry)

    assert await started(machine, case.started, case.variables) == machine.filled(case.started)


async def started(machine: Machine, names: Any, variables: dict[str, str]) -> dict[str, Any]:
    """What the servers say under `toolfold mcp`, as the last line of `init` has it."""
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "mcp", "--config", str(machine.here / "toolfold.yaml")],
        env={**machine.environment, **variables},
    )
    said = {}
    async with Client(parameters) as client:
        for name in names:
            tool = f"mcp__{name}__started".replace("-", "_").replace(".", "_")
            answer = await client.call_tool(
                "execute_program", {"code": f"import json\nprint(json.dumps(await {tool}()))"}
            )
            said[name] = json.loads(answer.content[0].text.partition("\n")[2])
    return said
