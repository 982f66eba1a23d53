"""Who holds an execution: leases that change hands together with the epoch."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.ledger.made_up import begun, given, made, outcome
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from toolfold import UsageError
from toolfold.errors import Fenced
from toolfold.ledger.redis.leases import Leases
from toolfold.ledger.redis.store import RedisLedger

pytestmark = pytest.mark.long

Open = Callable[..., RedisLedger]


@pytest.fixture
async def new_ledger(redis_server: RedisServer) -> AsyncIterator[Open]:
    opened: list[RedisLedger] = []

    def open_one(**options: Any) -> RedisLedger:
        opened.append(RedisLedger(redis_server.url, **options))
        return opened[-1]

    yield open_one
    for ledger in opened:
        await ledger.close()


async def parked(ledger: RedisLedger, *executions: str) -> None:
    for execution_id in executions:
        ledger.begin(begun(execution_id))
        ledger.note(execution_id, made(1))
        await ledger.park(execution_id)


async def lapsed(leases: Leases, execution_id: str) -> None:
    while await leases.owner_of(execution_id):
        await asyncio.sleep(0.02)


async def test_writing_holds_an_execution_and_its_end_lets_go_of_it(new_ledger: Open) -> None:
    ledger, other = new_ledger(), new_ledger()
    leases = ledger.hold_as("one", 60.0)
    other.hold_as("two", 60.0)
    await parked(ledger, "a")

    owners = [await leases.owner_of("a")]
    with pytest.raises(Fenced) as caught:
        await other.takeover("a")
    await ledger.accept("a", [given(1)])
    await ledger.finish("a", outcome("a"))
    owners.append(await leases.owner_of("a"))

    assert owners == ["one", None]
    assert str(caught.value) == "execution 'a' is held by another replica; send the request to that one"


async def test_a_lease_that_lapsed_goes_to_the_next_with_the_epoch_and_the_first_hears_of_it(new_ledger: Open) -> None:
    ledger, other = new_ledger(), new_ledger()
    leases, others = ledger.hold_as("one", 2.0), other.hold_as("two", 60.0)
    await parked(ledger, "a", "b")
    await lapsed(leases, "b")

    epoch = await other.takeover("a")
    lost = [await leases.beat(["a", "b"]), await leases.beat(["a", "b"])]
    owners = [await leases.owner_of(one) for one in ("a", "b")]
    with pytest.raises(Fenced):
        await leases.confirm("a")
    with pytest.raises(Fenced):
        await ledger.accept("a", [given(1)])
    await others.confirm("a")

    # Nobody took `b`, so it is still the first one's.
    assert (epoch, lost, owners) == (1, [["a"], ["a"]], ["two", "one"])


async def test_a_lease_is_confirmed_by_the_own_clock_alone_while_it_lasts(
    new_ledger: Open, redis_server: RedisServer
) -> None:
    ledger = new_ledger()
    leases = ledger.hold_as("one", 60.0)
    await parked(ledger, "a")
    redis_server.kill()

    await leases.confirm("a")
    await leases.confirm("never heard of")

    redis_server.start()


async def test_a_released_lease_can_be_taken_at_once_and_only_its_owner_releases_it(new_ledger: Open) -> None:
    ledger, other = new_ledger(), new_ledger()
    leases, others = ledger.hold_as("one", 60.0), other.hold_as("two", 60.0)
    await parked(ledger, "a", "b")
    await leases.beat(["a", "b"])
    await others.beat([])

    there = await leases.replicas()
    await others.release(["a", "b"])
    held = [await leases.owner_of(one) for one in ("a", "b")]
    await leases.release(["a"], is_leaving=True)
    await others.release(["b"], owner="one")
    free = [await leases.owner_of(one) for one in ("a", "b")]

    assert (sorted(there), held, free) == (["one", "two"], ["one", "one"], [None, None])
    assert await others.replicas() == ["two"]
    assert await other.takeover("a") == 1


async def test_what_nobody_holds_and_nobody_writes_to_is_found(new_ledger: Open) -> None:
    ledger, library = new_ledger(), new_ledger()
    leases = ledger.hold_as("one", 2.0)
    await parked(library, "of a library")
    await parked(ledger, "a", "b", "c")
    await ledger.finish("c", outcome("c"))
    for one in ("a", "b"):
        await lapsed(leases, one)
    await leases.beat(["b"])

    assert await leases.find_abandoned(0.0) == ["a"]
    assert await leases.find_abandoned(600.0) == []


async def test_a_session_is_had_by_one_turn_wherever_that_goes_on(new_ledger: Open) -> None:
    ledger, other = new_ledger(), new_ledger()
    leases, others = ledger.hold_as("one", 60.0), other.hold_as("two", 60.0)

    first = [await leases.take_turn("s", "t1"), await others.take_turn("s", "t2"), await others.take_turn("s", "t1")]
    await leases.end_turn("s", "t2")
    second = [await others.take_turn("s", "t2")]
    await leases.end_turn("s", leases.forget_turn("s"))
    second.append(await others.take_turn("s", "t2"))

    assert (first, second) == ([True, False, True], [False, True])


async def test_a_secret_is_made_once_and_sealed_with_the_ledger(new_ledger: Open, redis_server: RedisServer) -> None:
    secrets = [new_ledger(key="a passphrase").shared_secret("tokens") for _ in range(2)]

    with redis_server.client() as client:
        kept = client.hget("{toolfold}:facts", "secret/tokens")
    assert secrets == [secrets[0]] * 2
    assert len(secrets[0]) == 32
    assert secrets[0] not in kept


@pytest.mark.parametrize("seconds", [0.0, float("nan")])
def test_leases_last_for_a_time_that_makes_sense(redis_server: RedisServer, seconds: float) -> None:
    with pytest.raises(UsageError) as caught:
        RedisLedger(redis_server.url).hold_as("one", seconds)

    assert str(caught.value) == f"a lease lasts between a millisecond and a day, not {seconds!r} seconds"
