"""What finds executions on a Redis server: complete for ledgers of older versions, and gone with what it finds."""

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis

from tests.ledger.made_up import begun, made, outcome
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from toolfold.ledger.base import ExecutionFilter, Retention
from toolfold.ledger.redis.store import RedisLedger
from toolfold.models import CallRecord, ContextSaved, Program

pytestmark = pytest.mark.long

AT = "{toolfold}:"
FILTERS = [
    ExecutionFilter(), ExecutionFilter(state="ended"), ExecutionFilter(status="finished"), ExecutionFilter(interface="mcp"), ExecutionFilter(session="s"),
    ExecutionFilter(tool="price"), ExecutionFilter(text="acme"),
]  # fmt: skip
CALL = CallRecord(id=1, name="price", arguments={})


@pytest.fixture
async def opened(redis_server: RedisServer) -> AsyncIterator[Callable[..., RedisLedger]]:
    """Opens the ledger as one more process would."""
    ledgers: list[RedisLedger] = []

    # Any: options of the ledger.
    def open_one(**options: Any) -> RedisLedger:
        ledgers.append(RedisLedger(redis_server.url, **options))
        return ledgers[-1]

    yield open_one
    for ledger in ledgers:
        await ledger.close()


@pytest.fixture
def ledger(opened: Callable[..., RedisLedger]) -> RedisLedger:
    return opened()


def index_keys(client: redis.Redis) -> list[str]:
    keys = [key.decode().removeprefix(AT) for key in client.scan_iter(match=f"{AT}*")]
    return sorted(key for key in keys if key.startswith(("by:", "titles")) or key == "indexed")


def forget_index(server: RedisServer) -> None:
    """The ledger as a toolfold leaves it that knows no index."""
    with server.client() as client:
        for key in index_keys(client):
            client.delete(AT + key)
        for row in client.scan_iter(match=f"{AT}x:*"):
            client.hdel(row, "saved")


async def found(ledger: RedisLedger, wanted: ExecutionFilter) -> str:
    return "".join(summary.execution_id for summary in await ledger.search(wanted))


async def written(ledger: RedisLedger, *names: str) -> None:
    for number, name in enumerate(names):
        ledger.begin(begun(name, began_at=1000.0 + number, interface="mcp", session="s"))
        ended = outcome(name, calls=(CALL,), context_saved=ContextSaved(bytes=7))
        await ledger.finish(name, ended, wait=True)


@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "sealed"])
async def test_a_ledger_of_an_older_version_is_indexed_when_somebody_looks(
    redis_server: RedisServer, opened: Callable[..., RedisLedger], key: bytes | None
) -> None:
    older = opened(key=key)
    await written(older, "a", "b")
    older.begin(begun("c", began_at=1002.0))
    await older.close()
    forget_index(redis_server)

    newer = opened(key=key)
    answers = [await found(newer, wanted) for wanted in FILTERS[:-1]]
    by_text = await found(newer, FILTERS[-1])
    savings = list(await newer.savings(0.0, 10.0))
    newer.note("c", made(1))
    await newer.finish("c", outcome("c", status="failed"), wait=True)
    failed = await found(newer, ExecutionFilter(status="failed"))

    assert answers == ["cba", "ba", "ba", "ba", "ba", "ba"]
    assert (by_text, savings, failed) == ("" if key else "cba", [(1000.0, "mcp", 2, 14, 0)], "c")


async def test_what_an_older_version_ended_or_forgot_meanwhile_is_mended(
    redis_server: RedisServer, opened: Callable[..., RedisLedger]
) -> None:
    ledger, other = opened(), opened()
    await written(ledger, "a")
    for name in "bc":
        ledger.begin(begun(name, began_at=1005.0))
        await ledger.flush(name)
    with redis_server.client() as client:
        client.hset(f"{AT}x:b", mapping={"state": "ended", "status": "failed"})  # by one that writes no index
        client.delete(f"{AT}x:a", f"{AT}p:a")
        client.zrem(f"{AT}times", "a")
        answers = [
            await found(other, one)
            for one in (ExecutionFilter(), ExecutionFilter(state="running"), ExecutionFilter(status="failed"))
        ]
        counts = await other.counts(0.0)
        left = client.hkeys(f"{AT}indexed")

    assert answers == ["cb", "c", "b"]
    assert counts == {"running": 1, "paused": 0, "recent": 2, "failed": 1}
    assert sorted(left) == [b"b", b"c"]


async def test_a_record_that_expired_leaves_the_lists_and_then_the_index(
    redis_server: RedisServer, ledger: RedisLedger
) -> None:
    await written(ledger, "a")
    with redis_server.client() as client:
        client.delete(f"{AT}x:a", f"{AT}p:a")  # as the server does by itself
        gone = [await found(ledger, wanted) for wanted in FILTERS]
        kept = index_keys(client)

        swept = await ledger.sweep(Retention(age_seconds=0.0))

        assert (gone, swept, index_keys(client)) == ([""] * len(FILTERS), 1, [])
    assert [key.rpartition(":")[0] for key in kept] == [
        "by:door", "by:session", "by:state", "by:status", "by:tool", "", *["titles"] * 5
    ]  # fmt: skip


