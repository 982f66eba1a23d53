"""Replicas behind any load balancer: each serves the others' continuations, and outlives them."""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interfaces.http.fleet import Fleet, Replica, is_there, running_fleet, until
from tests.interfaces.http.talk import go_on, result, start
from tests.interfaces.http.test_gone import dropped, post_and_leave
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from tests.ports import reserved_port

pytestmark = pytest.mark.long

_REASON = "the ledger cannot be used: the server cannot be reached; check the server"
AWAY = {"error": f"{_REASON}; nothing is lost, send the same request again"}
STARTED = {
    "error": f"{_REASON}; tools of this server were called and may have run, so sending it again may do the same twice",
    "started": True,
}
NOT_STARTED = {"error": f"{_REASON}; no tool of this server was called; try again", "started": False}
CODE = """
import random
x = random.random()
heard = []
for n in range(3):
    heard.append(await get_weather(city=f"{n}"))
print(*heard, x == random.Random().random())
"""
CHARGES = """
first = await get_weather(city="a")
try:
    charged = await charge(name=first)
except Exception as error:
    charged = str(error)
second = await get_weather(city="b")
print(first, charged, second)
"""
UNKNOWN = "'charge' was called before the host stopped; whether it ran is not known"


@pytest.fixture
async def fleet(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Fleet]:
    with running_fleet(tmp_path, redis_server) as fleet:
        yield fleet
        for replica in fleet.replicas:
            await replica.client.aclose()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, shared_server: RedisServer) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("lasting"), shared_server, database=1) as fleet:
        fleet.add(2, lease="20s")  # none is to be lost on a busy machine
        yield fleet


@pytest.fixture
async def pair(lasting: Fleet) -> AsyncIterator[Fleet]:
    """Two replicas for tests that leave them as they were."""
    await lasting.ready()
    yield lasting
    for replica in lasting.replicas:
        await replica.client.aclose()


async def answer(replica: Replica, body: dict[str, Any], value: Any, **options: Any) -> dict[str, Any]:
    """Answer the one open call."""
    (call,) = body["tool_calls"]
    return (await go_on(replica.client, body["continuation_token"], result(call, value), **options)).json()


async def patient(replica: Replica, body: dict[str, Any], value: Any) -> dict[str, Any]:
    """The same, as often as the server says that it cannot now."""
    (call,) = body["tool_calls"]
    while True:
        response = await go_on(replica.client, body["continuation_token"], result(call, value))
        if response.status_code != 503:
            return response.json()
        await asyncio.sleep(0.02)


def pending(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(call["id"], call["input"]["city"]) for call in body["tool_calls"]]


async def test_continuations_at_random_replicas_all_finish(pair: Fleet) -> None:
    replicas = pair.replicas
    chance = random.Random(5)

    async def one(number: int) -> tuple[list[Any], str]:
        body = (await start(chance.choice(replicas).client, CODE, timeout=100_000)).json()
        asked = []
        for n in range(3):
            asked += pending(body)
            body = await answer(chance.choice(replicas), body, f"{number}.{n}")
        return asked, body["stdout"]

    found = await asyncio.gather(*(one(number) for number in range(20)))

    calls = [("call_001", "0"), ("call_002", "1"), ("call_003", "2")]
    assert found == [(calls, f"{number}.0 {number}.1 {number}.2 False\n") for number in range(20)]


async def test_a_session_s_files_are_there_at_every_replica_and_its_programs_take_turns(pair: Fleet) -> None:
    a, b = pair.replicas
    upload = await a.client.post("/upload", files={"file": ("a.txt", b"1")}, data={"session_id": "s"})
    more = "open('a.txt', 'a').write('2')"

    paused = (await start(a.client, f"{more}\nawait get_weather(city='a')", session_id="s")).json()
    waiting = asyncio.create_task(start(b.client, more.replace("2", "3"), session_id="s"))
    early, _ = await asyncio.wait([waiting], timeout=1)
    await answer(b, paused, 1)
    after = (await waiting).json()
    listed = (await b.client.get("/files/s")).json()
    content = (await b.client.get(f"/download/s/{listed[0]['id']}")).content

    assert (upload.status_code, after["status"], early) == (200, "completed", set())
    assert ([file["filename"] for file in listed], content) == (["a.txt"], b"123")


