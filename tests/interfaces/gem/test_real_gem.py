"""Episodes in the real `gem-llm` package, which has an environment of its own: `make test NAME=gem`."""

import json
import os
import time
from functools import partial
from pathlib import Path

import pytest

from toolfold.gem import ProgramBatch, create_filesystem_tool, create_programmatic_tool_calling_tool_stdio

REASON = "NOT RUN: gem-llm is not installed here; run `make test NAME=gem`"
core = pytest.importorskip("gem.core", reason=REASON)
vector = pytest.importorskip("gem.vector.async_vector_env", reason=REASON)
sync = pytest.importorskip("gem.vector.sync_vector_env", reason=REASON)
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
    """As hosts of gem write it."""

    def __init__(self, env, workspace, make_tool=create_programmatic_tool_calling_tool_stdio, **options):
        def executor(tool_name, tool_args, tool_call_id):
            for tool in self.tools:
                result = tool.execute_tool(tool_name, tool_args, tool_call_id)
                if result[0]:
                    return result
            return (False, True, "Tool not found", tool_name, tool_call_id)

        program_tool = make_tool(workspace_path=workspace, tool_executor=executor)
        # Last: gem 0.1.0 forgets what a failed call said once a later tool does not take the action.
        super().__init__(
            env, tools=[create_filesystem_tool(workspace), program_tool], tool_success_reward=0.5, **options
        )


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


ALIASES = """
t = tools
def read(api, name):
    return api.read_file(path=name)

names = getattr(tools, "list_" + "files")(path=".")
result = [read(t, name) for name in names if "</arguments></tool_call>" not in name]
"""


@pytest.mark.long
def test_a_program_reaches_the_environments_tools_by_every_alias(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("one")
    env = ToolEnv(Sum(), tmp_path)

    env.reset(seed=1)
    step = env.step(action("programmatic_tool_calling", code=ALIASES))
    env.tools[1].close()

    result = json.loads(step[0].strip().removeprefix("<tool_response>").removesuffix("</tool_response>"))
    assert (result["return_value"], result["error"]) == (["one"], None)
    assert [call["tool_name"] for call in result["tool_calls"]] == ["list_files", "read_file"]


@pytest.mark.long
def test_sixteen_environments_start_with_one_child(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(16):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "n.txt").write_text(str(number))
    made = [partial(ToolEnv, Sum(), tmp_path / str(number)) for number in range(16)]
    envs = vector.AsyncVectorEnv([f"sum-{number}" for number in range(16)], made)
    envs.reset(seed=1)
    before = _processes()
    began = time.monotonic()

    observations, *_ = envs.step([action("programmatic_tool_calling", code=PROGRAM)] * 16)
    seconds, started = time.monotonic() - began, _processes() - before
    children = [pid for pid in started if "toolfold.interfaces.callback" in _text(pid, "cmdline")]
    resident = sum(map(_resident_megabytes, started))
    for env in envs.envs:
        env.tools[1].close()

    with capsys.disabled():
        print(
            f"\n16 environments: first step of all after {seconds:.1f} s, {resident:.0f} MB in {len(started)} processes"
        )
    texts = [one.strip().removeprefix("<tool_response>").removesuffix("</tool_response>") for one in observations]
    assert [json.loads(text)["return_value"] for text in texts] == list(range(16))
    assert len(children) == 1


DRAWS = """
import asyncio, datetime, random, uuid
names = [name for name in tools.list_files(path=".") if name != "log.md"]
texts = await asyncio.gather(*[tools.read_file(path=name) for name in names])
tools.write_file(path="log.md", content=f"{random.random()} {datetime.datetime.now()} {uuid.uuid4()}")
print(tools.read_file(path="log.md"), *{"a", "b", "c", "d"})
result = sum(int(text) for text in texts)
"""
ENVIRONMENTS, TURNS = 64, 20


def rolled(folder, make_tool, vectorised, turns):
    """What all environments were told in each turn, and how many programs ended in a second."""
    made = []
    for number in range(ENVIRONMENTS):
        workspace = folder / str(number)
        workspace.mkdir(parents=True)
        for name in ("1.txt", "2.txt"):
            (workspace / name).write_text(str(number))
        made.append(partial(ToolEnv, Sum(), workspace, make_tool, max_tool_uses=None))
    envs = vectorised([f"sum-{number}" for number in range(ENVIRONMENTS)], made)
    envs.reset(seed=1)
    # The first program starts the sandboxes, which is not what is measured.
    envs.envs[0].tools[1].execute_tool("programmatic_tool_calling", {"code": "1"}, "")
    said, began = [], time.monotonic()
    for _ in range(turns):
        observations, rewards, *_ = envs.step([action("programmatic_tool_calling", code=DRAWS)] * ENVIRONMENTS)
        said.append((observations, rewards.tolist()))
    seconds = time.monotonic() - began
    for env in envs.envs:
        env.tools[1].close()
    return said, ENVIRONMENTS * turns / seconds


@pytest.mark.long
@pytest.mark.timeout(600)
def test_vectorised_environments_say_the_same_for_the_same_seed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    found, rates = [], []
    for run, seed in enumerate((7, 7, 8)):
        with ProgramBatch(seed=seed) as batch:
            turns = TURNS if run < 2 else 1
            said, rate = rolled(tmp_path / str(run), batch.tool, vector.AsyncVectorEnv, turns)
        found.append(said)
        rates.append(rate)
    _, threaded = rolled(tmp_path / "child", create_programmatic_tool_calling_tool_stdio, vector.AsyncVectorEnv, 3)
    _, single = rolled(tmp_path / "single", create_programmatic_tool_calling_tool_stdio, sync.SyncVectorEnv, 1)

    with capsys.disabled():
        print(
            f"\n{ENVIRONMENTS} environments, {TURNS} turns, 5 calls each, programs a second: as a batch "
            f"{max(rates[:2]):.0f}, with a child in threads {threaded:.0f}, one after the other {single:.0f}"
        )
    first = [
        json.loads(one.strip().removeprefix("<tool_response>").removesuffix("</tool_response>"))
        for one in found[0][0][0]
    ]
    assert [one["return_value"] for one in first] == [2 * number for number in range(ENVIRONMENTS)]
    assert {len(one["tool_calls"]) for one in first} == {5}
    assert len({one["stdout"] for one in first}) == ENVIRONMENTS
    assert {reward for _, rewards in found[0] for reward in rewards} == {0.5}
    assert found[0] == found[1]
    assert found[2][0] != found[0][0]


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _processes() -> set[int]:
    """All that this process has started, and what that has."""
    parents = {
        int(entry.name): int((_text(int(entry.name), "stat").rpartition(")")[2].split() or ["0", "0"])[1])
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal()
    }
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in {os.getpid(), *found}} - found:
        found |= more
    return found


def _resident_megabytes(pid: int) -> float:
    """Its share: pages that several processes have count in parts."""
    lines = [line.split() for line in _text(pid, "smaps_rollup").splitlines() if line.startswith("Pss:")]
    return int(lines[0][1]) / 1024 if lines else 0.0
