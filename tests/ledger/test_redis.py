"""What only a ledger on a server can go through: restarts, late commands, expiry, races and leases."""

import asyncio
import gc
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.ledger.made_up import begun, given, made, outcome
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from tests.ledger.several import kills, races, said, start
from toolfold import Outcome, Paused, Reply, Runtime, ToolfoldError, ToolSpec, UsageError
from toolfold.errors import Fenced, LedgerFailed, SealBroken
from toolfold.ledger.base import ExecutionHistory, Retention
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.redis.store import RedisLedger

# The first one may have to fetch a server.
pytestmark = pytest.mark.long

AWAY = "the ledger cannot be used: the server cannot be reached; check the server"
SILENT = "the ledger cannot be used: the server does not answer; check the server"

Open = Callable[..., RedisLedger]


@pytest.fixture
async def new_ledger(redis_server: RedisServer) -> AsyncIterator[Open]:
    opened: list[RedisLedger] = []

    def open_one(query: str = "", **options: Any) -> RedisLedger:
        opened.append(RedisLedger(redis_server.url + query, **options))
        return opened[-1]

    yield open_one
    for ledger in opened:
        await ledger.close()


@pytest.fixture
def ledger(new_ledger: Open) -> RedisLedger:
    return new_ledger()


async def parked(ledger: RedisLedger, execution_id: str = "a") -> None:
    ledger.begin(begun(execution_id))
    ledger.note(execution_id, made(1))
    await ledger.park(execution_id)


# opening


async def test_a_word_opens_it(redis_server: RedisServer) -> None:
    ledgers = [open_ledger(redis_server.url), open_ledger(redis_server.url.replace("redis:", "valkey:"))]
    for ledger in ledgers:
        await ledger.close()

    assert [type(ledger) for ledger in ledgers] == [RedisLedger, RedisLedger]


async def test_a_sealed_ledger_holds_no_word_of_a_program_and_opens_with_its_key_only(
    new_ledger: Open, redis_server: RedisServer
) -> None:
    ledger = new_ledger(key="a passphrase")
    ledger.begin(begun("a"))
    ledger.note("a", made(1, secret="xyzzy"))
    await ledger.finish("a", outcome("a", stdout="plugh"))
    await new_ledger(key="a passphrase").load("a")
    with redis_server.client() as client:
        at = "{toolfold}:"
        kept = b"".join([*client.hvals(f"{at}x:a"), *client.lrange(f"{at}p:a", 0, -1)])
        facts = client.hgetall(f"{at}facts")
    refused = []
    for key in (None, "another"):
        with pytest.raises(UsageError) as caught:
            new_ledger(key=key)
        refused.append(str(caught.value))

    assert [word in kept for word in (b"xyzzy", b"plugh", b"await price")] == [False, False, False]
    where, own = f"'{redis_server.url}'", facts[b"key_id"].decode()
    assert refused[0] == f"ledger {where} is sealed; give its key"
    assert refused[1].startswith(f"wrong key for ledger {where}: it was sealed with key {own}, this is ")


async def test_a_ledger_that_has_records_is_not_sealed_afterwards(new_ledger: Open, redis_server: RedisServer) -> None:
    await parked(new_ledger())

    with pytest.raises(UsageError) as caught:
        new_ledger(key="late")

    assert str(caught.value) == (
        f"ledger '{redis_server.url}' has records that are not sealed; name another database to use a key"
    )


async def test_who_opened_it_before_it_was_sealed_writes_nothing_in_the_clear(new_ledger: Open) -> None:
    early = new_ledger()
    new_ledger(key="k")

    early.begin(begun("a"))
    with pytest.raises(LedgerFailed) as caught:
        await early.flush("a")

    assert str(caught.value) == "the ledger has another key now, or lost its records; open it again"


async def test_a_sealed_record_that_was_changed_or_moved_does_not_open(
    new_ledger: Open, redis_server: RedisServer
) -> None:
    ledger = new_ledger(key=b"k" * 32)
    await parked(ledger, "a")
    await parked(ledger, "b")
    with redis_server.client() as client:
        client.lset("{toolfold}:p:a", 0, client.lindex("{toolfold}:p:b", 0))

    with pytest.raises(SealBroken) as caught:
        await ledger.load("a")

    assert str(caught.value) == "the ledger's record 'a/1' was changed since it was sealed; do not trust it"