async def test_a_client_that_leaves_while_another_replica_has_its_session_gets_nothing_run(pair: Fleet) -> None:
    a, b = pair.replicas
    paused = (await start(a.client, "await get_weather(city='a')", session_id="left")).json()

    body = json.dumps({"code": "await charge(name='left')", "tools": [], "session_id": "left"}).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    await post_and_leave(b.client, "/exec/programmatic", headers, body)
    await dropped(b.client)
    await a.client.post("/exec/programmatic/cancel", json={"continuation_token": paused["continuation_token"]})
    after = (await start(b.client, "print('after')", session_id="left")).json()

    assert (after["stdout"], "left" in pair.charged) == ("after\n", False)


async def test_what_a_killed_replica_had_paused_goes_on_elsewhere(fleet: Fleet) -> None:
    a, b = await fleet.start(2)
    first = [(await start(a.client, CODE, timeout=100_000)).json() for _ in range(6)]
    # Every other one is in its second round, and its client has not heard of it.
    second = {at: await answer(a, body, f"{at}.0") for at, body in enumerate(first) if at % 2}
    children = a.children
    a.send(signal.SIGKILL)

    async def finish(at: int) -> tuple[dict[str, Any], str]:
        again = body = await answer(b, first[at], f"{at}.0")
        for n in (1, 2):
            body = await answer(b, body, f"{at}.{n}")
        return again, body["stdout"]

    ends = await asyncio.gather(*(finish(at) for at in range(6)))
    await until(lambda: not any(map(is_there, children)))

    assert children
    # All but the token, which also says how long its program may still run.
    assert {at: ends[at][0]["tool_calls"] for at in second} == {at: second[at]["tool_calls"] for at in second}
    assert [stdout for _, stdout in ends] == [f"{at}.0 {at}.1 {at}.2 False\n" for at in range(6)]


async def test_what_a_killed_replica_was_running_goes_on_elsewhere_and_charges_once(fleet: Fleet) -> None:
    a, b = await fleet.start(2)
    code = CHARGES.replace("second =", "await hang(name='a')\nsecond =")
    body = (await start(a.client, code, timeout=100_000)).json()
    lost = asyncio.create_task(answer(a, body, "x"))
    await until(lambda: fleet.exists("a.hangs"))
    children = a.children
    a.send(signal.SIGKILL)
    with pytest.raises(httpx.TransportError):
        await lost
    fleet.let_go("a")

    # `hang` was on its way, too: whether it ran is not known, so the program is told instead of it being called again.
    ended = await answer(b, body, "x")
    await until(lambda: not any(map(is_there, children)))

    assert fleet.charged == ["x"]
    assert ended["error"] == "ToolError: 'hang' was called before the host stopped; whether it ran is not known"


async def test_a_frozen_replica_is_replaced_and_says_nothing_wrong_when_it_thaws(fleet: Fleet) -> None:
    a, b = await fleet.start(2)
    idle = len(a.children)
    bodies = [(await start(a.client, CHARGES, timeout=100_000)).json() for _ in range(8)]
    held = len(a.children)
    a.send(signal.SIGSTOP)
    # It comes in at the frozen one, as a load balancer would send it there, and its client waits.
    waiting = asyncio.create_task(answer(a, bodies[0], "0"))
    second = await asyncio.gather(*(answer(b, body, f"{at}") for at, body in enumerate(bodies)))
    ended = await asyncio.gather(*(answer(b, body, "y") for body in second[:4]))
    records = [fleet.fact(body["continuation_token"], "last") for body in second[:4]]
    a.send(signal.SIGCONT)

    # Old and new tokens, at the one that was replaced.
    late = await waiting
    repeated = await asyncio.gather(*(answer(a, body, f"{at}") for at, body in enumerate(bodies[4:], 4)))
    ended += await asyncio.gather(*(answer(a, body, "y") for body in second[4:]))
    await until(lambda: len(a.children) <= idle + 3)

    assert held >= idle + 4
    assert late == second[0] or late["error"] == "Invalid continuation token"
    assert repeated == second[4:]
    assert [body["stdout"] for body in ended] == [f"{at} 1 y\n" for at in range(8)]
    assert sorted(fleet.charged) == [f"{at}" for at in range(8)]
    assert [fleet.fact(body["continuation_token"], "last") for body in second[:4]] == records


