"""`toolfold.yaml`: what it may say, and the line that each mistake is told on."""

import asyncio
import inspect
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from toolfold.config import (
    CommandConfig,
    Config,
    FolderConfig,
    LedgerConfig,
    LimitsConfig,
    PolicyConfig,
    ServerConfig,
    SessionsConfig,
    ToolsConfig,
    find_config,
    load_config,
    parse_config,
)
from toolfold.config.build import command_tools, ledger_of, module_sources, runtime_settings, with_policies
from toolfold.config.model import FILE_NAME, KeepConfig, PausedConfig, config_schema, schema_text
from toolfold.config.sections import ApiConfig, AuthConfig, FetchConfig, PriceConfig
from toolfold.errors import UsageError
from toolfold.execution.pauses import PausedLimits
from toolfold.models import Limits, Paused, Prices, Reply, ToolSpec
from toolfold.runtime import Runtime
from toolfold.sessions import SessionLimits
from toolfold.sources.shell_commands import shell_tool
from toolfold.tools.tool import SpecOptions, Tool

THREE_SERVERS = """\
# programmatic-executor/config.yaml

servers:
  - name: financial-data
    transport: stdio
    command: node
    args: ["./financial-data-mcp/dist/index.js"]

  - name: document-retrieval
    transport: stdio
    command: python
    args: ["-m", "doc_retrieval_mcp"]

  - name: internal-apis
    transport: sse
    url: "http://localhost:8080/mcp"

# Tool-level access control (uses namespaced names)
tools:
  block:
    - "mcp__internal_apis__delete_resource"
    - "mcp__document_retrieval__admin_reindex"

# Execution constraints
execution:
  timeout_seconds: 120
  max_output_bytes: 65536
"""

EVERYTHING = """\
servers:
  - name: crm
    command: crm-mcp
    args: [--port, "8080"]
    env: {TOKEN: "${CRM_TOKEN}"}
    cwd: tools
    connect_timeout_seconds: 5
    call_timeout_seconds: 2.5
    concurrency: 1
  - name: docs
    url: https://docs.example/mcp
    headers: {Authorization: "Bearer ${DOCS_TOKEN:-none}"}
tools:
  allow: ["mcp__crm__*", count_lines]
  ask: ["*delete*"]
  modules: [my_tools.py, company.tools]
  commands:
    - name: count_lines
      argv: [wc, -l, "{path}"]
      input_schema: {type: object, properties: {path: {type: string}}, required: [path]}
      environment: [LANG]
      output: text
      timeout_seconds: 5
      max_output_bytes: 1MB
      read_only: true
policies:
  "mcp__crm__*": {timeout_seconds: 10, retry: always, cache_seconds: 60, max_calls: 20}
limits:
  memory_bytes: 1GiB
  data_bytes: 64MiB
  calls: 50
sessions: {idle: 15m, max_age: 2d, max_bytes: 1GB}
ledger:
  where: runs.sqlite
  keep: {max_age: 30d, max_bytes: 1GiB, max_executions: 10000}
  key: ${LEDGER_KEY}
engine: process
isolation: namespace
"""
ENVIRONMENT = {"CRM_TOKEN": "s3cret", "LEDGER_KEY": "correct horse", "EMPTY": "", "SECONDS": "7"}


def mistakes(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_config(text, environment=ENVIRONMENT)
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("{a: k, b: k}", "http.keys.b: repeats a key of 'a'; give each its own"),
        ("{a: {key: k, roles: [admin]}}", "http.keys.a[0].roles[0]: must be 'read', 'run' or 'approve', got 'admin'"),
        ("{a: {key: k}}", "http.keys.a[0].roles: is missing"),
        ("{a: 5}", "http.keys.a[0].key: must be text, got something else; put it in quotes"),
        ("{a: []}", "http.keys.a: is empty; give it a key, or leave the tenant out"),
    ],
)
def test_a_mistake_in_the_keys_is_told_with_its_place(keys: str, text: str) -> None:
    assert mistakes(f"http: {{keys: {keys}}}") == f"toolfold.yaml:1: {text}"


