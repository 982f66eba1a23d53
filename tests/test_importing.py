"""Files of other clients: what is read, what is said of mistakes, and the config that `toolfold init` writes."""

import json
from pathlib import Path

import pytest

from toolfold.config import ServerConfig, load_config
from toolfold.config.client_formats import plain_json
from toolfold.config.import_clients import client_files, import_servers
from toolfold.errors import UsageError
from toolfold.interfaces.cli.commands.init import init_command


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_claude_codes_file_is_read_with_its_variables(tmp_path) -> None:
    path = write(
        tmp_path / ".mcp.json",
        {
            "mcpServers": {
                "db": {"command": "${HOME_BIN}/db", "args": ["--url", "${URL:-none}"], "env": {"TOKEN": "${TOKEN}"}},
                "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"X-Key": "k"}},
                "old": {"type": "sse", "url": "http://localhost:1/sse"},
                "off": {"command": "x", "disabled": True},
                "us": {"command": "toolfold", "args": ["mcp"]},
            }
        },
    )

    assert import_servers(path, environment={"HOME_BIN": "/opt", "TOKEN": "t"}) == (
        ServerConfig(name="db", command="/opt/db", args=("--url", "none"), env={"TOKEN": "t"}),
        ServerConfig(name="web", transport="http", url="https://example.org/mcp", headers={"X-Key": "k"}),
        ServerConfig(name="old", transport="sse", url="http://localhost:1/sse"),
    )


def test_claude_codes_own_file_gives_also_the_servers_of_the_folders_project(tmp_path) -> None:
    path = write(
        tmp_path / ".claude.json",
        {
            "mcpServers": {"everywhere": {"command": "a"}},
            "projects": {
                str(tmp_path.resolve()): {"mcpServers": {"here": {"command": "b"}}},
                "/elsewhere": {"mcpServers": {"there": {"command": "c"}}},
            },
        },
    )

    assert [server.name for server in import_servers(path, folder=tmp_path)] == ["everywhere", "here"]


def test_vs_codes_file_is_read_with_comments_inputs_and_folders(tmp_path) -> None:
    path = write(
        tmp_path / ".vscode" / "mcp.json",
        """{
  // asked for once
  "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
  "servers": {
    "search": {
      "type": "stdio", "command": "npx", /* the // in an address stays */
      "args": ["-y", "search", "${workspaceFolder}/data", "http://x//y"],
      "env": {"KEY": "${input:api-key}", "USER_NAME": "${env:WHO}",},
    },
  },
}""",
    )

    assert import_servers(path, folder=tmp_path, environment={"API_KEY": "s", "WHO": "ada"}) == (
        ServerConfig(
            name="search",
            command="npx",
            args=("-y", "search", f"{tmp_path.resolve()}/data", "http://x//y"),
            env={"KEY": "s", "USER_NAME": "ada"},
        ),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mcpServers": {"a": }}', ".mcp.json:1: not JSON: expecting value"),
        ("[]", ".mcp.json: must be keys with values"),
        ("{}", ".mcp.json: has no 'mcpServers' and no 'servers'; name a file that lists MCP servers"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path, monkeypatch, text, message) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / ".mcp.json", text)

    with pytest.raises(UsageError) as error:
        import_servers(Path(".mcp.json"), environment={})

    assert str(error.value) == message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"args": []}, "command: is missing; a server with transport 'stdio' needs it"),
        ({"type": "carrier-pigeon"}, "type must be 'stdio', 'http' or 'sse', got 'carrier-pigeon'"),
        ({"command": "x", "env": {"K": "${NOT_SET}"}}, "variable 'NOT_SET' is not set; set it"),
        ({"command": "x", "envFile": "none"}, "env_file 'none' cannot be read: no such file or directory"),
        ({"command": "x", "args": "y"}, "args: input should be a valid tuple"),
        (1, "must be keys with values, got 1"),
        (None, "must be keys with values, got null"),
    ],
)
def test_an_entry_that_cannot_be_used_is_left_out_with_one_line(tmp_path, monkeypatch, caplog, entry, message) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / ".mcp.json", {"mcpServers": {"a": entry, "b": {"command": "b"}}})

    servers = import_servers(Path(".mcp.json"), environment={})

    assert servers == (ServerConfig(name="b", command="b"),)
    assert [record.getMessage() for record in caplog.records] == [f"left out: .mcp.json: mcpServers.a: {message}"]


def test_comments_and_commas_within_text_stay() -> None:
    assert json.loads(plain_json('{"a": "x // y, }", // z\n "b": [1, 2,], }')) == {"a": "x // y, }", "b": [1, 2]}


def test_the_files_of_every_client_are_found(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    names = [
        "here/.mcp.json",
        "here/.cursor/mcp.json",
        "here/.vscode/mcp.json",
        "home/.claude.json",
        "home/.cursor/mcp.json",
        "home/.config/Claude/claude_desktop_config.json",
        "home/.config/Code/User/mcp.json",
    ]
    for name in names:
        write(tmp_path / name, {})

    found = client_files(tmp_path / "here", tmp_path / "home")

    assert [str(path.relative_to(tmp_path)) for path in found] == names


def test_init_writes_a_config_that_loads_and_keeps_secrets_as_references(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    env = {"API_TOKEN": "sk-written-out", "REGION": "eu", "OTHER_KEY": "${env:OTHER}", "PRICE": "$5"}
    write(tmp_path / ".mcp.json", {"mcpServers": {"db": {"command": "db", "args": ["a b"], "env": env}}})
    write(tmp_path / ".cursor" / "mcp.json", {"mcpServers": {"db": {"command": "other"}, "web": {"url": "http://x"}}})
    write(tmp_path / ".vscode" / "mcp.json", "{")

    code = init_command(Path())
    text = (tmp_path / "toolfold.yaml").read_text()
    config = load_config("toolfold.yaml", environment={"DB_API_TOKEN": "1", "OTHER": "2"})

    assert code == 0
    assert "sk-written-out" not in text
    assert config.servers == (
        ServerConfig(
            name="db",
            command="db",
            args=("a b",),
            env={"API_TOKEN": "1", "REGION": "eu", "OTHER_KEY": "2", "PRICE": "$5"},
        ),
        ServerConfig(name="web", transport="http", url="http://x"),
    )
    assert (tmp_path / "toolfold.yaml").stat().st_mode & 0o777 == 0o600
    shown = capsys.readouterr()
    assert shown.out.startswith("wrote toolfold.yaml with 2 servers\n  db   from .mcp.json\n")
    assert shown.err == "left out: .vscode/mcp.json:1: not JSON: expecting property name enclosed in double quotes\n"


def test_init_overwrites_nothing_and_without_servers_writes_a_start(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)

    init_command(Path())
    before = (tmp_path / "toolfold.yaml").read_text()
    with pytest.raises(UsageError) as error:
        init_command(Path())

    assert load_config("toolfold.yaml").servers == ()
    assert (tmp_path / "toolfold.yaml").read_text() == before
    assert str(error.value) == "'toolfold.yaml' already exists; edit it, or replace it with --force"
    init_command(Path(), force=True)
    assert (tmp_path / "toolfold.yaml.bak").read_text() == before
    schema = before.splitlines()[0].removeprefix("# yaml-language-server: $schema=file://")
    assert json.loads(Path(schema).read_text())["$schema"].startswith("https://json-schema.org/")
