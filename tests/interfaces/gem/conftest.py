"""One child, and one batch in this process, for all tests of a file: either takes a second to start."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolfold.gem import ProgramBatch, ProgrammaticToolCallingTool, create_programmatic_tool_calling_tool_stdio

NAME = "programmatic_tool_calling"


class Programs:
    """A tool object whose executor each test sets."""

    def __init__(self, tool: ProgrammaticToolCallingTool, workspace: Path) -> None:
        self.tool = tool
        self.workspace = workspace

    def run(self, code: str, executor: Any = None, **arguments: Any) -> dict[str, Any]:
        if executor is not None:
            self.tool.set_tool_executor(executor)
        parsed, has_error, observation, *echo = self.tool.execute_tool(NAME, {"code": code, **arguments}, "call_1")
        answer = json.loads(observation)
        assert (parsed, has_error, echo) == (True, not answer["success"], [NAME, "call_1"])
        return answer


@pytest.fixture(scope="module", params=["child", "batch"])
def child(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    workspace = tmp_path_factory.mktemp("workspace")
    if request.param == "batch":
        with ProgramBatch() as batch:
            yield Programs(batch.tool(workspace_path=workspace), workspace)
        return
    tool = create_programmatic_tool_calling_tool_stdio(workspace, validate_on_init=True)
    yield Programs(tool, workspace)
    tool.close()


@pytest.fixture
def programs(child: Programs) -> Programs:
    child.tool.set_tool_executor(None)
    return child
