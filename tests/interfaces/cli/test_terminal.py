"""A person at the command line: output while the program runs, and questions with standing answers."""

import json
import re
from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import Cli
from tests.interfaces.cli.terminal import AtTerminal

pytestmark = pytest.mark.long

TOOLS = '''
import toolfold

@toolfold.tool
async def write(row: int) -> int:
    """Write a row."""
    with open("rows.txt", "a") as rows:
        rows.write(f"{row}\\n")
    return row
'''
CONFIG = "tools: {modules: [writing.py], ask: [write]}\nledger: {where: ledger.sqlite}\n"
LOOP = "for n in range(50):\n    await write(row=n)\n"


@pytest.fixture
def table(folder: Path) -> Path:
    """A folder with a tool that asks, and programs that use it."""
    (folder / "writing.py").write_text(TOOLS)
    (folder / "toolfold.yaml").write_text(CONFIG)
    (folder / "loop.py").write_text(LOOP)
    (folder / "equal.py").write_text("for _ in range(50):\n    await write(row=70)\nawait write(row=80)\n")
    return folder


def rows(table: Path) -> list[int]:
    return [int(line) for line in (table / "rows.txt").read_text().split()]


def shown_approvals(cli: Cli, execution_id: str) -> list[str]:
    shown = cli("runs", "show", execution_id).stdout.decode()
    return shown.partition("\napprovals\n")[2].splitlines()


def newest(cli: Cli) -> str:
    return str(json.loads(cli("runs", "--json", "--limit", "1").stdout)[0]["execution_id"])


def test_output_is_on_the_terminal_while_the_program_runs_and_only_once(folder: Path) -> None:
    (folder / "slow.py").write_text("print('begun')\nwhile True: pass\n")
    with AtTerminal("run", "slow.py") as terminal:
        terminal.until("begun\n")
        terminal.process.send_signal(2)
        code, rest = terminal.rest()
    assert (code, rest.rpartition(" ")[0]) == (130, "toolfold: stopped; no call was in flight; toolfold runs show")
    (folder / "quick.py").write_text("import sys\nprint('one')\nprint('two', file=sys.stderr)\n'three'\n")
    with AtTerminal("run", "quick.py") as terminal:
        assert terminal.rest() == (0, "one\ntwo\ntoolfold: value: 'three'\n")


def test_one_answer_for_a_loop_of_fifty_writes_and_runs_show_says_by_what_right(cli: Cli, table: Path) -> None:
    with AtTerminal("run", "loop.py") as terminal:
        question = terminal.until("approve? ")
        terminal.seen = "approve? "
        terminal.answer("t")
        code, rest = terminal.rest()
    by = shown_approvals(cli, newest(cli))[0].split()[3].rstrip(",")

    assert question == (
        "toolfold: write(row=0) needs your approval (line 2)\n"
        "  y  yes, this call\n"
        "  a  yes, and further calls with the same arguments\n"
        "  t  yes, and every further call of write in this program\n"
        "  9  yes, for this many calls of write (any number)\n"
        "  n  no; you can add a reason\n"
        "approve? "
    )
    assert (code, rows(table), rest.count("approve?")) == (0, list(range(50)), 0)
    assert shown_approvals(cli, newest(cli)) == [
        f"     1  approved by {by}, for this tool in this program; also for 49 more: 2-50"
    ]


def test_equal_arguments_ask_again_for_others_and_a_rerun_inherits_nothing(cli: Cli, table: Path) -> None:
    with AtTerminal("run", "equal.py") as terminal:
        terminal.answer("what?")
        terminal.until("'what?' is not an answer; enter y, a, t, n or a number of calls\n")
        terminal.answer("a")
        terminal.answer("n not that row")
        code, rest = terminal.rest()
    first = newest(cli)
    with AtTerminal("runs", "rerun", first, "loop.py") as terminal:
        terminal.answer("20")
        again = terminal.until("(line 2)")
        terminal.answer("n")
        terminal.rest()

    assert (code, rows(table)) == (1, [70] * 50 + list(range(20)))
    assert rest.splitlines()[-1] == "ToolError: 'write' was denied: not that row"
    assert again.splitlines()[-1] == "toolfold: write(row=20) needs your approval (line 2)"
    assert [line.split(" by ")[0].split() for line in shown_approvals(cli, first)] == [
        ["1", "approved"],
        ["51", "denied"],
    ]


def test_where_nobody_is_there_a_call_is_refused_unless_it_was_approved_beforehand(cli: Cli, table: Path) -> None:
    refused = cli("run", "loop.py")
    approved = cli("run", "--yes", "loop.py")
    by = shown_approvals(cli, newest(cli))

    assert refused.returncode == 1
    assert refused.stderr.decode().splitlines()[0] == (
        "toolfold: 'write' needs approval, but there is no terminal to ask on; --yes approves every call"
    )
    assert refused.stderr.decode().splitlines()[-1] == (
        "ToolError: 'write' was denied: it needs approval, and nobody can give it here"
    )
    assert (approved.returncode, rows(table), len(by)) == (0, list(range(50)), 50)
    assert by[0].endswith("(--yes), for this call")


def test_a_person_is_told_of_files_that_were_not_saved(folder: Path) -> None:
    with AtTerminal("run", "-c", "open('out.txt', 'w').close()") as terminal:
        assert terminal.rest() == (0, "toolfold: out.txt was not saved; --out DIR saves it\n")
    with AtTerminal("run", "-c", "for name in 'abcde': open(name, 'w').close()") as terminal:
        assert terminal.rest() == (0, "toolfold: a, b, c and 2 more were not saved; --out DIR saves them\n")
    with AtTerminal("run", "--out", "made", "-c", "open('out.txt', 'w').close()") as terminal:
        assert terminal.rest() == (0, "")
    assert (folder / "made" / "out.txt").exists()


@pytest.mark.long
def test_a_terminal_of_60_columns_gets_lists_without_longer_lines(cli: Cli, folder: Path) -> None:
    (folder / "toolfold.yaml").write_text("ledger: {where: ledger.sqlite}\n")
    done = cli("run", "--json", "--tools", "tools.py", "-c", "print([await price('ACME') for _ in range(2)])")
    with AtTerminal("runs", COLUMNS="60", TERM="xterm") as terminal:
        listed = terminal.rest()[1]
    with AtTerminal("runs", "show", json.loads(done.stdout)["execution_id"], COLUMNS="60", TERM="xterm") as terminal:
        calls = terminal.rest()[1].partition("calls")[2]

    lines = re.sub(r"\x1b\[[0-9;]*m", "", listed + calls).splitlines()
    assert sum("price(ticker='ACME')" in line for line in lines) == 2
    assert [line for line in lines if len(line) > 60] == []
