"""One `toolfold.yaml` means the same tools at every command: servers, modules, commands, folders, and what is allowed."""

import json
import os
import shutil
import site
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import ENVIRONMENT, Cli
from tests.ledger.made_up import long_ledger

pytestmark = pytest.mark.long

ECHO = str(Path(__file__).with_name("echo_server.py"))
CONFIG = f"""
servers:
  - {{name: db, command: {sys.executable}, args: [-S, -E, {ECHO}, --fast]}}
  - {{name: secret, command: {sys.executable}, args: [-S, -E, {ECHO}], env: {{TOKEN: "${{NOT_SET}}"}}}}
tools:
  modules: [tools.py]
  folders: [{{name: docs, path: .}}]
  commands: [{{name: greet, argv: [echo, "{{who}}"]}}]
  block: [block]
execution: {{timeout_seconds: 60}}
"""
LEFT_OUT = "toolfold: toolfold.yaml:4: server 'secret' is left out: variable 'NOT_SET' is not set; set it\n"


@pytest.fixture
def configured(cli: Cli, folder: Path) -> Cli:
    (folder / "toolfold.yaml").write_text(CONFIG)
    return cli


def test_a_program_calls_the_servers_and_the_other_tools_of_the_nearest_config(configured: Cli, folder: Path) -> None:
    program = "print((await mcp__db__started())['args'], await price('ACME'), await greet(who='ada'))"
    (folder / "below").mkdir()

    done = configured("run", "-", program=program)
    os.chdir(folder / "below")
    below = configured("run", "-", program=program)

    assert (done.returncode, done.stdout, done.stderr.decode()) == (0, b"['--fast'] 12.5 ada\n", LEFT_OUT)
    assert (below.returncode, below.stdout) == (0, b"['--fast'] 12.5 ada\n")


@pytest.mark.parametrize(
    ("place", "definition", "cwd"),
    [
        ("its folder", "command: {python}, args: [-S, -E, server.py, --cwd]", ""),
        ("a folder below", "command: {python}, args: [-S, -E, server.py, --cwd]", ""),
        ("another folder", "command: {python}, args: [-S, -E, server.py, --cwd]", ""),
        ("another folder", "command: ./serve, args: [--cwd]", ""),
        ("a folder below", "command: sub/serve, args: [--cwd]", ""),
        ("another folder", "command: sub/serve, args: [--cwd], cwd: sub", "sub"),
        ("another folder", "command: {python}, args: [-S, -E, ../server.py, --cwd], cwd: ./sub/", "sub"),
        ("another folder", "command: {python}, args: [-S, -E, server.py, --cwd], cwd: {folder}", ""),
    ],
)
def test_paths_of_a_server_are_relative_to_the_config_wherever_the_command_is_started(
    cli: Cli, folder: Path, tmp_path_factory: pytest.TempPathFactory, place: str, definition: str, cwd: str
) -> None:
    (folder / "sub").mkdir()
    shutil.copy(ECHO, folder / "server.py")
    for script in (folder / "serve", folder / "sub" / "serve"):
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {folder / "server.py"} "$@"\n')
        script.chmod(0o755)
    text = definition.replace("{python}", sys.executable).replace("{folder}", str(folder))
    (folder / "toolfold.yaml").write_text(f"servers: [{{name: db, {text}}}]\n")
    folders = {
        "its folder": folder,
        "a folder below": folder / "sub",
        "another folder": tmp_path_factory.mktemp("other"),
    }
    os.chdir(folders[place])
    config = ["--config", os.path.relpath(folder / "toolfold.yaml")] if place == "another folder" else []

    done = cli("run", *config, "-", program="print((await mcp__db__started())['cwd'])")

    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, f"{folder / cwd}\n", "")


def test_a_working_directory_that_is_not_there_is_named(cli: Cli, folder: Path) -> None:
    (folder / "toolfold.yaml").write_text(f"servers: [{{name: db, command: {sys.executable}, cwd: nowhere}}]\n")

    done = cli("run", "-", program="await mcp__db__started()")

    assert done.stderr.decode().splitlines()[0] == f"toolfold: server 'db': no folder '{folder}/nowhere'; check cwd"


def test_what_the_config_blocks_is_blocked_here_too(configured: Cli) -> None:
    done = configured("run", "-", program="await block(path='x')")

    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == "ToolError: 'block' is not available in a program"


def test_a_server_that_cannot_be_started_is_named_and_the_program_told(cli: Cli, folder: Path) -> None:
    (folder / "toolfold.yaml").write_text("servers: [{name: far-away, command: /no/such/command}]\n")

    done = cli("run", "-", program="await mcp__far_away__anything()")
    idle = cli("run", "-", program="print('needs none')")

    assert (done.returncode, done.stderr.decode()) == (
        2,
        "toolfold: server 'far-away': no command '/no/such/command'; check the path\n"
        "line 1: no tool 'mcp__far_away__anything'; the tools are: search_tools\n"
        "await mcp__far_away__anything()\n"
        "      ^\n",
    )
    assert (idle.returncode, idle.stdout, idle.stderr) == (0, b"needs none\n", b"")