async def test_a_replica_that_froze_while_it_ran_a_program_ends_it_and_writes_nothing(fleet: Fleet) -> None:
    a, b = await fleet.start(2)
    idle = len(a.children)
    code = "open('f.txt', 'w').write(await get_weather(city='a'))\nawait look(name='a')\nprint(1)"
    bodies = [(await start(a.client, code, timeout=100_000, session_id=f"s{at}")).json() for at in range(4)]
    running = [asyncio.create_task(answer(a, body, "of the first")) for body in bodies]
    await until(lambda: all(fleet.fact(body["continuation_token"], "calls") == "2" for body in bodies))
    a.send(signal.SIGSTOP)
    fleet.let_go("a")
    ended = await asyncio.gather(*(answer(b, body, "of the first") for body in bodies))
    # The sessions go on: what the frozen one still has of them must not come over this.
    change = "open('f.txt', 'w').write('changed since')"
    for at in range(4):
        await start(b.client, change, session_id=f"s{at}")
    a.send(signal.SIGCONT)

    thawed = await asyncio.gather(*running)
    await until(lambda: len(a.children) <= idle + 3)
    listed = [(await b.client.get(f"/files/s{at}")).json()[0]["id"] for at in range(4)]
    content = [(await b.client.get(f"/download/s{at}/{file}")).text for at, file in enumerate(listed)]

    assert thawed == ended
    assert [body["stdout"] for body in ended] == ["1\n"] * 4
    assert content == ["changed since"] * 4


async def ten_duplicates(body: dict[str, Any], *replicas: Replica) -> list[dict[str, Any]]:
    """Ten times each of two continuations, all at once; the answers, each different one once."""
    found = await asyncio.gather(*(answer(replicas[at % 2], body, "x") for at in range(10)))
    ends = await asyncio.gather(*(answer(replicas[at % 2], found[0], "y") for at in range(10)))
    return [body for at, body in enumerate(found + ends) if body not in (found + ends)[:at]]


async def test_ten_duplicates_in_parallel_run_once_and_are_answered_alike(pair: Fleet) -> None:
    a, b = pair.replicas
    body = (await start(a.client, CHARGES, timeout=100_000)).json()

    second, end = await ten_duplicates(body, a, b)

    assert pending(second) == [("call_003", "b")]
    assert (end["stdout"], pair.charged) == ("x 1 y\n", ["x"])


async def test_ten_duplicates_that_race_for_what_a_killed_replica_held_run_once(fleet: Fleet) -> None:
    a, b, c = await fleet.start(3)
    body = (await start(a.client, CHARGES, timeout=100_000)).json()
    a.send(signal.SIGKILL)

    second, end = await ten_duplicates(body, b, c)

    assert pending(second) == [("call_003", "b")]
    assert (end["stdout"], fleet.charged) == ("x 1 y\n", ["x"])


async def test_a_restart_of_redis_loses_nothing_and_is_told_while_it_lasts(fleet: Fleet) -> None:
    a, b = await fleet.start(2)
    idle = len(a.children) + len(b.children)
    bodies = [(await start((a, b)[at % 2].client, CHARGES, timeout=100_000)).json() for at in range(8)]
    running = asyncio.create_task(start(a.client, "await hang(name='a')\nawait get_weather(city='a')", timeout=100_000))
    await until(lambda: fleet.exists("a.hangs"))
    fleet.redis.kill()

    refused = [
        await go_on((a, b)[at % 2].client, body["continuation_token"], result("call_001", f"{at}"))
        for at, body in enumerate(bodies)
    ]
    refused.append(await start(a.client, CHARGES))
    fleet.let_go("a")
    refused.append(await running)
    fleet.redis.start()
    second = await asyncio.gather(*(patient((b, a)[at % 2], body, f"{at}") for at, body in enumerate(bodies)))
    fleet.redis.restart()
    ended = await asyncio.gather(*(patient((a, b)[at % 2], body, "y") for at, body in enumerate(second)))
    await until(lambda: len(a.children) + len(b.children) <= idle + 6)

    assert [(one.status_code, one.json()) for one in refused] == [
        *[(503, AWAY)] * 8,
        (503, NOT_STARTED),
        (503, STARTED),
    ]
    assert [body["stdout"] for body in ended] == [f"{at} 1 y\n" for at in range(8)]
    assert sorted(fleet.charged) == [f"{at}" for at in range(8)]