async def test_a_ledger_of_a_newer_toolfold_is_refused(new_ledger: Open, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.hset("{toolfold}:facts", "format", 4)

    with pytest.raises(UsageError) as caught:
        new_ledger()

    assert str(caught.value) == (
        f"ledger '{redis_server.url}' was made by a newer toolfold (format 4, this one reads 3); "
        "update toolfold, or name another database"
    )


async def test_a_server_that_would_lose_records_is_warned_of(
    new_ledger: Open, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server.client() as client:
        client.config_set("appendonly", "no")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            new_ledger()
        finally:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("appendonly", "yes")

    assert [record.getMessage() for record in caplog.records] == [
        f"ledger '{redis_server.url}' does not survive a restart of its server; set 'appendonly yes' there",
        f"ledger '{redis_server.url}' may lose records when its server is full: its maxmemory-policy is 'allkeys-lru'",
    ]


async def test_ledgers_with_different_prefixes_do_not_meet(new_ledger: Open) -> None:
    one, other = new_ledger(prefix="one"), new_ledger(prefix="other")

    await parked(one)

    assert [await other.find(""), await one.find("")] == [[], ["a"]]


# The connections of a loop that has gone are closed by the collector, which says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_follows_to_another_event_loop(redis_server: RedisServer) -> None:
    ledger = RedisLedger(redis_server.url)

    async def rest() -> ExecutionHistory | None:
        await ledger.accept("a", [given(1)])
        history = await ledger.load("a")
        await ledger.close()
        return history

    asyncio.run(parked(ledger))
    history = asyncio.run(rest())
    gc.collect()

    assert history == ExecutionHistory(start_record=begun("a"), entries=(made(1), given(1)), state="running", epoch=0)


# away and back


async def test_while_the_server_is_away_calls_fail_clearly_and_what_was_gathered_is_written_later(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    await parked(ledger)
    redis_server.kill()
    ledger.begin(begun("b"))
    ledger.note("b", made(1))
    refused = []
    for call in (
        ledger.accept("a", [given(1)]), ledger.flush("b"), ledger.load("a"), ledger.list(), ledger.takeover("a"),
        ledger.find("a"),
    ):  # fmt: skip
        with pytest.raises(LedgerFailed) as caught:
            await call
        refused.append(str(caught.value))
    redis_server.start()

    await ledger.accept("a", [given(1, "yes")])
    ledger.note("b", made(2))
    await ledger.park("b")

    assert refused == [AWAY] * 6
    assert await ledger.load("a") == ExecutionHistory(
        start_record=begun("a"), entries=(made(1), given(1, "yes")), state="running", epoch=0
    )
    assert await ledger.load("b") == ExecutionHistory(
        start_record=begun("b"), entries=(made(1), made(2)), state="paused", epoch=0
    )


async def test_an_outcome_that_came_while_the_server_was_away_is_written_when_it_is_back(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    await parked(ledger)
    await ledger.accept("a", [given(1)])
    redis_server.kill()

    ended = outcome("a", calls=(given(1).record,))
    await ledger.finish("a", ended)
    redis_server.start()

    history = await ledger.load("a")
    assert history is not None
    assert (history.state, history.outcome) == ("ended", ended)


@pytest.mark.parametrize("text", ["await go_away()", "await ask()\nawait go_away()"])
async def test_an_end_that_another_replica_could_miss_is_told_only_once_it_is_written(
    text: str, new_ledger: Open, redis_server: RedisServer
) -> None:
    ask = ToolSpec(name="ask", python_name="ask", input_schema={"type": "object"}, source="caller")

    def go_away() -> None:
        """Stop the server of the ledger."""
        redis_server.kill()

    async with Runtime([go_away], ledger=new_ledger()) as runtime:

        async def to_its_end() -> None:
            step = await runtime.start(text, tools=[ask], execution_id="e")
            if isinstance(step, Paused):
                await runtime.resume("e", [Reply(call_id=step.calls[0].id, value="yes")])

        with pytest.raises(LedgerFailed) as caught:
            await to_its_end()
        redis_server.start()
        recorded = await runtime.executions.recorded("e")

    assert str(caught.value) == AWAY
    assert recorded is not None
    assert recorded.outcome is not None
    assert (recorded.outcome.status, [call.name for call in recorded.outcome.calls][-1]) == ("finished", "go_away")


async def test_a_connection_that_the_server_dropped_is_not_noticed(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    await parked(ledger)
    for number in range(2, 12):
        with redis_server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        await ledger.accept("a", [given(number)])

    history = await ledger.load("a")
    assert history is not None
    assert history.entries == (made(1), *(given(number) for number in range(2, 12)))


async def test_replies_sent_to_a_frozen_server_are_written_once_when_they_are_sent_again(
    new_ledger: Open, redis_server: RedisServer
) -> None:
    ledger = new_ledger("?socket_timeout=1")
    await parked(ledger)
    redis_server.freeze()
    with pytest.raises(LedgerFailed) as caught:
        await ledger.accept("a", [given(1, "yes")])
    redis_server.thaw()

    await ledger.accept("a", [given(1, "yes")])

    assert str(caught.value) == SILENT
    assert await ledger.load("a") == ExecutionHistory(
        start_record=begun("a"), entries=(made(1), given(1, "yes")), state="running", epoch=0
    )


async def test_other_replies_than_those_that_a_frozen_server_took_are_refused_or_the_late_ones_are(
    new_ledger: Open, redis_server: RedisServer
) -> None:
    ledger = new_ledger("?socket_timeout=1")
    written = []
    for number in range(3):
        name = f"e{number}"
        await parked(ledger, name)
        redis_server.freeze()
        with pytest.raises(LedgerFailed):
            await ledger.accept(name, [given(1, "first")])
        redis_server.thaw()
        try:
            await ledger.accept(name, [given(1, "second")])
            expected = given(1, "second")
        except Fenced:
            expected = given(1, "first")
        history = await ledger.load(name)
        assert history is not None
        written.append(history.entries == (made(1), expected))

    assert written == [True] * 3


async def test_a_start_that_came_through_late_is_not_taken_for_another(
    new_ledger: Open, redis_server: RedisServer
) -> None:
    ledger = new_ledger("?socket_timeout=1")
    for number in range(3):
        name = f"e{number}"
        redis_server.freeze()
        ledger.begin(begun(name))
        ledger.note(name, made(1))
        with pytest.raises(LedgerFailed):
            await ledger.park(name)
        ledger.note(name, made(2))
        redis_server.thaw()
        await ledger.park(name)

    histories = [await ledger.load(f"e{number}") for number in range(3)]
    assert [history and history.entries for history in histories] == [(made(1), made(2))] * 3


async def test_an_accept_whose_caller_left_is_not_written_twice(ledger: RedisLedger) -> None:
    await parked(ledger)
    leaving = asyncio.create_task(ledger.accept("a", [given(1)]))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])

    await ledger.accept("a", [given(1)])

    history = await ledger.load("a")
    assert history is not None
    assert history.entries == (made(1), given(1))


async def test_a_full_server_refuses_clearly_keeps_nothing_half_written_and_can_still_forget(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    ledger.begin(begun("old"))
    await ledger.finish("old", outcome("old"))
    await parked(ledger)
    await ledger.list()
    with redis_server.client() as client:
        client.config_set("maxmemory", 1)
        before = client.hgetall("{toolfold}:x:a")
        with pytest.raises(LedgerFailed) as caught:
            await ledger.accept("a", [given(1, "x" * 10_000)])
        after = client.hgetall("{toolfold}:x:a")
        gone = await ledger.sweep(Retention(age_seconds=0.0))
        client.config_set("maxmemory", 0)
    await ledger.accept("a", [given(1, "y")])

    history = await ledger.load("a")
    assert str(caught.value) == "the ledger cannot be used: the server is full; check the server"
    assert (before == after, gone) == (True, 1)
    assert history is not None
    assert history.entries == (made(1), given(1, "y"))


async def test_closing_while_the_server_is_away_says_what_is_lost(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = RedisLedger(redis_server.url)
    ledger.begin(begun("a"))
    redis_server.kill()

    await ledger.close()
    redis_server.start()

    assert caplog.records[-1].getMessage() == (
        "the ledger was closed while its server was away: 1 executions are incomplete"
    )
    with pytest.raises(LedgerFailed):
        ledger.begin(begun("b"))


async def test_closing_writes_what_was_gathered(
    redis_server: RedisServer, new_ledger: Open, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = RedisLedger(redis_server.url)
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.finish("a", outcome("a"))
    ledger.begin(begun("b"))

    await ledger.close()

    other = new_ledger()
    histories = [await other.load("a"), await other.load("b")]
    assert histories == [
        ExecutionHistory(start_record=begun("a"), entries=(made(1),), state="ended", epoch=0, outcome=outcome("a")),
        ExecutionHistory(start_record=begun("b"), state="running", epoch=0),
    ]
    assert caplog.records == []


async def test_what_is_gathered_goes_out_by_itself(ledger: RedisLedger, new_ledger: Open) -> None:
    other = new_ledger()
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.finish("a", outcome("a"))

    deadline = time.monotonic() + 60
    while not (found := await other.load("a")) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)

    assert found == ExecutionHistory(
        start_record=begun("a"), entries=(made(1),), state="ended", epoch=0, outcome=outcome("a")
    )


# forgetting


async def test_the_server_forgets_by_itself_and_a_sweep_leaves_nothing_of_it(
    new_ledger: Open, redis_server: RedisServer
) -> None:
    ledger = new_ledger(keep=Retention(age_seconds=2.5, open_age_seconds=2.0))
    await parked(ledger, "open")
    ledger.begin(begun("ended", tenant="t"))
    await ledger.finish("ended", outcome("ended"))
    seen = [one.execution_id for one in await ledger.list()]
    while await ledger.find(""):
        await asyncio.sleep(0.02)

    listed = await ledger.list(), await ledger.list(tenant="t"), await ledger.find("")
    await ledger.sweep()

    with redis_server.client() as client:
        left = sorted(client.keys("*"))
        total = client.get("{toolfold}:total")
    assert sorted(seen) == ["ended", "open"]
    assert listed == ([], [], [])
    assert (left, total) == ([b"{toolfold}:changes", b"{toolfold}:facts", b"{toolfold}:total"], b"0")


async def test_tools_are_stored_once_and_sent_again_when_they_were_swept_away(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    tools = tuple(ToolSpec(name=f"t{n}", python_name=f"t{n}", description="x" * 100) for n in range(50))
    grants = []
    for name in ("a", "b"):
        for copy in (tools, (*tools[:25], *tools[25:])):
            ledger.begin(begun(f"{name}{len(copy)}{id(copy)}", tools=copy))
        await ledger.list()
        with redis_server.client() as client:
            grants.append((len(client.keys("*:g:*")), client.hvals("{toolfold}:grants")))
        await ledger.sweep(Retention(open_age_seconds=0.0))
    ledger.begin(begun("c", tools=tools))
    history = await ledger.load("c")

    assert grants == [(1, [b"2"]), (1, [b"2"])]
    assert history is not None
    assert history.start_record.tools == tools


# several ledgers


async def test_a_paused_execution_goes_on_in_another_replica(new_ledger: Open) -> None:
    ask = ToolSpec(name="ask", python_name="ask", input_schema={"type": "object"}, source="caller")
    async with Runtime(ledger=new_ledger()) as first, Runtime(ledger=new_ledger()) as second:
        step = await first.start("print(await ask(), await ask())", tools=[ask])
        assert isinstance(step, Paused)
        step = await second.resume(step.execution_id, [Reply(call_id=step.calls[0].id, value="one")])
        assert isinstance(step, Paused)
        with pytest.raises(Fenced):
            await first.resume(step.execution_id, [Reply(call_id=1, value="stale")])
        end = await second.resume(step.execution_id, [Reply(call_id=step.calls[0].id, value="two")])

    assert isinstance(end, Outcome)
    assert (end.status, end.stdout) == ("finished", "one two\n")


async def test_two_ledgers_that_hold_the_same_epoch_cannot_both_write(new_ledger: Open) -> None:
    one, other = new_ledger(), new_ledger()
    await parked(one)

    await other.accept("a", [given(1, "other")])
    with pytest.raises(Fenced):
        await one.accept("a", [given(1, "one")])

    history = await one.load("a")
    assert history is not None
    assert history.entries == (made(1), given(1, "other"))


async def test_hundreds_of_executions_are_written_side_by_side(ledger: RedisLedger) -> None:
    names = [f"e{number:03}" for number in range(250)]

    async def live(name: str) -> None:
        await parked(ledger, name)
        await ledger.accept(name, [given(1, "x" * 300)])
        await ledger.finish(name, outcome(name))

    await asyncio.gather(*(live(name) for name in names))
    histories = await asyncio.gather(*(ledger.load(name) for name in names))

    expected = ("ended", (made(1), given(1, "x" * 300)))
    assert [history and (history.state, history.entries) for history in histories] == [expected] * 250
    assert await ledger.find("", limit=1000) == names
    assert len(await ledger.list(limit=1000)) == 250


async def test_a_reply_of_megabytes_is_kept_whole(ledger: RedisLedger) -> None:
    value = os.urandom(5_000_000)
    await parked(ledger)
    await ledger.accept("a", [given(1, value)])

    history = await ledger.load("a")

    assert history is not None
    assert history.entries == (made(1), given(1, value))


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_is_done_to_it_it_does_as_the_one_in_memory(seed: int, new_ledger: Open) -> None:
    chance = random.Random(seed)
    acts = chance.choices(
        ["begin", "note", "flush", "park", "accept", "takeover", "finish"], [2, 8, 4, 4, 8, 4, 1], k=120
    )
    model, holder, other = MemoryLedger(), new_ledger(), new_ledger()
    epoch = 0
    for number, act in enumerate(acts, 1):
        if act == "takeover" and isinstance(await did(other, act, number, 0), int):
            # By the other replica, which goes on from here.
            holder, other = other, holder
            epoch = await model.takeover("a")
            continue
        used = max(0, epoch - (chance.random() < 0.1))
        results = [await did(ledger, act, number, used) for ledger in (model, holder)]
        assert results[0] == results[1], (number, act, used)
        assert await model.load("a") == await holder.load("a"), (number, act, used)


async def did(ledger: MemoryLedger | RedisLedger, act: str, number: int, epoch: int) -> object:
    """What came of it: a value, or the kind of error."""
    try:
        match act:
            case "begin":
                ledger.begin(begun("a"))
                await ledger.flush("a")
            case "note":
                ledger.note("a", made(number), epoch=epoch)
                await ledger.flush("a")
            case "flush":
                await ledger.flush("a")
            case "park":
                await ledger.park("a", epoch=epoch)
            case "accept":
                await ledger.accept("a", [given(number)], epoch=epoch)
            case "takeover":
                return await ledger.takeover("a")
            case "finish":
                await ledger.finish("a", outcome("a", calls=(given(number).record,)), epoch=epoch)
    except ToolfoldError as error:
        return str(error)
    return None


# processes

LEASES = """
import asyncio, json, os, sys
from toolfold.ledger.redis.store import RedisLedger

async def race():
    ledger = RedisLedger(sys.argv[1])
    me = str(os.getpid())
    leases = ledger.hold_as(me, 60.0)
    won = [await leases.claim(f"e{number}") for number in range(int(sys.argv[2]))]
    await ledger.close()
    return [me, won]

print(json.dumps(asyncio.run(race())))
"""


def test_sixty_kills_in_the_middle_of_writes_lose_nothing_that_was_acknowledged(
    redis_server: RedisServer,
) -> None:
    found = kills(redis_server.url, 60)

    assert (found["kills"], found["lost"]) == (60, [])
    assert found["writes"] >= 60


async def test_kills_of_the_server_lose_nothing_that_was_acknowledged_and_write_nothing_twice(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    ledger.begin(begun("a"))
    await ledger.flush("a")
    acknowledged = failures = 0
    is_over = False

    async def write() -> int:
        nonlocal acknowledged, failures
        number = 0
        while not is_over:
            number += 1
            ledger.note("a", made(number))
            while True:
                try:
                    await ledger.flush("a")
                    break
                except LedgerFailed:
                    failures += 1
                    await asyncio.sleep(0.01)
            acknowledged = number
        return number

    writing = asyncio.create_task(write())
    for _ in range(4):
        await asyncio.sleep(0.15)
        await asyncio.to_thread(redis_server.kill)
        await asyncio.sleep(0.05)
        await asyncio.to_thread(redis_server.start)
    is_over = True
    last = await writing

    history = await ledger.load("a")
    assert history is not None
    assert history.entries == tuple(made(number) for number in range(1, last + 1))
    assert (failures > 0, acknowledged) == (True, last)


async def test_processes_that_race_for_one_execution_get_an_epoch_each_and_only_the_last_one_writes(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    ledger.begin(begun("a"))
    await ledger.park("a")

    found = races(redis_server.url, racers=2, rounds=40)

    history = await ledger.load("a")
    assert history is not None
    accepted = sorted(epoch for one in found for epoch in one[1])
    assert sorted(epoch for one in found for epoch in one[0]) == list(range(1, 81))
    assert len(accepted) + sum(one[2] for one in found) == 80
    assert ([entry.reply.call_id for entry in history.entries], history.epoch) == (accepted, 80)


# leases


async def test_a_lease_is_held_and_let_go_by_its_owner_only(ledger: RedisLedger) -> None:
    one, two = ledger.hold_as("one", 60.0), ledger.hold_as("two", 60.0)
    free = await one.owner_of("a")
    won = [await one.claim("a"), await two.claim("a"), await one.claim("a")]
    await two.release(["a"])
    held = await two.owner_of("a")
    await one.release(["a"])
    after = [await two.owner_of("a"), await two.claim("a")]

    assert (free, won, held, after) == (None, [True, False, True], "one", [None, True])


async def test_a_lease_that_is_not_renewed_goes_to_whoever_asks_next(ledger: RedisLedger) -> None:
    short, long, other = ledger.hold_as("one", 2.0), ledger.hold_as("one", 60.0), ledger.hold_as("two", 60.0)
    await short.claim("a")
    await short.claim("b")
    await long.claim("b")
    while await other.owner_of("a"):
        await asyncio.sleep(0.02)

    won = [await other.claim("a"), await other.claim("b")]

    assert won == [True, False]


async def test_processes_that_race_for_leases_agree_on_every_owner(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    found = [json.loads(one) for one in said(*(start("-c", LEASES, redis_server.url, "200") for _ in range(2)))]

    leases = ledger.hold_as("nobody", 60.0)
    owners = [await leases.owner_of(f"e{number}") for number in range(200)]
    assert found == [[me, [owner == me for owner in owners]] for me, _ in found]
    assert set(owners) <= {me for me, _ in found}


async def test_a_lease_outlives_a_restart_of_the_server(ledger: RedisLedger, redis_server: RedisServer) -> None:
    one, two = ledger.hold_as("one", 60.0), ledger.hold_as("two", 60.0)
    await one.claim("a")

    redis_server.restart()

    assert (await two.claim("a"), await two.owner_of("a")) == (False, "one")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_lease_lasts_for_a_time_that_makes_sense(ledger: RedisLedger, seconds: float) -> None:
    with pytest.raises(UsageError) as caught:
        ledger.hold_as("one", seconds)

    assert str(caught.value) == f"a lease lasts between a millisecond and a day, not {seconds!r} seconds"


async def test_questions_whose_callers_left_do_not_mix_up_the_answers(ledger: RedisLedger) -> None:
    for number in range(20):
        leases = ledger.hold_as(f"owner{number}", 60.0)
        await leases.claim(f"e{number}")
    for number in range(100):
        leaving = asyncio.create_task(leases.owner_of(f"e{number % 20}"))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])

    owners = await asyncio.gather(*(leases.owner_of(f"e{number}") for number in range(20)))

    assert owners == [f"owner{number}" for number in range(20)]
