"""Programs that are left running: `run --detach`, and `runs wait` from any other process."""

import json
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT, Cli
from tests.interfaces.cli.terminal import AtTerminal
from tests.interfaces.cli.test_terminal import CONFIG, LOOP, TOOLS, rows

pytestmark = pytest.mark.long

HELD = '''
import asyncio, os, pathlib, toolfold

@toolfold.tool(read_only=True)
async def gate() -> str:
    """Open when the file is there."""
    pathlib.Path("entered").write_text(str(os.getpid()))
    while not os.path.exists("open"):
        await asyncio.sleep(0.02)
    return "open"
'''
CHARGE = '''
@toolfold.tool
def charge(number: int) -> int:
    """Not to be done twice."""
    with open("charged", "a") as file:
        file.write(f"{number}\\n")
    return number
'''
LOG = """
import logging
logging.getLogger("toolfold.ledger").addHandler(logging.FileHandler("log"))
"""


@pytest.fixture
def left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a state of its own; whatever is still running in the end is ended."""
    monkeypatch.setitem(ENVIRONMENT, "XDG_STATE_HOME", str(folder / "state"))
    (folder / "held.py").write_text(HELD)
    (folder / "program.py").write_text("print('one')\nprint(await gate())\nprint('two')\n")
    yield folder
    (folder / "open").touch()


def entered(folder: Path) -> int:
    """The process in which the tool is being called."""
    path = folder / "entered"
    while not (path.exists() and path.read_text()):
        time.sleep(0.01)
    return int(path.read_text())


def detach(cli: Cli, *arguments: str) -> str:
    done = cli("run", "--detach", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.fullmatch(rb"[0-9a-f]{16}\n", done.stdout)
    return done.stdout.decode().strip()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_it_runs_on_and_two_waits_at_once_have_its_whole_output(cli: Cli, left: Path) -> None:
    execution_id = detach(cli, "--tools", "held.py", "program.py")
    pid = entered(left)
    soon = cli("runs", "wait", execution_id, "--timeout", "0.2")
    waits = [
        subprocess.Popen([*COMMAND, "runs", "wait", execution_id], stdout=subprocess.PIPE, env=ENVIRONMENT)
        for _ in range(2)
    ]
    (left / "open").touch()
    outputs = [wait.communicate()[0] for wait in waits]
    late = cli("runs", "wait", execution_id[:8], "--json")
    while not is_gone(pid):
        time.sleep(0.01)

    assert (soon.returncode, soon.stdout) == (75, b"one\n")
    assert soon.stderr.decode() == (
        f"toolfold: execution {execution_id} is still running; 'toolfold runs wait {execution_id}' continues to wait\n"
    )
    assert (outputs, [wait.returncode for wait in waits]) == ([b"one\nopen\ntwo\n"] * 2, [0, 0])
    assert json.loads(late.stdout)["stdout"] == "one\nopen\ntwo\n"
    assert list((left / "state" / "toolfold" / "detached").iterdir()) == []


def test_a_kill_loses_nothing_and_a_cancel_ends_program_and_call(cli: Cli, left: Path) -> None:
    execution_id = detach(cli, "--tools", "held.py", "program.py")
    os.kill(entered(left), signal.SIGKILL)
    (left / "entered").unlink()
    with subprocess.Popen([*COMMAND, "runs", "wait", execution_id], stdout=subprocess.PIPE, env=ENVIRONMENT) as wait:
        second = entered(left)
        assert wait.stdout is not None
        seen = wait.stdout.readline()
        wait.send_signal(signal.SIGINT)
    cancelled = cli("runs", "wait", execution_id, "--cancel")
    ended = cli("runs", "wait", execution_id, "--cancel")

    assert (wait.returncode, seen) == (130, b"one\n")
    assert (cancelled.returncode, cancelled.stdout) == (130, b"one\n")
    assert (ended.returncode, ended.stdout) == (130, b"one\n")
    while not is_gone(second):
        time.sleep(0.01)


def test_a_cancelled_program_of_another_process_makes_no_call_any_more(cli: Cli, left: Path) -> None:
    (left / "charging.py").write_text(f"{HELD}\n{CHARGE}")
    (left / "charging_program.py").write_text("await gate()\nfor number in range(3):\n    await charge(number)\n")
    command = [*COMMAND, "run", "--tools", "charging.py", "charging_program.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT) as owner:
        entered(left)
        (row,) = json.loads(cli("runs", "list", "--json").stdout)
        execution_id = row["execution_id"]
        cancelled = cli("runs", "wait", execution_id, "--cancel")
        (left / "open").touch()
        _, stderr = owner.communicate()
    (ended,) = json.loads(cli("runs", "list", "--json").stdout)

    assert (cancelled.returncode, ended["status"]) == (130, "cancelled")
    assert not (left / "charged").exists()
    assert (owner.returncode, stderr.decode().splitlines()[-1]) == (
        70,
        f"toolfold: execution {execution_id!r} was taken over by another process; leave it to that one",
    )
    assert b"Traceback" not in stderr


def test_a_program_whose_process_is_killed_is_not_waited_for(cli: Cli, left: Path) -> None:
    command = [*COMMAND, "run", "--tools", "held.py", "program.py"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT) as owner:
        entered(left)
        (row,) = json.loads(cli("runs", "list", "--json").stdout)
        execution_id = row["execution_id"]
        living = cli("runs", "wait", execution_id, "--timeout", "0.2")
        waits = subprocess.Popen(
            [*COMMAND, "runs", "wait", execution_id, "--timeout", "60"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=ENVIRONMENT,
        )  # fmt: skip
        owner.kill()
    killed = cli("runs", "wait", execution_id, "--timeout", "60")
    _, stderr = waits.communicate()
    cancelled = cli("runs", "wait", execution_id, "--cancel")

    still = (
        f"toolfold: execution {execution_id} is still running; 'toolfold runs wait {execution_id}' continues to wait\n"
    )
    gone = (
        f"toolfold: the process of execution {execution_id} is gone; 'toolfold runs rerun {execution_id}' runs it again "
        f"with the recorded replies, 'toolfold runs wait {execution_id} --cancel' cancels it\n"
    )
    assert (living.returncode, living.stderr.decode()) == (75, still)
    assert (killed.returncode, killed.stderr.decode()) == (75, gone)
    assert (waits.returncode, stderr.decode()) == (75, gone)
    assert cancelled.returncode == 130


def test_its_questions_are_answered_at_another_terminal_or_stay_open(cli: Cli, left: Path) -> None:
    (left / "writing.py").write_text(TOOLS)
    (left / "toolfold.yaml").write_text(CONFIG)
    (left / "loop.py").write_text(LOOP)
    execution_id = detach(cli, "loop.py")
    nobody = cli("runs", "wait", execution_id)
    with AtTerminal("runs", "wait", execution_id) as terminal:
        terminal.answer("49")
        terminal.answer("y")
        code, _ = terminal.rest()

    assert (nobody.returncode, nobody.stderr.decode()) == (
        75,
        "toolfold: call 1, write(row=0), waits for an answer at a terminal or in the console; "
        "the program continues with it\n",
    )
    assert (code, rows(left)) == (0, list(range(50)))


def test_what_cannot_be_left_running_is_said_at_once(cli: Cli, left: Path) -> None:
    wrong = {
        ("run", "--detach", "-"): "line 1: no tool 'prise'; this program has no tools\nawait prise()\n      ^\n",
        ("run", "--detach", "--tools", "none", "-"): (
            "toolfold: no module 'none' for --tools; to name a file, include its extension, as in tools.py\n"
        ),
        ("run", "--detach", "--out", ".", "-"): (
            "toolfold: --out applies to the outcome; pass it to 'toolfold runs wait'\n"
        ),
        ("run", "--detach", "--ledger", "memory", "-"): (
            "toolfold: --detach needs a ledger that outlives this command; --ledger memory does not\n"
        ),
        ("runs", "wait", "0" * 16): (
            "toolfold: no execution '0000000000000000' in the ledger; 'toolfold runs' lists them\n"
        ),
        ("runs", "wait", "../x"): "toolfold: no execution '../x' in the ledger; 'toolfold runs' lists them\n",
        ("runs", "wait", "x", "--timeout", "-1"): (
            "toolfold: Invalid value for '--timeout': '-1' is not a number of seconds from 0 to 31536000\n"
        ),
        ("runs", "wait", "x", "--timeout", "1e99"): (
            "toolfold: Invalid value for '--timeout': '1e99' is not a number of seconds from 0 to 31536000\n"
        ),
    }

    said = {arguments: cli(*arguments, program="await prise()\n") for arguments in wrong}

    assert {arguments: done.stderr.decode() for arguments, done in said.items()} == wrong
    assert {(done.returncode, done.stdout) for done in said.values()} == {(2, b"")}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_waits_go_on_with_a_program_whose_process_is_ended_meanwhile(number: int, cli: Cli, left: Path) -> None:
    execution_id = detach(cli, "--tools", "held.py", "program.py")
    first = entered(left)
    command = [*COMMAND, "runs", "wait", execution_id, "--timeout", "60"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    waits = [subprocess.Popen(command, **pipes, env=ENVIRONMENT) for _ in range(2)]
    seen = [wait.stdout.readline() for wait in waits if wait.stdout is not None]  # they wait by now
    (left / "entered").unlink()
    os.kill(first, number)
    second = entered(left)
    (left / "open").touch()
    outputs = [wait.communicate() for wait in waits]
    while not is_gone(second):
        time.sleep(0.01)

    assert (seen, second == first) == ([b"one\n"] * 2, False)
    assert outputs == [(b"open\ntwo\n", b"")] * 2
    assert [wait.returncode for wait in waits] == [0, 0]
    assert list((left / "state" / "toolfold" / "detached").iterdir()) == []


@pytest.mark.parametrize("text", ["await charge(1)\n", "await gate()\nawait charge(1)\nprint('two')\n", ""])
def test_a_disk_that_is_full_for_a_while_costs_a_program_nothing(text: str, cli: Cli, left: Path) -> None:
    (left / "charging.py").write_text(f"{HELD}\n{CHARGE}\n{LOG}")
    (left / "charging_program.py").write_text(f"print('one')\nawait gate()\n{text}print('end')\n")
    execution_id = detach(cli, "--tools", "charging.py", "charging_program.py")
    pid = entered(left)
    usual = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, usual[1]))
    (left / "open").touch()
    while "cannot be written" not in (left / "log").read_text():
        time.sleep(0.01)
    soon = cli("runs", "wait", execution_id, "--timeout", "0.2")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, usual)
    done = cli("runs", "wait", execution_id, "--timeout", "30")
    while not is_gone(pid):
        time.sleep(0.01)

    printed = "one\ntwo\nend\n" if "two" in text else "one\nend\n"
    assert (soon.returncode, done.returncode, done.stdout.decode(), done.stderr) == (75, 0, printed, b"")
    assert (left / "charged").exists() == bool(text)
    assert not text or (left / "charged").read_text() == "1\n"
    assert list((left / "state" / "toolfold" / "detached").iterdir()) == []
