"""Files of eleven clients as their documentation shows them: each is found where it lies, and imported."""

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolfold.config import ServerConfig
from toolfold.config.client_formats import client_places
from toolfold.config.import_clients import client_files, import_servers, read_servers
from toolfold.errors import UsageError
from toolfold.interfaces.cli.commands.init import init_command

VARIABLES = {"TOKEN": "tok3n-of-the-test", "API_KEY": "k-1", "GITHUB_TOKEN": "g-1"}


# Any: each key has its own type.
def stdio(
    name: str = "local", command: str = "npx", args: tuple[str, ...] = ("-y", "server"), **more: object
) -> object:
    return ServerConfig(name=name, command=command, args=args, **more)


# Any: the same.
def remote(name: str = "web", transport: str = "http", **more: Any) -> ServerConfig:
    return ServerConfig(name=name, transport=transport, url="https://example.org/mcp", **more)


TOKEN = {"Authorization": "Bearer tok3n-of-the-test"}
CLIENTS = {
    "Claude Code": (".mcp.json", """{"mcpServers": {
        "local": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "${API_KEY}"}},
        "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}""",
        [stdio(env={"KEY": "k-1"}), remote(headers=TOKEN)]),
    "Claude Desktop": ("~/.config/Claude/claude_desktop_config.json",
        """{"mcpServers": {"local": {"command": "npx", "args": ["-y", "server"]}}}""", [stdio()]),
    "Cursor": (".cursor/mcp.json", """{"mcpServers": {
        "local": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "${env:API_KEY}"}},
        "web": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}}}""",
        [stdio(env={"KEY": "k-1"}), remote(headers=TOKEN)]),
    "VS Code": (".vscode/mcp.json", """{
        // comments are allowed
        "servers": {"local": {"type": "stdio", "command": "npx", "args": ["-y", "server"]}},}""", [stdio()]),
    "Windsurf": ("~/.codeium/windsurf/mcp_config.json", """{"mcpServers": {
        "web": {"serverUrl": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
        "local": {"command": "npx", "args": ["-y", "server"], "disabled": false, "disabledTools": ["x"]},
        "off": {"command": "npx", "disabled": true}}}""", [remote(headers=TOKEN), stdio()]),
    "Gemini CLI": ("~/.gemini/settings.json", """{
        "theme": "Dracula", "mcp": {"excluded": ["experimental"]},
        "mcpServers": {
            "local": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "$API_KEY"}, "timeout": 30000, "trust": false},
            "web": {"httpUrl": "https://example.org/mcp", "headers": {"Authorization": "Bearer $TOKEN"}},
            "old": {"url": "https://example.org/mcp"},
            "experimental": {"command": "npx"}}}""",
        [stdio(env={"KEY": "k-1"}), remote(headers=TOKEN), remote("old", "sse")]),
    "Codex": ("~/.codex/config.toml", """
        model = "gpt-5"
        [projects."/home/me/work"]
        trust_level = "trusted"
        [mcp_servers.local]
        command = "npx"
        args = ["-y", "server"]
        env_vars = ["GITHUB_TOKEN"]
        startup_timeout_sec = 20
        [mcp_servers.local.env]
        KEY = "value"
        [mcp_servers.web]
        url = "https://example.org/mcp"
        bearer_token_env_var = "TOKEN"
        http_headers = { "X-Region" = "eu" }
        env_http_headers = { "X-Key" = "API_KEY" }
        [mcp_servers.off]
        command = "npx"
        enabled = false
        """,
        [stdio(env={"KEY": "value", "GITHUB_TOKEN": "g-1"}), remote(headers={"X-Region": "eu", "X-Key": "k-1", **TOKEN})]),
    "Goose": ("~/.config/goose/config.yaml", """
        GOOSE_PROVIDER: anthropic
        extensions:
          developer: {bundled: true, enabled: true, name: developer, type: builtin, timeout: 300}
          local:
            args: [-y, server]
            cmd: npx
            enabled: true
            env_keys: [GITHUB_TOKEN]
            envs: {KEY: value}
            name: local
            type: stdio
          web:
            enabled: true
            headers: {Authorization: Bearer $TOKEN}
            name: web
            type: streamable_http
            uri: https://example.org/mcp
          nested: {enabled: true, config: {type: stdio, name: nested, cmd: npx, args: [-y, server]}}
          off: {cmd: npx, enabled: false, name: off, type: stdio}
        """,
        [stdio(env={"KEY": "value", "GITHUB_TOKEN": "g-1"}), remote(headers=TOKEN), stdio("nested")]),
    "Continue": ("~/.continue/config.yaml", """
        name: My Config
        version: 1.0.0
        mcpServers:
          - name: local
            command: npx
            args: ["-y", server]
            env: {KEY: "${{ secrets.API_KEY }}"}
          - name: web
            type: streamable-http
            url: https://example.org/mcp
            requestOptions:
              headers: {Authorization: "Bearer ${{ secrets.TOKEN }}"}
        """, [stdio(env={"KEY": "k-1"}), remote(headers=TOKEN)]),
    "a block of Continue": (".continue/mcpServers/local.yaml", """
        name: Local
        schema: v1
        mcpServers:
          - {name: local, command: npx, args: ["-y", server], cwd: null}
        """, [stdio()]),
    "opencode": ("opencode.json", """{
        "$schema": "https://opencode.ai/config.json",
        "mcp": {
            "local": {"type": "local", "command": ["npx", "-y", "server"], "environment": {"KEY": "{env:API_KEY}"}, "enabled": true},
            "web": {"type": "remote", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"}},
            "off": {"type": "local", "command": ["npx"], "enabled": false}}}""",
        [stdio(env={"KEY": "k-1"}), remote(headers=TOKEN)]),
    "Zed": ("~/.config/zed/settings.json", """{
        // Zed settings
        "ui_font_size": 16,
        "context_servers": {
            "local": {"source": "custom", "enabled": true, "command": "npx", "args": ["-y", "server"], "env": {}},
            "older": {"command": {"path": "npx", "args": ["-y", "server"], "env": {"KEY": "value"}}, "settings": {}},
            "web": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer tok3n-of-the-test"}},
        }}""",
        [stdio(), stdio("older", env={"KEY": "value"}), remote(headers=TOKEN)]),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path / "home"), **VARIABLES}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def put(home: Path, place: str, text: str) -> Path:
    path = home / place[2:] if place.startswith("~/") else home.parent / "work" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("client", CLIENTS)