def test_engine_and_time_are_the_configs_unless_the_command_says_otherwise(cli: Cli, folder: Path) -> None:
    (folder / "other.yaml").write_text("engine: monty\nexecution: {timeout_seconds: 0.2}\n")

    done = cli("run", "-", "--json", "--config", "other.yaml", program="while True: pass")
    other = cli("run", "-", "--json", "--config", "other.yaml", "--engine", "process", "--timeout", "60", program="1")

    assert (done.returncode, json.loads(done.stdout)["engine"], json.loads(done.stdout)["status"]) == (
        4,
        "monty",
        "timeout",
    )
    assert (other.returncode, json.loads(other.stdout)["engine"]) == (0, "process")


def test_the_configs_ledger_has_the_execution_and_runs_shows_it(cli: Cli, folder: Path) -> None:
    (folder / "toolfold.yaml").write_text("ledger: {where: own.sqlite}\n")

    done = cli("run", "-", "--json", program="print('kept')")
    listed = cli("runs", "--json")

    assert [one["execution_id"] for one in json.loads(listed.stdout)] == [json.loads(done.stdout)["execution_id"]]


def test_a_list_of_a_ledger_far_above_its_limit_forgets_nothing_and_a_program_forgets_some(
    cli: Cli, folder: Path
) -> None:
    (folder / "toolfold.yaml").write_text("ledger: {where: own.sqlite, keep: {max_executions: 100}}\n")
    long_ledger(folder / "own.sqlite", 20_000)

    def count() -> int:
        with closing(sqlite3.connect(folder / "own.sqlite")) as connection:
            return int(connection.execute("SELECT count(*) FROM executions").fetchone()[0])

    listed = cli("runs", "--json", "--limit", "2")
    after_list = count()
    cli("run", "-", program="print('new')")

    assert [one["execution_id"] for one in json.loads(listed.stdout)] == [f"{20_000:016x}", f"{19_999:016x}"]
    assert after_list == 20_000
    assert 100 < count() < 20_000


def test_tools_lists_what_programs_may_call_under_the_config(configured: Cli) -> None:
    done = configured("tools", "list", "--json")

    assert [one["name"] for one in json.loads(done.stdout)] == [
        "price", "greet", "docs_read_file", "docs_list_files", "docs_search_files", "mcp__db__started",
    ]  # fmt: skip
    assert done.stderr.decode() == LEFT_OUT


def test_without_tools_and_without_a_config_there_is_nothing_to_list(cli: Cli) -> None:
    done = cli("tools", "list")

    assert (done.returncode, done.stderr.decode()) == (
        2,
        "toolfold: no tools to look at; name a file with --tools, as in --tools tools.py, or a --config\n",
    )


def test_runs_takes_a_config_before_and_after_the_name_of_the_command(cli: Cli, folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "toolfold.yaml").write_text("ledger: {where: own.sqlite}\n")
    config = ["--config", "other/toolfold.yaml"]
    cli("run", "-", *config, program="print(1)")

    listed = json.loads(cli("runs", "--json", *config).stdout)
    execution_id = listed[0]["execution_id"]
    outputs = [
        json.loads(cli("runs", *words).stdout)
        for words in (
            ["list", "--json", *config],
            [*config, "list", "--json"],
            ["show", execution_id, "--json", *config],
            ["wait", execution_id, "--json", *config],
            ["rerun", execution_id, "--json", *config],
            ["delete", execution_id, "--json", *config],
        )
    ]

    assert (folder / "other" / "own.sqlite").exists()
    assert outputs[:2] == [listed, listed]
    assert [output["outcome"]["stdout"] if "outcome" in output else output["stdout"] for output in outputs[2:5]] == [
        "1\n", "1\n", "1\n",
    ]  # fmt: skip
    assert outputs[5] == {"deleted": [execution_id]}


def test_the_console_shows_a_ledger_without_the_extra_of_the_configs_servers(cli: Cli, folder: Path) -> None:
    (folder / "toolfold.yaml").write_text("servers: [{name: db, command: none}]\n")
    cli("run", "-", "--ledger", "runs.sqlite", program="print(1)")
    (folder / "packages").mkdir()
    for place in site.getsitepackages():
        for path in Path(place).iterdir():
            if not path.name.startswith("mcp") and path.suffix != ".pth":
                (folder / "packages" / path.name).symlink_to(path)
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{folder / 'packages'}"}
    command = [sys.executable, "-S", "-m", "toolfold", "console", "--port", "0", "--ledger", "runs.sqlite"]

    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as console:
        lines = [console.stderr.readline() for _ in range(2)]
        console.terminate()

    assert lines[0] == (
        "toolfold: programs that run again here cannot call the config's servers; install the extra 'mcp' of toolfold: "
        "pip install 'toolfold[mcp]'\n"
    )
    assert lines[1].startswith("toolfold: console at http://127.0.0.1:")
