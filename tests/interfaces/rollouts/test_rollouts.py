"""Rollouts: N environments, M turns, one batch of programs; the same seed gives the same transcripts."""

import asyncio
import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import toolfold
from tests.engines.process.test_jail_leftovers import descendants, have_ended
from tests.interfaces.rollouts.trainer import ENVIRONMENTS
from tests.mounts import mounts
from toolfold import EngineCrashed, File, Outcome, Runtime, UsageError
from toolfold.engines.base import Died
from toolfold.engines.scripted import ScriptedEngine
from toolfold.rollouts import Episode, Situation, Step, Task, roll_out
from toolfold.runtime import RuntimeSettings
from toolfold.sessions import SessionLimits
from toolfold.sessions.stores import MemoryStore

DRAWS = """
import datetime, os, random, uuid
from pathlib import Path
log = Path("log.txt")
log.write_text((log.read_text() if log.exists() else "") + f"{random.randint(0, 99)} ")
names = {"a", "b", "c", "d", "e"}
doubled = await double(x=random.randint(0, 9))
print(log.read_text(), datetime.datetime.now(), uuid.uuid4(), os.urandom(2).hex(), *names)
doubled
"""


@toolfold.tool
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


def go_on(outcome: Outcome) -> float | None:
    return None


async def always(situation: Situation) -> str:
    return f"# {situation.seed}\n{DRAWS}"


async def rolled(*environments: Any, policy: Any = always, **options: Any) -> list[Episode]:
    engine = options.pop("engine", "process")
    given = {"turns": 3, "seed": 7, **options}
    async with Runtime([double], engine=engine, session_files=(store := MemoryStore())) as runtime:
        found = [one async for one in roll_out(runtime, environments, policy, **given)]
    assert store.ages() == {}
    return sorted(found, key=lambda one: one.environment)


async def test_the_same_seed_gives_the_same_transcripts_and_another_gives_others() -> None:
    tasks = [Task(prompt="draw", judge=go_on) for _ in range(6)]

    first = await rolled(*tasks, in_flight=6)
    second = await rolled(*tasks, in_flight=1)
    other = await rolled(*tasks, seed=8)

    transcripts = [one.transcript() for one in first]
    assert {turn.outcome.status for one in first for turn in one.turns} == {"finished"}
    assert transcripts == [one.transcript() for one in second]
    assert len({str(one) for one in transcripts}) == 6  # no environment draws what another does
    assert not any(one.transcript() == two.transcript() for one, two in zip(first, other, strict=True))


async def test_files_and_clocks_go_on_from_turn_to_turn() -> None:
    text = "from pathlib import Path\nimport time\nPath('n').write_text(str(int(Path('n').read_text()) + 1))\n"

    async def policy(situation: Situation) -> str:
        return f"{text}[int(Path('n').read_text()), time.time()]"

    [one] = await rolled(Task(prompt="", judge=go_on, files=[File(name="n", data=b"5")]), policy=policy, clock=100.0)

    assert [turn.outcome.value for turn in one.turns] == [[6, 100.000001], [7, 160.000001], [8, 220.000001]]


async def test_an_episode_ends_with_its_judge_or_with_its_turns() -> None:
    def judge(outcome: Outcome) -> float | None:
        return 1.0 if outcome.value == 2 else None

    async def policy(situation: Situation) -> str:
        return "1 / 0" if not situation.turns else f"{situation.environment + len(situation.turns)}"

    found = await rolled(*[Task(prompt="two", judge=judge)] * 3, policy=policy)

    assert [(one.is_done, one.reward, [turn.outcome.value for turn in one.turns]) for one in found] == [
        (True, 1.0, [None, 1, 2]),
        (True, 1.0, [None, 2]),
        (False, 0.0, [None, 3, 4]),
    ]
    assert found[0].first_observation == "two"
    assert found[0].turns[0].observation.endswith("ZeroDivisionError: division by zero")


async def test_names_live_on_where_they_are_kept() -> None:
    async def policy(situation: Situation) -> str:
        return "count = 1" if not situation.turns else "count += 1\ncount"

    [one] = await rolled(Task(prompt="", judge=go_on), policy=policy, keep_names=True)

    assert [turn.outcome.value for turn in one.turns] == [None, 2, 3]


async def test_it_runs_on_any_engine() -> None:
    async def policy(situation: Situation) -> str:
        return "import random, time\n[await double(x=4), random.random(), time.time()]"

    first, second = [await rolled(*[Task(prompt="", judge=go_on)] * 2, policy=policy, engine="monty") for _ in range(2)]

    assert [one.transcript() for one in first] == [one.transcript() for one in second]
    assert first[0].turns[0].outcome.value[0] == 8