def test_a_file_of_three_servers_and_blocked_tools_means_what_it_says() -> None:
    config = parse_config(THREE_SERVERS)

    assert config.servers == (
        ServerConfig(
            name="financial-data", transport="stdio", command="node", args=("./financial-data-mcp/dist/index.js",)
        ),
        ServerConfig(name="document-retrieval", transport="stdio", command="python", args=("-m", "doc_retrieval_mcp")),
        ServerConfig(name="internal-apis", transport="sse", url="http://localhost:8080/mcp"),
    )
    assert (config.tools.allow, config.tools.block) == (
        None,
        ("mcp__internal_apis__delete_resource", "mcp__document_retrieval__admin_reindex"),
    )
    assert config.program_limits == Limits(wall_seconds=120, output_bytes=65536)


def test_every_key_is_read() -> None:
    config = parse_config(EVERYTHING, environment=ENVIRONMENT)

    assert config.model_dump(mode="json", exclude_unset=True) == {
        "servers": [
            {
                "name": "crm",
                "command": "crm-mcp",
                "args": ["--port", "8080"],
                "env": {"TOKEN": "s3cret"},
                "cwd": "tools",
                "connect_timeout_seconds": 5.0,
                "call_timeout_seconds": 2.5,
                "concurrency": 1,
            },
            {
                "name": "docs",
                "transport": "http",
                "url": "https://docs.example/mcp",
                "headers": {"Authorization": "Bearer none"},
            },
        ],
        "tools": {
            "allow": ["mcp__crm__*", "count_lines"],
            "ask": ["*delete*"],
            "modules": ["my_tools.py", "company.tools"],
            "commands": [
                {
                    "name": "count_lines",
                    "argv": ["wc", "-l", "{path}"],
                    "input_schema": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                    },
                    "environment": ["LANG"],
                    "output": "text",
                    "timeout_seconds": 5.0,
                    "max_output_bytes": 1_000_000,
                    "read_only": True,
                }
            ],
        },
        "policies": {"mcp__crm__*": {"timeout_seconds": 10, "retry": "always", "cache_seconds": 60, "max_calls": 20}},
        "limits": {"memory_bytes": 2**30, "data_bytes": 64 * 2**20, "calls": 50},
        "sessions": {"idle": 900.0, "max_age": 172800.0, "max_bytes": 10**9},
        "ledger": {
            "where": "runs.sqlite",
            "keep": {"max_age": 30 * 86400.0, "max_bytes": 2**30, "max_executions": 10_000},
            "key": "**********",
        },
        "engine": "process",
        "isolation": "namespace",
    }
    assert config.ledger.key is not None
    assert config.ledger.key.get_secret_value() == "correct horse"
    assert config.program_limits == Limits(memory_bytes=2**30, data_bytes=64 * 2**20, calls=50)


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(parse_config(EVERYTHING, environment=ENVIRONMENT))

    assert [secret for secret in ("s3cret", "Bearer", "correct horse") if secret in shown] == []


