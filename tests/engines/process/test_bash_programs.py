"""Bash programs as models write them: in the sandbox they print and exit as under plain bash with the same tools."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.programs.bash import tool
from toolfold import Runtime

FOLDER = Path(tool.__file__).parent
_, *PARTS = re.split(r"^### (.+)\n", (FOLDER / "programs.txt").read_text("utf-8"), flags=re.MULTILINE)
PROGRAMS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))
CALL = "{python} -S -E {tool} {name}"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tool.TOOLS, engine="process") as runtime:
        yield runtime


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
async def test_a_bash_program_prints_and_exits_as_under_plain_bash(text: str, runtime: Runtime, tmp_path: Path) -> None:
    outside = _outside(text, tmp_path)

    outcome = await runtime.run(text, language="bash")

    expected = "finished" if outside.returncode == 0 else "failed"
    assert (outcome.status, outcome.stdout) == (expected, outside.stdout)
    if outside.returncode:
        assert outcome.problem is not None
        assert outcome.problem.message == f"the program exited with status {outside.returncode}"


def _outside(text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    commands, work, functions = folder / "bin", folder / "data", ""
    commands.mkdir()
    work.mkdir()
    for function in tool.TOOLS:
        name = function.__name__
        call = CALL.format(python=sys.executable, tool=tool.__file__, name=name)
        # As a function the argument may be longer than that of a command.
        functions += f'{name}() {{ builtin printf %s "$1" | {call}; }}\n'
        (commands / name).write_text(f'#!/bin/bash\n{name} "$@"\n')
        (commands / name).chmod(0o755)
    (folder / "functions").write_text(functions)
    environment = {
        "PATH": f"{commands}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder), "TZ": "UTC",
        "BASH_ENV": str(folder / "functions"),
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", text],
        check=False,
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
