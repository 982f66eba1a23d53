"""What every ledger does, whatever it is made of. A new one is done when it passes.

Kills and races, which need more than one process, are in `tests/ledger/test_sqlite_processes.py` and
`tests/ledger/test_redis.py`.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ledger.made_up import begun, given, made, outcome, pairs
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from toolfold import File, Media, Runtime, UsageError
from toolfold.errors import Fenced, LedgerFailed, LedgerFull
from toolfold.frameworks import openai_tool
from toolfold.ledger.base import (
    CallEntry,
    ExecutionFilter,
    ExecutionHistory,
    ExecutionSummary,
    LedgerChange,
    Moment,
    PauseEntry,
    Retention,
    SealedSnapshot,
    TapeEntry,
)
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.redis.store import RedisLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Call, CallRecord, ContextSaved, Program
from toolfold.tools.learned_replies import MOST_TOOLS, Lesson
from toolfold.tools.reply_shapes import merge_reply_shapes, shape_of_reply

AnyLedger = MemoryLedger | SqliteLedger | RedisLedger
Open = Callable[..., AnyLedger]

# Long: where no server is installed, one is fetched first.
SERVERS = [pytest.param(kind, marks=pytest.mark.long) for kind in ("redis", "sealed redis")]
KINDS = ["memory", "sqlite", "sealed", *SERVERS]
DAY = 86_400.0


@pytest.fixture(params=KINDS)
async def new_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens ledgers of one kind; a file is the same one each time."""
    opened: list[AnyLedger] = []

    def open_one(**options: Any) -> AnyLedger:
        key = b"k" * 32 if request.param.startswith("sealed") else None
        if request.param == "memory":
            ledger: AnyLedger = MemoryLedger(**options)
        elif request.param.endswith("redis"):
            server: RedisServer = request.getfixturevalue("redis_server")
            ledger = RedisLedger(server.url, key=key, **options)
        else:
            ledger = SqliteLedger(tmp_path / "ledger.sqlite", key=key, **options)
        opened.append(ledger)
        return ledger

    yield open_one
    for ledger in opened:
        await ledger.close()


@pytest.fixture
def ledger(new_ledger: Open) -> AnyLedger:
    return new_ledger()


async def test_an_execution_is_read_back_as_it_was_written(ledger: AnyLedger) -> None:
    began = begun("a", files=(File(name="in.csv", data=b"1"),), outside=("ask",), seed=7, tenant="t", session="s")
    noted = [
        TapeEntry(wakes=(1, 0), clocks=(1.5, 1_700_000_000_000_000_001)),
        made(1, ticker="ACME"),
        made(2, ticker="INIT"),
        given(2, [Media(kind="image", mime="image/png", data=b"x"), {"a": b"\xff"}, 2**70], ticker="INIT"),
        given(1, None, ticker="ACME"),
    ]
    calls = tuple(sorted((entry.record for entry in noted[3:]), key=lambda record: record.id))
    ended = outcome("a", value=[1, b"\0"], stdout="12.5\n", calls=calls, seconds=0.5)

    ledger.begin(began)
    ledger.note("a", *noted[:2])
    ledger.note("a", *noted[2:])
    await ledger.finish("a", ended)

    assert await ledger.load("a") == ExecutionHistory(
        start_record=began, entries=tuple(noted), state="ended", epoch=0, outcome=ended
    )


async def test_what_is_not_there_is_none(ledger: AnyLedger) -> None:
    assert await ledger.load("a") is None
    assert await ledger.list() == []
    assert await ledger.find("") == []


async def test_entries_of_many_executions_keep_their_order_each(ledger: AnyLedger) -> None:
    names = [f"e{number}" for number in range(20)]
    for name in names:
        ledger.begin(begun(name))
    for call_id in range(1, 31):
        for name in names:
            ledger.note(name, made(call_id, of=name))
        if call_id % 10 == 0:
            await asyncio.gather(*(ledger.flush(name) for name in names))

    histories = [await ledger.load(name) for name in names]

    assert [history and history.entries for history in histories] == [
        tuple(made(call_id, of=name) for call_id in range(1, 31)) for name in names
    ]


