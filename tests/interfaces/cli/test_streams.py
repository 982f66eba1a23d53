"""Commands whose streams are closed, full or left by their reader, and Ctrl-C while a command is loading."""

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT, Cli

pytestmark = pytest.mark.long

COMMANDS = [
    "run ok.py",
    "run ok.py --json",
    "run ok.py --memory 1GiB",
    "batch programs.jsonl --out results.jsonl --json",
    "doctor --require none",
    "tools list --tools tools.py",
    "runs",
    "runs show ID --json",
    "runs wait ID",
    "--help",
    "--version",
]
FULL = "toolfold: stdout cannot be written: no space left on device\n"


@pytest.fixture
def shell(cli: Cli, folder: Path):
    """Run a command with redirections, as a shell does: code, stdout and stderr."""
    (folder / "toolfold.yaml").write_text("ledger: {where: runs.sqlite}\n")
    (folder / "ok.py").write_text("print('x' * 10)")
    (folder / "programs.jsonl").write_text('{"id": "a", "program": "1"}\n')
    cli("run", "ok.py")
    (line,) = cli("runs").stdout.decode().splitlines()[-1:]

    def run(command: str, redirections: str) -> tuple[int, str, str]:
        words = [*COMMAND, *command.replace("ID", line.split()[0]).split()]
        # The shell's own stdout and stderr stay open for those that it does not redirect.
        script = f'"$@" {redirections}'
        done = subprocess.run(
            ["bash", "-c", script, "bash", *words], env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("redirections", [">&-", "<&- >&- 2>&-", "</dev/null >/dev/null 2>/dev/full"])
def test_a_closed_stream_leads_nowhere_and_the_command_does_its_work(shell, redirections: str) -> None:
    results = {command: shell(command, redirections) for command in COMMANDS}

    assert {command: (code, out) for command, (code, out, _) in results.items()} == dict.fromkeys(COMMANDS, (0, ""))
    assert [err for _, _, err in results.values() if "Traceback" in err or "toolfold: " in err] == []


def test_a_full_disk_is_one_line_and_an_exit_code_of_its_own(shell) -> None:
    results = {command: shell(command, "</dev/null >/dev/full") for command in COMMANDS}

    assert results == dict.fromkeys(COMMANDS, (74, "", FULL))


def test_a_reader_that_has_left_is_no_error(shell) -> None:
    # The reader is gone before the command starts.
    script = "</dev/null | { exec 0<&-; cat >/dev/null 2>&1; }; exit ${PIPESTATUS[0]}"
    results = {command: shell(command, script) for command in COMMANDS}

    assert results == dict.fromkeys(COMMANDS, (0, "", ""))


def test_a_closed_stdin_is_an_empty_program(shell) -> None:
    assert shell("run -", "<&-") == (0, "", "")


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("run ok.py", "msgspec"),
        ("run ok.py", "asyncio"),
        ("run ok.py --memory 1GiB", "pydantic"),
        ("runs", "typer"),
        ("doctor", "asyncio"),
        ("serve", "fastapi"),
    ],
)
def test_ctrl_c_while_a_command_is_loading_ends_it_without_a_word(tmp_path: Path, command: str, module: str) -> None:
    (tmp_path / "ok.py").write_text("1")
    (tmp_path / f"{module}.py").write_text(
        f"import os\nos.kill(os.getpid(), {int(signal.SIGINT)})\nraise SystemExit(9)"
    )
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"}

    done = subprocess.run(
        [*COMMAND, *command.split()], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
        # A job in the background of a script ignores Ctrl-C, and so would its children.
        capture_output=True, text=True, check=False, preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
