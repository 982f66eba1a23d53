"""Programs on Monty that outlive their host: kept as sealed snapshots, or replayed where there can be none."""

import copy
import random
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.killed import ASK, Host
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from tests.test_kill import PLAIN, UNINTERRUPTED
from toolfold import File, Media, Outcome, Paused, Reply, Runtime, UsageError, tool
from toolfold.errors import SealBroken
from toolfold.ledger.base import PauseEntry, TapeEntry
from toolfold.ledger.encryption import Seal
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.redis.store import RedisLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

PICTURE = Media(kind="image", mime="image/png", data=b"\x89PNG", name="dot.png")
SMALL = "results = await asyncio.gather(*[ask([n]) for n in range(20)])\nprint(results)"


class Unsealed(MemoryLedger):
    """A ledger where nothing can be sealed: `cryptography` is not installed, or no key can be kept."""

    def snapshot_seal(self) -> Seal | None:
        return None


@dataclass
class Hosts:
    """Runtimes that follow each other on one ledger; each ends at a pause, or only the last one does."""

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    moves: bool = True
    saved: list[int] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    policy: Policy | None = None
    on_save: Callable[[], None] = lambda: None
    on_look: Callable[[], None] = lambda: None

    def runtime(self) -> Runtime:
        @tool
        async def save(key: int) -> int:
            """Has an effect."""
            self.saved.append(key)
            self.on_save()
            return key * 10

        @tool(read_only=True)
        async def look(key: int) -> int:
            """Has none."""
            self.on_look()
            return key * 100

        tools = [save, look]
        return Runtime(tools, engine="monty", ledger=self.ledger, policy=self.policy)

    async def play(self, text: str, chance: random.Random, **options: Any) -> Outcome:
        """The whole of a program; some or all of its open calls are answered at each pause."""
        runtime = self.runtime()
        await runtime.__aenter__()
        try:
            step = await runtime.start(text, tools=[ASK], **options)
            while isinstance(step, Paused):
                self.asked.append([call.arguments["q"] for call in step.calls])
                self.sizes.append(len(await self.ledger.snapshot(step.execution_id) or b""))
                if self.moves:
                    await runtime.__aexit__()
                    runtime = self.runtime()
                    await runtime.__aenter__()
                some = chance.sample(list(step.calls), chance.randint(1, len(step.calls)))
                step = await runtime.resume(step.execution_id, [answer(call.id, call.arguments["q"]) for call in some])
        finally:
            await runtime.__aexit__()
        return step


def answer(call_id: int, q: Any) -> Reply:
    match q:
        case "fail":
            return Reply(call_id=call_id, error="it failed")
        case "picture":
            return Reply(call_id=call_id, value=PICTURE)
        case _:
            return Reply(call_id=call_id, value=["re", q])


def facts(outcome: Outcome) -> dict[str, Any]:
    """What must not depend on who ran it; which of two chains came first may."""
    return {
        "status": outcome.status,
        "value": outcome.value,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "calls": sorted(f"{call.name} {_timeless(call.arguments)} {call.error}" for call in outcome.calls),
        "files": outcome.files,
    }


def _timeless(arguments: Mapping[str, Any]) -> Any:
    """Without a clock's reading, which is the only number that is not whole."""
    return "a time" if isinstance(arguments.get("q"), float) else arguments