async def test_a_search_goes_on_where_the_server_was_not_asked_to_look_further(
    ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolfold.ledger.redis.listing._LOOKED_AT", 500)
    for number in range(1200):
        text = "'needle'" if number % 500 == 3 else "'hay'"
        name = f"{number:04}"
        ledger.begin(begun(name, began_at=float(number // 2), program=Program(text=text), tenant=f"t{number % 2}"))
        await ledger.finish(name, outcome(name, context_saved=ContextSaved(bytes=1)))

    assert await found(ledger, ExecutionFilter(text="needle")) == "100305030003"
    assert await found(ledger, ExecutionFilter(text="needle", tenant="t0")) == ""
    assert list(await ledger.savings(0.0, 10_000.0)) == [(0.0, "", 1200, 1200, 0)]
    assert len(await ledger.search(ExecutionFilter(), limit=5000)) == 1200


async def in_pages(ledger: RedisLedger, wanted: ExecutionFilter, size: int) -> list[str]:
    pages = [[one.execution_id for one in await ledger.search(wanted, limit=size)]]
    while len(pages[-1]) == size:
        pages.append([one.execution_id for one in await ledger.search(wanted, limit=size, before=pages[-1][-1])])
    return [name for page in pages for name in page]


@pytest.mark.parametrize(("read_bytes", "in_vain"), [(1, 5000), (1 << 20, 10)])
async def test_a_text_is_found_newest_first_however_the_executions_came_in(
    ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, read_bytes: int, in_vain: int
) -> None:
    monkeypatch.setattr("toolfold.ledger.redis.listing._READ_BYTES", read_bytes)
    monkeypatch.setattr("toolfold.ledger.redis.listing._IN_VAIN", in_vain)
    monkeypatch.setattr("toolfold.ledger.redis.listing._FEW", 200)
    luck = random.Random(7)
    facts = []
    for number in range(3000):
        name = f"{number:05}-hay"
        # Mostly in order, as clocks of several machines are, and some long after they began.
        began_at = float(luck.choice([number // 3, number // 3 - luck.randrange(40), luck.randrange(1000)]))
        text = luck.choice(["'Needle %d'", "'hay %d'", "'hay\0stack %d'", "'\u00c4rger %d'"]) % (number % 7)
        facts.append(
            (began_at, name, text.lower().replace("\0", ""), f"s{number % 30}", "cli" if number % 2 else "mcp")
        )
        ledger.begin(
            begun(
                name, began_at=began_at, program=Program(text=text), session=f"s{number % 30}", interface=facts[-1][4]
            )
        )
        await ledger.finish(name, outcome(name))
    facts.sort(reverse=True)

    asked = [
        ("NEEDLE", None, None),
        ("\u00e4rger 3", None, "mcp"),
        ("hay", "s4", None),
        ("haystack 1", "s9", "cli"),
        ("5-hay", None, None),
    ]
    answers = [
        await in_pages(ledger, ExecutionFilter(text=text, session=session, interface=interface), 64)
        for text, session, interface in asked
    ]

    assert answers == [
        [
            name
            for _, name, line, of, by in facts
            if text.lower() in line and session in (None, of) and interface in (None, by)
        ]
        for text, session, interface in asked
    ]
    assert await found(ledger, ExecutionFilter(text="needle", since=500.0, until=501.0)) == "".join(
        name for began_at, name, line, *_ in facts if began_at == 500.0 and "needle" in line
    )
    assert await found(ledger, ExecutionFilter(text="\0")) == ""


async def test_nothing_of_a_first_line_is_left_once_its_execution_was_deleted(
    redis_server: RedisServer, ledger: RedisLedger
) -> None:
    for name in "abc":
        ledger.begin(begun(name, program=Program(text=f"'{name} secret'")))
        await ledger.finish(name, outcome(name), wait=True)

    await ledger.delete("b")

    with redis_server.client() as client:
        kept = client.get(f"{AT}titles:1")
    assert isinstance(kept, bytes)
    assert (kept.count(b"secret"), kept.count(b"b"), await found(ledger, ExecutionFilter(text="secret"))) == (
        2,
        0,
        "ca",
    )


async def test_the_earlier_form_of_the_index_is_replaced(redis_server: RedisServer, ledger: RedisLedger) -> None:
    await written(ledger, "a")
    with redis_server.client() as client:
        client.zadd(f"{AT}titles", {"a\0'acme'": 1000.0})
        client.delete(f"{AT}titles:latest", f"{AT}titles:earliest", f"{AT}titles:left", f"{AT}titles:1")

        assert [await found(ledger, wanted) for wanted in FILTERS] == ["a"] * len(FILTERS)
        assert not client.exists(f"{AT}titles")