async def test_a_round_that_redis_cut_off_in_the_middle_goes_on_when_it_is_back(fleet: Fleet) -> None:
    a, b = await fleet.start(2)
    code = CHARGES.replace("try:", "await look(name='a')\ntry:")
    bodies = [(await start(a.client, code, timeout=100_000)).json() for _ in range(3)]
    running = [asyncio.create_task(go_on(a.client, body["continuation_token"], result("call_001", f"{at}")))
               for at, body in enumerate(bodies)]  # fmt: skip
    await until(lambda: all(fleet.fact(body["continuation_token"], "calls") == "2" for body in bodies))
    fleet.redis.kill()
    fleet.let_go("a")

    # `charge` must be on record before it is called, and cannot be. If that record is written after all, by the
    # one that was refused it, a replay cannot know that nothing was called, and says so.
    refused = [await one for one in running]
    early = fleet.charged
    fleet.redis.start()
    second = await asyncio.gather(*(patient((a, b)[at % 2], body, f"{at}") for at, body in enumerate(bodies)))
    ended = await asyncio.gather(*(patient((b, a)[at % 2], body, "y") for at, body in enumerate(second)))

    assert [(one.status_code, one.json()) for one in refused] == [(503, AWAY)] * 3
    charged = fleet.charged
    assert (early, len(set(charged))) == ([], len(charged))
    shown = ["1" if f"{at}" in charged else UNKNOWN for at in range(3)]
    assert [body["stdout"] for body in ended] == [f"{at} {shown[at]} y\n" for at in range(3)]


async def test_a_drain_hands_paused_executions_over_at_once_and_lets_running_ones_end(fleet: Fleet) -> None:
    a, b = await fleet.start(2)
    paused = [(await start(a.client, CODE, timeout=100_000)).json() for _ in range(3)]
    running = asyncio.create_task(
        start(a.client, "await hang(name='a')\nprint(await get_weather(city='late'))", timeout=100_000)
    )
    await until(lambda: fleet.exists("a.hangs"))
    a.send(signal.SIGTERM)

    bodies = [await answer(b, body, "0") for body in paused]
    still_there = a.process.poll()
    fleet.let_go("a")
    late = (await running).json()
    code = await asyncio.to_thread(a.process.wait, 60)
    end = await answer(b, late, "after")

    assert [pending(body) for body in bodies] == [[("call_002", "1")]] * 3
    assert (still_there, code, end["stdout"]) == (None, 0, "after\n")


async def test_a_cancel_reaches_the_replica_that_runs_or_holds_the_program(pair: Fleet) -> None:
    a, b = pair.replicas
    idle = len(a.children)
    paused = [(await start(a.client, CODE, timeout=100_000)).json() for _ in range(4)]
    request_id = {"X-LibreChat-Code-Request-ID": "r1"}
    running = asyncio.create_task(start(a.client, "await hang(name='a')", headers=request_id, timeout=100_000))
    await until(lambda: pair.exists("a.hangs"))

    told = [await b.client.post("/exec/programmatic/cancel", json={"request_id": "r1"})]
    for body in paused:
        asked = {"continuation_token": body["continuation_token"]}
        told.append(await b.client.post("/exec/programmatic/cancel", json=asked))
    ended = (await running).json()
    after = [await answer(b, body, "0") for body in paused]
    pair.let_go("a")
    await until(lambda: len(a.children) <= idle + 3)

    assert [one.status_code for one in told] == [202] * 5
    assert ended["error"] == "Execution cancelled"
    assert [body["error"] for body in after] == ["Execution expired"] * 4


