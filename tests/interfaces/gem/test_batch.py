"""Programs of many environments as one batch in this process; `test_programs` runs there as well."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engines.process.test_jail_leftovers import descendants, have_ended
from tests.interfaces.gem.conftest import NAME
from toolfold.errors import UsageError
from toolfold.gem import ProgramBatch, ProgrammaticToolCallingTool

pytestmark = pytest.mark.long

DRAWS = """
import asyncio, random, time, uuid
first = tools.look(i=random.randint(0, 99))
done = []
async def one(i):
    done.append(await tools.async_look(i=i))
await asyncio.gather(*[one(i) for i in range(8)])
print(first, done, time.time(), uuid.uuid4())
"""


def look(name, arguments, call_id):
    return True, False, f"{call_id}:{arguments['i']}", name, call_id


def run(tool: ProgrammaticToolCallingTool, code: str) -> str:
    return tool.execute_tool(NAME, {"code": code}, "c")[2]


def rolled(batch: ProgramBatch, tools: list[ProgrammaticToolCallingTool]) -> list[list[str]]:
    with ThreadPoolExecutor(len(tools)) as pool:
        return [list(pool.map(lambda tool: run(tool, DRAWS), tools)) for _ in range(3)]


def test_the_same_seed_gives_the_same_observations_whichever_thread_is_first(tmp_path: Path) -> None:
    found = []
    for in_flight in (8, 2):
        with ProgramBatch(seed=7, in_flight=in_flight) as batch:
            tools = [batch.tool(look, workspace_path=tmp_path) for _ in range(8)]
            found.append(rolled(batch, tools))
            batch.reseed(7)
            found.append(rolled(batch, tools))
            batch.reseed(8)
            other = rolled(batch, tools)

    assert found[1:] == [found[0]] * 3
    assert len({text for turn in found[0] for text in turn}) == 24
    assert not {text for turn in found[0] for text in turn} & {text for turn in other for text in turn}
    answer = json.loads(found[0][0][0])
    assert (answer["success"], answer["execution_time_seconds"]) == (True, 0.0)


def test_without_a_seed_each_program_draws_its_own(tmp_path: Path) -> None:
    with ProgramBatch() as batch:
        tool = batch.tool(look, workspace_path=tmp_path)
        first, second = run(tool, DRAWS), run(tool, DRAWS)

    assert json.loads(first)["stdout"] != json.loads(second)["stdout"]


def test_no_more_programs_are_in_flight_than_allowed(tmp_path: Path) -> None:
    lock, at_once, seen = threading.Lock(), 0, []

    def work(name, arguments, call_id):
        nonlocal at_once
        with lock:
            at_once += 1
            seen.append(at_once)
        with lock:
            at_once -= 1
        return True, False, "", name, call_id

    with ProgramBatch(in_flight=2) as batch, ThreadPoolExecutor(8) as pool:
        tools = [batch.tool(work, workspace_path=tmp_path) for _ in range(8)]
        answers = list(pool.map(lambda tool: run(tool, "tools.work()"), tools))

    assert [json.loads(one)["success"] for one in answers] == [True] * 8
    assert max(seen) <= 2


def test_a_batch_can_be_used_again_after_it_was_closed(tmp_path: Path) -> None:
    batch = ProgramBatch()
    tool = batch.tool(look, workspace_path=tmp_path)
    try:
        first = run(tool, "result = 1")
        batch.close()
        second = run(tool, "result = 2")
    finally:
        batch.close()

    assert [json.loads(one)["return_value"] for one in (first, second)] == [1, 2]


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ProgramBatch(in_flight=0)
    batch = ProgramBatch(engine="nowhere")
    with pytest.raises(UsageError, match="nowhere"):
        run(batch.tool(look, workspace_path=tmp_path), "1")
    batch.close()

    assert str(caught.value) == "in_flight is 0; at least 1 program must be in flight"


TRAINER = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from toolfold.gem import ProgramBatch

began = threading.Semaphore(0)

def hang(name, arguments, call_id):
    began.release()
    threading.Event().wait()

batch = ProgramBatch(in_flight=4)
tools = [batch.tool(hang, workspace_path=sys.argv[1]) for _ in range(4)]
for tool in tools:
    threading.Thread(target=tool.execute_tool, args=("programmatic_tool_calling", {"code": "tools.hang()"}, "")).start()
for _ in tools:
    began.acquire()
print("rolling", flush=True)
"""


def test_nothing_is_left_of_a_trainer_that_is_killed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    source = Path(__file__).parents[3] / "src"
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(tmp_path)], stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(source)},
    )  # fmt: skip
    assert trainer.stdout is not None
    with trainer, trainer.stdout:
        assert trainer.stdout.readline() == b"rolling\n"
        pidfds = [os.pidfd_open(process) for process in descendants(trainer.pid)]
        trainer.send_signal(signal.SIGKILL)
        trainer.wait()

    assert len(pidfds) >= 6  # a guest of each, their zygote, and who built its jail
    assert have_ended(pidfds, seconds=60)
    assert list(tmp_path.iterdir()) == []
