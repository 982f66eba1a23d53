"""Cgroups of bash programs: what the kernel counts for all processes together, what they see of it, and what is left."""

import glob
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.test_leftovers import settles
from toolfold import Limits, Outcome, Problem, Runtime, tool
from toolfold.engines.process import cgroup
from toolfold.engines.process.cgroup import CgroupMaker

MIB = 1 << 20
SMALL = replace(Limits(), memory_bytes=96 * MIB, data_bytes=400 * MIB, temp_bytes=400 * MIB)
AMPLE = replace(SMALL, memory_bytes=2048 * MIB)
FORKS = """
import mmap, os, socket, time
def in_processes(count, work):
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            kept = work()
            time.sleep(0.5)
            os._exit(0)
        children.append(child)
    if [os.waitpid(child, 0)[1] for child in children] == [0] * count:
        print("REACHED")
"""
PROCESSES = "in_processes(4, lambda: bytearray(os.urandom(1)) * (40 << 20))"
SOCKETS = """
def fill():
    pairs = [socket.socketpair() for _ in range(100)]
    for end in (end for pair in pairs for end in pair):
        end.setblocking(False)
        try:
            while True:
                end.send(bytes(65536))
        except BlockingIOError:
            pass
    return pairs
in_processes(8, fill)"""
KERNEL_ONLY = {
    "files": "open('/mnt/data/large', 'wb').write(bytes(150 << 20)); in_processes(1, int)",
    "temporary files": "open('/tmp/large', 'wb').write(bytes(150 << 20)); in_processes(1, int)",
    "shared memory": """
def share():
    with open("/mnt/data/shared", "w+b") as file:
        file.truncate(150 << 20)
        block = mmap.mmap(file.fileno(), 0)
    for place in range(0, len(block), 4096):
        block[place] = 1
    return block
in_processes(1, share)""",
    "page tables": """
def read_zeros():
    block = mmap.mmap(-1, 1000 << 20, flags=mmap.MAP_PRIVATE)
    block.madvise(mmap.MADV_NOHUGEPAGE)
    return [block[place] for place in range(0, len(block), 2 << 20)], block
in_processes(55, read_zeros)""",
}
"""What no sum over processes has."""


@pytest.fixture
def maker(unproven: list[str]) -> CgroupMaker:
    maker = CgroupMaker()
    if maker.refusal:
        unproven.append(f"memory of bash programs in a cgroup: {maker.refusal}")
        pytest.skip(maker.refusal)
    return maker


@pytest.fixture
def without_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise cgroup.CgroupUnavailable("as on most machines")

    monkeypatch.setattr(cgroup, "_own_folder", refuse)


async def run(text: str, limits: Limits) -> Outcome:
    async with Runtime((), engine="process") as runtime:
        return await runtime.run(text, language="bash", limits=limits)


def in_python(text: str) -> str:
    return f"python3 - <<'END'\n{FORKS}{text}\nEND"


async def both_ends(text: str) -> tuple[tuple[str, str], Problem | None]:
    """How it ends with ample memory, and why with little."""
    async with Runtime((), engine="process") as runtime:
        control = await runtime.run(in_python(text), language="bash", limits=AMPLE)
        outcome = await runtime.run(in_python(text), language="bash", limits=SMALL)
    return (control.status, control.stdout), outcome.problem


OVER = Problem(kind="memory", message="the program's processes used more than 96 MiB of memory")


@pytest.mark.long
@pytest.mark.parametrize(
    "text", [PROCESSES, SOCKETS, *KERNEL_ONLY.values()], ids=["processes", "sockets", *KERNEL_ONLY]
)
async def test_in_a_cgroup_all_memory_counts(text: str, maker: CgroupMaker) -> None:
    assert await both_ends(text) == (("finished", "REACHED\n"), OVER)


@pytest.mark.long
@pytest.mark.usefixtures("without_cgroups")
@pytest.mark.parametrize("text", [PROCESSES, SOCKETS], ids=["processes", "sockets"])
async def test_without_a_cgroup_the_host_adds_memory_up_with_the_same_end(text: str) -> None:
    assert await both_ends(text) == (("finished", "REACHED\n"), OVER)


async def test_a_child_that_the_kernel_ends_for_memory_ends_a_program_that_goes_on(maker: CgroupMaker) -> None:
    little = replace(SMALL, memory_bytes=24 * MIB)
    async with Runtime((), engine="process") as runtime:
        # Each may also be seen to be over its memory before it has ended.
        outcomes = [
            await runtime.run("head -c 100M /dev/zero | tail -n 1; :", language="bash", limits=little) for _ in range(8)
        ]

    problem = Problem(kind="memory", message="the program's processes used more than 24 MiB of memory")
    assert {(outcome.status, outcome.problem) for outcome in outcomes} == {("limit", problem)}


async def test_a_program_sees_the_root_of_its_cgroup_and_nothing_of_the_tree_of_them(maker: CgroupMaker) -> None:
    outside: list[str] = []

    @tool(read_only=True)
    async def look() -> None:
        """Note where the host sees the processes of the program."""
        outside.extend(folder for folder in own_cgroups() if len(processes(folder)) > 1)

    async with Runtime([look], engine="process") as runtime:
        outcome = await runtime.run(
            """
look '{}' > /dev/null
cat /proc/self/cgroup /proc/1/cgroup | cut -d: -f3 | sort -u
find / -name cgroup.procs -o -name 'memory.max*' -o -name 'memory.limit*' 2> /dev/null
python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
NEWCGROUP = 0x02000000
def attempt(result):
    print(result, ctypes.get_errno())
attempt(libc.unshare(NEWCGROUP))
attempt(libc.mount(b"x", b"/tmp", b"cgroup2", 0, None))
attempt(libc.mount(b"x", b"/tmp", b"cgroup", 0, b"memory"))
END
""",
            language="bash",
        )

    assert (outcome.status, outcome.stdout) == ("finished", "/\n" + "-1 1\n" * 3)
    assert len(outside) == 1