# Each is a few lines that stand at the top level or, indented, in a function; `{n}` is a number.
PARTS = [
    "print(await ask({n}))",
    "print(await asyncio.gather(*[ask([{n}, k]) for k in range({n})]))",
    "print(tools.ask('sync {n}'))",
    "total += await save({n})",
    "print(await look({n}), await look(total))",
    "try:\n    await ask('fail')\nexcept ToolError as error:\n    print('caught', error)",
    "later = asyncio.create_task(ask('later {n}'))\nprint(await ask('now'), await later)",
    "print(await asyncio.wait_for(ask('in time {n}'), 60))",
    "async def chain(k):\n    first = await ask(['first', k])\n    await asyncio.sleep(0.001)\n    return [first, await ask(['second', k]), await look(k)]\n"
    "print(await asyncio.gather(*[chain(k) for k in range({n})]))",
    "limit = asyncio.Semaphore(2)\nasync def limited(k):\n    async with limit:\n        return await ask(['limited', k])\n"
    "print(await asyncio.gather(*[limited(k) for k in range({n} + 1)]))",
    "import time\nbefore = time.time()\nsaid = await ask(before)\nprint(said[1] == before, time.time() >= before)",
    "import random\nrandom.seed({n})\nprint(random.random(), await ask('dice'), random.random())",
    "picture = await ask('picture')\nprint(await ask(picture.mime), picture.name)\nkept.append(picture)",
    "with open('notes.txt', 'a') as notes:\n    notes.write('{n};')\nprint(await ask(open('notes.txt').read()))",
    "from pathlib import Path\nPath('made/{n}').mkdir(parents=True, exist_ok=True)\nawait ask('folder')\nprint(Path('made/{n}').is_dir())",
    "from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int\np = Point({n})\nawait ask('point')\nprint(p, p.x)",
    "print({{k: await ask(k) for k in range({n})}})",
]
LOOKING = [
    "print(await asyncio.gather(*[look(k) for k in range({n})]), await ask('x'))",
    "async def two(k):\n    first = await look(k)\n    return [first, await ask(['two', k]), await look(k + 1)]\n"
    "print(await asyncio.gather(*[two(k) for k in range({n} + 1)]))",
    "async def tick(k):\n    for i in range({n}):\n        await asyncio.sleep(0.0003)\n        await look(i)\n    return k\n"
    "print(await asyncio.gather(tick(1), tick(2), ask('t')))",
]


def programs_of(parts: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(st.sampled_from(parts), st.integers(1, 4)), min_size=1, max_size=4).map(
        lambda chosen: "\n".join(
            ["total, kept = 0, []", *(part.format(n=number) for part, number in chosen), "[total, *kept]"]
        )
    )


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=programs_of(PARTS), seed=st.integers(0, 99))
async def test_any_program_moved_at_each_pause_does_what_it_does_in_one_place(text: str, seed: int) -> None:
    stays, moves, replays = Hosts(moves=False), Hosts(), Hosts(ledger=Unsealed())

    one = await stays.play(text, random.Random(seed))
    moved = await moves.play(text, random.Random(seed))
    replayed = await replays.play(text, random.Random(seed))

    assert one.status == "finished", one.stderr
    assert facts(moved) == facts(replayed) == facts(one)
    assert moves.saved == replays.saved == stays.saved
    assert all(moves.sizes)
    assert not any(replays.sizes)


@pytest.mark.long
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=programs_of([*(part for part in PARTS if "save" not in part), *LOOKING * 4]),
    seed=st.integers(0, 99),
    ledger=st.sampled_from([MemoryLedger, Unsealed]),
)
async def test_any_program_killed_between_its_pauses_comes_to_the_same_end(
    text: str, seed: int, ledger: type[MemoryLedger]
) -> None:
    chance = random.Random(seed)
    hosts = Hosts(ledger=ledger(), moves=bool(seed % 2))
    copies: list[MemoryLedger] = []
    hosts.on_look = lambda: copies.append(copy.deepcopy(hosts.ledger))
    whole = await hosts.play(text, chance)

    for at_the_kill in chance.sample(copies, min(2, len(copies))):
        async with Hosts(ledger=at_the_kill).runtime() as runtime:
            step = await runtime.resume(whole.execution_id, [])
            while isinstance(step, Paused):
                replies = [answer(call.id, call.arguments["q"]) for call in step.calls]
                step = await runtime.resume(whole.execution_id, replies)

        assert facts(step) == facts(whole)


async def test_a_small_program_with_twenty_open_calls_is_a_small_snapshot() -> None:
    hosts = Hosts()

    outcome = await hosts.play(SMALL, random.Random(0))

    assert outcome.stdout == f"{[['re', [n]] for n in range(20)]}\n"
    assert max(hosts.sizes) <= 10_000
    assert len({repr(q) for asked in hosts.asked for q in asked}) == 20


