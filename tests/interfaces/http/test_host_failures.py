"""The host fails, not the program: the zygote dies, the server is told to stop. Nothing that is on record is lost."""

import asyncio
import fcntl
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.escapes_support.seen import descendants
from tests.interfaces.http.conftest import KEYS, serve
from tests.interfaces.http.fleet import TOOLS, until
from tests.interfaces.http.talk import WEATHER, finish, go_on, result, start
from tests.interfaces.http.test_files_at_once import upload
from tests.interfaces.http.test_restart import CONFIG, ready, server
from tests.test_killed_guests import guests, kill
from toolfold import Runtime, tool
from toolfold.interfaces.http import Settings, create_app
from toolfold.ledger.sqlite.store import SqliteLedger

WITH_TOOLS = CONFIG + "tools: {modules: [tools.py]}\n"
KEY = {"Idempotency-Key": "order-17"}
GONE = "the fork server is gone, and the sandbox with it"
called: list[str] = []


@tool
async def charge(name: str) -> int:
    """Not to be done twice."""
    called.append(name)
    return 1


@tool(read_only=True)
async def hang(name: str) -> int:
    """The first time for ever."""
    called.append(name)
    if called.count(name) == 1:
        await asyncio.Event().wait()
    return 2


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    called.clear()
    ledger = SqliteLedger(folder / "ledger.sqlite")
    settings = Settings(keys=KEYS, token_key=b"k" * 32, running=8)
    async with serve(settings, folder / "files", ledger=ledger, tools=[charge, hang]) as client:
        yield client
    await ledger.close()


async def kill_zygote() -> None:
    """When the program hangs in its call."""
    await until(lambda: "h" in called)
    parents = [process for process in descendants(os.getpid()) if descendants(process)]
    for process in parents:
        os.kill(process, signal.SIGKILL)


async def test_a_continuation_whose_zygote_dies_goes_on_with_the_next_try(tmp_path: Path) -> None:
    code = "print(await get_weather(city='a'), await charge(name='a'), await hang(name='h'))"
    async with served(tmp_path) as client:
        paused = (await start(client, code)).json()
        failed, _ = await asyncio.gather(
            go_on(client, paused["continuation_token"], result("call_001", "sun")), kill_zygote()
        )
        ended = await go_on(client, paused["continuation_token"], result("call_001", "sun"))

    assert (failed.status_code, failed.json()) == (
        503,
        {"error": f"{GONE}; nothing is lost, send the same request again"},
    )
    assert (ended.json()["stdout"], called) == ("sun 1 2\n", ["a", "h", "h"])


async def test_a_continuation_goes_on_where_its_guest_was_killed_in_the_pause(tmp_path: Path) -> None:
    code = "print(await get_weather(city='a'), await charge(name='a'), await get_weather(city='b'))"
    async with served(tmp_path) as client:
        answer, rounds = (await start(client, code)).json(), 0
        while answer["status"] == "tool_call_required":
            kill(guests())
            token, calls = answer["continuation_token"], answer["tool_calls"]
            answer, rounds = (await go_on(client, token, *(result(call, "sun") for call in calls))).json(), rounds + 1

    assert (answer["status"], answer["stdout"], rounds, called) == ("completed", "sun 1 sun\n", 2, ["a"])


