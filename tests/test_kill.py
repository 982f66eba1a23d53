"""A host that is killed in the middle of an execution, and another that goes on with it."""

import random
from pathlib import Path

import pytest

from tests.killed import Host

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


@pytest.mark.long
@pytest.mark.parametrize("text", [PLAIN, WORLDLY], ids=["plain", "worldly"])
def test_an_execution_survives_a_kill_at_every_pause(text: str, tmp_path: Path) -> None:
    host = Host(tmp_path)
    said = host.ask({"text": text})
    asked = list(said["calls"])
    while "calls" in said:
        host.kill()
        host = Host(tmp_path)
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
    host = Host(tmp_path)
    outputs = []
    for _ in range(3):
        said = host.ask({"text": PLAIN})
        while "calls" in said:
            if chance.random() < 0.5:
                host.kill()
                host = Host(tmp_path)
            some = said["calls"][: chance.randint(1, len(said["calls"]))]
            said = host.ask({"id": said["id"], "calls": some})
        outputs.append(said["stdout"])
    host.kill()

    assert outputs == [UNINTERRUPTED] * 3
    assert (tmp_path / "saves").read_text().split() == ["1", "0", "1", "2"] * 3


def test_a_host_that_is_not_killed_gives_the_same_output(tmp_path: Path) -> None:
    host = Host(tmp_path)
    said = host.ask({"text": PLAIN})
    while "calls" in said:
        said = host.ask({"id": said["id"], "calls": said["calls"]})
    host.kill()

    assert said["stdout"] == UNINTERRUPTED


CHARGES = "for key in range(1, 6):\n    print(await save(key))\nprint(await die(6))"
UNKNOWN = "'die' may have been called with these arguments"


@pytest.mark.long
def test_a_rerun_of_a_killed_run_repeats_no_call_that_may_have_run(tmp_path: Path) -> None:
    Host(tmp_path).tell({"run": CHARGES})
    host = Host(tmp_path)

    again = host.ask({"run": CHARGES, "again": True, "dies": False})
    third = host.ask({"run": CHARGES, "again": True, "dies": False})
    host.kill()

    for said in (again, third):
        assert said["stdout"] == "10\n20\n30\n40\n50\n"
        assert UNKNOWN in said["stderr"]
        assert said["hints"] == ["not called again, because whether they ran before is not on record: die"]
    assert (tmp_path / "saves").read_text().split() == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.long
def test_a_rerun_of_a_killed_run_repeats_what_it_is_told_to(tmp_path: Path) -> None:
    Host(tmp_path).tell({"run": CHARGES})
    host = Host(tmp_path)

    said = host.ask({"run": CHARGES, "again": True, "dies": False, "repeat": ["die"]})
    host.kill()

    assert (said["stdout"], said["hints"]) == ("10\n20\n30\n40\n50\n60\n", [])
    assert (tmp_path / "saves").read_text().split() == ["1", "2", "3", "4", "5", "6", "6"]
