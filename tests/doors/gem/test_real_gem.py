"""An episode in the real `gem-llm` package, which has an environment of its own: `make test-gem`."""

import json
from pathlib import Path

import pytest

from toolfold.gem import create_filesystem_tool, create_programmatic_tool_calling_tool_stdio

REASON = "NOT RUN: gem-llm is not installed here; run `make test-gem`"
core = pytest.importorskip("gem.core", reason=REASON)
wrapper = pytest.importorskip("gem.tools.tool_env_wrapper", reason=REASON)

PROGRAM = """
import asyncio
files = tools.list_files(path=".")
texts = await asyncio.gather(*[tools.read_file(path=name) for name in files])
result = sum(int(text) for text in texts)
"""


class Sum(core.Env):
    """One question; the next action that is no tool call is the answer."""

    def reset(self, seed=None):
        super().reset(seed)
        return "What is the sum of the numbers in all files?", {}

    def step(self, action):
        return "done", float(action == "6"), True, False, {}


class ToolEnv(wrapper.ToolEnvWrapper):
    """As seed 000 writes it."""

    def __init__(self, env, workspace):
        def executor(tool_name, tool_args, tool_call_id):
            for tool in self.tools:
                result = tool.execute_tool(tool_name, tool_args, tool_call_id)
                if result[0]:
                    return result
            return (False, True, "Tool not found", tool_name, tool_call_id)

        program_tool = create_programmatic_tool_calling_tool_stdio(workspace_path=workspace, tool_executor=executor)
        # Last: gem 0.1.0 forgets what a failed call said once a later tool does not take the action.
        super().__init__(env, tools=[create_filesystem_tool(workspace), program_tool], tool_success_reward=0.5)


def action(name, **arguments):
    return f"<tool_call><tool_name>{name}</tool_name><arguments>{json.dumps(arguments)}</arguments></tool_call>"


@pytest.mark.long
def test_an_episode_with_a_program_a_direct_call_and_an_answer(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"{number}.txt").write_text(str(number))
    env = ToolEnv(Sum(), tmp_path)

    first, info = env.reset(seed=1)
    program = env.step(action("programmatic_tool_calling", code=PROGRAM))
    failing = env.step(action("programmatic_tool_calling", code="tools.read_file(path='none')"))
    direct = env.step(action("list_files", path="."))
    answered = env.step("6")
    env.tools[1].close()

    assert first.startswith("What is the sum of the numbers in all files?\nAvailable tools:\n# The tools of filesystem")
    assert info["use_tool"] is False
    result = json.loads(program[0].strip().removeprefix("<tool_response>").removesuffix("</tool_response>"))
    assert (result["return_value"], len(result["tool_calls"]), result["error"]) == (6, 4, None)
    assert program[1:4] == (0.5, False, False)
    assert (program[4]["tool_type"], program[4]["tool_use_counter"]) == ("programmatic_tool_calling", 1)
    assert "ToolError: 'read_file' failed: no file or folder 'none'" in failing[0]
    assert (failing[1], failing[4]["tool_success_counter"]) == (0.0, 1)
    assert direct[:2] == ('\n<tool_response>\n["1.txt", "2.txt", "3.txt"]\n</tool_response>\n', 0.5)
    assert answered[:4] == ("done", 1.0, True, False)
