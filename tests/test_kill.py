"""A host that is killed in the middle of an execution, and another that goes on with it."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolfold import Reply, ToolSpec, tool

ASK = ToolSpec(
    name="ask",
    python_name="ask",
    input_schema={"type": "object", "properties": {"q": {}}, "required": ["q"]},
    source="caller",
)
PLAIN = """
total = await save(1)
for turn in range(3):
    print("turn", turn, await asyncio.gather(*[ask([turn, n]) for n in range(4)]))
    total += await save(turn)
print(total)
"""
UNINTERRUPTED = "".join(f"turn {turn} {[['re', [turn, n]] for n in range(4)]}\n" for turn in range(3)) + "40\n"
WORLDLY = """
import datetime, random, uuid
import numpy as np
seen = [random.random(), str(uuid.uuid4()), str(datetime.datetime.now()), float(np.random.rand())]
first = await asyncio.gather(ask(seen), ask(await save(2)))
second = await ask([*seen, random.random()])
print(seen, first, second)
"""
# Run by a process of its own, which says what it was told and is killed while it waits for more.
HOST = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from tests.test_kill import ASK, answered, counting
from toolfold import Paused, Runtime
from toolfold.ledger.sqlite import SqliteLedger

async def main():
    saves = open(sys.argv[3], "a")
    async with Runtime(tools=[counting(saves)], ledger=SqliteLedger(sys.argv[2])) as runtime:
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = json.loads(line)
            if "text" in request:
                step = await runtime.start(request["text"], tools=[ASK])
            else:
                step = await runtime.resume(request["id"], answered(request["calls"]))
            said = {"id": step.execution_id}
            if isinstance(step, Paused):
                said["calls"] = [[call.id, call.arguments["q"]] for call in step.calls]
            else:
                said |= {"stdout": step.stdout, "stderr": step.stderr}
            print(json.dumps(said), flush=True)

asyncio.run(main())
"""


def counting(saves: Any) -> Any:
    @tool
    async def save(key: int) -> int:
        """Has an effect, which is a line in a file."""
        saves.write(f"{key}\n")
        saves.flush()
        return key * 10

    return save


def answered(calls: list[list[Any]]) -> list[Reply]:
    return [Reply(call_id=call_id, value=["re", q]) for call_id, q in calls]


class Host:
    """One host process; each request gets one answer, and a kill comes whenever the test says."""

    def __init__(self, ledger: Path, saves: Path) -> None:
        root = Path(__file__).parent.parent
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOST, str(root), str(ledger), str(saves)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root / "src")},
        )  # fmt: skip

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


@pytest.mark.long
@pytest.mark.parametrize("text", [PLAIN, WORLDLY], ids=["plain", "worldly"])
def test_an_execution_survives_a_kill_at_every_pause(text: str, tmp_path: Path) -> None:
    host = Host(tmp_path / "ledger.sqlite", tmp_path / "saves")
    said = host.ask({"text": text})
    asked = list(said["calls"])
    while "calls" in said:
        host.kill()
        host = Host(tmp_path / "ledger.sqlite", tmp_path / "saves")
        calls = said["calls"]
        said = host.ask({"id": said["id"], "calls": calls})
        asked += said.get("calls", [])
    host.kill()

    ids = [call_id for call_id, _ in asked]
    assert len(ids) == len(set(ids)), "a call was asked for twice"
    if text == PLAIN:
        assert said["stdout"] == UNINTERRUPTED
        assert (tmp_path / "saves").read_text().split() == ["1", "0", "1", "2"]
    else:
        seen = asked[0][1]
        assert asked[2][1][:4] == seen
        assert said["stdout"] == f"{seen} {[['re', seen], ['re', 20]]} {['re', asked[2][1]]}\n"
        assert (tmp_path / "saves").read_text().split() == ["2"]


@pytest.mark.long
def test_random_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(7)
    ledger, saves = tmp_path / "ledger.sqlite", tmp_path / "saves"
    host = Host(ledger, saves)
    outputs = []
    for _ in range(3):
        said = host.ask({"text": PLAIN})
        while "calls" in said:
            if chance.random() < 0.5:
                host.kill()
                host = Host(ledger, saves)
            some = said["calls"][: chance.randint(1, len(said["calls"]))]
            said = host.ask({"id": said["id"], "calls": some})
        outputs.append(said["stdout"])
    host.kill()

    assert outputs == [UNINTERRUPTED] * 3
    assert saves.read_text().split() == ["1", "0", "1", "2"] * 3


def test_a_host_that_is_not_killed_gives_the_same_output(tmp_path: Path) -> None:
    host = Host(tmp_path / "ledger.sqlite", tmp_path / "saves")
    said = host.ask({"text": PLAIN})
    while "calls" in said:
        said = host.ask({"id": said["id"], "calls": said["calls"]})
    host.kill()

    assert said["stdout"] == UNINTERRUPTED
