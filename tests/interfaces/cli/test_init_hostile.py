"""`toolfold init` over client files that were made to break it: one line for each, and nothing else in the file it writes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT

GOOD = {"name": "good", "transport": "stdio", "command": "true"}
LIMITS = {"timeout_seconds": 120, "max_output_bytes": 65536}
INVISIBLE = "has a name with a line break or another invisible character; rename it"
NUMBER = "has a number that JSON does not have, or that is too large; write it as text"
DEEP_ENTRY = "is nested more than 20 levels deep; remove unneeded brackets"
DEEP_FILE = "is nested too deeply to be read; remove unneeded brackets"


def init(folder: Path, text: str | bytes) -> subprocess.CompletedProcess[str]:
    """With the text as one client's file, and a server that is fine in another's."""
    (folder / ".cursor").mkdir()
    (folder / ".cursor" / "mcp.json").write_text('{"mcpServers": {"good": {"command": "true"}}}')
    (folder / ".mcp.json").write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    environment = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("XDG_")}
    return subprocess.run(
        [*COMMAND, "init"],
        cwd=folder,
        env={**environment, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def written(folder: Path) -> Any:
    return yaml.safe_load((folder / "toolfold.yaml").read_text(encoding="utf-8"))


def named(name: str) -> str:
    return json.dumps({"mcpServers": {name: {"command": "x"}}})


def entry(text: str) -> str:
    return '{"mcpServers": {"bad": {"command": "x", ' + text + "}}}"


HOSTILE = {
    "line break in a name": (named("a\nservers: []\n#"), f"mcpServers.a\\nservers: []\\n#: {INVISIBLE}"),
    "return in a name": (named("a\rb"), f"mcpServers.a\\rb: {INVISIBLE}"),
    "next line in a name": (named("a\x85b: c"), f"mcpServers.a\\x85b: c: {INVISIBLE}"),
    "line separator in a name": (named("a\u2028b"), f"mcpServers.a\\u2028b: {INVISIBLE}"),
    "terminal commands in a name": (named("a\x1b[2J"), f"mcpServers.a\\x1b[2J: {INVISIBLE}"),
    "reversed name": (named("a\u202eb"), f"mcpServers.a\\u202eb: {INVISIBLE}"),
    "NUL in a name": (named("a\0"), f"mcpServers.a\\x00: {INVISIBLE}"),
    "surrogate in a name": (named("a\ud83d"), f"mcpServers.a\\ud83d: {INVISIBLE}"),
    "long name": (named("\n" * 10_000), "mcpServers." + r"\n" * 80 + f"...: {INVISIBLE}"),
    "deep file": ("[" * 100_000, DEEP_FILE),
    "deep objects": ('{"a":' * 100_000, DEEP_FILE),
    "deep arguments": (entry('"args": ' + "[" * 900 + "]" * 900), f"mcpServers.bad: {DEEP_ENTRY}"),
    "deep variable": (entry('"env": {"A": ' + '{"b":' * 900 + "1" + "}" * 901), f"mcpServers.bad: {DEEP_ENTRY}"),
    "deep entry": (
        '{"mcpServers": {"bad": ' + "[" * 900 + "]" * 900 + "}}",
        "mcpServers.bad: must be keys with values, got a list",
    ),
    "5,000 digits": (entry('"args": [' + "9" * 5000 + "]"), f"mcpServers.bad: {NUMBER}"),
    "5,000 digits below zero": (entry('"env": {"A": -' + "9" * 5000 + "}"), f"mcpServers.bad: {NUMBER}"),
    "infinite": (entry('"args": [1e999]'), f"mcpServers.bad: {NUMBER}"),
    "not a number": (entry('"args": [NaN]'), f"mcpServers.bad: {NUMBER}"),
    "long argument": (
        entry('"args": ["' + "y" * 2_000_000 + '"]'),
        "mcpServers.bad: is larger than 65,536 characters; shorten it",
    ),
    "surrogate in an argument": (
        entry('"args": ["\\ud83d"]'),
        "mcpServers.bad: args: has half of a surrogate pair, which cannot be passed on; write the whole character",
    ),
    "NUL in a path": (
        entry('"cwd": "\\u0000"'),
        "mcpServers.bad: cwd: has a NUL character, which cannot be passed on; remove it",
    ),
    "equals sign in a variable's name": (
        entry('"env": {"A=B": "1"}'),
        "mcpServers.bad: env: has a variable without a name, or with '=' in it; rename it",
    ),
    "line break in a header": (
        '{"mcpServers": {"bad": {"url": "http://localhost:1", "headers": {"A": "b\\nC: d"}}}}',
        "mcpServers.bad: headers: has a line break or another control character; remove it",
    ),
    "number for a list": (entry('"args": 5'), "mcpServers.bad: args: input should be a valid tuple"),
    "comment without an end": ("/* " * 300_000, None),
    "text without an end": ('"' + '\\"' * 300_000, None),
}


@pytest.mark.parametrize(("text", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_init_leaves_out_what_it_cannot_use_with_one_line(tmp_path: Path, text: str, reason: str | None) -> None:
    done = init(tmp_path, text)

    not_json = ".mcp.json:1: not JSON: " + (
        "unterminated string starting at" if text.startswith('"') else "expecting value"
    )
    assert done.stderr == f"left out: {not_json if reason is None else f'.mcp.json: {reason}'}\n"
    assert done.returncode == 0
    assert written(tmp_path) == {"servers": [GOOD], "execution": LIMITS}


@pytest.mark.parametrize(
    "value",
    [
        "a\nservers: []\n", "a\x85servers: []", "a\u2028- b", "a\x1b[2J", "\u202ereversed", "a\r\nb", " a\n\n b ", "# c", "*a",
        "!!python/object:x", "{a: b}", "---", "yes", "null", "1e3", "é\n", "${A\n  - name: evil\n# }", "x" * 3000 + "\n y",
    ],
)  # fmt: skip
def test_a_text_is_the_same_in_the_file_that_init_writes(tmp_path: Path, value: str) -> None:
    done = init(tmp_path, json.dumps({"mcpServers": {"odd": {"command": "x", "args": [value]}}}))

    text = (tmp_path / "toolfold.yaml").read_text(encoding="utf-8")
    assert done.stderr == ""
    assert written(tmp_path) == {
        "servers": [
            {"name": "odd", "transport": "stdio", "command": "x", "args": [value.replace("$", "$$")]},
            GOOD,
        ],
        "execution": LIMITS,
    }
    assert text.replace("\n", "").isprintable()


def test_a_number_of_5000_digits_outside_of_servers_costs_nothing(tmp_path: Path) -> None:
    done = init(tmp_path, '{"history": ' + "9" * 5000 + ', "mcpServers": {"here": {"command": "x"}}}')

    assert done.stderr == ""
    assert [server["name"] for server in written(tmp_path)["servers"]] == ["here", "good"]


def test_more_servers_than_a_config_may_hold_are_refused_before_a_file_is_written(tmp_path: Path) -> None:
    servers = {f"s{number}": {"command": "x", "args": ["y" * 60_000]} for number in range(20)}

    done = init(tmp_path, json.dumps({"mcpServers": servers}))

    assert (done.returncode, done.stderr) == (
        2,
        "toolfold: 21 servers do not fit into the 1,048,576 bytes that a toolfold.yaml may have; "
        "remove some of them from the files of your clients\n",
    )
    assert not (tmp_path / "toolfold.yaml").exists()