async def test_a_value_that_a_tool_changes_later_is_kept_as_it_was(ledger: AnyLedger) -> None:
    rows = [1, 2]
    arguments = {"rows": rows}
    ledger.begin(begun("a"))
    ledger.note("a", CallEntry(Call(id=1, tool="price", arguments=arguments)), given(1, rows))

    rows.append(3)
    arguments["more"] = []

    history = await ledger.load("a")
    assert history is not None
    assert history.entries == (made(1, rows=[1, 2]), given(1, [1, 2]))


async def test_the_listing_is_newest_first_and_pages_by_time(ledger: AnyLedger) -> None:
    for number in range(5):
        ledger.begin(begun(f"e{number}", began_at=1000.0 + number, tenant="odd" if number % 2 else "even"))
    ledger.note("e1", *pairs(3))
    await ledger.park("e2")
    await ledger.finish("e3", outcome("e3", status="failed", seconds=2.5))

    assert [one.execution_id for one in await ledger.list()] == ["e4", "e3", "e2", "e1", "e0"]
    assert [one.execution_id for one in await ledger.list(limit=2, before=1003.0)] == ["e2", "e1"]
    assert [one.execution_id for one in await ledger.list(tenant="odd")] == ["e3", "e1"]
    assert [(one.state, one.status, one.seconds, one.calls) for one in await ledger.list()] == [
        ("running", "", 0.0, 0),
        ("ended", "failed", 2.5, 0),
        ("paused", "", 0.0, 0),
        ("running", "", 0.0, 3),
        ("running", "", 0.0, 0),
    ]
    assert (await ledger.list())[-1] == ExecutionSummary(
        execution_id="e0",
        state="running",
        status="",
        began_at=1000.0,
        seconds=0.0,
        calls=0,
        first_line="print(await price('ACME'))",
        tenant="even",
    )


async def test_an_id_is_found_by_its_beginning(ledger: AnyLedger) -> None:
    for name in ("ab1", "ab2", "ac1", "AB3", "ab%"):
        ledger.begin(begun(name))

    assert await ledger.find("ac") == ["ac1"]
    assert await ledger.find("ab", limit=9) == ["ab%", "ab1", "ab2"]
    assert await ledger.find("ab") == ["ab%", "ab1"]
    assert await ledger.find("%") == []