def test_the_servers_of_a_client_are_found_where_its_file_lies_and_imported(home: Path, client: str) -> None:
    place, text, servers = CLIENTS[client]
    path = put(home, place, text)

    assert client_files(Path.cwd()) == [path]
    assert [*import_servers(path, environment=VARIABLES)] == servers


def test_init_writes_the_servers_of_all_clients_into_one_file_without_their_secrets(home: Path) -> None:
    for client, (place, text, _) in CLIENTS.items():
        put(
            home,
            place,
            text.replace("local", f"local-{client.replace(' ', '-')}").replace(
                'local-opencode", "command', 'local", "command'
            ),
        )

    assert init_command(Path.cwd()) == 0

    text = Path("toolfold.yaml").read_text()
    servers = {server["name"]: server for server in yaml.safe_load(text)["servers"]}
    assert {
        "local-Codex",
        "local-Goose",
        "local-Gemini-CLI",
        "local-Continue",
        "local-Zed",
        "web",
        "older",
        "nested",
    } <= servers.keys()
    assert "tok3n-of-the-test" not in text
    assert servers["local-Codex"]["env"] == {"KEY": "${LOCAL_CODEX_KEY}", "GITHUB_TOKEN": "${GITHUB_TOKEN}"}
    assert servers["local-Gemini-CLI"]["env"] == {"KEY": "${API_KEY}"}


