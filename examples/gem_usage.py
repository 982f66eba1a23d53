"""Programs that call the tools of the process that started them: `python -m examples.gem_usage`.

An environment has a filesystem tool and a memory tool. A model's program uses
both, in a sandbox in a child process; each call comes back here, to `executor`.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from toolfold.gem import create_filesystem_tool, create_memory_tool, create_programmatic_tool_calling_tool_stdio

WORKFLOW = """
import asyncio

files = tools.list_files(path=".")
texts = await asyncio.gather(*[tools.read_file(path=name) for name in files])
words = {name: len(text.split()) for name, text in zip(files, texts)}
longest = max(words, key=words.get)
tools.remember(key="longest", value=longest)
tools.write_file(path="report/summary.txt", content=texts[files.index(longest)].upper())
print(f"{len(files)} files, {sum(words.values())} words")
result = longest
"""

MISTAKES = """
for name in ["missing.txt", "../outside.txt"]:
    try:
        tools.read_file(path=name)
    except ToolError as error:
        print(error)
tools.no_such_tool(at="all")
"""

MANY = "result = sum(int(tools.recall(key='count')) for _ in range(100))"


def main() -> None:
    """Three programs: a workflow, one with mistakes, one with many calls."""
    with tempfile.TemporaryDirectory() as workspace:
        Path(workspace, "a.txt").write_text("one two three")
        Path(workspace, "b.txt").write_text("four five")
        tools = [create_filesystem_tool(workspace_path=workspace), create_memory_tool()]
        tools[1].execute_tool("remember", {"key": "count", "value": 1}, "setup")

        def executor(tool_name: str, tool_args: dict[str, Any], tool_call_id: str) -> tuple[bool, bool, str, str, str]:
            for tool in tools:
                result = tool.execute_tool(tool_name, tool_args, tool_call_id)
                if result[0]:  # tool_parsed
                    return result
            return False, True, f"Tool not found: {tool_name}", tool_name, tool_call_id

        program_tool = create_programmatic_tool_calling_tool_stdio(workspace_path=workspace, tool_executor=executor)
        for title, code in (("workflow", WORKFLOW), ("mistakes", MISTAKES), ("many calls", MANY)):
            _, _, observation, _, _ = program_tool.execute_tool(program_tool.name, {"code": code}, "call_123")
            show(title, json.loads(observation))
        print("summary.txt:", Path(workspace, "report/summary.txt").read_text())
        program_tool.close()


def show(title: str, answer: dict[str, Any]) -> None:
    """What the environment would give to the model, in short."""
    print(f"{title}: success={answer['success']} calls={len(answer['tool_calls'])} result={answer['return_value']!r}")
    for line in answer["stdout"].splitlines():
        print(f"  {line}")
    if answer["error"] is not None:
        print(f"  {answer['error']['type']}: {answer['error']['message']}")


if __name__ == "__main__":
    main()