async def test_a_cancel_by_the_id_of_any_round_reaches_the_replica_that_runs_it(pair: Fleet) -> None:
    a, b = pair.replicas
    ended = []
    for at, (asked, told) in enumerate([(a, b), (b, b), (b, a)]):
        code = f"await get_weather(city='a')\nawait hang(name='round{at}')"
        body = (await start(a.client, code, timeout=100_000)).json()
        named = {"X-LibreChat-Code-Request-ID": f"round{at}"}
        running = asyncio.create_task(answer(asked, body, 1, headers=named))
        await until(lambda at=at: pair.exists(f"round{at}.hangs"))  # type: ignore[misc]
        await told.client.post("/exec/programmatic/cancel", json={"request_id": f"round{at}"})
        ended.append((await running)["error"])
        pair.let_go(f"round{at}")

    assert ended == ["Execution cancelled"] * 3


async def test_other_tenants_and_forged_replicas_get_nothing(pair: Fleet) -> None:
    a, b = pair.replicas
    body = (await start(a.client, CODE)).json()
    replica = pair.owner(body["continuation_token"]).partition(" ")[0]

    foreign = await answer(b, body, "0", headers={"X-API-Key": "key-of-two"})
    forged = [
        await go_on(one.client, body["continuation_token"], result("call_001", "0"), headers=headers)
        for one in (a, b)
        for headers in (
            {"X-Toolfold-Forwarded": f"{replica}.b25l.{'0' * 64}"},
            {"X-Toolfold-Forwarded": "", "X-API-Key": ""},
            {"X-Toolfold-Forwarded": "é.%.".encode("latin-1")},
        )
    ]
    own = await answer(b, body, "0")

    assert foreign["error"] == "Invalid continuation token"
    assert [one.status_code for one in forged] == [401] * 6
    assert pending(own) == [("call_002", "1")]


async def test_a_paused_execution_is_forgotten_soon_after_its_own_time(pair: Fleet) -> None:
    a, b = pair.replicas
    own, librechat = [
        (await start(a.client, CODE, timeout=20_000, headers={"User-Agent": agent})).json()
        for agent in ("other", "LibreChat/1.0")
    ]
    second = await answer(b, own, "0")

    # Ten minutes after its deadline: by then a replica has ended it, if there is one.
    left = [pair.forgotten_in_seconds(body["continuation_token"]) for body in (own, second, librechat)]
    assert [0 < seconds <= longest for seconds, longest in zip(left, (620, 620, 900), strict=True)] == [True] * 3


async def test_answers_are_passed_on_as_they_are(pair: Fleet) -> None:
    a, b = pair.replicas
    body = (await start(a.client, "await get_weather(city='a')\nprint('é' * 40_000)\nraise KeyError(1)")).json()
    agents = [{"User-Agent": "LibreChat/1.0"}, {"User-Agent": "other"}]
    token = body["continuation_token"]

    wrong = [await go_on(one.client, token, result("call_009", 0), headers=agents[0]) for one in (a, b)]
    ended = [await go_on(one.client, token, result("call_001", 0), headers=agent) for one in (a, b) for agent in agents]
    await until(lambda: pair.fact(token, "state") == "ended")

    assert [(one.status_code, one.content) for one in wrong] == [(200, wrong[0].content)] * 2
    assert wrong[0].json()["error"] == "no open call 'call_009'; open are call_001"
    assert [one.content for one in ended] == [ended[0].content, ended[1].content] * 2
    missing = "\n... (truncated) 14465 more bytes; write long output to a file in /mnt/data"
    assert ended[1].json()["stdout"] == "é" * 32 * 1024 + missing


async def test_what_is_left_behind_is_ended_when_its_time_is_over(fleet: Fleet) -> None:
    a, _ = await fleet.start(2, longest="5s")
    body = (await start(a.client, CODE, timeout=5000)).json()
    a.send(signal.SIGKILL)

    await until(lambda: fleet.fact(body["continuation_token"], "state") == "ended")

    assert fleet.fact(body["continuation_token"], "status") == "timeout"
    assert fleet.owner(body["continuation_token"]) == ""


async def test_a_replica_that_is_started_again_at_its_address_holds_nothing_of_before(fleet: Fleet) -> None:
    # So long a lease that the test would not end if it was waited for.
    port = reserved_port()
    fleet.add(1, lease="1000s", port=port)
    await fleet.start(1, lease="1000s")
    a, b = fleet.replicas
    body = (await start(a.client, CODE, timeout=100_000)).json()
    a.send(signal.SIGKILL)
    a.process.wait()
    await fleet.start(1, lease="1000s", port=port)

    second = await answer(b, body, "0")

    assert pending(second) == [("call_002", "1")]
    assert fleet.owner(body["continuation_token"]).endswith(f" {b.address}")