async def test_a_start_says_whether_tools_of_the_server_were_called(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        failed, _ = await asyncio.gather(start(client, "await charge(name='a')\nawait hang(name='h')"), kill_zygote())
        again = await start(client, "print(await hang(name='h'))")

    assert (failed.status_code, failed.json()) == (
        503,
        {
            "error": f"{GONE}; tools of this server were called and may have run, "
            "so sending it again may do the same twice",
            "started": True,
        },
    )
    assert again.json()["stdout"] == "2\n"


async def test_a_start_with_a_key_goes_on_where_the_zygote_died(tmp_path: Path) -> None:
    code = "print(await charge(name='a'), await hang(name='h'))"
    async with served(tmp_path) as client:
        failed, _ = await asyncio.gather(start(client, code, headers=KEY), kill_zygote())
        ended = await start(client, code, headers=KEY)

    assert failed.status_code == 503
    assert (ended.json()["stdout"], called) == ("1 2\n", ["a", "h", "h"])


async def test_programs_that_ran_when_the_zygote_died_hold_nobody_up(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        spinning = [asyncio.create_task(start(client, "while True: pass", timeout=60000)) for _ in range(3)]
        failed, _ = await asyncio.gather(start(client, "await hang(name='h')"), kill_zygote())
        others = [await start(client, "print(1)") for _ in range(3)]
        ends = [await one for one in spinning]

    assert {answer.json()["error"].partition(";")[0] for answer in (failed, *ends)} == {GONE}
    assert [answer.json()["stdout"] for answer in others] == ["1\n"] * 3


@pytest.mark.long
async def test_a_second_sigterm_leaves_what_runs_resumable(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, "utf-8")
    code = "print(await get_weather(city='a'), await charge(name='a'), await look(name='h'))"
    with server(tmp_path, WITH_TOOLS) as (process, client):
        async with client:
            await ready(client)
            paused = (await start(client, code, WEATHER, timeout=200_000)).json()
            running = [
                asyncio.create_task(go_on(client, paused["continuation_token"], result("call_001", "sun"))),
                asyncio.create_task(start(client, "print(await look(name='k'))", headers=KEY, timeout=200_000)),
            ]
            await until(lambda: all((tmp_path / f"{name}.hangs").exists() for name in "hk"))
            process.send_signal(signal.SIGTERM)
            await until(lambda: not listens(client))
            process.send_signal(signal.SIGTERM)
            told = [await one for one in running]
            for name in "hk":
                (tmp_path / f"{name}.go").touch()
            await asyncio.to_thread(process.wait, 60)
    with server(tmp_path, WITH_TOOLS) as (_, client):
        async with client:
            await ready(client)
            ended, _ = await finish(client, paused, lambda *_: "sun")
            keyed = await start(client, "print(await look(name='k'))", headers=KEY, timeout=200_000)

    text = "the server stops; nothing is lost, send the same request again"
    assert [(one.status_code, one.json()) for one in told] == [(503, {"error": text})] * 2
    assert (ended["stdout"], keyed.json()["stdout"]) == ("sun 1 1\n", "1\n")
    assert (tmp_path / "charged.txt").read_text().split() == ["a"]


@pytest.mark.long
async def test_an_upload_that_a_second_sigterm_cuts_off_is_refused_in_json(tmp_path: Path) -> None:
    with server(tmp_path, CONFIG) as (process, client):
        async with client:
            await ready(client)
            await upload(client, "s", "a.txt")
            with another_writer(tmp_path / "files") as is_awaited:
                cut_off = asyncio.create_task(upload(client, "s", "b.txt"))
                await until(is_awaited)
                process.send_signal(signal.SIGTERM)
                await until(lambda: not listens(client))
                process.send_signal(signal.SIGTERM)
                answer = await cut_off

    assert (answer.status_code, answer.text) == (503, '{"error":"the server is stopping"}')


@contextmanager
def another_writer(files: Path) -> Iterator[Callable[[], bool]]:
    """Has the turn of the only session there; yields how to ask whether someone waits for it."""
    [lock] = files.rglob(".lock")
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting = re.compile(rf"-> FLOCK .*:{lock.stat().st_ino} ")
        yield lambda: waiting.search(Path("/proc/locks").read_text()) is not None


def listens(client: httpx.AsyncClient) -> bool:
    try:
        return httpx.get(str(client.base_url.join("/health")), timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.long
async def test_a_server_that_stops_begins_nothing_and_cancels_nothing(tmp_path: Path) -> None:
    called.clear()
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    app = create_app(Runtime([charge, hang], ledger=ledger), ledger, Settings(token_key=b"k" * 32))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

        async def begin(code: str, key: str) -> tuple[int, str]:
            answer = await client.post(
                "/exec/programmatic", json={"code": code, "tools": []}, headers={"Idempotency-Key": key}
            )
            return answer.status_code, answer.json()["error"]

        async with app.router.lifespan_context(app):
            running = asyncio.create_task(begin("await hang(name='h')", "first"))
            await until(lambda: "h" in called)
            app.state.suspend()
            late = await begin("await charge(name='c')", "second")
        told = await running
        states = [line.state for line in await ledger.list()]
        await ledger.close()
        too_late = await begin("await charge(name='c')", "third")

    again = "nothing is lost, send the same request again"
    assert [told, late] == [(503, f"the server stops; {again}")] * 2
    assert too_late == (503, f"the ledger is closed; open it again; {again}")
    assert (called, states) == (["h"], ["running"])


@pytest.mark.long
async def test_what_still_runs_when_a_server_ends_can_be_continued(tmp_path: Path) -> None:
    called.clear()
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    app = create_app(Runtime([charge, hang], ledger=ledger), ledger, Settings(token_key=b"k" * 32))
    sent = {"code": "await hang(name='h')", "tools": []}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        async with app.router.lifespan_context(app):
            running = asyncio.create_task(client.post("/exec/programmatic", json=sent, headers=KEY))
            await until(lambda: "h" in called)
        told = await running

    states = [line.state for line in await ledger.list()]
    await ledger.close()
    assert (told.status_code, states) == (503, ["running"])