def test_settings_without_servers_are_no_mistake_and_a_file_that_was_named_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        put(home, "~/.gemini/settings.json", '{"theme": "x"}'), put(home, "~/.codex/config.toml", 'model = "x"'),
        put(home, "~/.config/zed/settings.json", "{}"), put(home, "~/.config/goose/config.yaml", "extensions: {}"),
    ]  # fmt: skip

    assert init_command(Path.cwd()) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(UsageError, match="has no 'mcpServers' and no 'servers'"):
        read_servers(paths[0])


DEEP = "is nested too deeply to be read; remove unneeded brackets"
LEVELS = "\n".join(f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 60))
MERGES = "\n".join(f"m{n}: &b{n} {{<<: [*b{n - 1}, *b{n - 1}], k{n}: 1}}" for n in range(1, 60))
HOSTILE = {
    "a type that is none": ("opencode.json", '{"mcp": {"b": {"type": [{}], "command": {"path": []}, "env_keys": 7}}}', None),
    "a setting of another client": (".zed/settings.json", '{"mcp": {"b": {"type": {}}}, "context_servers": {"c": 7}}', None),
    "deep TOML": (".codex/config.toml", "a = " + "[" * 50_000, DEEP),
    "deep tables": (".codex/config.toml", "a = " + "{a = " * 50_000, DEEP),
    "not TOML": (".codex/config.toml", "a = = 1", "not TOML: Invalid value (at line 1, column 5)"),
    "large TOML": (".codex/config.toml", "# " + "x" * 300_000, "not TOML: larger than 262,144 characters"),
    "long number in TOML": (".codex/config.toml", "a = " + "9" * 10_000, None),
    "deep YAML": (".continue/mcpServers/x.yaml", "a: " + "[" * 20_000, DEEP),
    "deep YAML in a line": (".continue/mcpServers/x.yaml", "- " * 50_000, DEEP),
    "a value that contains itself": (".continue/mcpServers/x.yaml", "mcpServers: &a [*a]", "not YAML: line 1: found unconstructable recursive node"),
    "not YAML": (".continue/mcpServers/x.yaml", "a: [1", None),
    "a tag": (".continue/mcpServers/x.yaml", "a: !!python/object:os.system {}", "has no 'mcpServers' and no 'servers'; name a file that lists MCP servers"),
    "a bomb of aliases": (".continue/mcpServers/x.yaml", f"x0: &a0 [1]\n{LEVELS}\nmcpServers: [{{name: b, command: x, args: *a59}}]", None),
    "a bomb of merges": (".continue/mcpServers/x.yaml", f"m0: &b0 {{k: 1}}\n{MERGES}\nmcpServers: [{{name: b, command: x, env: *b59}}]", None),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_costs_one_line_and_no_other_server(
    home: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place, text, reason = HOSTILE[name]
    put(home, place, text)
    put(home, ".mcp.json", '{"mcpServers": {"good": {"command": "true"}}}')

    assert init_command(Path.cwd()) == 0

    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert line.startswith(f"left out: {place}: ")
    assert len(line) < 300
    assert reason is None or line == f"left out: {place}: {reason}"
    assert captured.out.startswith("wrote toolfold.yaml with 1 server\n")


def test_a_value_that_is_the_content_of_a_file_is_left_out_with_its_reason(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = '{"mcp": {"a": {"type": "local", "command": ["x"], "environment": {"KEY": "{file:~/.key}"}}}}'
    path = put(home, "opencode.json", text)

    with caplog.at_level(logging.WARNING):
        assert import_servers(path) == ()

    reason = "has the content of a file in a value; put it into an environment variable"
    assert caplog.messages == [f"left out: opencode.json: mcp.a: {reason}"]


def test_codex_has_a_home_of_its_own_and_windows_other_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "/elsewhere")
    monkeypatch.setenv("APPDATA", "/roaming")
    monkeypatch.setattr("sys.platform", "win32")

    places = {str(place) for place in client_places(Path.cwd())}

    assert {"/elsewhere/config.toml", "/roaming/Block/goose/config/config.yaml", "/roaming/Zed/settings.json"} <= places
