"""Many environments in one process: one child runs the programs of all, and each has its own tools and workspace."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interfaces.gem.conftest import NAME
from tests.interfaces.gem.test_connection import children, descendants, gone
from toolfold.gem import ProgrammaticToolCallingTool, create_programmatic_tool_calling_tool_stdio

pytestmark = pytest.mark.long


def environment(folder: Path, name: str, **options) -> ProgrammaticToolCallingTool:
    workspace = folder / name
    workspace.mkdir()

    def executor(tool_name, tool_args, call_id):
        return True, False, f"{name}:{tool_name}", tool_name, call_id

    return create_programmatic_tool_calling_tool_stdio(workspace, executor, **options)


def run(tool: ProgrammaticToolCallingTool, code: str, **arguments) -> dict:
    return json.loads(tool.execute_tool(NAME, {"code": code, **arguments}, "c")[2])


def test_sixteen_environments_share_one_child_and_nothing_else(tmp_path: Path) -> None:
    tools = [environment(tmp_path, str(number)) for number in range(16)]
    code = "from asyncio import gather\nresult = await gather(*[tools.x(i=i) for i in range(5)])"

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda tool: run(tool, code, filename="program"), tools))
    started = children(os.getpid(), "toolfold.interfaces.callback")
    for tool in tools:
        tool.close()

    assert [answer["return_value"] for answer in answers] == [[f"{number}:x"] * 5 for number in range(16)]
    assert {answer["file_path"] for answer in answers} == {".python_tmp/program.py"}
    assert [(tmp_path / str(number) / ".python_tmp" / "program.py").read_text() for number in range(16)] == [code] * 16
    assert len(started) == 1


def test_the_child_ends_with_the_last_tool_that_uses_it_and_a_closed_one_may_be_used_again(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    first, second = environment(tmp_path, "first"), environment(tmp_path, "second")
    run(first, "tools.x()")
    during = descendants(os.getpid()) - before

    first.close()
    first.close()
    again = [run(tool, "result = tools.x()")["return_value"] for tool in (second, first)]
    for tool in (first, second):
        tool.close()

    assert again == ["second:x", "first:x"]
    assert during
    assert gone(during)


def test_tools_of_two_engines_have_two_children(tmp_path: Path) -> None:
    usual, other = environment(tmp_path, "usual"), environment(tmp_path, "other", engine="monty")

    answers = [run(tool, "result = tools.x()")["return_value"] for tool in (usual, other)]
    started = children(os.getpid(), "toolfold.interfaces.callback")
    for tool in (usual, other):
        tool.close()

    assert (answers, len(started)) == (["usual:x", "other:x"], 2)