async def test_no_more_programs_are_in_flight_than_allowed() -> None:
    at_once = most = 0

    @toolfold.tool
    async def work() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    async def policy(situation: Situation) -> str:
        return "await work()"

    async with Runtime([work], engine="process") as runtime:
        tasks = [Task(prompt="", judge=go_on) for _ in range(10)]
        found = [one async for one in roll_out(runtime, tasks, policy, turns=2, seed=1, in_flight=2)]

    assert (len(found), most <= 2) == (10, True)


async def test_whoever_stops_reading_ends_everything() -> None:
    started, ended = asyncio.Event(), 0

    @toolfold.tool
    async def hang() -> None:
        nonlocal ended
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    async def policy(situation: Situation) -> str:
        return "1" if situation.environment == 0 else "open('left.txt', 'w')\nawait hang()"

    async with Runtime([hang], engine="process", session_files=(store := MemoryStore())) as runtime:
        tasks = [Task(prompt="", judge=lambda outcome: 1.0) for _ in range(3)]
        async with aclosing(roll_out(runtime, tasks, policy, turns=1, seed=1, in_flight=3)) as episodes:
            first = await anext(episodes)
            await started.wait()
        left = runtime.executions.ids

    assert (first.environment, left, store.ages()) == (0, (), {})
    assert ended >= 1


class Broken:
    def reset(self, seed: int) -> str:
        return ""

    def step(self, outcome: Outcome) -> Step:
        raise LookupError("no step")


async def test_what_an_environment_or_a_policy_raises_is_raised_and_nothing_is_left() -> None:
    async def no_text(situation: Situation) -> Any:
        return None

    with pytest.raises(LookupError, match="no step"):
        await rolled(Broken(), Task(prompt="", judge=go_on))
    with pytest.raises(UsageError) as caught:
        await rolled(Task(prompt="", judge=go_on), policy=no_text)

    assert str(caught.value) == "the policy gave a 'NoneType' in turn 0; it must give a program"


async def test_an_engine_that_breaks_is_raised_as_what_it_is() -> None:
    with pytest.raises(EngineCrashed):
        await rolled(*[Task(prompt="", judge=go_on)] * 4, engine=ScriptedEngine(Died("gone")))


@pytest.mark.parametrize(
    ("environments", "options", "message"),
    [
        ((), {}, "there is no environment to roll out; give at least one"),
        (("text",), {}, "environment 0 is a 'str'; it needs reset(seed) and step(outcome)"),
        ((Broken(),), {"turns": 0}, "turns is 0; an episode has at least 1"),
        ((Broken(),), {"in_flight": 0}, "in_flight is 0; at least 1 program must be in flight"),
        (
            (Broken(), Broken(), Broken()), {"keep_names": True},
            "3 environments keep names, and the runtime has room for 2; "
            "raise SessionLimits.max_guests, or roll out fewer at a time",
        ),
    ],
)  # fmt: skip
async def test_a_mistake_is_one_line_before_anything_runs(environments: Any, options: Any, message: str) -> None:
    engine = ScriptedEngine()
    async with Runtime(engine=engine, settings=RuntimeSettings(session_limits=SessionLimits(max_guests=2))) as runtime:
        with pytest.raises(UsageError) as caught:
            async for _ in roll_out(runtime, environments, always, **{"turns": 1, "seed": 1, **options}):
                pass

    assert (str(caught.value), engine.orders) == (message, [])


@pytest.mark.parametrize("isolation", ["namespace", "landlock"])
def test_nothing_is_left_of_a_trainer_that_is_killed(isolation: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = mounts(tmp_path)
    root = Path(__file__).parents[3]
    trainer = subprocess.Popen(
        [sys.executable, "-m", "tests.interfaces.rollouts.trainer", isolation], stdout=subprocess.PIPE, cwd=root,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])},
    )  # fmt: skip
    assert trainer.stdout is not None
    with trainer, trainer.stdout:
        assert trainer.stdout.readline() == b"rolling\n"
        processes = descendants(trainer.pid)
        pidfds = [os.pidfd_open(process) for process in processes]

        trainer.kill()
        trainer.wait()

    assert len(processes) >= ENVIRONMENTS + 2  # a guest of each, their zygote, and who built its jail
    assert have_ended(pidfds, seconds=60)
    assert list(tmp_path.iterdir()) == []
    assert mounts(tmp_path) == before