async def test_files_of_the_caller_and_of_the_program_are_there_after_a_move() -> None:
    text = (
        "open('made.txt', 'w').write('new')\nopen('given.txt', 'a').write('+')\nawait ask(1)\n"
        "open('made.txt', 'a').write('er')\nopen('/tmp/x', 'w').write('not kept')\n"
        "[open('given.txt').read(), open('made.txt').read()]"
    )

    outcome = await Hosts().play(text, random.Random(0), files=[File(name="given.txt", data=b"old")])

    assert outcome.value == ["old+", "newer"]
    assert [(file.name, file.data) for file in outcome.files] == [("given.txt", b"old+"), ("made.txt", b"newer")]


async def test_an_error_after_a_move_names_its_line() -> None:
    outcome = await Hosts().play("x = await ask(1)\n\nraise ValueError(str(x))", random.Random(0))

    assert outcome.stderr == (
        'Traceback (most recent call last):\n  File "<program>", line 3, in __main__\n    raise ValueError(str(x))\n'
        "ValueError: ['re', 1]\n"
    )


async def test_limits_go_on_where_they_were() -> None:
    from toolfold import Limits

    text = "for n in range(9):\n    print(await ask(n))"

    outcome = await Hosts().play(text, random.Random(0), limits=Limits(calls=3))

    assert (outcome.status, outcome.stdout) == ("limit", "['re', 0]\n['re', 1]\n['re', 2]\n")


async def test_approvals_wait_in_a_snapshot_too() -> None:
    hosts = Hosts(policy=Policy(ask=("save",)))
    text = (
        "async def one(key):\n    try:\n        return await save(key)\n"
        "    except ToolError as error:\n        return str(error)\n"
        "print(await asyncio.gather(*[one(key) for key in range(20)]))"
    )
    async with hosts.runtime() as first:
        step = await first.start(text)
        assert isinstance(step, Paused)

    async with hosts.runtime() as second:
        half = await second.resume(step.execution_id, decisions={n: Decision(approved=True) for n in range(1, 16)})
        assert isinstance(half, Paused)

    async with hosts.runtime() as third:
        end = await third.resume(step.execution_id, decisions={n: Decision(approved=False) for n in range(16, 21)})

    assert [call.arguments["key"] for call in step.approvals] == list(range(20))
    assert [call.id for call in half.approvals] == list(range(16, 21))
    assert isinstance(end, Outcome)
    assert end.stdout == f"{[key * 10 for key in range(15)] + ['save was denied'] * 5}\n".replace(
        "'save was denied'", repr("'save' was denied")
    )
    assert hosts.saved == list(range(15))


# what was kept before the host was gone


async def test_what_came_after_the_snapshot_is_replayed_from_there() -> None:
    hosts = Hosts()
    copies: list[MemoryLedger] = []
    hosts.on_save = lambda: copies.append(copy.deepcopy(hosts.ledger))
    text = (
        "print('before', await ask('a'))\n"
        "async def chain(n):\n    return [await look(n), await look(n + 10), await look(n + 20)]\n"
        "print(await asyncio.gather(*[chain(n) for n in range(4)]))\n"
        "try:\n    print(await save(1))\nexcept ToolError as error:\n    print(error)\n"
        "print('after', await ask('b'))"
    )
    whole = await hosts.play(text, random.Random(0))

    at_the_kill = Hosts(ledger=copies[0])
    async with at_the_kill.runtime() as runtime:
        step = await runtime.resume(whole.execution_id, [])
        assert isinstance(step, Paused)
        end = await runtime.resume(step.execution_id, [answer(call.id, call.arguments["q"]) for call in step.calls])

    assert isinstance(end, Outcome)
    unknown = "'save' was called before the host stopped; whether it ran is not known"
    assert end.stdout == whole.stdout.replace("\n10\n", f"\n{unknown}\n")
    assert (at_the_kill.saved, [call.arguments["q"] for call in step.calls]) == ([], ["b"])


