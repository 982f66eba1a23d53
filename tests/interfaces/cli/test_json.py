"""`--json` of every command: one document in one line on stdout, keys in snake_case, and nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.interfaces.cli.conftest import Cli
from toolfold.interfaces.cli.app import app

# Servers have no result.
WITHOUT_RESULT = {"console", "mcp", "serve"}
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "run": (["-c", "1 + 1"], ["execution_id", "status", "value", "stdout", "stderr", "stdout_cut_bytes",
        "stderr_cut_bytes", "problem", "calls", "files", "engine", "isolation", "seconds", "context_saved", "hints",
        "unmade_calls"]),
    "run --detach": (["-c", "1 + 1"], ["execution_id"]),
    "batch": (["programs.jsonl", "--out", "results.jsonl"], ["programs", "remaining", "statuses", "seconds", "calls",
        "slowest", "problems"]),
    "doctor": (["--require", "none"], ["kernel", "machine", "python", "user", "layers", "canaries", "notes",
        "libraries", "library_sets", "host_libraries", "bash", "bash_refusal", "bash_memory",
        "cgroup_refusal", "wasm", "tier", "required", "ok"]),
    "init": (["--force"], ["path", "backup", "servers", "left_out", "replaced", "variables", "next"]),
    "tools list": (["--tools", "tools.py"], ["name", "description"]),
    "tools search": (["price", "--tools", "tools.py"], ["name", "description"]),
    "tools stubs": (["stubs", "--tools", "tools.py"], ["tools", "files"]),
    "tools learn": (["colors", "--tools", "untyped.py"], ["name", "description", "signature", "tool", "input_schema",
        "output_schema", "read_only", "destructive", "source"]),
    "runs list": ([], ["execution_id", "state", "status", "began_at", "seconds", "calls", "first_line", "session",
        "tenant", "interface", "failed", "saved_bytes", "lanes", "title", "tags", "user", "conversation", "model"]),
    "runs --json show": (["ID"], ["execution_id", "state", "began_at", "engine", "isolation", "session", "tenant",
        "rerun_of", "program", "tools", "calls", "open_calls", "approvals", "outcome"]),
    "runs show": (["ID"], ["execution_id", "state", "began_at", "engine", "isolation", "session", "tenant", "rerun_of",
        "program", "tools", "calls", "open_calls", "approvals", "outcome"]),
    "runs delete": (["ID"], ["deleted"]),
    "runs rerun": (["ID"], ["execution_id", "status", "value", "stdout", "stderr", "stdout_cut_bytes",
        "stderr_cut_bytes", "problem", "calls", "files", "engine", "isolation", "seconds", "context_saved", "hints",
        "unmade_calls"]),
    "runs wait": (["ID"], ["execution_id", "status", "value", "stdout", "stderr", "stdout_cut_bytes",
        "stderr_cut_bytes", "problem", "calls", "files", "engine", "isolation", "seconds", "context_saved", "hints",
        "unmade_calls"]),
    "libraries list": ([], []),
    "ledger reindex": ([], ["executions"]),
    "libraries check": ([], ["sets", "imports"]),
}  # fmt: skip
NEED_MORE = {
    "eval": [],
    "ledger rekey": ["--new-key-env", "NO_SUCH_VARIABLE"],
    "engines prepare": ["process"],
    "libraries sync": [],
    **{f"programs {word}": ["missing"] for word in ("accept", "delete", "diff", "reject", "run", "show", "test")},
    "programs list": ["--tools", "missing.py"],
    "programs save": ["missing", "--name", "colors"],
    "runs show": ["no-such-id"],
    "tools list": ["--tools", "missing.py"],
}
UNTYPED = '''
import toolfold

@toolfold.tool(read_only=True)
def colors():
    """All colors."""
    return [{"name": "red"}]
'''


def leaves(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_command_with_a_result_takes_the_option() -> None:
    commands = dict(leaves(typer.main.get_command(app)))

    lacking = {
        name for name, command in commands.items() if not any("--json" in option.opts for option in command.params)
    }

    assert lacking == WITHOUT_RESULT
    assert set(commands) == WITHOUT_RESULT | {re.sub(" --[a-z]+", "", name) for name in COMMANDS} | set(NEED_MORE)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_the_result_is_one_document(cli: Cli, folder: Path, command: str) -> None:
    (folder / "toolfold.yaml").write_text("ledger: {where: runs.sqlite}\n")
    (folder / "untyped.py").write_text(UNTYPED)
    (folder / "programs.jsonl").write_text('{"id": "a", "program": "1"}\n')
    execution_id = json.loads(cli("run", "--json", "-c", "1 + 1").stdout)["execution_id"]
    arguments, keys = COMMANDS[command]

    words = [*command.split(), *(execution_id if word == "ID" else word for word in arguments)]
    done = cli(*words, *([] if "--json" in words else ["--json"]))

    document = json.loads(done.stdout)
    row = document[0] if isinstance(document, list) else document
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 1, b"")
    assert list(row) == keys
    assert [key for key in keys if not re.fullmatch(r"[a-z][a-z0-9_]*", key)] == []


@pytest.mark.parametrize("command", NEED_MORE)
def test_an_error_is_one_line_beside_an_empty_stdout(cli: Cli, folder: Path, command: str) -> None:
    (folder / "toolfold.yaml").write_text("ledger: {where: runs.sqlite}\n")

    done = cli(*command.split(), *NEED_MORE[command], "--json")

    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.startswith(b"toolfold: ")