def test_limits_have_every_field_of_limits() -> None:
    assert list(LimitsConfig.model_fields) == [field.name for field in fields(Limits)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "execution:\n  timeout_secnds: 3\n",
            "toolfold.yaml:2: execution.timeout_secnds: unknown key; did you mean 'timeout_seconds'?",
        ),
        (
            "servers:\n  - {name: a, cmd: npx}\n",
            "toolfold.yaml:2: servers[0].cmd: unknown key; did you mean 'command'?",
        ),
        ("server: []\n", "toolfold.yaml:1: server: unknown key; did you mean 'servers'?"),
        ("colour: red\n", "toolfold.yaml:1: colour: unknown key"),
        (
            "policies:\n  'mcp__*':\n    max_cals: 3\n",
            "toolfold.yaml:3: policies['mcp__*'].max_cals: unknown key; did you mean 'max_calls'?",
        ),
        (
            "ledger:\n  keep:\n    max_agge: 3\n",
            "toolfold.yaml:3: ledger.keep.max_agge: unknown key; did you mean 'max_age'?",
        ),
        (
            "servers:\n  - name: a\n    command: x\n    comand: y\n",
            "toolfold.yaml:4: servers[0].comand: unknown key; did you mean 'command'?",
        ),
        ("tools: [a\n", "toolfold.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("tools:\n\tallow: [a]\n", "toolfold.yaml:2: a tab where YAML requires spaces; indent with spaces"),
        ("engine: auto\n\nengine: monty\n", "toolfold.yaml:3: engine: the key is already in line 1; keep one"),
        (
            "tools:\n  ask: [a]\n  ask: [b]\n",
            "toolfold.yaml:3: tools.ask: the key is already in line 2; keep one",
        ),
        ("servers: {}\n", "toolfold.yaml:1: servers: must be a list, got keys with values"),
        ("servers: node\n", "toolfold.yaml:1: servers: must be a list, got 'node'"),
        ("servers:\n  - node\n", "toolfold.yaml:2: servers[0]: must be keys with values, got 'node'"),
        ("tools: [a]\n", "toolfold.yaml:1: tools: must be keys with values, got a list"),
        (
            "execution:\n  timeout_seconds: soon\n",
            "toolfold.yaml:2: execution.timeout_seconds: must be a number of seconds above 0, got 'soon'",
        ),
        (
            "execution:\n  timeout_seconds: true\n",
            "toolfold.yaml:2: execution.timeout_seconds: must be a number of seconds above 0, got true",
        ),
        (
            "execution:\n  timeout_seconds: -1\n",
            "toolfold.yaml:2: execution.timeout_seconds: must be a number of seconds above 0, got -1",
        ),
        (
            "execution:\n  timeout_seconds: .inf\n",
            "toolfold.yaml:2: execution.timeout_seconds: must be a number of seconds above 0, got .inf",
        ),
        (
            "limits:\n  memory_bytes: lots\n  calls: 1.5\n",
            "toolfold.yaml:2: limits.memory_bytes: must be a size such as 65536, 64KiB or 10MB, got 'lots'\n"
            "toolfold.yaml:3: limits.calls: must be a whole number above 0, got 1.5",
        ),
        (
            "limits:\n  data_bytes: 0.3B\n",
            "toolfold.yaml:2: limits.data_bytes: must be a size such as 65536, 64KiB or 10MB, in whole bytes, got '0.3B'",
        ),
        (
            "sessions:\n  idle: 15 parsecs\n",
            "toolfold.yaml:2: sessions.idle: must be a duration above 0 such as 30s, 15m, 2h or 7d; "
            "a number is seconds, got '15 parsecs'",
        ),
        (
            "servers:\n  - name: a\n    command: x\n    args: [--port, 8080]\n",
            "toolfold.yaml:4: servers[0].args[1]: must be text, got 8080; put it in quotes",
        ),
        (
            "tools:\n  allow: [a]\n  block: [b]\n",
            "toolfold.yaml:3: tools.block: cannot stand beside tools.allow; keep one of the two",
        ),
        (
            "servers:\n  - name: a\n    transport: stdio\n",
            "toolfold.yaml:2: servers[0].command: is missing; a server with transport 'stdio' needs it",
        ),
        (
            "servers:\n  - name: a\n    transport: sse\n",
            "toolfold.yaml:2: servers[0].url: is missing; a server with transport 'sse' needs it",
        ),
        (
            "servers:\n  - name: a\n    command: x\n    url: http://x\n",
            "toolfold.yaml:4: servers[0].url: is not for a server with transport 'stdio'; remove it",
        ),
        ("servers:\n  - command: x\n", "toolfold.yaml:2: servers[0].name: is missing"),
        (
            "servers:\n  - name: a\n    transport: sdio\n    command: x\n",
            "toolfold.yaml:3: servers[0].transport: must be 'stdio', 'sse' or 'http', got 'sdio'; did you mean 'stdio'?",
        ),
        *(
            (
                f"servers:\n  - name: a\n    transport: sse\n    url: '{url}'\n",
                f"toolfold.yaml:4: servers[0].url: must be a URL such as http://localhost:8080/mcp, got '{url}'",
            )
            for url in ("localhost:8080", "ftp://x", "http://", "http://x:port", "http://x:99999", "http://a b", "")
        ),
        (
            "servers:\n  - name: a.b\n    command: x\n  - name: a_b\n    command: y\n",
            "toolfold.yaml:4: servers[1].name: is taken by servers[0] 'a.b'; take another name",
        ),
        (
            "tools:\n  commands:\n    - {name: x, argv: [a]}\n    - {name: x, argv: [b]}\n",
            "toolfold.yaml:4: tools.commands[1].name: is taken by commands[0] 'x'; take another name",
        ),
        (
            "tools:\n  commands:\n    - name: x\n      argv:\n        - head\n        - [-n, 5]\n",
            "toolfold.yaml:6: tools.commands[0].argv[1]: must be text, or a list of text; put numbers in quotes, got a list",
        ),
        (
            "tools:\n  commands:\n    - name: x\n      argv: []\n",
            "toolfold.yaml:4: tools.commands[0].argv: must be a list that is not empty, got an empty list",
        ),
        (
            "tools:\n  commands:\n    - name: x\n      argv: [ls]\n      input_schema: {type: string}\n",
            "toolfold.yaml:5: tools.commands[0].input_schema: must be a JSON Schema with 'type: object', "
            "got keys with values",
        ),
        (
            "execution:\n  timeout_seconds: 3\nlimits:\n  wall_seconds: 3\n",
            "toolfold.yaml:4: limits.wall_seconds: is already set as execution.timeout_seconds; keep one of the two",
        ),
        (
            "ledger:\n  where: ${NOPE}\n  key: a ${NOPE}\n",
            "toolfold.yaml:2: ledger.where: variable 'NOPE' is not set; set it, or write ${NOPE:-default}\n"
            "toolfold.yaml:3: ledger.key: variable 'NOPE' is not set; set it, or write ${NOPE:-default}",
        ),
        ("engine: docker\n", "toolfold.yaml:1: engine: must be 'auto', 'process', 'wasm', 'monty' or 'ray', got 'docker'"),
        ("ledger:\n  key: 1234\n", "toolfold.yaml:2: ledger.key: must be text, got something else; put it in quotes"),
        ("", "toolfold.yaml:1: the file is empty; write a key such as 'servers:', or remove the file"),
        ("# only words\n", "toolfold.yaml:1: the file is empty; write a key such as 'servers:', or remove the file"),
        ("- a\n", "toolfold.yaml:1: must be keys with values, got a list"),
        ("engine: auto\n---\nengine: auto\n", "toolfold.yaml:2: not YAML: expected a single document in the stream but found another document"),
        ("tools: !!python/object:os.system x\n", "toolfold.yaml:1: not YAML: the tag '!!python/object:os.system' is not allowed"),
        ("tools: !!int x\n", "toolfold.yaml:1: not YAML: 'x' is not of type int"),
        ("tools: &a\n  ask: *a\n", "toolfold.yaml:1: not YAML: an alias that contains itself"),
        ("tools: *nothing\n", "toolfold.yaml:1: not YAML: found undefined alias 'nothing'"),
        ("? [a]\n: b\n", "toolfold.yaml:1: a key must be text"),
        ("engine: a\0b\n", "toolfold.yaml:1: holds the character 0x0, which YAML does not allow"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_line_and_key(text: str, expected: str) -> None:
    assert mistakes(text) == expected


def test_a_server_that_needs_a_variable_which_is_not_set_is_left_out_with_one_line(caplog) -> None:
    config = parse_config(
        "servers:\n  - {name: a, command: '${NOPE}', env: {A: 'x ${NEITHER}', B: '${NOPE}'}}\n"
        "  - {name: b, command: b}\n  - {command: '${NOPE}'}\n",
        environment=ENVIRONMENT,
    )

    assert [server.name for server in config.servers] == ["b"]
    assert [record.getMessage() for record in caplog.records] == [
        "toolfold.yaml:2: server 'a' is left out: variables 'NOPE' and 'NEITHER' are not set; set them",
        "toolfold.yaml:4: server servers[2] is left out: variable 'NOPE' is not set; set it",
    ]


def test_a_mistake_in_a_server_after_one_that_is_left_out_has_its_own_line() -> None:
    text = "servers:\n  - {name: a, command: '${NOPE}'}\n  - {name: b, commnd: b}\n"

    assert mistakes(text) == ("toolfold.yaml:3: servers[1].commnd: unknown key; did you mean 'command'?")


def test_a_server_gets_the_variables_of_its_file_and_is_left_out_without_it(tmp_path, caplog) -> None:
    (tmp_path / ".env").write_text("TOKEN=abc\nREGION=eu\n")
    path = tmp_path / "toolfold.yaml"
    path.write_text(
        "servers:\n  - {name: a, command: a, env_file: .env, env: {REGION: us}}\n"
        "  - {name: b, command: b, env_file: none.env}\n"
    )

    config = load_config(path)

    assert [(server.name, dict(server.env)) for server in config.servers] == [("a", {"TOKEN": "abc", "REGION": "us"})]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: server 'b' is left out: env_file 'none.env' cannot be read: no such file or directory"
    ]


def test_a_secret_in_a_variable_is_not_in_the_error() -> None:
    said = mistakes("servers:\n  - name: a\n    transport: ${CRM_TOKEN}\n    command: x\n")

    assert said == "toolfold.yaml:3: servers[0].transport: must be 'stdio', 'sse' or 'http', got '${CRM_TOKEN}'"


def test_variables_have_defaults_and_a_dollar_sign_can_be_written() -> None:
    config = parse_config(
        "servers:\n  - name: a\n    command: x\n"
        "    args: ['${SECONDS}', '${EMPTY}', '${EMPTY:-e}', '${NOPE:-d}', '${NOPE:-}', $$x, '$${SECONDS}', $5]\n"
        "execution:\n  timeout_seconds: ${SECONDS}\n",
        environment=ENVIRONMENT,
    )

    assert config.servers[0].args == ("7", "", "e", "d", "", "$x", "${SECONDS}", "$5")
    assert config.execution.timeout_seconds == 7


def test_sections_without_a_value_are_as_if_left_out() -> None:
    assert parse_config("servers:\n# - name: later\nlimits:\n").model_dump() == Config().model_dump()


def test_anchors_and_merge_keys_work() -> None:
    config = parse_config("policies:\n  a: &base {max_calls: 3, retry: never}\n  b:\n    <<: *base\n    max_calls: 5\n")

    assert {name: (one.max_calls, one.retry) for name, one in config.policies.items()} == {
        "a": (3, "never"),
        "b": (5, "never"),
    }


def test_many_aliases_of_aliases_are_refused_and_do_not_fill_the_memory() -> None:
    laughs = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for one, next_one in zip("abcdefg", "bcdefgh", strict=True):
        laughs += f"{next_one}: &{next_one} [{', '.join([f'*{one}'] * 10)}]\n"

    assert mistakes(laughs) == "toolfold.yaml:1: not YAML: too many values"


def test_values_nested_too_deep_are_one_mistake() -> None:
    assert mistakes("tools: " + "[" * 5000) == "toolfold.yaml: values are nested too deep"


def test_many_mistakes_are_cut() -> None:
    lines = mistakes("".join(f"key_{number}: 1\n" for number in range(30))).splitlines()

    assert (len(lines), lines[-1]) == (21, "toolfold.yaml: 10 more mistakes")


@given(st.text(max_size=200) | st.text(alphabet="ab:-[]{}&*!?|>'\"%@`#,\n \t${}", max_size=60))
def test_no_text_gives_anything_but_a_config_or_a_usage_error(text: str) -> None:
    said = "toolfold.yaml"

    try:
        parse_config(text)
    except UsageError as error:
        said = str(error)

    assert said.startswith("toolfold.yaml")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_bytes(b"engine: auto\n# \xff\n")
    Path("large.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    Path("folder").mkdir()

    said = {}
    for name in ("missing.yaml", "folder", "bad.yaml", "large.yaml", "a\0b"):
        with pytest.raises(UsageError) as caught:
            load_config(name)
        said[name] = str(caught.value)

    assert said == {
        "missing.yaml": "no config file 'missing.yaml'; check the path",
        "folder": "config file 'folder' is a folder; name a file in it",
        "bad.yaml": "bad.yaml:2: not UTF-8; save the file as UTF-8",
        "large.yaml": "config file 'large.yaml' is larger than 1,048,576 bytes",
        "a\0b": "config file 'a\\x00b' cannot be read: embedded null byte",
    }


def test_errors_name_the_file_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/my.yaml").write_text("engin: auto\n")

    for path in ("sub/my.yaml", tmp_path / "sub/my.yaml"):
        with pytest.raises(UsageError) as caught:
            load_config(path)

        assert str(caught.value) == "sub/my.yaml:1: engin: unknown key; did you mean 'engine'?"


def test_a_loaded_config_knows_its_folder_and_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "toolfold.yaml"
    path.write_bytes(b"\xef\xbb\xbfengine: monty\r\n")

    config = load_config(path)

    assert (config.engine, config.path, config.folder) == ("monty", path, tmp_path)


def test_the_nearest_file_is_found_upwards_then_in_the_user_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    deep = tmp_path / "project/a/b"
    deep.mkdir(parents=True)
    (home / "toolfold").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.chdir(deep)

    found = [find_config()]
    (home / "toolfold/toolfold.yaml").touch()
    found.append(find_config())
    (tmp_path / "project/toolfold.yaml").touch()
    found.append(find_config())

    assert found == [None, home / "toolfold/toolfold.yaml", tmp_path / "project/toolfold.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_found_file_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toolfold.yaml").touch()
    os.chown("toolfold.yaml", 12345, 12345)

    with pytest.raises(UsageError) as caught:
        find_config()

    assert str(caught.value) == "toolfold.yaml belongs to another user; name it yourself if you trust it"


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = files("toolfold").joinpath(FILE_NAME).read_text(encoding="utf-8")

    assert shipped == schema_text(), "run: python -m toolfold.config.model"


@pytest.mark.parametrize(
    "text", [THREE_SERVERS, EVERYTHING, "engine: auto\n", "limits: {calls: '${N}', data_bytes: 1kib}\n"]
)
def test_the_schema_takes_what_the_loader_takes(text: str) -> None:
    parse_config(text, environment={**ENVIRONMENT, "N": "5"})

    assert jsonschema_rs.is_valid(config_schema(), yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    ["engin: auto\n", "isolation: docker\n", "limits: {calls: 0}\n", "limits: {data_bytes: lots}\n", "servers: [{}]\n"],
)
def test_the_schema_refuses_what_the_loader_refuses(text: str) -> None:
    mistakes(text)

    assert not jsonschema_rs.is_valid(json.loads(schema_text()), yaml.safe_load(text))


# --- from a config to a runtime ----------------------------------------------------------------


def test_a_command_may_say_all_that_a_shell_tool_takes() -> None:
    *own, options = inspect.signature(shell_tool).parameters

    assert (options, list(CommandConfig.model_fields)) == ("options", [*own, *SpecOptions.__annotations__])


def test_sessions_may_say_all_that_session_limits_have() -> None:
    assert {name.removesuffix("_seconds") for name in (field.name for field in fields(SessionLimits))} == set(
        SessionsConfig.model_fields
    )


def test_paused_may_say_all_that_paused_limits_have() -> None:
    assert list(PausedConfig.model_fields) == [field.name for field in fields(PausedLimits)]


async def test_a_config_says_how_many_guests_wait_with_the_names_of_sessions() -> None:
    config = parse_config("engine: process\nsessions: {max_guests: 1}\n")

    async with Runtime(settings=runtime_settings(config)) as runtime:
        for session in ("a", "b"):
            await runtime.run("x = 1", session=session, keep_names=True)
        outcomes = [await runtime.run("x", session=session) for session in ("b", "a")]

    assert [outcome.status for outcome in outcomes] == ["finished", "rejected"]


@pytest.mark.parametrize("limit", ["sessions: {max_guest_bytes: 1KiB}", "paused: {total_bytes: 1KiB}"])
async def test_a_config_says_how_much_memory_guests_that_wait_may_hold(limit: str) -> None:
    config = parse_config(f"engine: process\n{limit}\n")
    ask = ToolSpec(name="ask", python_name="ask", source="caller")
    settings = runtime_settings(config)

    async with Runtime(settings=settings, engine_options={**settings.engine_options, "warm": 0}) as runtime:
        # The names of one session, and a pause: each is let go only where its own limit says so.
        await runtime.run("x = 1", session="a", keep_names=True)
        paused = await runtime.start("await ask()", tools=[ask])
        assert isinstance(paused, Paused)
        async with asyncio.timeout(60):
            while (await runtime.executions.guests()).count != 1:
                await asyncio.sleep(0.01)
        named = await runtime.run("x", session="a")
        outcome = await runtime.resume(paused.execution_id, [Reply(call_id=1, value=5)])

    assert named.status == ("rejected" if limit.startswith("sessions") else "finished")
    assert getattr(outcome, "value", None) == 5


async def test_a_runtime_from_a_config_runs_commands_under_its_policies(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")
    path = tmp_path / "toolfold.yaml"
    path.write_text("""
tools:
  block: [forbidden]
  commands:
    - {name: count_lines, argv: [wc, -l, "{file}"], read_only: true, domain: files}
    - {name: forbidden, argv: ["true"]}
policies:
  "*": {timeout_seconds: 9, max_calls: 2}
  count_*: {timeout_seconds: 3, retry: never, cache_seconds: 60, max_in_flight: 1}
limits: {calls: 10}
execution: {timeout_seconds: 20}
sessions: {idle: 1m, max_bytes: 1MiB}
""")
    config = load_config(path)
    tools = with_policies(config, command_tools(config))

    async with Runtime(tools, settings=runtime_settings(config)) as runtime:
        outcome = await runtime.run("""
from tools.files import count_lines
print((await count_lines(file="words.txt")).split()[0])
for tool in (forbidden, lambda: count_lines(file="none"), lambda: count_lines(file="none")):
    try:
        await tool()
    except ToolError as error:
        print(error)
""")

    assert [(tool.spec.name, tool.spec.timeout_seconds, tool.spec.cache_seconds, tool.retry) for tool in tools] == [
        ("count_lines", 3, 60, "never"),
        ("forbidden", 9, 0, "safe"),
    ]
    assert (outcome.problem, outcome.stdout.splitlines()[0]) == (None, "2")
    assert outcome.stdout.splitlines()[1::2] == [
        "'forbidden' is not available in a program",
        "'count_lines' is out of budget: 2 of 2 calls used in this program",
    ]


def test_a_command_that_cannot_work_is_told_with_its_line() -> None:
    config = parse_config("tools:\n  commands:\n    - {name: a, argv: [x]}\n    - {name: b, argv: ['{x}']}\n")

    with pytest.raises(UsageError) as caught:
        command_tools(config)

    assert str(caught.value).startswith("toolfold.yaml:4: tools.commands[1]: ")


async def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "toolfold.yaml"
    path.write_text(
        "tools: {modules: [a.py, sub/b.py, company.tools]}\nledger: {where: runs.sqlite, keep: {max_age: 1d}}\n"
    )
    config = load_config(path)

    ledger = ledger_of(config)
    await ledger.close()

    assert module_sources(config) == [str(tmp_path / "a.py"), str(tmp_path / "sub/b.py"), "company.tools"]
    assert (tmp_path / "runs.sqlite").exists()


def test_the_price_of_tokens_is_that_of_the_exact_model_or_of_the_longest_pattern() -> None:
    config = parse_config(
        "prices: {'claude-*': {input: 9, output: 9}, claude-haiku-*: {input: 1, output: 5, cached: 0.1}, "
        "claude-haiku-4: {input: 0, output: 2.5}}"
    )
    models = ("claude-haiku-4", "claude-haiku-3", "claude-opus", "other", "")

    found = [Prices.find(config.price_table, model) for model in models]

    assert [prices and prices.input for prices in found] == [0, 1, 9, None, None]
    assert Prices(input=1, output=5, cached=0.1).of(input_tokens=10, cached_tokens=4, output_tokens=2) == 16.4 / 10**6
    assert Prices(input=1, output=5).of(input_tokens=10, cached_tokens=4) == 10 / 10**6


@pytest.mark.parametrize("price", ["-1", "free", "true", ".inf", "[3]", "10000000"])
def test_a_price_that_is_none_is_refused_at_its_line(price: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_config(f"prices:\n  gpt:\n    input: {price}\n    output: 1\n")

    assert str(refused.value).startswith(
        "toolfold.yaml:3: prices.gpt.input: must be US dollars for a million tokens, such as 3 or 0.25, got "
    )


# --- docs --------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[1] / "docs/config.md"


def key_table(section: type[BaseModel]) -> str:
    rows = [
        f"| `{name}` | {(field.description or '').replace(chr(10), ' ')} |"
        for name, field in section.model_fields.items()
    ]
    return "\n".join(["| key | meaning |", "|---|---|", *rows])


@pytest.mark.parametrize(
    "section",
    [
        Config,
        ServerConfig,
        ToolsConfig,
        CommandConfig,
        FolderConfig,
        ApiConfig,
        AuthConfig,
        FetchConfig,
        PolicyConfig,
        PriceConfig,
        SessionsConfig,
        PausedConfig,
        LedgerConfig,
        KeepConfig,
    ],
)
def test_the_page_has_every_key(section: type[BaseModel]) -> None:
    assert key_table(section) in PAGE.read_text(encoding="utf-8")


def test_every_file_on_the_page_is_read_without_a_mistake() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)

    configs = [parse_config(block, environment={"CRM_TOKEN": "x", "LEDGER_KEY": "y"}) for block in blocks]

    assert len(configs) == 2


async def test_calls_of_a_server_with_a_concurrency_of_one_take_turns_and_those_of_others_do_not() -> None:
    config = parse_config(
        "servers: [{name: 'duck[1]', command: x, concurrency: 1}, {name: crm, command: x}]\nengine: process\n"
    )
    running, most, together = 0, 0, asyncio.Barrier(3)

    async def one_at_a_time(_: Mapping[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async def only_together(_: Mapping[str, Any]) -> None:
        await together.wait()

    def made(name: str, call: Callable[[Mapping[str, Any]], Awaitable[None]], server: str) -> Tool:
        return Tool(spec=ToolSpec(name=name, python_name=name, source=f"mcp:{server}"), call=call)

    tools = [
        made("query", one_at_a_time, "duck[1]"),
        made("insert", one_at_a_time, "duck[1]"),
        made("find", only_together, "crm"),
    ]
    async with Runtime(tools, settings=runtime_settings(config)) as runtime:
        outcome = await runtime.run(
            "await asyncio.gather(*[tool() for tool in (query, insert) * 5 + (find,) * 3])\nprint('done')"
        )

    assert (outcome.problem, outcome.stdout, most) == (None, "done\n", 1)