async def test_a_pause_and_its_replies_are_states_of_the_record(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.park("a")
    paused = await ledger.load("a")
    await ledger.accept("a", [given(1, "yes")])
    going_on = await ledger.load("a")

    assert paused == ExecutionHistory(start_record=begun("a"), entries=(made(1),), state="paused", epoch=0)
    assert going_on == ExecutionHistory(
        start_record=begun("a"), entries=(made(1), given(1, "yes")), state="running", epoch=0
    )


async def test_the_latest_snapshot_is_kept_with_its_entry_until_the_end(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    ledger.begin(begun("b"))
    ledger.note("a", made(1))
    seen = [await ledger.snapshot("a")]
    for number in (1, 2):
        await ledger.park("a", snapshot=SealedSnapshot(number, b"round %d" % number))
        seen.append(await ledger.snapshot("a"))
        await ledger.accept("a", [given(number)])
    await ledger.park("a")
    seen.append(await ledger.snapshot("a"))
    paused = await ledger.load("a")
    await ledger.finish("a", outcome("a"))
    await ledger.park("b")

    assert seen == [None, b"round 1", b"round 2", b"round 2"]
    assert paused is not None
    assert paused.entries == (made(1), PauseEntry(1), given(1), PauseEntry(2), given(2))
    assert [await ledger.snapshot(name) for name in ("a", "b", "c")] == [None, None, None]


async def test_a_fenced_snapshot_replaces_nothing(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    await ledger.park("a", snapshot=SealedSnapshot(1, b"first"))
    await ledger.takeover("a")

    with pytest.raises(Fenced):
        await ledger.park("a", snapshot=SealedSnapshot(2, b"late"))

    history = await ledger.load("a")
    assert history is not None
    assert (await ledger.snapshot("a"), history.entries) == (b"first", (PauseEntry(1),))


async def test_a_snapshot_that_does_not_fit_is_left_out_and_the_pause_is_kept(new_ledger: Open) -> None:
    ledger = new_ledger(max_execution_bytes=5_000)
    ledger.begin(begun("a"))
    await ledger.park("a", snapshot=SealedSnapshot(1, b"x" * 100))
    await ledger.accept("a", [given(1)])
    await ledger.park("a", snapshot=SealedSnapshot(2, b"x" * 6_000))

    history = await ledger.load("a")
    assert history is not None
    assert (history.state, history.entries) == ("paused", (PauseEntry(1), given(1)))
    assert await ledger.snapshot("a") == b"x" * 100


async def test_two_ledgers_of_one_store_seal_snapshots_alike(new_ledger: Open) -> None:
    first, second = new_ledger(), new_ledger()
    seals = [one.snapshot_seal() for one in (first, first, second)]

    names = [seal.key_id for seal in seals if seal is not None]

    assert len(names) == 3
    assert len(set(names)) == (2 if isinstance(first, MemoryLedger) else 1)


async def test_whoever_takes_over_fences_everyone_before(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.park("a")

    epochs = [await ledger.takeover("a"), await ledger.takeover("a")]

    assert epochs == [1, 2]
    for epoch in (0, 1, 3):
        with pytest.raises(Fenced) as caught:
            await ledger.accept("a", [given(1)], epoch=epoch)
        assert str(caught.value) == "execution 'a' was taken over by another process; leave it to that one"
        with pytest.raises(Fenced):
            await ledger.park("a", epoch=epoch)
        with pytest.raises(Fenced):
            await note_and_flush(ledger, epoch)
    assert await ledger.load("a") == ExecutionHistory(
        start_record=begun("a"), entries=(made(1),), state="paused", epoch=2
    )

    await ledger.accept("a", [given(1, "late")], epoch=2)
    ledger.note("a", made(2), epoch=2)
    await ledger.finish("a", outcome("a"), epoch=2)

    history = await ledger.load("a")
    assert history is not None
    assert (history.state, history.entries) == ("ended", (made(1), given(1, "late"), made(2)))


async def test_what_was_secured_is_on_record_in_its_order(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    for number in (1, 2, 3):
        await safe(ledger.secure("a", made(number)))
        ledger.note("a", given(number))
    await safe(ledger.secure("a"))

    history = await ledger.load("a")

    assert history == ExecutionHistory(start_record=begun("a"), entries=tuple(pairs(3)), state="running", epoch=0)


async def test_nobody_secures_a_call_of_an_execution_that_was_taken_over(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    await safe(ledger.secure("a", made(1)))
    await ledger.takeover("a")

    with pytest.raises(Fenced):
        await safe(ledger.secure("a", made(2)))

    assert await ledger.load("a") == ExecutionHistory(
        start_record=begun("a"), entries=(made(1),), state="running", epoch=1
    )


async def safe(waits: Awaitable[None] | None) -> None:
    if waits is not None:
        await waits


async def test_a_fenced_outcome_is_refused_and_changes_nothing(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    await ledger.park("a")
    await ledger.accept("a", [])
    epoch = await ledger.takeover("a")
    await ledger.park("a", epoch=epoch)

    with pytest.raises(Fenced):
        await ledger.finish("a", outcome("a"))

    assert await ledger.load("a") == ExecutionHistory(start_record=begun("a"), state="paused", epoch=1)


async def test_writes_to_nothing_to_the_ended_and_to_the_same_id_are_refused(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    await ledger.finish("a", outcome("a"))

    with pytest.raises(UsageError) as never_begun:
        await ledger.park("b")
    with pytest.raises(UsageError) as ended:
        await ledger.accept("a", [given(1)])
    with pytest.raises(UsageError) as taken_over:
        await ledger.takeover("a")
    with pytest.raises(UsageError) as twice:
        await begin_and_flush(ledger)

    assert [str(caught.value) for caught in (never_begun, ended, taken_over, twice)] == [
        "no execution 'b' in the ledger; it may have been forgotten since",
        "execution 'a' has ended; its record takes no more",
        "execution 'a' has ended; its record takes no more",
        "execution 'a' is already in the ledger; ids are used once",
    ]


async def test_an_execution_that_is_too_large_keeps_its_start_and_cannot_be_parked(new_ledger: Open) -> None:
    ledger = new_ledger(max_execution_bytes=20_000)
    ledger.begin(begun("a"))
    ledger.begin(begun("b"))
    ledger.note("a", made(1), given(1, "x" * 5_000), made(2), given(2, "y" * 50_000))
    ledger.note("a", made(3), given(3, "small"))

    for refused in (ledger.flush("a"), ledger.park("a"), ledger.accept("a", [given(4)])):
        with pytest.raises(LedgerFull) as caught:
            await refused
        assert str(caught.value) == (
            "execution 'a' wants to keep more than 20000 bytes; let its tools return less, or raise the ledger's limit"
        )
    ended = outcome("a", calls=tuple(given(number).record for number in (1, 2, 3)))
    await ledger.finish("a", ended)
    await ledger.park("b")

    assert await ledger.load("a") == ExecutionHistory(
        start_record=begun("a"),
        entries=(made(1), given(1, "x" * 5_000), made(2), TapeEntry(is_spoilt=True)),
        state="ended",
        is_full=True,
        epoch=0,
        outcome=ended,
    )


async def test_replies_that_do_not_fit_are_refused_whole_and_a_smaller_one_is_taken(new_ledger: Open) -> None:
    ledger = new_ledger(max_execution_bytes=20_000)
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.park("a")

    with pytest.raises(LedgerFull):
        await ledger.accept("a", [given(1, "x" * 30_000)])
    await ledger.accept("a", [given(1, "x")])

    history = await ledger.load("a")
    assert history is not None
    assert history.entries == (made(1), given(1, "x"))


async def test_files_and_outcomes_that_do_not_fit_are_left_out_and_said(new_ledger: Open) -> None:
    ledger = new_ledger(max_execution_bytes=20_000)
    ledger.begin(begun("a", files=(File(name="big", data=b"x" * 30_000),)))
    with pytest.raises(LedgerFull):
        await ledger.flush("a")
    await ledger.finish("a", outcome("a", value="x" * 30_000, stdout="long", seconds=1.0))

    history = await ledger.load("a")

    hint = "the ledger kept no value, output, calls and files: together they are more than 20000 bytes"
    assert history == ExecutionHistory(
        start_record=begun("a"),
        entries=(TapeEntry(is_spoilt=True),),
        state="ended",
        is_full=True,
        epoch=0,
        outcome=outcome("a", seconds=1.0, hints=(hint,)),
    )


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (Retention(executions=3), ["e5", "e4", "paused"]),
        (Retention(total_bytes=30_000), ["e5", "e4", "paused"]),
        (Retention(age_seconds=0.0), ["paused"]),
        (Retention(open_age_seconds=0.0), ["e5", "e4", "e3", "e2", "e1"]),
        (Retention(), ["e5", "e4", "e3", "e2", "e1", "paused"]),
    ],
    ids=["count", "bytes", "age", "age of open ones", "all of it fits"],
)
async def test_the_oldest_that_ended_are_forgotten_and_a_paused_one_is_not(
    keep: Retention, left: list[str], ledger: AnyLedger
) -> None:
    ledger.begin(begun("paused", began_at=1.0))
    await ledger.park("paused")
    for number in range(1, 6):
        ledger.begin(begun(f"e{number}", began_at=1000.0 + number))
        ledger.note(f"e{number}", made(1), given(1, "x" * 10_000))
        await ledger.finish(f"e{number}", outcome(f"e{number}"))
        await ledger.load(f"e{number}")

    gone = await ledger.sweep(keep)

    assert ([one.execution_id for one in await ledger.list()], gone) == (left, 6 - len(left))
    assert [await ledger.load(name) is not None for name in left] == [True] * len(left)


async def test_a_paused_execution_outlives_every_limit_but_its_age(new_ledger: Open) -> None:
    ledger = new_ledger(keep=Retention(executions=1, total_bytes=1, open_age_seconds=DAY))
    for name in ("a", "b", "c"):
        ledger.begin(begun(name))
        await ledger.park(name)

    await ledger.sweep()

    assert len(await ledger.list()) == 3


async def test_one_that_expired_without_an_end_is_forgotten_ten_minutes_later(ledger: AnyLedger) -> None:
    forgotten_soon = time.time() - 600 + 3
    for name, expires_at in {"expired": forgotten_soon, "not yet": time.time() + 1, "never": 0.0}.items():
        ledger.begin(begun(name, expires_at=expires_at))
        await ledger.park(name)
    ledger.begin(begun("ended", expires_at=forgotten_soon))
    await ledger.finish("ended", outcome("ended"))

    while await ledger.load("expired") is not None:
        await ledger.sweep()
        await asyncio.sleep(0.05)

    assert sorted(one.execution_id for one in await ledger.list()) == ["ended", "never", "not yet"]


@pytest.mark.parametrize("jump", [40 * DAY, -40 * DAY])
async def test_a_clock_of_the_machine_that_is_set_makes_nothing_old(
    jump: float, new_ledger: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new_ledger()
    ledger.begin(begun("paused", expires_at=ledger.now() + 60))
    await ledger.park("paused")
    ledger.begin(begun("ended"))
    await ledger.finish("ended", outcome("ended"))
    before, machine = ledger.now(), time.time
    monkeypatch.setattr(time, "time", lambda: machine() + jump)

    await ledger.sweep()
    other = new_ledger()  # as after a restart
    await other.sweep()

    assert sorted(one.execution_id for one in await ledger.list()) == ["ended", "paused"]
    clocks = [ledger.now(), *([other.now()] if ledger.is_lasting else [])]
    assert [abs(now - before) < DAY for now in clocks] == [True] * len(clocks)


async def test_a_flood_of_one_tenant_leaves_the_records_of_the_others(new_ledger: Open) -> None:
    ledger = new_ledger(keep=Retention(executions=20))
    for number in range(5):
        ledger.begin(begun(f"quiet-{number}", tenant="quiet"))
        await ledger.finish(f"quiet-{number}", outcome(f"quiet-{number}"))
    for number in range(200):
        ledger.begin(begun(f"loud-{number}", tenant="loud"))
        await ledger.finish(f"loud-{number}", outcome(f"loud-{number}"))
    while len(await ledger.list(limit=500)) > 20:
        await ledger.sweep()
        await asyncio.sleep(0.01)

    assert len(await ledger.list(limit=500, tenant="quiet")) == 5


async def test_a_deleted_execution_is_gone_and_the_others_stay(ledger: AnyLedger) -> None:
    for name in ("ended", "kept", "paused"):
        ledger.begin(begun(name))
        ledger.note(name, made(1), given(1, "x"))
    await ledger.finish("ended", outcome("ended"))
    await ledger.finish("kept", outcome("kept"))
    await ledger.park("paused")

    deleted = [await ledger.delete(name) for name in ("ended", "paused", "ended", "unknown")]

    assert deleted == [True, True, False, False]
    assert [one.execution_id for one in await ledger.list()] == ["kept"]
    assert [await ledger.load(name) is None for name in ("ended", "paused", "kept")] == [True, True, False]


@pytest.mark.parametrize(("keep", "seconds"), [(Retention(age_seconds=DAY), DAY), (Retention(age_seconds=0.0), 3600)])
async def test_what_is_kept_of_ended_ones_holds_for_open_ones_too(keep: Retention, seconds: float) -> None:
    assert keep.open_seconds == seconds


async def test_a_note_costs_a_few_microseconds(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    call, reply = made(1, ticker="ACME"), given(1, {"price": 12.5}, ticker="ACME")
    costs = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(50):
            ledger.note("a", call)
            ledger.note("a", reply)
        costs.append((time.perf_counter() - began) / 100)

    # The best of twenty, with much room: other tests run on the same cores.
    assert min(costs) < 50e-6


async def test_closing_twice_is_no_error(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))

    await ledger.close()
    await ledger.close()


async def note_and_flush(ledger: AnyLedger, epoch: int) -> None:
    """A note may be refused at once or, where that takes a look into a file, with the next flush."""
    ledger.note("a", given(1), epoch=epoch)
    await ledger.flush("a")


async def begin_and_flush(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    await ledger.flush("a")


# lessons


def lesson(tool: str = "get_user", *, version: str = "v1", value: Any = None) -> Lesson:
    return Lesson(tool=tool, version=version, uses=1, seen=shape_of_reply(value))


async def test_lessons_add_up_and_are_read_by_the_next_to_open_the_ledger(new_ledger: Open) -> None:
    first = new_ledger()
    first.learn("acme", lesson(value={"id": 1, "name": "Ada"}))
    first.learn("acme", lesson(value={"id": 2}))
    first.learn("acme", lesson("list_users", value=[1]))
    ours = await first.learned("acme")
    await first.close()
    theirs = ours if isinstance(first, MemoryLedger) else await new_ledger().learned("acme")

    both = merge_reply_shapes(shape_of_reply({"id": 1, "name": "Ada"}), shape_of_reply({"id": 2}))
    expected = [Lesson(tool="get_user", version="v1", uses=2, seen=both), lesson("list_users", value=[1])]
    assert sorted(ours, key=lambda one: one.tool) == expected
    assert sorted(theirs, key=lambda one: one.tool) == expected


async def test_lessons_are_a_tenants_own(ledger: AnyLedger) -> None:
    ledger.learn("acme", lesson(value=1))

    assert await ledger.learned("acme") == [lesson(value=1)]
    assert await ledger.learned("") == []


async def test_a_changed_definition_drops_what_was_learned_of_the_old_one(ledger: AnyLedger) -> None:
    ledger.learn("", lesson(value={"old": 1}))
    ledger.learn("", lesson(version="v2", value={"new": 1}))

    assert await ledger.learned("") == [lesson(version="v2", value={"new": 1})]


@pytest.mark.long
async def test_the_store_of_lessons_stays_within_its_bound(ledger: AnyLedger) -> None:
    for number in range(MOST_TOOLS + 20):
        ledger.learn("", lesson(f"tool_{number}", value={f"key_{number}": number}))

    kept = await ledger.learned("")

    assert len(kept) == MOST_TOOLS
    assert f"tool_{MOST_TOOLS + 19}" in {one.tool for one in kept}


async def first(changes: AsyncIterator[LedgerChange], count: int) -> list[LedgerChange]:
    return [await anext(changes) for _ in range(count)]


async def test_what_others_write_is_followed_in_order_and_after_a_cursor_without_a_gap(new_ledger: Open) -> None:
    writer = new_ledger()
    reader = writer if isinstance(writer, MemoryLedger) else new_ledger()
    following = reader.follow()
    from_now_on = await anext(following)

    for name in "abc":
        writer.begin(begun(name))
        await writer.flush(name)
    changes = await first(following, 3)
    await following.aclose()
    writer.note("b", made(1))
    await writer.flush("b")
    await writer.finish("c", outcome("c"), wait=True)

    assert [change.execution_id for change in (from_now_on, *changes)] == ["", "a", "b", "c"]
    if isinstance(writer, MemoryLedger):  # keeps nothing for who is not there, and says so
        assert (await first(reader.follow(changes[1].cursor), 1))[0].execution_id == ""
        return
    # SQLite tells of an execution that was written twice in between once, in the place of the last time.
    told_later = ["b", "c"] if isinstance(writer, SqliteLedger) else ["c", "b", "c"]
    later = await first(reader.follow(changes[1].cursor), len(told_later))
    assert [change.execution_id for change in later] == told_later
    assert len({change.cursor for change in (*changes, *later[-2:])}) == 5


async def test_a_story_goes_on_where_the_last_one_ended(ledger: AnyLedger) -> None:
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.flush("a")
    first_part = await ledger.story("a")
    ledger.note("a", given(1, "x"), Moment(kind="printed", at=1.5, text="hi\n", facts={"stream": "stdout"}))
    await ledger.flush("a")
    second_part = await ledger.story("a", after=first_part.place)
    await ledger.finish("a", outcome("a", stdout="hi\n"), wait=True)
    last_part = await ledger.story("a", after=second_part.place)

    assert (first_part.state, first_part.entries) == ("running", (made(1),))
    assert second_part.entries == (
        given(1, "x"),
        Moment(kind="printed", at=1.5, text="hi\n", facts={"stream": "stdout"}),
    )
    assert (last_part.state, last_part.entries, last_part.outcome.stdout) == ("ended", (), "hi\n")
    assert await ledger.story("nobody") is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ExecutionFilter(), "dcba"),
        (ExecutionFilter(state="running"), "d"),
        (ExecutionFilter(status="failed"), "b"),
        (ExecutionFilter(interface="mcp"), "cb"),
        (ExecutionFilter(tool="price"), "ba"),
        (ExecutionFilter(tool="nothing"), ""),
        (ExecutionFilter(tenant="t"), "c"),
        (ExecutionFilter(session="s"), "a"),
        (ExecutionFilter(since=1001.0, until=1003.0), "cb"),
        (ExecutionFilter(text="100%"), "c"),
        (ExecutionFilter(text="PRICE"), "dba"),
        (ExecutionFilter(interface="mcp", tool="price"), "b"),
        (ExecutionFilter(id="b"), "b"),
        (ExecutionFilter(id="b", tenant="t"), ""),
        (ExecutionFilter(state="ended"), "cba"),
        (ExecutionFilter(state="ended", since=1001.0), "cb"),
        (ExecutionFilter(status="finished", text="price"), "a"),
        (ExecutionFilter(interface="", text="price"), "d"),
        (ExecutionFilter(session=""), "dcb"),
    ],
    ids=repr,
)
async def test_executions_are_found_by_what_is_known_of_them(
    ledger: AnyLedger, wanted: ExecutionFilter, found: str
) -> None:
    call = CallRecord(id=1, name="price", arguments={}, seconds=0.5, error="no", bytes_out=7)
    ledger.begin(begun("a", session="s", interface="cli"))
    ledger.begin(begun("b", began_at=1001.0, interface="mcp"))
    ledger.begin(begun("c", began_at=1002.0, interface="mcp", tenant="t", program=Program(text="'100%'")))
    ledger.begin(begun("d", began_at=1003.0))
    await ledger.finish("a", outcome("a", calls=(replace(call, error=None),)))
    saved = ContextSaved(bytes=-50)
    await ledger.finish("b", outcome("b", status="failed", calls=(call,), seconds=1.0, context_saved=saved))
    await ledger.finish("c", outcome("c", context_saved=ContextSaved(bytes=70)))

    if wanted.text and ledger.is_sealed:
        found = ""  # what the key hides cannot be searched through

    page = await ledger.search(wanted)
    second = await ledger.search(wanted, limit=1, before=page[0].execution_id) if page else []

    assert "".join(summary.execution_id for summary in page) == found
    assert "".join(summary.execution_id for summary in second) == found[1:2]
    assert await ledger.counts(1001.0) == {"running": 1, "paused": 0, "recent": 3, "failed": 1}
    assert list(await ledger.savings(1001.0, 10.0)) == [(1000.0, "mcp", 2, 70, 50)]
    assert [(at, use.tool, use.calls, use.failed, use.error) for at, use in await ledger.uses(9)] == [
        (1001.0, "price", 1, 1, "no"),
        (1000.0, "price", 1, 0, ""),
    ]
    failed = next((summary for summary in page if summary.status == "failed"), None)
    if failed is not None:
        assert (failed.failed, failed.saved_bytes, failed.lanes) == (1, -50, ((0, 500, 0, 1),))


async def test_pages_hold_everyone_once_also_where_many_began_in_the_same_moment(ledger: AnyLedger) -> None:
    names = [f"{number:03}" for number in range(60)]
    for number, name in enumerate(names):
        ledger.begin(begun(name, began_at=1000.0 + number // 25, interface="mcp" if number % 2 else "cli"))
        await ledger.finish(name, outcome(name))

    async def paged(wanted: ExecutionFilter) -> list[str]:
        found: list[str] = []
        while page := await ledger.search(wanted, limit=7, before=found[-1] if found else ""):
            found += [summary.execution_id for summary in page]
        return found

    assert await paged(ExecutionFilter()) == names[::-1]
    assert await paged(ExecutionFilter(interface="mcp")) == names[1::2][::-1]
    if not ledger.is_sealed:
        assert await paged(ExecutionFilter(text="acme", until=1002.0)) == names[49::-1]


async def test_an_execution_is_found_by_what_it_is_now_and_not_by_what_it_was(ledger: AnyLedger) -> None:
    async def found(**wanted: Any) -> str:
        return "".join(summary.execution_id for summary in await ledger.search(ExecutionFilter(**wanted)))

    ledger.begin(begun("a"))
    await ledger.flush("a")
    before = (await found(state="running"), await found(state="paused"), await found(state="ended"))
    await ledger.park("a")
    paused = (await found(state="running"), await found(state="paused"), (await ledger.counts(0.0))["paused"])
    await ledger.takeover("a")
    ledger.note("a", made(1), epoch=1)
    call = CallRecord(id=1, name="price", arguments={})
    await ledger.finish("a", outcome("a", status="timeout", calls=(call,)), epoch=1, wait=True)

    assert (before, paused) == (("a", "", ""), ("", "a", 1))
    assert (await found(state="running"), await found(state="paused"), await found(state="ended")) == ("", "", "a")
    assert (await found(status="timeout"), await found(status=""), await found(tool="price")) == ("a", "", "a")


async def test_what_is_forgotten_is_in_no_list(ledger: AnyLedger) -> None:
    call = CallRecord(id=1, name="price", arguments={})
    for name in "ab":
        ledger.begin(begun(name, interface="mcp", session="s", tenant="t"))
        await ledger.finish(name, outcome(name, calls=(call,)), wait=True)

    assert await ledger.delete("a")

    wanted = [
        ExecutionFilter(), ExecutionFilter(state="ended"), ExecutionFilter(status="finished"), ExecutionFilter(interface="mcp"), ExecutionFilter(session="s"),
        ExecutionFilter(tenant="t"), ExecutionFilter(tool="price"), *([] if ledger.is_sealed else [ExecutionFilter(text="price")]),
    ]  # fmt: skip
    found = [[summary.execution_id for summary in await ledger.search(one)] for one in wanted]
    assert found == [["b"]] * len(wanted)
    assert await ledger.counts(0.0, "t") == {"running": 0, "paused": 0, "recent": 1, "failed": 0}
    assert await ledger.counts(0.0, "other") == {"running": 0, "paused": 0, "recent": 0, "failed": 0}
    assert (list(await ledger.savings(0.0, 10.0, "other")), list(await ledger.uses(9, "other"))) == ([], [])


# what cannot be written


async def test_programs_with_half_a_surrogate_pair_are_recorded_and_their_neighbours_too(ledger: AnyLedger) -> None:
    texts = ["1 + 1"] * 20
    texts[3], texts[11], texts[19] = 'x = "\ud83d"', "\udc00" * 100, "\n\n# first\n'\udfff'"

    async with Runtime(ledger=ledger) as runtime:
        tool = openai_tool(runtime)
        calls = [
            {
                "type": "function_call",
                "name": "execute_program",
                "call_id": str(number),
                "arguments": json.dumps({"code": text}),
            }
            for number, text in enumerate(texts)
        ]
        await asyncio.gather(*map(tool.answer, calls))
        summaries = await ledger.list(limit=100)

    assert Counter((summary.status, summary.first_line) for summary in summaries) == {
        ("finished", "1 + 1"): 17,
        ("rejected", 'x = "\\ud83d"'): 1,
        ("rejected", ("\\udc00" * 14)[:79] + "…"): 1,
        ("rejected", "# first"): 1,
    }


@pytest.mark.parametrize("new_ledger", KINDS[1:], indirect=True)
async def test_a_write_that_no_store_can_take_loses_only_itself(
    ledger: AnyLedger, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["a", "bad", "c"]
    for name in names:
        ledger.begin(begun(name, tenant="\ud83d" if name == "bad" else ""))
        ledger.note(name, made(1))
    flushed = await asyncio.gather(*map(ledger.flush, names), return_exceptions=True)
    ledger.note("a", given(1))
    await ledger.finish("bad", outcome("bad"))
    await ledger.finish("a", outcome("a"), wait=True)

    histories = [await ledger.load(name) for name in names]

    assert [type(error) for error in flushed] == [type(None), LedgerFailed, type(None)]
    assert str(flushed[1]).startswith("execution 'bad' cannot be recorded: ")
    assert [history and (history.state, history.entries) for history in histories] == [
        ("ended", (made(1), given(1))),
        None,
        ("running", (made(1),)),
    ]
    assert "check its disk" not in caplog.text


@pytest.mark.parametrize("new_ledger", KINDS[1:], indirect=True)
async def test_a_question_with_half_a_surrogate_pair_is_refused_in_one_line(ledger: AnyLedger) -> None:
    refusals = await asyncio.gather(
        ledger.find("\ud83d"),
        ledger.load("\ud83d"),
        ledger.search(ExecutionFilter(tenant="\ud83d")),
        return_exceptions=True,
    )

    assert [type(refusal) for refusal in refusals] == [UsageError] * 3
    assert str(refusals[1]) == "the ledger has no record with '\\ud83d': that is not valid Unicode text"
