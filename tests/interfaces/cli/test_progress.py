"""A long program at a terminal: lanes of its calls below what it prints, out of the way of questions and lines."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT
from tests.interfaces.cli.terminal import AtTerminal

pytestmark = pytest.mark.long

TOOLS = '''
import asyncio
import os

import toolfold

@toolfold.tool
async def quick(number: int) -> int:
    """Comes back at once."""
    return number

@toolfold.tool
async def held(path: str) -> str:
    """Comes back when there is a file of this name."""
    while not os.path.exists(path):
        await asyncio.sleep(0.01)
    return path
'''
CONFIG = "tools: {modules: [held.py], ask: [quick]}\nledger: {where: ledger.sqlite}\n"
HELD = "print('begun')\nawait held(path='one')\nprint('half')\nawait held(path='two')\nprint('done')\n"


@pytest.fixture
def shop(folder: Path) -> Path:
    """A folder with a tool that is held open, and the programs."""
    (folder / "held.py").write_text(TOOLS)
    (folder / "toolfold.yaml").write_text(CONFIG)
    (folder / "long.py").write_text(HELD)
    return folder


def on_screen(seen: str) -> list[str]:
    """The lines that are there in the end: a terminal of the few controls that a drawing has."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\n|\r)", seen):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part and part != "\r" and not part.startswith("\x1b"):
            lines[row] += part
    return [line.rstrip() for line in lines if line.strip()]


def test_a_long_program_shows_its_calls_and_leaves_only_its_output(shop: Path) -> None:
    with AtTerminal("run", "long.py", TERM="xterm") as terminal:
        first = terminal.until("in flight: held #1")
        (shop / "one").touch()
        second = terminal.until("in flight: held #2")
        (shop / "two").touch()
        code, rest = terminal.rest()

    whole = first + second + rest
    assert "running, 0 calls done, 1 in flight, 2." in first
    assert "running, 1 calls done, 1 in flight, " in second
    assert "━" in second
    assert (code, on_screen(re.sub(r"\d+ ms|\d\.\d s", "N ms", whole))) == (
        0,
        [
            "begun",
            "     1  held(path='one')  N ms  5 bytes",
            "half",
            "     2  held(path='two')  N ms  5 bytes",
            "done",
        ],
    )


def test_a_question_has_the_terminal_to_itself(shop: Path) -> None:
    (shop / "asks.py").write_text("import asyncio\nawait asyncio.gather(held(path='one'), quick(number=1))\n")
    with AtTerminal("run", "asks.py", TERM="xterm") as terminal:
        question = terminal.until("approve? ")
        # Two seconds pass meanwhile, and nothing is drawn over it.
        with pytest.raises(subprocess.TimeoutExpired):
            terminal.process.wait(2.5)
        terminal.seen = "approve? "
        terminal.answer("y")
        after = terminal.until("in flight: held #1")
        (shop / "one").touch()
        code, _ = terminal.rest()

    assert (code, "\x1b" in question, after.startswith("\x1b"), "quick(number=1)" in after) == (0, False, False, True)


def test_the_page_in_a_console_that_runs_is_named(shop: Path) -> None:
    environment = {"XDG_STATE_HOME": str(shop / "state")}
    console = subprocess.Popen(
        [*COMMAND, "console", "--port", "0"], env={**ENVIRONMENT, **environment}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert console.stderr is not None
        port = console.stderr.readline().partition("127.0.0.1:")[2].partition("/")[0]
        with AtTerminal("run", "long.py", TERM="xterm", **environment) as terminal:
            shown = terminal.until("in flight: held #1")
            os.kill(terminal.process.pid, 2)
            assert terminal.rest()[0] == 130
        assert f"http://127.0.0.1:{port}/#/runs/" in shown
    finally:
        console.kill()
        console.communicate()


def test_nothing_is_drawn_on_a_terminal_that_cannot_move_its_cursor(shop: Path) -> None:
    (shop / "one").touch()
    (shop / "slow.py").write_text("import asyncio\nawait asyncio.sleep(2.3)\nprint('done')\n")
    with AtTerminal("run", "slow.py", TERM="dumb") as terminal:
        assert terminal.rest() == (0, "done\n")