async def test_one_start_is_answered_once_wherever_it_is_sent_again(pair: Fleet) -> None:
    a, b = pair.replicas
    code = "await charge(name='of a start')\nprint(await get_weather(city='a'))"
    key = {"Idempotency-Key": "k1"}

    first = await asyncio.gather(*(start((a, b)[at % 2].client, code, headers=key) for at in range(6)))
    bodies = [one.json() for one in first]
    end = await answer(b, bodies[0], "sun")

    assert bodies == [bodies[0]] * 6
    assert (end["stdout"], pair.charged.count("start")) == ("sun\n", 1)


async def test_a_start_that_was_taken_over_on_its_way_is_answered_by_whoever_has_it_now(fleet: Fleet) -> None:
    a, b, c = await fleet.start(3)
    code = "await look(name='a')\nprint(await get_weather(city='a'))"
    options: dict[str, Any] = {"headers": {"Idempotency-Key": "k1"}, "timeout": 100_000, "session_id": "s"}
    sent = []
    # One starts it and freezes, the next one takes it over and freezes as well.
    for replica in (a, b):
        sent.append(asyncio.create_task(start(replica.client, code, **options)))
        await until(lambda: fleet.exists("a.hangs") and fleet.has_records)
        replica.send(signal.SIGSTOP)
        (fleet.folder / "a.hangs").unlink()
    fleet.let_go("a")
    last = await start(c.client, code, **options)
    for replica in (a, b):
        replica.send(signal.SIGCONT)

    answers = [await one for one in sent]
    waiting = asyncio.create_task(start(a.client, "1", session_id="s"))
    early, _ = await asyncio.wait([waiting], timeout=1)
    end = await answer(b, last.json(), "sun")
    after = await waiting

    assert [(one.status_code, one.json()) for one in answers] == [(200, last.json())] * 2
    assert (pending(last.json()), end["stdout"]) == ([("call_002", "a")], "sun\n")
    assert (early, after.json()["status"]) == (set(), "completed")


async def test_a_replica_that_advertises_the_address_of_another_says_so(fleet: Fleet) -> None:
    await fleet.start(1, advertise="http://10.0.0.5:8000")
    second, other = fleet.add(1, advertise="http://10.0.0.5:8000") + fleet.add(1)
    await fleet.ready()

    await until(lambda: "also claims the address" in second.log)

    told = "another replica also claims the address 'http://10.0.0.5:8000'; give each its own with --advertise"
    assert [replica.log.count(told) for replica in (second, other)] == [1, 0]


async def test_a_replica_that_cannot_be_reached_says_so_and_so_do_the_others(fleet: Fleet) -> None:
    a, b = await fleet.start(2, host="0.0.0.0")
    body = (await start(a.client, CODE, timeout=100_000)).json()

    refused = await go_on(b.client, body["continuation_token"], result("call_001", "0"))
    own = await answer(a, body, "0")
    told = "this one has no address at which others can reach it; give each its own with --advertise, or http.advertise"
    await until(lambda: told in a.log and told in b.log)

    text = "the replica that holds this execution has no address; start each with --advertise"
    assert (refused.status_code, refused.json()) == (503, {"error": text})
    assert pending(own) == [("call_002", "1")]


async def test_replicas_that_keep_files_apart_are_told_of(fleet: Fleet) -> None:
    a, _ = await fleet.start(2)
    (c,) = await fleet.start(1, files="elsewhere")

    await until(lambda: "other replicas store session files elsewhere" in c.log)

    assert "elsewhere" not in a.log


async def test_replicas_agree_on_their_key_after_redis_was_emptied(fleet: Fleet) -> None:
    (first,) = await fleet.start(1, lease="1s")
    fleet.redis.empty()
    await until(lambda: "the key for tokens was restored" in first.log)

    (second,) = await fleet.start(1, lease="1s")
    paused = (await start(second.client, "print(await get_weather(city='a'))")).json()
    ended = await answer(first, paused, "sun")

    assert ended["stdout"] == "sun\n"
