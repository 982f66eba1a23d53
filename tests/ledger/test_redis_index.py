"""What finds executions on a Redis server: gone with what it finds, and migrated from the formats before.

The samples were written by the code of commit f546cd8: the keys of a server, without the times at which they expire.
"""

import gzip
import json
import random
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from tests.ledger.made_up import SAMPLE_CONTENTS, begun, given, outcome, sample_contents
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from toolfold import Reply, Runtime, UsageError, tool
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


async def found(ledger: RedisLedger, wanted: ExecutionFilter) -> str:
    return "".join(summary.execution_id for summary in await ledger.search(wanted))


async def written(ledger: RedisLedger, *names: str) -> None:
    for number, name in enumerate(names):
        ledger.begin(begun(name, began_at=1000.0 + number, interface="mcp", session="s"))
        ended = outcome(name, calls=(CALL,), context_saved=ContextSaved(bytes=7))
        await ledger.finish(name, ended, wait=True)


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
        "by:interface", "by:session", "by:state", "by:status", "by", "by:tool", ""
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


@pytest.mark.parametrize("looked_at", [100, 20_000])
async def test_a_text_is_found_newest_first_however_the_executions_came_in(
    ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr("toolfold.ledger.redis.listing._LOOKED_AT", looked_at)
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
        titles, entries = client.zrange(f"{AT}by:title", 0, -1), client.hkeys(f"{AT}indexed")
    assert titles == [b"a\0'a secret'", b"c\0'c secret'"]
    assert (sorted(entries), await found(ledger, ExecutionFilter(text="secret"))) == ([b"a", b"c"], "ca")


KEYS = {"redis1": None, "redis1-sealed": "correct horse battery staple"}
PRICE = given(1, 7.5, symbol="ACME")


@tool
async def save(key: int) -> int:
    """Keeps a number."""
    return key * 10


def restore(client: redis.Redis, name: str) -> None:
    """The keys of a sample, on an empty server."""
    sample = Path(__file__).parent / "formats" / f"{name}.json.gz"
    for key, kind, stored in json.loads(gzip.decompress(sample.read_bytes())):
        match kind:
            case "string":
                client.set(key, b64decode(stored))
            case "hash":
                client.hset(key, mapping={b64decode(field): b64decode(value) for field, value in stored})
            case "list":
                client.rpush(key, *map(b64decode, stored))
            case "zset":
                client.zadd(key, {b64decode(member): float(score) for member, score in stored})
            case "stream":
                for entry_id, fields in stored:
                    client.xadd(key, {b64decode(field): b64decode(value) for field, value in fields}, id=entry_id)


def stored_values(client: redis.Redis) -> dict[str, Any]:
    """Everything on a server; the sets of each execution in the index are unpacked."""
    readers: dict[bytes, Callable[[bytes], Any]] = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"stream": client.xrange,
    }
    values = {key.decode(): readers[client.type(key)](key) for key in client.scan_iter()}
    index = values[f"{AT}indexed"]
    return {**values, f"{AT}indexed": {name: msgspec.msgpack.decode(packed) for name, packed in index.items()}}


def rename_doors(values: dict[str, Any]) -> dict[str, Any]:
    """Values of format 1 as those of format 2: a door is an interface."""
    renamed = {key.replace(":by:door:", ":by:interface:"): value for key, value in values.items()}
    for key, value in renamed.items():
        if key.startswith(f"{AT}x:"):
            renamed[key] = {b"interface" if field == b"door" else field: value[field] for field in value}
    renamed[f"{AT}indexed"] = {
        execution_id: [place.replace("by:door:", "by:interface:") for place in places]
        for execution_id, places in values[f"{AT}indexed"].items()
    }
    return {**renamed, f"{AT}facts": {**values[f"{AT}facts"], b"format": b"2"}}