async def test_a_program_that_cannot_be_replayed_is_resumed_from_its_snapshot_alone() -> None:
    hosts = Hosts()
    text = "await save(1)\nprint(await ask('a'))"

    async def spoilt(ledger: MemoryLedger) -> str:
        def spoil() -> None:
            (execution_id,) = ledger._executions
            ledger.note(execution_id, TapeEntry(is_spoilt=True))

        hosts.ledger, hosts.on_save = ledger, spoil
        async with hosts.runtime() as runtime:
            return (await runtime.start(text, tools=[ASK])).execution_id

    execution_id = await spoilt(MemoryLedger())
    async with hosts.runtime() as runtime:
        outcome = await runtime.resume(execution_id, [answer(2, "a")])
    assert isinstance(outcome, Outcome)
    assert outcome.stdout == "['re', 'a']\n"

    execution_id = await spoilt(Unsealed())
    async with hosts.runtime() as runtime:
        with pytest.raises(UsageError, match="cannot be replayed"):
            await runtime.resume(execution_id, [answer(2, "a")])


async def test_an_execution_stays_on_its_engine() -> None:
    hosts = Hosts()
    async with hosts.runtime() as first:
        step = await first.start("await ask(1)", tools=[ASK])

    async with Runtime(engine="process", ledger=hosts.ledger) as other:
        with pytest.raises(UsageError) as refused:
            await other.resume(step.execution_id, [answer(1, 1)])

    assert str(refused.value) == (
        f"execution {step.execution_id!r} began on the 'monty' engine, this is 'process'; "
        "resume it where the same engine runs"
    )


async def test_a_program_that_a_timer_moves_on_while_it_is_frozen_pauses_again() -> None:
    text = (
        "import time\nasync def ticking():\n    for n in range(30):\n        await asyncio.sleep(0.0005)\n"
        "        time.sleep(0.0005)\n        print(n)\n"
        "await asyncio.gather(ticking(), ask(1))\nprint('end')"
    )

    outcomes = [await Hosts().play(text, random.Random(0)) for _ in range(5)]

    assert {outcome.stdout for outcome in outcomes} == {"".join(f"{n}\n" for n in range(30)) + "end\n"}


# what somebody did to the file


async def paused(path: Path, text: str = SMALL, tenant: str = "acme") -> str:
    ledger = SqliteLedger(path)
    async with Runtime(engine="monty", ledger=ledger) as runtime:
        step = await runtime.start(text, tools=[ASK], tenant=tenant)
        assert isinstance(step, Paused)
    await ledger.close()
    return step.execution_id


async def resumed(path: Path, execution_id: str) -> Paused | Outcome:
    ledger = SqliteLedger(path)
    try:
        async with Runtime(engine="monty", ledger=ledger) as runtime:
            return await runtime.resume(execution_id, [answer(n + 1, [n]) for n in range(20)])
    finally:
        await ledger.close()


def stored(path: Path, execution_id: str, change: Callable[[bytes], bytes] | None = None) -> bytes:
    """The snapshot in the file, with what somebody did to it behind the ledger's back."""
    with sqlite3.connect(path) as db:
        where = "piece = -2 AND execution = (SELECT number FROM executions WHERE id = ?)"
        (body,) = db.execute(f"SELECT body FROM pieces WHERE {where}", (execution_id,)).fetchone()
        if change is not None:
            db.execute(f"UPDATE pieces SET body = ? WHERE {where}", (change(body), execution_id))
    db.close()
    return bytes(body)


def flipped(body: bytes) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


async def refusal(path: Path, execution_id: str) -> str:
    with pytest.raises(SealBroken) as refused:
        await resumed(path, execution_id)
    return str(refused.value).partition("; it was not loaded")[0]


async def test_a_tampered_snapshot_is_refused(tmp_path: Path) -> None:
    execution_id = await paused(tmp_path / "ledger")
    body = stored(tmp_path / "ledger", execution_id, flipped)

    refused = await refusal(tmp_path / "ledger", execution_id)
    stored(tmp_path / "ledger", execution_id, lambda _: body)
    outcome = await resumed(tmp_path / "ledger", execution_id)

    assert refused == f"the snapshot kept for execution {execution_id!r} was changed since it was sealed"
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.stdout) == ("finished", f"{[['re', [n]] for n in range(20)]}\n")


async def test_a_snapshot_of_another_execution_is_refused(tmp_path: Path) -> None:
    mine, theirs = await paused(tmp_path / "ledger"), await paused(tmp_path / "ledger", tenant="other")
    body = stored(tmp_path / "ledger", theirs)
    stored(tmp_path / "ledger", mine, lambda _: body)

    assert await refusal(tmp_path / "ledger", mine) == (
        f"the snapshot kept for execution {mine!r} is of execution {theirs!r}"
    )


