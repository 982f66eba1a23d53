"""Files of a session while others write to it, and while programs end before they have them."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import httpx

from tests.escapes_support.seen import descendants
from tests.interfaces.http.talk import go_on, result, start


async def upload(client: httpx.AsyncClient, session: str, name: str, data: bytes = b"one") -> httpx.Response:
    return await client.post("/upload", files={"file": (name, data)}, data={"session_id": session})


async def names(client: httpx.AsyncClient, session: str) -> list[str]:
    return sorted(file["filename"] for file in (await client.get(f"/files/{session}")).json())


async def test_a_program_that_times_out_before_it_has_its_files_leaves_them_in_the_session(
    client: httpx.AsyncClient,
) -> None:
    await upload(client, "s", "a.txt")
    guests = await stop_guests()

    ended = await start(client, "print(1)", session_id="s", timeout=1000)
    for guest in guests:
        with suppress(ProcessLookupError):
            os.kill(guest, signal.SIGCONT)
    after = await start(client, "print(open('a.txt').read())", session_id="s")

    assert (ended.status_code, await names(client, "s")) == (408, ["a.txt"])
    assert after.json()["stdout"] == "one\n"


async def test_a_guest_that_is_killed_before_it_has_its_files_leaves_them_in_the_session(
    client: httpx.AsyncClient,
) -> None:
    await upload(client, "s", "a.txt")
    guests = await stop_guests()

    running = asyncio.create_task(start(client, "print(1)", session_id="s"))
    await asyncio.sleep(0)
    for guest in guests:
        os.kill(guest, signal.SIGKILL)
    await running

    assert await names(client, "s") == ["a.txt"]


async def test_a_file_that_the_program_deleted_before_it_timed_out_is_gone(client: httpx.AsyncClient) -> None:
    await upload(client, "s", "a.txt")
    await upload(client, "s", "b.txt")

    code = "import os\nos.remove('a.txt')\nopen('c.txt', 'w').write('three')\nwhile True: pass"
    for milliseconds in (1500, 60_000):  # the second where a busy machine had not begun with it in that time
        ended = await start(client, code, session_id="s", timeout=milliseconds)
        if "a.txt" not in await names(client, "s"):
            break

    assert (ended.status_code, await names(client, "s")) == (408, ["b.txt", "c.txt"])


async def test_what_a_program_makes_unreadable_stays_as_it_was(client: httpx.AsyncClient) -> None:
    for name in ("a.txt", "b.txt"):
        await upload(client, "s", name)
    code = "import os\nos.remove('a.txt')\nos.symlink('b.txt', 'a.txt')\nos.chmod('b.txt', 0)"

    await start(client, code, session_id="s")

    assert await names(client, "s") == ["a.txt", "b.txt"]


async def test_uploads_at_the_same_time_are_all_kept(client: httpx.AsyncClient) -> None:
    sessions = [f"s{number}" for number in range(10)]

    sent = await asyncio.gather(
        *(upload(client, session, f"{number}.txt", b"same") for session in sessions for number in range(8))
    )
    kept = [await names(client, session) for session in sessions]

    assert {answer.status_code for answer in sent} == {200}
    assert kept == [[f"{number}.txt" for number in range(8)]] * 10


async def test_an_upload_into_a_session_with_a_paused_program_outlives_that_program(client: httpx.AsyncClient) -> None:
    await upload(client, "s", "old.txt")
    await upload(client, "s", "both.txt")
    code = "await get_weather(city='a')\nopen('new.txt', 'w').write('new')"
    paused = (await start(client, code, session_id="s")).json()

    await upload(client, "s", "late.txt", b"late")
    await upload(client, "s", "old.txt", b"newer")
    await client.delete(f"/sessions/s/objects/{(await client.get('/files/s')).json()[0]['id']}")
    before = await names(client, "s")
    await go_on(client, paused["continuation_token"], result("call_001", 1))
    got = {
        file["filename"]: (await client.get(f"/download/s/{file['id']}")).content
        for file in (await client.get("/files/s")).json()
    }

    assert sorted([*before, "new.txt"]) == sorted(got)
    assert got["late.txt"] == b"late"
    assert got.get("old.txt", b"newer") == b"newer"


async def test_a_session_of_which_a_file_is_lost_goes_on_with_the_others(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    await upload(client, "s", "a.txt", b"lost")
    await upload(client, "s", "b.txt", b"kept")
    for path in (tmp_path / "files").glob("*/*"):
        if path.read_bytes() == b"lost":
            path.unlink()

    ran = await start(client, "import os\nprint(os.listdir())", session_id="s")

    assert ran.json()["stdout"] == "['b.txt']\n"


async def stop_guests() -> list[int]:
    """The two guests that wait, of which the next program gets one."""
    while len(guests := [one for one in descendants(os.getpid()) if not descendants(one)]) < 2:
        await asyncio.sleep(0.01)
    for guest in guests:
        os.kill(guest, signal.SIGSTOP)
    return guests
