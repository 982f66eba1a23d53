"""`design/walk.md` is true: a real `toolfold run` enters its functions, in its order."""

import re
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import toolfold
from toolfold.interfaces.cli.commands.run import run_program
from toolfold.interfaces.cli.program_inputs import RunOptions

SOURCE = Path(toolfold.__file__).parent
PAGE = Path(__file__).parents[2] / "design" / "walk.md"
ROW = re.compile(r"\| \d+ \| `(?P<file>[^`]+)` \| `(?P<function>[^`]+)` \| .+ \|")
TOOLS = """\
import sys
import toolfold

stacks = []

@toolfold.tool(read_only=True)
async def price(ticker: str) -> float:
    '''The last price of one share.'''
    frame, stack = sys._getframe(1), []
    while frame is not None:
        stack.append(frame.f_code)
        frame = frame.f_back
    sys.walked_stacks.append(stack)
    return 12.5
"""
Hop = tuple[str, str]


def rows() -> list[Hop]:
    return [(found["file"], found["function"]) for found in ROW.finditer(PAGE.read_text("utf-8"))]


def program() -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def hop(code: Any) -> Hop | None:
    path = Path(code.co_filename)
    return (path.relative_to(SOURCE).as_posix(), code.co_qualname) if path.is_relative_to(SOURCE) else None


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Hop], list[list[Hop]]]:
    """Every function that a run enters, in order, and the functions between the command and the tool at each call."""
    (tmp_path / "prices.py").write_text(TOOLS, "utf-8")
    (tmp_path / "program.py").write_text(program(), "utf-8")
    monkeypatch.chdir(tmp_path)
    stacks: list[list[Any]] = []
    monkeypatch.setattr(sys, "walked_stacks", stacks, raising=False)
    entered: list[Any] = []

    def trace(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            entered.append(frame.f_code)

    options = RunOptions(program="program.py", tools=("prices.py",), engine="process", ledger="ledger.sqlite")
    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        code = run_program(options)
    finally:
        sys.setprofile(before)
    assert code == 0
    return (
        [one for one in map(hop, entered) if one is not None],
        [[one for one in map(hop, stack) if one is not None] for stack in stacks],
    )


def test_a_run_enters_the_functions_of_the_page_in_its_order(walked: tuple[list[Hop], list[list[Hop]]]) -> None:
    entered, _ = walked
    first = {one: place for place, one in reversed(list(enumerate(entered)))}

    assert [row for row in rows() if row not in first] == []
    assert sorted(rows(), key=first.__getitem__) == rows()


def test_nothing_stands_between_the_command_and_a_tool_that_the_page_does_not_name(
    walked: tuple[list[Hop], list[list[Hop]]],
) -> None:
    _, stacks = walked

    assert len(stacks) == 2
    assert [[one for one in stack if one not in rows()] for stack in stacks] == [[], []]


def test_the_walk_has_at_most_thirty_hops() -> None:
    assert 20 <= len(rows()) <= 30


def test_no_walk_passes_through_more_files_than_it_may(tmp_path: Path) -> None:
    command = [sys.executable, str(PAGE.with_name("walk.py")), "--check"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
