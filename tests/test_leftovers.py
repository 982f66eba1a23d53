"""Nothing stays behind: no guest, no zombie, no descriptor, no mount, no folder."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import toolfold
from tests.escapes_support.seen import descendants, open_descriptors
from tests.mounts import mounts
from toolfold.errors import EngineUnavailable
from toolfold.runtime import Runtime

SETTLE_SECONDS = 60.0
WARM = 2
TIERS = ("namespace", "landlock")

pytestmark = pytest.mark.usefixtures("own_temp")

in_each_tier = pytest.mark.parametrize("isolation", TIERS)


@toolfold.tool
async def never() -> None:
    """Does not answer."""
    await asyncio.Event().wait()


@pytest.fixture
def own_temp(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A temporary folder of this test's own: other tests may run beside it."""
    with tempfile.TemporaryDirectory(prefix="leftovers-") as folder:
        os.chmod(folder, 0o755)
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        monkeypatch.undo()


@dataclass(frozen=True)
class Traces:
    """All that a program could leave on the host."""

    processes: frozenset[int]
    descriptors: int
    mounts: tuple[str, ...]
    folders: frozenset[str]

    @classmethod
    async def at_rest(cls) -> Traces:
        """Before a test has done anything."""
        await asyncio.to_thread(int)  # the event loop's own thread and descriptors count as there before
        gc.collect()  # what earlier tests dropped holds descriptors until it is collected, which may be at any moment
        return cls.now()

    @classmethod
    def now(cls) -> Traces:
        return cls(
            processes=frozenset(descendants(os.getpid())),
            descriptors=open_descriptors(),
            mounts=tuple(mounts(Path(tempfile.gettempdir()))),
            folders=frozenset(path.name for path in Path(tempfile.gettempdir()).iterdir()),
        )


@contextlib.asynccontextmanager
async def running(isolation: str, unproven: list[str]) -> AsyncIterator[Runtime]:
    runtime = Runtime([never], engine="process", engine_options={"isolation": isolation, "warm": WARM})
    try:
        await runtime.__aenter__()
    except EngineUnavailable as error:
        unproven.append(f"leftovers in tier {isolation!r}: {error}")
        pytest.skip(str(error))
    try:
        yield runtime
    finally:
        await runtime.__aexit__()


async def settles(claim: Callable[[], bool]) -> bool:
    """Whether it comes true soon: the kernel takes a moment to end a process."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not claim():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def idle(runtime: Runtime) -> Traces:
    """What a runtime holds once its pool is full and nothing runs."""
    await runtime.run("1")
    # The builder of the jail, the zygote, and the guests that wait.
    assert await settles(lambda: len(descendants(os.getpid())) >= 2 + WARM)
    # A guest that ends counts until it is gone, and the one in its place is not there yet: nothing tells from outside.
    seen = [Traces.now()]
    while len(seen) < 40 or len(set(seen[-40:])) > 1:
        await asyncio.sleep(0.02)
        seen.append(Traces.now())
    return seen[-1]


async def left_over(before: Traces) -> Traces:
    """What there is that was not there before; empty fields are as they should be."""
    await settles(lambda: Traces.now() == before)
    now = Traces.now()
    return Traces(
        processes=now.processes - before.processes,
        descriptors=now.descriptors - before.descriptors,
        mounts=() if now.mounts == before.mounts else now.mounts,
        folders=now.folders - before.folders,
    )


NOTHING = Traces(processes=frozenset(), descriptors=0, mounts=(), folders=frozenset())


@pytest.mark.long
@in_each_tier
async def test_a_thousand_programs_leave_nothing(isolation: str, unproven: list[str]) -> None:
    text = "import tempfile\nopen('made', 'w').close()\ntempfile.mkstemp()\n"
    before = await Traces.at_rest()

    async with running(isolation, unproven) as runtime:
        while_idle = await idle(runtime)
        for _ in range(250):
            outcomes = await asyncio.gather(*(runtime.run(text) for _ in range(4)))
            assert {outcome.status for outcome in outcomes} == {"finished"}
        assert await settles(lambda: len(descendants(os.getpid())) == len(while_idle.processes))
        assert await settles(lambda: open_descriptors() == while_idle.descriptors)

    assert await left_over(before) == NOTHING


@pytest.mark.long
@in_each_tier
async def test_a_hundred_programs_cancelled_in_the_middle_of_a_call_leave_nothing(
    isolation: str, unproven: list[str]
) -> None:
    before = await Traces.at_rest()

    async with running(isolation, unproven) as runtime:
        while_idle = await idle(runtime)
        for _ in range(10):
            tasks = [asyncio.create_task(runtime.run("await never()")) for _ in range(10)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(end) for end in ends} == {asyncio.CancelledError}
        assert await settles(lambda: len(descendants(os.getpid())) == len(while_idle.processes))
        assert await settles(lambda: open_descriptors() == while_idle.descriptors)

    assert await left_over(before) == NOTHING


@in_each_tier
async def test_leaving_the_runtime_ends_programs_that_still_run(isolation: str, unproven: list[str]) -> None:
    before = await Traces.at_rest()

    async with running(isolation, unproven) as runtime:
        tasks = [asyncio.create_task(runtime.run("while True:\n    pass")) for _ in range(3)]
        await asyncio.sleep(0.2)
    ends = await asyncio.gather(*tasks, return_exceptions=True)

    assert len(ends) == 3
    assert await left_over(before) == NOTHING


HOST = """
import asyncio, sys
import toolfold
from toolfold.runtime import Runtime

