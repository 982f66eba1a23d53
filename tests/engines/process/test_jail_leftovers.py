"""Nothing stays: no process, no descriptor, no mount, no folder, whoever dies first."""

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import toolfold_guest
from tests.mounts import mounts
from toolfold.engines.process.doctor import PROBE
from toolfold.engines.process.zygote import Zygote
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, LaunchPlan, Tier, tier_named
from toolfold.errors import EngineCrashed

both_tiers = pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK], ids=lambda tier: tier.name)
SOURCE = os.fspath(Path(toolfold_guest.__file__).parents[1])
PACKAGES = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
HOST = """
import asyncio, sys
from toolfold.engines.process.zygote_launch import LaunchPlan, tier_named
from toolfold.engines.process.zygote import Zygote

async def main():
    tier = tier_named(sys.argv[1])
    zygote = await Zygote.start(LaunchPlan(tier=tier, loop_module="toolfold_guest.jail.probe_program"))
    guests = zygote.spawn_many(5)
    await asyncio.gather(*[guest.ready for guest in guests])
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def descendants(process: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # ended meanwhile
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def have_ended(pidfds: list[int], seconds: float = 60) -> bool:
    poll = select.poll()
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    left = set(pidfds)
    while left:
        ended = poll.poll(seconds * 1000)
        if not ended:
            break
        for pidfd, _ in ended:
            poll.unregister(pidfd)
            left.discard(pidfd)
    for pidfd in pidfds:
        os.close(pidfd)
    return not left


@pytest.fixture(autouse=True)
def _own_temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may run beside these and have folders of their own."""
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))


def folders() -> list[str]:
    return os.listdir(tempfile.gettempdir())


async def state_at_rest() -> tuple[set[str], list[int], list[str], list[str]]:
    await asyncio.to_thread(lambda: None)  # the loop's thread and its descriptors are not ours
    gc.collect()  # what earlier tests dropped holds descriptors until it is collected, which may be at any moment
    return state()


def state() -> tuple[set[str], list[int], list[str], list[str]]:
    own = Path(tempfile.gettempdir())
    return set(os.listdir("/proc/self/fd")), descendants(os.getpid()), mounts(own), folders()


async def start(tier: Tier) -> Zygote:
    return await Zygote.start(LaunchPlan(tier=tier, loop_module=PROBE))


@pytest.mark.long
@both_tiers
async def test_a_hundred_guests_leave_nothing(tier: Tier) -> None:
    before = await state_at_rest()

    zygote = await start(tier)
    for _ in range(25):
        guests = zygote.spawn_many(4)
        await asyncio.gather(*[guest.ready for guest in guests])
        for guest in guests:
            guest.close()
            guest.close()
    statuses = [await guest.wait() for guest in guests]
    await zygote.close()

    assert statuses == [-signal.SIGKILL] * 4
    assert state() == before


@both_tiers
async def test_guests_closed_before_they_were_ready_leave_nothing(tier: Tier) -> None:
    before = await state_at_rest()

    zygote = await start(tier)
    guests = zygote.spawn_many(8)
    for guest in guests:
        guest.close()
    for guest in guests:
        await guest.wait()
        with pytest.raises(EngineCrashed):
            await guest.ready
    async with asyncio.timeout(60):
        while len(descendants(zygote.pid)) > 1:  # the zygote itself; what removes folders ends soon
            await asyncio.sleep(0.01)
    await zygote.close()

    assert state() == before


@both_tiers
async def test_guests_die_with_a_zygote_that_is_killed(tier: Tier) -> None:
    zygote = await start(tier)
    guests = zygote.spawn_many(3)
    await asyncio.gather(*[guest.ready for guest in guests])
    pidfds = [os.pidfd_open(process) for process in [zygote.pid, *descendants(zygote.pid)]]
    server = descendants(zygote.pid)[0]

    os.kill(server, signal.SIGKILL)
    statuses = [await guest.wait() for guest in guests]

    assert (statuses, zygote.closed, have_ended(pidfds)) == ([-signal.SIGKILL] * 3, True, True)
    for guest in guests:
        guest.close()
    await zygote.close()


@both_tiers
async def test_all_die_with_the_builder_of_the_jail(tier: Tier) -> None:
    before = folders()
    zygote = await start(tier)
    guest = zygote.spawn()
    await guest.ready
    pidfds = [os.pidfd_open(process) for process in descendants(zygote.pid)]

    os.kill(zygote.pid, signal.SIGKILL)

    assert (await guest.wait(), have_ended(pidfds)) == (-signal.SIGKILL, True)
    guest.close()
    await zygote.close()
    assert folders() == before


@pytest.mark.parametrize("name", ["namespace", "landlock", "none"])
def test_nothing_stays_after_a_kill_of_the_host(name: str) -> None:
    before = folders()
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, tier_named(name).name],
        env={**os.environ, "TMPDIR": tempfile.gettempdir(), "PYTHONPATH": os.pathsep.join([SOURCE, *PACKAGES])},
        stdout=subprocess.PIPE,
    )
    assert host.stdout is not None
    with host, host.stdout:
        assert host.stdout.readline() == b"ready\n"
        processes = descendants(host.pid)
        pidfds = [os.pidfd_open(process) for process in processes]

        host.kill()
        host.wait()

    assert len(processes) == 7  # builder, zygote, five guests
    assert have_ended(pidfds)
    assert folders() == before
