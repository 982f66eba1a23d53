"""What bash programs cannot do: the attacks of `tests/escapes` by a `python3` that bash starts, and those of bash itself.

The control of a Python attack is that of `tests/test_escapes.py`: the same text reaches its aim without the layer. The
control of a bash attack is plain bash outside, in a folder of its own.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests import test_escapes
from tests.escapes_support.attack import FOLDER, Attack, load_attacks
from tests.escapes_support.bait import Bait
from tests.escapes_support.real_host import run_on_engine
from tests.escapes_support.seen import GRANTED, Seen
from toolfold.engines.base import Ended, Order
from toolfold.engines.process import ProcessEngine
from toolfold.engines.process.zygote_launch import NAMESPACE
from toolfold.errors import EngineUnavailable
from toolfold.models import Limits, Program

pytestmark = pytest.mark.asyncio(loop_scope="module")

ATTACKS = [attack for attack in load_attacks() if attack.kind != "protocol"]
"""Those on the protocol write to the guest's socket, which no process of a bash program has."""
PROCESSES = "a bash program starts processes; they end with it"
ALLOWED = {
    "files_dev": "/dev has links to the program's own streams besides",
    "files_proc_maps": "/proc shows the program's own processes",
    "files_site_packages_write": "the module `tools` lies in a folder of the program's own, first on the path",
    "kernel_arch_prctl": "every C library sets up its threads with it; all else is refused as unknown, with EINVAL",
    "look_processes": "it finds the program's own processes",
    "process_clone_high_bits": PROCESSES,
    "process_clone_raw": PROCESSES,
    "process_dumpable": "the kernel resets it with each `execve`; of the supervisor, see the attacks on the first process",
    "process_fork": PROCESSES,
    "process_fork_raw": PROCESSES,
    "process_posix_spawn": PROCESSES,
    "process_setsid": PROCESSES,
}
_, *PARTS = re.split(r"^### (.+)\n", (FOLDER / "shell" / "attacks.txt").read_text("utf-8"), flags=re.MULTILINE)
OWN_ATTACKS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))
LIMITS = Limits(
    wall_seconds=20, cpu_seconds=2, memory_bytes=200 << 20, data_bytes=8 << 20, temp_bytes=8 << 20, data_files=300
)
BRIEF = replace(LIMITS, wall_seconds=3, cpu_seconds=60)
"""For what ends with the clock alone."""
LIMITED = {
    "starts more processes than it may": "wall_clock",  # bash tries again for a long time
    "takes memory over several processes": "memory",
    "takes memory in processes whose first thread has ended": "memory",
    "takes memory in the buffers of sockets": "memory",
    "burns processor time in children that nobody waits for": "cpu",
}
"""Attacks that a limit of the whole program ends, by its kind."""
TOOLS = tuple(tool for tool in GRANTED if tool.name != "echo")
"""The attacks say what they reach with bash's own."""
STARTED = "ATTACK-BEGINS"
MARK = b"left-by-an-attack"
NEEDS_X86 = "runs a binary of its own that asks for a socket"


class Shells:
    """An engine with bait around it."""

    def __init__(self, engine: ProcessEngine, bait: Bait) -> None:
        self.engine = engine
        self.bait = bait

    @staticmethod
    def order(text: str, limits: Limits = LIMITS) -> Order:
        return Order(program=Program(text=text, language="bash"), tools=TOOLS, limits=limits)

    async def run(self, text: str, limits: Limits = LIMITS) -> Seen:
        seen = await run_on_engine(self.engine, self.order(text, limits))
        seen.bait = self.bait
        return seen

    async def python(self, text: str, attack: Attack) -> Seen:
        whole = f"{self.bait.prelude(is_control=False)}\nprint({STARTED!r}, flush=True)\n{text}"
        limits = Limits(wall_seconds=attack.wall_seconds + 1, **attack.limits)
        return await self.run(f"python3 /dev/stdin <<'END-OF-ATTACK'\n{whole}\nEND-OF-ATTACK\n", limits)

    def variables(self, **places: str) -> str:
        scope: dict[str, object] = {}
        constants = self.bait.prelude(is_control=False).partition('"""')[0]
        exec(constants, scope)
        names = ("HOST_PID", "SECRET_FILE", "WITNESS_FILE", "TCP_PORT", "UDP_PORT")
        values = {**{name: str(scope[name]) for name in names}, **places}
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())

    def reached(self, printed: str) -> bool:
        touched = self.bait.victim_is_hurt or self.bait.witness_is_touched
        return touched or "REACHED" in printed.split() or self.bait.secret in printed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shells() -> AsyncIterator[Shells]:
    engine = ProcessEngine(isolation=NAMESPACE, limits=Limits(), warm=0)
    with Bait() as bait:
        async with engine:
            shells = Shells(engine, bait)
            try:
                # Now: a zygote that starts in the middle of an attack would be taken for a process that it left.
                async with engine.open(shells.order("true")) as run:
                    assert [type(event) async for event in run] == [Ended]
            except EngineUnavailable as error:
                pytest.skip(str(error))
            yield shells


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_an_attack_in_python_is_held_in_a_bash_program(attack: Attack, shells: Shells) -> None:
    shells.bait.refresh()
    before = await shells.python(attack.before, attack) if attack.before else Seen()
    seen = await shells.python(attack.text, attack)
    if STARTED not in seen.printed:
        seen = await shells.python(attack.text, attack.slowly)
    seen.printed_before = before.printed

    assert STARTED in seen.printed
    assert (seen.reaches(attack), seen.error, seen.is_alive) == (attack.name in ALLOWED, "", False), seen.printed[-500:]