async def test_a_snapshot_of_an_earlier_pause_is_refused(tmp_path: Path) -> None:
    execution_id = await paused(
        tmp_path / "ledger", "for n in range(2):\n    await asyncio.gather(*[ask(n) for n in range(20)])"
    )
    old = stored(tmp_path / "ledger", execution_id)
    step = await resumed(tmp_path / "ledger", execution_id)
    assert isinstance(step, Paused)
    stored(tmp_path / "ledger", execution_id, lambda _: old)

    assert await refusal(tmp_path / "ledger", execution_id) == (
        f"the snapshot kept for execution {execution_id!r} is of pause 1, and the record is at pause 3"
    )


async def test_a_file_from_elsewhere_is_replayed_and_its_snapshot_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await paused(tmp_path / "ledger")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another user"))
    stored(tmp_path / "ledger", execution_id, flipped)

    outcome = await resumed(tmp_path / "ledger", execution_id)

    assert isinstance(outcome, Outcome)
    assert outcome.stdout == f"{[['re', [n]] for n in range(20)]}\n"


# stores that more than one host opens


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "sealed sqlite", "redis", "sealed redis"])
async def test_a_snapshot_goes_on_from_every_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    key = b"k" * 32 if kind.startswith("sealed") else None

    def opened() -> Any:
        if kind.endswith("sqlite"):
            return SqliteLedger(tmp_path / "ledger.sqlite", key=key)
        server: RedisServer = request.getfixturevalue("redis_server")
        return RedisLedger(server.url, key=key)

    first, second = opened(), opened()
    hosts = Hosts(ledger=first)

    def spoil() -> None:
        first.note("twenty", TapeEntry(is_spoilt=True))

    hosts.on_save = spoil
    async with hosts.runtime() as runtime:
        step = await runtime.start("await save(1)\n" + SMALL, tools=[ASK], execution_id="twenty")
        assert isinstance(step, Paused)

    hosts.ledger = second
    async with hosts.runtime() as runtime:
        end = await runtime.resume("twenty", [answer(call.id, call.arguments["q"]) for call in step.calls])
    left = await second.snapshot("twenty")
    for ledger in (first, second):
        await ledger.close()

    assert isinstance(end, Outcome)
    assert (end.stdout, hosts.saved, left) == (f"{[['re', [n]] for n in range(20)]}\n", [1], None)


# real processes


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "stdout", "saves"),
    [
        (
            "key = await save(7)\n" + SMALL + "\nprint(await save(key))",
            f"{[['re', [n]] for n in range(20)]}\n700\n",
            ["7", "70"],
        ),
        (PLAIN, UNINTERRUPTED, ["1", "0", "1", "2"]),
    ],
    ids=["twenty calls", "three turns"],
)
def test_a_killed_host_is_followed_by_another_process(text: str, stdout: str, saves: list[str], tmp_path: Path) -> None:
    host = Host(tmp_path, "monty")
    said = host.ask({"text": text})
    asked: list[Any] = []
    sizes = []
    while "calls" in said:
        asked += said["calls"]
        sizes.append(said["snapshot_bytes"])
        host.kill()
        host = Host(tmp_path, "monty")
        said = host.ask({"id": said["id"], "calls": said["calls"]})
    host.kill()

    assert (said["stdout"], said["stderr"]) == (stdout, "")
    assert (tmp_path / "saves").read_text().split() == saves
    assert [call_id for call_id, _ in asked] == sorted({call_id for call_id, _ in asked})
    assert 0 < min(sizes) <= max(sizes) <= 10_000


async def test_a_snapshot_is_marked_in_the_record() -> None:
    hosts = Hosts(moves=False)

    outcome = await hosts.play(SMALL, random.Random(1))

    history = await hosts.ledger.load(outcome.execution_id)
    assert history is not None
    parked = [entry.round for entry in history.entries if isinstance(entry, PauseEntry)]
    assert parked == list(range(1, len(hosts.asked) + 1))
    assert await hosts.ledger.snapshot(outcome.execution_id) is None
