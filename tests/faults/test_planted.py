"""The checker finds a planted bug through clients whose requests and answers are lost, and none where there is none."""

import asyncio

import pytest

from tests.faults.clients import Client, Uploader
from tests.faults.judge import violations
from tests.faults.links import Links
from tests.faults.planted import BUGS, Bug, Planted, served


async def found(bug: Bug) -> list[str]:
    planted = Planted(bug)
    async with served(planted) as port:
        links = Links([port])
        try:
            links.set(0, "cut half-way")
            base = f"http://127.0.0.1:{links.ports[0]}"
            client, uploader = Client(1, lambda: [base]), Uploader(1, lambda: [base])
            await asyncio.gather(client.work(most=8), uploader.work(most=3))
            links.set(0, "whole", is_dead=True)
            await uploader.look()
            for one in (client, uploader):
                await one.talk.close()
        finally:
            links.close()
    operations = [*client.operations, *uploader.operations]
    broken = [*client.talk.broken, *uploader.talk.broken]
    lines = violations(operations, planted.done, uploader.sessions, broken)
    return sorted({line.partition(":")[0] for line in lines})


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS)
async def test_a_planted_bug_is_found_where_answers_are_lost(bug: Bug) -> None:
    assert await found(bug) == [bug]


@pytest.mark.long
async def test_nothing_is_found_where_only_answers_are_lost() -> None:
    assert await found("") == []