def to_format_2(client: redis.Redis) -> None:
    for key, value in rename_doors(stored_values(client)).items():
        if key.startswith(f"{AT}by:interface:"):
            client.zadd(key, dict(value))
            client.delete(key.replace(":by:interface:", ":by:door:"))
        elif key == f"{AT}indexed":
            client.hset(key, mapping={name: msgspec.msgpack.encode(places) for name, places in value.items()})
        elif key.startswith(f"{AT}x:") or key == f"{AT}facts":
            client.hset(key, mapping=value)
            client.hdel(key, "door")


def title_entries(block: bytes) -> dict[bytes, tuple[str, float]]:
    """By execution: the titles in a block of formats 1 and 2 and when each began."""
    lines = [line.partition(b"\0") for line in block.splitlines()]
    return {line.split()[1]: (title.decode(), float(line.split()[0])) for title, _, line in lines}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", list(KEYS))
async def test_a_ledger_of_an_older_format_is_migrated_with_every_value(
    redis_server: RedisServer,
    opened: Callable[..., RedisLedger],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    version: int,
) -> None:
    monkeypatch.setattr("toolfold.ledger.redis.connection._MIGRATED_AT_ONCE", 1)
    with redis_server.client() as client:
        restore(client, name)
        before = rename_doors(stored_values(client))
        if version == 2:
            to_format_2(client)
            assert stored_values(client) == before

        ledger = opened(key=KEYS[name])
        after = stored_values(client)
        client.hset(f"{AT}facts", "format", version)  # as if it had been killed before the last step
        opened(key=KEYS[name])
        after_another = stored_values(client)
    contents = await sample_contents(ledger)

    titles = title_entries(before.get(f"{AT}titles:1", b""))
    expected = {key: value for key, value in before.items() if not key.startswith(f"{AT}titles:")}
    expected[f"{AT}facts"] = {**before[f"{AT}facts"], b"format": b"3"}
    if titles:
        by_title = [(began_at, name + b"\0" + title.encode()) for name, (title, began_at) in titles.items()]
        expected[f"{AT}by:title"] = [(member, began_at) for began_at, member in sorted(by_title)]
        entries = before[f"{AT}indexed"].items()
        expected[f"{AT}indexed"] = {name: [titles[name][0], *places[1:]] for name, places in entries}
    assert (after, after_another) == (expected, expected)
    assert contents == SAMPLE_CONTENTS


@pytest.mark.parametrize("name", list(KEYS))
async def test_a_paused_program_of_format_1_is_resumed_and_all_of_its_index_goes_with_it(
    redis_server: RedisServer, opened: Callable[..., RedisLedger], name: str
) -> None:
    with redis_server.client() as client:
        restore(client, name)
        ledger = opened(key=KEYS[name], keep=Retention(age_seconds=1e9))

        async with Runtime([save], ledger=ledger, engine="process") as runtime:
            resumed = await runtime.resume("b" * 16, [Reply(call_id=2, value="answer")])
        finished = await found(ledger, ExecutionFilter(interface="mcp", status="finished"))
        for letter in "abcde":
            await ledger.delete(letter * 16)

        assert (getattr(resumed, "stdout", ""), finished) == ("30 answer\n", "b" * 16 + "a" * 16)
        assert index_keys(client) == []


@pytest.mark.parametrize("change", ["no index", "other form"])
async def test_an_index_from_before_format_1_is_refused_and_left_alone(redis_server: RedisServer, change: str) -> None:
    with redis_server.client() as client:
        restore(client, "redis1")
        if change == "no index":
            client.delete(*(AT + key for key in index_keys(client)))
            client.hset(f"{AT}indexed", "e" * 16, msgspec.msgpack.encode([""]))
        else:
            client.zadd(f"{AT}titles", {"a\0'acme'": 1000.0})
        before = stored_values(client)

        with pytest.raises(UsageError) as caught:
            RedisLedger(redis_server.url)

        assert stored_values(client) == before
    assert str(caught.value) == (
        f"ledger '{redis_server.url}' has an index from before format 1, which is not read; "
        "delete its keys, '{toolfold}:*', to begin a new one, or name another database"
    )
