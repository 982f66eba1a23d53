"""Every attack is held, and reaches its aim where what stops it is off."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.escapes_support.attack import Attack, load_attacks
from tests.escapes_support.corpus import Corpus
from tests.escapes_support.seen import GRANTED, Seen
from tests.escapes_support.unprivileged import NoInterpreter, run_as_nobody
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, Tier
from toolfold.errors import EngineUnavailable

pytestmark = pytest.mark.asyncio(loop_scope="module")

ATTACKS = load_attacks()
KINDS = {"files", "process", "kernel", "network", "resources", "protocol", "look"}
LANDLOCK_PAGE = Path(__file__).parents[1] / "docs" / "limitations" / "landlock.md"

every_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus() -> AsyncIterator[Corpus]:
    async with Corpus() as corpus:
        yield corpus


@every_attack
async def test_the_namespace_tier_holds(attack: Attack, corpus: Corpus, unproven: list[str]) -> None:
    seen = await _attack(corpus, attack, NAMESPACE, unproven)

    assert (seen.reaches(attack), seen.error, seen.is_alive) == (False, "", False), seen.printed[-500:]


@every_attack
async def test_without_what_stops_it_the_attack_reaches_its_aim(
    attack: Attack, corpus: Corpus, unproven: list[str]
) -> None:
    try:
        seen = await corpus.control(attack)
        if not seen.reaches(attack) and not corpus.why_unproven(attack):
            seen = await corpus.control(attack.slowly)
    except EngineUnavailable as error:
        unproven.append(f"{attack.name}: {error}")
        pytest.skip(str(error))

    if not seen.reaches(attack):
        reason = corpus.why_unproven(attack)
        assert reason, (seen.status, seen.problem_text, seen.error, seen.printed[-500:])
        unproven.append(f"{attack.name}: held, but its control cannot work here: {reason}")


@pytest.mark.long
async def test_the_landlock_tier_stops_all_but_what_its_page_lists(corpus: Corpus, unproven: list[str]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", LANDLOCK_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    sometimes = {name for name, when in rows if when != "always"}
    always = {name for name, when in rows if when == "always"}
    reached = set()
    for attack in ATTACKS:
        seen = await _attack(corpus, attack, LANDLOCK, unproven)
        if attack.name in always and not seen.reaches(attack):
            seen = await _attack(corpus, attack.slowly, LANDLOCK, unproven)
        assert seen.error == "", attack.name
        if seen.reaches(attack):
            reached.add(attack.name)

    assert reached | sometimes == {name for name, _ in rows}


@pytest.mark.timeout(600)
async def test_all_is_held_for_an_ordinary_user_too(unproven: list[str]) -> None:
    if os.geteuid() != 0:
        return  # then every test of this file has shown it

    try:
        verdicts = run_as_nobody()
    except NoInterpreter as error:
        unproven.append(f"escapes as an ordinary user: {error}")
        pytest.skip(str(error))

    assert verdicts == {attack.name: "held" for attack in ATTACKS}


async def test_a_frame_of_the_right_shape_is_served_so_the_forged_ones_fail_for_what_is_forged(
    corpus: Corpus, unproven: list[str]
) -> None:
    text = 'send_calls([[1, 0, {"a": 1}], [2, 1, {}]])\nsend_raw_end(b\'{"b": [1]}\')\nos._exit(0)'
    attack = Attack(name="protocol_none", says="", text=text, stopped_by=frozenset({"protocol"}))

    seen = await _attack(corpus, attack, NAMESPACE, unproven)
    believed = await corpus.control(attack)

    served = [(1, GRANTED[0].name), (2, GRANTED[1].name)]
    assert (seen.served, seen.status, seen.value) == (served, "finished", {"b": [1]})
    assert (believed.served, believed.status, believed.value) == (served, "finished", {"b": [1]})


async def test_there_are_attacks_of_every_kind() -> None:
    assert len(ATTACKS) >= 80
    assert {attack.kind for attack in ATTACKS} == KINDS


async def _attack(corpus: Corpus, attack: Attack, tier: Tier, unproven: list[str]) -> Seen:
    try:
        return await corpus.attack(attack, tier)
    except EngineUnavailable as error:
        unproven.append(f"escapes in tier {tier.name!r}: {error}")
        pytest.skip(str(error))