begun = asyncio.Semaphore(0)

@toolfold.tool
async def begin():
    "Tells that the program runs."
    begun.release()

async def main():
    async with Runtime([begin], engine="process", engine_options={"isolation": sys.argv[1]}) as runtime:
        programs = ["while True:\\n    pass", "import time\\ntime.sleep(1000)", "await asyncio.sleep(1000)"]
        programs.append("import os, time\\nos.close(3)\\ntime.sleep(1000)")
        tasks = [asyncio.create_task(runtime.run("await begin()\\n" + text)) for text in programs]
        for _ in tasks:
            await begun.acquire()
        print("ready", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.long
@in_each_tier
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_host_that_is_killed_leaves_nothing(
    isolation: str, number: signal.Signals, unproven: list[str]
) -> None:
    async with running(isolation, unproven):
        pass  # skips where this tier is not available
    before = await Traces.at_rest()
    source = os.pathsep.join(sys.path)
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, isolation], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": source}
    )
    assert host.stdout is not None
    with host, host.stdout:
        assert host.stdout.readline() == b"ready\n"
        family = descendants(host.pid)

        host.send_signal(number)
        host.wait()

    assert len(family) >= 2 + 3
    assert await settles(lambda: not any(_is_alive(pid) for pid in family))
    assert await left_over(before) == NOTHING


async def test_a_zygote_that_dies_takes_its_guests_along_and_the_next_program_gets_a_new_one(
    unproven: list[str],
) -> None:
    before = await Traces.at_rest()

    async with running("namespace", unproven) as runtime:
        family = (await idle(runtime)).processes - before.processes
        for pid in sorted(family):  # the zygote first: it must not live to tell how its guests ended
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        outcome = await _until_it_works(lambda: runtime.run("print(1)"))

    assert outcome.stdout == "1\n"
    assert await left_over(before) == NOTHING


async def _until_it_works(attempt: Callable[[], Awaitable[toolfold.Outcome]]) -> toolfold.Outcome:
    for _ in range(WARM):  # each may be given one of the guests that waited, before anybody noticed
        with contextlib.suppress(toolfold.EngineError):
            outcome = await attempt()
            if outcome.status == "finished":
                return outcome
    return await attempt()


def _is_alive(pid: int) -> bool:
    """A zombie counts too, unless it is whoever adopts orphans here that does not wait for it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" or int(fields[1]) != 1
