"""An agent whose program deletes 20 files, each after a person's yes: run by the tests, and in a process of its own.

`python -m tests.interfaces.pydantic_ai.approving FOLDER ask` leaves the history and the requests in the folder;
`… answer` reads both, approves 15, denies 5, and prints what the model got.
"""

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter, ToolDenied

from tests.interfaces.pydantic_ai.talk import Talk, program, returns
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset, NestedApprovals

PROGRAM = """
names = await list_files()
print(len(names), "files")
replies = await asyncio.gather(*[delete(name=name) for name in names], return_exceptions=True)
print(sum(isinstance(one, int) for one in replies), "deleted")
[str(one) for one in replies if not isinstance(one, int)]
"""


def cleaner(folder: Path) -> Agent[None, str | DeferredToolRequests]:
    toolset: FunctionToolset[None] = FunctionToolset()

    def note(line: str) -> None:
        with (folder / "done.txt").open("a") as file:
            file.write(f"{line}\n")

    @toolset.tool
    def list_files() -> list[str]:
        note("list")
        return [f"f{number:02}" for number in range(20)]

    @toolset.tool(requires_approval=True)
    def delete(name: str) -> int:
        note(name)
        return 1

    return Agent(
        Talk(program(PROGRAM), "cleaned up").model,
        toolsets=[CodeModeToolset(toolset, ledger=str(folder / "ledger.sqlite"))],
        capabilities=[NestedApprovals()],
        output_type=[str, DeferredToolRequests],
    )


def ask(folder: Path) -> None:
    result = cleaner(folder).run_sync("clean up")
    assert isinstance(result.output, DeferredToolRequests)
    (folder / "history.json").write_bytes(result.all_messages_json())
    (folder / "requests.json").write_bytes(TypeAdapter(DeferredToolRequests).dump_json(result.output))


def answer(folder: Path) -> None:
    requests = TypeAdapter(DeferredToolRequests).validate_json((folder / "requests.json").read_bytes())
    history = ModelMessagesTypeAdapter.validate_json((folder / "history.json").read_bytes())
    said = {one.tool_call_id: at < 15 or ToolDenied("keep it") for at, one in enumerate(requests.approvals)}
    results = TypeAdapter(DeferredToolResults).dump_json(requests.build_results(approvals=said))
    result = cleaner(folder).run_sync(
        message_history=history,
        deferred_tool_results=TypeAdapter(DeferredToolResults).validate_json(results),
    )
    print(json.dumps({"output": result.output, "returns": returns(result.all_messages())}))


if __name__ == "__main__":
    {"ask": ask, "answer": answer}[sys.argv[2]](Path(sys.argv[1]))
