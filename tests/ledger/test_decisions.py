"""A person at another process decides on calls of a program that waits here, through the ledger they share."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ledger.made_up import begun, outcome
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from toolfold import Outcome, Runtime, tool
from toolfold.ledger.base import ExecutionFilter, Moment
from toolfold.ledger.redis.store import RedisLedger
from toolfold.ledger.remote_approval import LedgerApproval, arguments_digest, decision_seal, lock
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

AnyLedger = SqliteLedger | RedisLedger
PROGRAM = """
try:
    print(await pay(amount=5))
except ToolError as error:
    print(error)
"""


@tool
async def pay(amount: int) -> int:
    """Pays."""
    return amount * 100


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.long)])
async def ledgers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[AnyLedger]]:
    """Two that share what is written: the program's and the person's."""
    opened: list[AnyLedger] = []
    for _ in range(2):
        if request.param == "sqlite":
            opened.append(SqliteLedger(tmp_path / "ledger.sqlite"))
        else:
            server: RedisServer = request.getfixturevalue("redis_server")
            opened.append(RedisLedger(server.url))
    yield opened
    for ledger in opened:
        await ledger.close()


async def asked(ledger: AnyLedger) -> tuple[str, Moment]:
    """The first question, as a console finds it."""
    while True:
        for summary in await ledger.search(ExecutionFilter(state="running")):
            story = await ledger.story(summary.execution_id)
            for entry in story.entries:
                if isinstance(entry, Moment) and entry.kind == "asked":
                    return summary.execution_id, entry
        await asyncio.sleep(0.01)


async def run(ledger: AnyLedger, wait_seconds: float = 60.0) -> Outcome:
    approve = LedgerApproval(ledger, wait_seconds=wait_seconds)
    async with Runtime([pay], ledger=ledger, policy=Policy(ask=["pay"]), approve=approve) as runtime:
        return await runtime.run(PROGRAM)


@pytest.mark.parametrize(
    ("decision", "shown", "printed"),
    [
        (Decision(approved=True), {"amount": 5}, "500\n"),
        (Decision(approved=True, arguments={"amount": 7}), {"amount": 5}, "700\n"),
        (Decision(approved=False, reason="too much"), {"amount": 5}, "'pay' was denied: too much\n"),
        (Decision(approved=True), {"amount": 6}, "'pay' was denied: the decision was on other arguments\n"),
    ],
)
async def test_a_decision_reaches_the_program_that_waits_and_counts_once(
    ledgers: list[AnyLedger], decision: Decision, shown: dict[str, int], printed: str
) -> None:
    own, other = ledgers
    running = asyncio.create_task(run(own))

    execution_id, question = await asked(other)
    place = {"execution_id": execution_id, "epoch": 0, "call_id": question.call_id}
    body = lock(decision, decision_seal(other), digest=arguments_digest(shown), **place)
    first = await other.decide(*place.values(), body)
    second = await other.decide(*place.values(), body)
    ended = await running
    await own.list()  # its end is written by now
    late = await other.decide(execution_id, 0, 99, body)

    facts = {"tool": "pay", "arguments": {"amount": 5}, "line": 3, "within": 0, "wait_seconds": 60.0}
    assert question.facts == facts
    assert (first, second, late) == (True, False, False)
    assert ended.stdout == printed


async def test_a_decision_that_another_key_sealed_is_a_no(ledgers: list[AnyLedger]) -> None:
    own, other = ledgers
    running = asyncio.create_task(run(own))

    execution_id, _ = await asked(other)
    await other.decide(execution_id, 0, 1, b"x" * 64)

    assert (await running).stdout == "'pay' was denied: the decision was made with another key\n"


async def test_nobody_answers_in_time(ledgers: list[AnyLedger]) -> None:
    ended = await run(ledgers[0], wait_seconds=0.05)

    assert ended.stdout == "'pay' was denied: nobody answered within 0.05 s\n"


async def test_a_decision_on_what_is_not_there_or_has_ended_is_refused(ledgers: list[AnyLedger]) -> None:
    own, other = ledgers
    own.begin(begun("a"))
    await own.finish("a", outcome("a"), wait=True)

    assert [await other.decide(name, 0, 1, b"x") for name in ("a", "nobody", "../a")] == [False, False, False]