async def test_each_program_has_a_cgroup_of_its_own_and_none_is_left(maker: CgroupMaker) -> None:
    async with Runtime((), engine="process") as runtime:
        used = set[str]()
        for _ in range(5):
            await runtime.run("true", language="bash")
            used |= set(own_cgroups())
        assert await settles(lambda: [bool(processes(folder)) for folder in own_cgroups()] == [True, True])

    assert len(used) >= 5
    assert own_cgroups() == []


HOST = """
import asyncio
from toolfold import Runtime

async def main():
    async with Runtime((), engine="process") as runtime:
        running = asyncio.create_task(runtime.run("sleep 100", language="bash"))
        await runtime.run("true", language="bash")
        print("ready", flush=True)
        await running

asyncio.run(main())
"""


@pytest.mark.long
async def test_what_a_killed_host_leaves_goes_with_the_next_start_and_that_of_others_stays(maker: CgroupMaker) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    hosts = [subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, env=environment) for _ in range(2)]
    try:
        for host in hosts:
            assert host.stdout is not None
            assert host.stdout.readline() == b"ready\n"
        hosts[0].send_signal(signal.SIGKILL)
        hosts[0].wait()
        left = cgroups_of(hosts[0].pid)
        # That of the program that has ended may still go.
        assert await settles(lambda: sleepers(hosts[1].pid) != [])
        others = sleepers(hosts[1].pid)
        assert await settles(lambda: not any(map(processes, left)))

        outcome = await run("echo as before", SMALL)

        assert (left != [], others != [], outcome.stdout) == (True, True, "as before\n")
        assert cgroups_of(hosts[0].pid) == []
        assert set(others) <= set(cgroups_of(hosts[1].pid))
    finally:
        for host in hosts:
            host.kill()
            host.communicate()
    assert await settles(lambda: not any(map(processes, others)))
    assert (CgroupMaker().refusal, cgroups_of(hosts[1].pid)) == ("", [])


def own_cgroups() -> list[str]:
    return cgroups_of(os.getpid())


def cgroups_of(pid: int) -> list[str]:
    return glob.glob(f"/sys/fs/cgroup/**/toolfold-{pid}-*", recursive=True)


def sleepers(pid: int) -> list[str]:
    return [folder for folder in cgroups_of(pid) if "sleep\n" in map(comm, processes(folder))]


def comm(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def processes(folder: str) -> list[str]:
    try:
        return Path(folder, "cgroup.procs").read_text().split()
    except OSError:
        return []


# The two hierarchies, as files. Of the second kind this machine may have none.


def hierarchy(folder: Path, *, paths: str, mounts: str, files: dict[str, str]) -> CgroupMaker:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(paths)
    (folder / "proc/self/mountinfo").write_text(mounts.format(folder=folder))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return CgroupMaker(folder / "proc")


V2 = "30 24 0:26 / {folder}/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 24 0:27 /docker/1 {folder}/memory rw - cgroup cgroup rw,memory\n"
PROCS = f"{os.getpid()}\n"
BOX = {"cgroup/box/cgroup.procs": PROCS, "cgroup/box/cgroup.controllers": "cpu memory pids\n"}
ENABLED = {**BOX, "cgroup/box/cgroup.subtree_control": "memory pids\n"}
NOT_MOUNTED = "the cgroup of this process is not mounted"


@pytest.mark.parametrize(
    ("paths", "mounts", "files", "refusal"),
    [
        ("0::/box\n", V2, ENABLED, ""),
        ("4:memory:/docker/1\n0::/\n", V1 + V2, {"memory/cgroup.procs": PROCS}, ""),
        ("4:memory:/docker/2\n0::/\n", V1 + V2, {"memory/cgroup.procs": "1\n"}, NOT_MOUNTED),
        ("0::/box\n", "", {}, NOT_MOUNTED),
        ("0::/box\n", V2, {"cgroup/box/cgroup.procs": "1\n"}, NOT_MOUNTED),
        (
            "0::/box\n", V2, {**BOX, "cgroup/box/cgroup.controllers": "cpu pids\n"},
            "the cgroup of this process has no memory controller",
        ),
        ("0::/box\n", V2, BOX, "the cgroup of this process cannot be divided: No such file or directory"),
    ],
)  # fmt: skip
def test_a_cgroup_is_found_in_either_hierarchy_or_the_reason_told(
    paths: str, mounts: str, files: dict[str, str], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "_SYSTEMD", tmp_path / "none")

    assert hierarchy(tmp_path, paths=paths, mounts=mounts, files=files).refusal == refusal


def test_a_cgroup_that_systemd_has_not_delegated_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "_SYSTEMD", tmp_path)

    made = hierarchy(tmp_path, paths="0::/box\n", mounts=V2, files=ENABLED)

    assert made.refusal == "systemd has not delegated the cgroup of this process; set Delegate=yes in its unit"
