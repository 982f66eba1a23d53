"""Room for starts is kept, whatever the limits of the machine are and however many threads guests have."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.process.probing import guest
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, NONE, Tier, most_processes, pid_of

CROWDED = """
import asyncio, os, resource
from pathlib import Path

def tasks_of_user():
    found = 0
    for path in Path("/proc").glob("[0-9]*/task"):
        try:
            found += path.stat().st_uid == os.getuid() and len(os.listdir(path))
        except OSError:
            pass
    return found

room = 200 + (tasks_of_user() if os.getuid() else 0)  # root's are not counted, and guests have another user then
resource.setrlimit(resource.RLIMIT_NPROC, (room, room))

from toolfold.engines.base import Called, Order
from toolfold.engines.process import ProcessEngine
from toolfold.models import Program, ToolSpec

BOMB = '''
import threading
stop = threading.Event()
try:
    while True:
        threading.Thread(target=stop.wait, daemon=True).start()
except RuntimeError:
    tools.wait()
'''

async def bomb(engine, is_there):
    async with engine.open(Order(program=Program(text=BOMB), tools=[ToolSpec(name="wait", python_name="wait")])) as run:
        async for event in run:
            if isinstance(event, Called):
                is_there.release()

async def main():
    is_there = asyncio.Semaphore(0)
    async with ProcessEngine(warm=0) as engine:
        bombs = [asyncio.create_task(bomb(engine, is_there)) for _ in range(5)]
        for _ in bombs:
            await is_there.acquire()
        async with engine.open(Order(program=Program(text="6 * 7"))) as run:
            print([event.value async for event in run])
        for one in bombs:
            one.cancel()
        await asyncio.gather(*bombs, return_exceptions=True)

asyncio.run(main())
"""


def test_programs_that_start_all_the_threads_they_can_leave_room_for_the_next_start() -> None:
    done = subprocess.run([sys.executable, "-c", CROWDED], capture_output=True, text=True, timeout=100, check=False)

    assert (done.stdout, done.returncode) == ("[42]\n", 0), done.stderr[-2000:]


@pytest.mark.parametrize(
    ("most", "now", "expected"),
    [("100", "20", 60), ("max", "20", 3000), ("8", "8", 1), ("20000", "10", 3000)],
)
def test_a_quarter_of_what_a_container_has_left_is_kept(most: str, now: str, expected: int, tmp_path: Path) -> None:
    proc, cgroups = _machine(tmp_path, own="0::/box")
    (cgroups / "box").mkdir()
    (cgroups / "box" / "pids.max").write_text(most)
    (cgroups / "box" / "pids.current").write_text(now)

    assert most_processes(proc, cgroups) == expected


def test_a_limit_of_the_older_kind_and_further_up_counts_too(tmp_path: Path) -> None:
    proc, cgroups = _machine(tmp_path, own="7:cpu:/\n5:pids:/outer/inner\n0::/")
    (cgroups / "pids" / "outer" / "inner").mkdir(parents=True)
    (cgroups / "pids" / "outer" / "pids.max").write_text("400")

    assert most_processes(proc, cgroups) == 300


def _machine(folder: Path, *, own: str) -> tuple[Path, Path]:
    proc, cgroups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "sys" / "kernel").mkdir(parents=True)
    cgroups.mkdir()
    (proc / "self" / "cgroup").write_text(own)
    (proc / "sys" / "kernel" / "pid_max").write_text("4000")
    return proc, cgroups


@pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK, NONE], ids=lambda tier: tier.name)
async def test_where_memory_runs_out_guests_are_ended_before_their_zygote_and_that_before_the_host(tier: Tier) -> None:
    async with guest(tier) as one:
        pid = pid_of(one._pidfd)
        zygote = int(re.findall(r"^PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[0])
        scores = [int(Path(f"/proc/{process}/oom_score_adj").read_text()) for process in (pid, zygote)]

    assert scores == [1000, 500]