async def test_each_python_attack_has_its_control() -> None:
    controlled = {attack.name for attack in test_escapes.ATTACKS}

    assert {attack.name for attack in ATTACKS} - controlled == set()
    assert set(ALLOWED) - controlled == set()


@pytest.mark.parametrize("name", OWN_ATTACKS)
async def test_an_attack_in_bash_is_held(name: str, shells: Shells) -> None:
    shells.bait.refresh()
    places = shells.variables(
        DATA="/mnt/data", TEMP="/tmp", ROOT="/", COMMANDS="/usr/bin", COMMAND="/usr/bin/true", OTHER="1", IS_CONTROL=""
    )

    limits = BRIEF if LIMITED.get(name) == "wall_clock" else LIMITS
    seen = await shells.run(f"{places}echo {STARTED}\n{OWN_ATTACKS[name]}", limits)
    after = await shells.run("true && echo as before")

    assert STARTED in seen.printed
    assert (shells.reached(seen.printed), seen.error, seen.is_alive) == (False, "", False), seen.printed[-500:]
    assert (seen.problem if seen.status in ("limit", "timeout") else "") == LIMITED.get(name, "")
    assert left_behind() == set()
    assert (after.status, after.printed) == ("finished", "as before\n")


@pytest.mark.parametrize("name", OWN_ATTACKS)
async def test_outside_the_attack_in_bash_reaches_its_aim(
    name: str, shells: Shells, tmp_path: Path, unproven: list[str]
) -> None:
    if name == NEEDS_X86 and platform.machine() != "x86_64":
        unproven.append(f"{name}: the binary is one for x86-64")
        return
    shells.bait.refresh()
    command = tmp_path / "bin" / "true"
    command.parent.mkdir()
    shutil.copy("/usr/bin/true", command)
    command.chmod(0o4755)
    folder = str(tmp_path)
    with subprocess.Popen(["/bin/sh", "-c", "read line; :"], stdin=subprocess.PIPE) as other:
        places = shells.variables(
            DATA=folder, TEMP=folder, ROOT=folder, COMMANDS=str(command.parent), COMMAND=str(command),
            OTHER=str(other.pid), IS_CONTROL="1",
        )  # fmt: skip
        printed = _outside(places + OWN_ATTACKS[name], tmp_path)
        if not Path(f"/proc/{other.pid}").is_dir() or other.poll() is not None:
            printed += "REACHED\n"
        other.kill()

    left = left_behind()
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert shells.reached(printed) or left, printed[-500:]


def _outside(text: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    process = subprocess.run(
        ["bash", "-c", text], check=False, cwd=folder, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100,
    )  # fmt: skip
    return process.stdout.decode("utf-8", "replace")


def left_behind() -> set[int]:
    """Processes of the attack that leaves some."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == MARK:
            found.add(int(path.parent.name))
    return found


async def test_forged_calls_are_dropped_and_one_of_the_right_shape_is_served(shells: Shells) -> None:
    text = """
cd /tmp/.toolfold
printf '{}' > arguments.0
printf '0 1 1 wipe\\n? 1 1 note\\n00 1 1 note\\n\\n0\\n0 1 1\\n0 1 1 note 1\\n \\xff\\xfe\\n1 1 1 note\\n' > calls
head -c 1000000 /dev/zero | tr '\\0' x > calls; echo > calls
mkdir arguments.2; printf '2 1 1 note\\n' > calls
printf '{"a": NaN}' > arguments.3; printf '3 1 1 note\\n' > calls
printf '{"a": "\\\\ud800"}' > arguments.4; printf '4 1 1 note\\n' > calls
head -c 100000 /dev/zero | tr '\\0' '[' > arguments.5; printf '5 1 1 note\\n' > calls
read -r -N 1 status < reply.5
printf '0 1 999999999999 blob\\n0 1 -1 blob\\n0 1 7 blob\\n' > calls
read -r -N 3 status < reply.0
echo served
"""

    seen = await shells.run(text)

    assert (seen.status, seen.printed, seen.error) == ("finished", "served\n", "")
    assert ([tool for _, tool in seen.served], seen.lines) == (["blob"] * 3, [0, 0, 7])


async def test_a_program_that_removes_the_folder_of_its_calls_harms_only_itself(shells: Shells) -> None:
    seen = await shells.run("note '{}'; rm -rf /tmp/.toolfold; note '{}' 2>/dev/null; echo status $?")
    after = await shells.run("note '{}'")

    assert (seen.status, seen.printed, len(seen.served)) == ("finished", "null\nstatus 1\n", 1)
    assert (after.status, after.printed, len(after.served)) == ("finished", "null\n", 1)


async def test_calls_without_end_stop_at_their_limit(shells: Shells) -> None:
    seen = await shells.run("printf '{}' > /tmp/.toolfold/arguments.0; yes '0 1 1 note' > /tmp/.toolfold/calls", BRIEF)

    assert (seen.status in ("limit", "timeout"), seen.error, seen.is_alive) == (True, "", False)


async def test_output_without_end_is_cut(shells: Shells) -> None:
    seen = await shells.run("yes & yes >&2 & head -c 100000000 /dev/zero; wait", BRIEF)

    assert (seen.status, seen.error, seen.is_alive) == ("timeout", "", False)
    assert len(seen.printed) < 20_000_000
