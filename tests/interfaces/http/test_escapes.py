"""Attacks of `tests/escapes`, sent by a tenant over HTTP: held, as without this interface; the server goes on for others.

`tests/test_escapes.py` shows that each reaches its aim where what stops it is off.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from itertools import groupby

import httpx
import pytest
import pytest_asyncio

from tests.escapes_support.attack import Attack, load_attacks
from tests.escapes_support.bait import Bait
from tests.escapes_support.seen import BLOB, TOOLS, Seen, descendants, open_descriptors
from tests.interfaces.http.conftest import KEYS, serve
from tests.interfaces.http.talk import go_on, result, start
from toolfold.interfaces.http import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_A_KIND = 6


def spread(attacks: list[Attack]) -> list[Attack]:
    """Some of them, from the first to the last."""
    return attacks[:: max(1, len(attacks) // OF_A_KIND)][:OF_A_KIND]


# What a program may take is the server's own to say here: an attack with limits of its own needs another server.
_OURS = [attack for attack in load_attacks() if not attack.limits]
ATTACKS = [attack for _, kind in groupby(_OURS, key=lambda attack: attack.kind) for attack in spread(list(kind))]
TWO = {"X-API-Key": KEYS["two"]}


@pytest.fixture(scope="module")
def bait() -> Iterator[Bait]:
    with Bait() as bait:
        yield bait


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    # No guests that wait: then whatever runs after an attack is the attack's.
    settings = Settings(keys=KEYS, starts_per_minute=10_000, max_rounds=2000, refusals_per_second=1e9)
    async with serve(settings, tmp_path_factory.mktemp("files"), engine_options={"warm": 0}) as client:
        yield client


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_an_attack_of_a_tenant_is_held(attack: Attack, client: httpx.AsyncClient, bait: Bait) -> None:
    bait.refresh()
    processes = descendants(os.getpid())

    before = await run(client, bait, attack.before) if attack.before else Seen()
    seen = await run(client, bait, attack.text)
    seen.bait, seen.printed_before = bait, before.printed
    await until_gone(processes)
    other = await start(client, "print('fine')", headers=TWO)

    assert (seen.reaches(attack), seen.error) == (False, ""), seen.printed[-500:]
    assert bait.secret not in seen.printed
    assert other.json()["stdout"] == "fine\n"


async def test_an_attack_that_reached_its_aim_would_be_seen(client: httpx.AsyncClient, bait: Bait) -> None:
    attack = Attack(name="look_none", says="", text="print('REACHED')", stopped_by=frozenset())
    seen = await run(client, bait, attack.text)
    seen.bait = bait

    assert (seen.reaches(attack), seen.status) == (True, "finished")


async def test_attacks_of_every_kind_are_sent() -> None:
    kinds = [attack.kind for attack in ATTACKS]

    assert {kind: kinds.count(kind) >= 4 for kind in kinds} == dict.fromkeys(
        ("files", "kernel", "look", "network", "process", "protocol", "resources"), True
    )


async def run(client: httpx.AsyncClient, bait: Bait, text: str) -> Seen:
    """The program, with its calls answered as the corpus' own host answers them."""
    seen, descriptors = Seen(), open_descriptors()
    tools = [{"name": name} for name in TOOLS[:-1]]
    # As text in a text: the check, which is no wall, turns away what imports `socket`.
    code = f"exec(compile({bait.prelude(is_control=False) + text!r}, '<program>', 'exec'))"
    answer = await start(client, code, *tools, timeout=1000)
    while (body := answer.json())["status"] == "tool_call_required":
        calls = body["tool_calls"]
        seen.served += [(int(call["id"].removeprefix("call_")), call["name"]) for call in calls]
        seen.largest_argument_bytes = max(len(str(call["input"])) for call in calls)
        results = [result(call, BLOB if call["name"] == "blob" else None) for call in calls]
        answer = await go_on(client, body["continuation_token"], *results)
    if answer.status_code >= 500 and "the sandbox broke" not in body["error"]:
        seen.error = body["error"]
    seen.descriptors = open_descriptors() - descriptors
    seen.printed = body["stdout"] + body["stderr"]
    seen.status = "finished" if body["status"] == "completed" else "failed"
    seen.problem = seen.problem_text = body.get("error", "")
    for file in body.get("files", []):
        seen.files[file["name"]] = (await client.get(f"/download/{file['session_id']}/{file['id']}")).content
    return seen


async def until_gone(before: set[int]) -> None:
    """Returns when nothing of the attack runs any more; the test's own timeout is what fails."""
    while descendants(os.getpid()) - before:
        await asyncio.sleep(0.005)
