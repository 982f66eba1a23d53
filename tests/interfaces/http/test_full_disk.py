"""A disk that takes nothing for a moment: requests fail, and work when they are sent again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, serve
from tests.interfaces.http.talk import go_on, result, start
from tests.ledger.test_sqlite import full_disk
from toolfold import tool
from toolfold.interfaces.http import Settings
from toolfold.ledger.sqlite.store import SqliteLedger

AGAIN = "the server failed (OSError); nothing is lost, send the same request again"
charged: list[str] = []


@tool
def charge(name: str) -> int:
    """Not to be done twice."""
    charged.append(name)
    return 1


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    charged.clear()
    ledger = SqliteLedger(folder / "ledger.sqlite")
    settings = Settings(keys=KEYS, token_key=b"k" * 32)
    async with serve(settings, folder / "files", ledger=ledger, tools=[charge]) as client:
        yield client
    await ledger.close()


async def test_a_continuation_works_when_there_is_room_again(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        paused = (await start(client, "print(await get_weather(city='a'), await charge(name='a'))")).json()
        with full_disk():
            failed = [await go_on(client, paused["continuation_token"], result("call_001", "sun")) for _ in range(2)]
        ended = await go_on(client, paused["continuation_token"], result("call_001", "sun"))

    assert [answer.status_code for answer in failed] == [503, 503]
    assert (ended.json()["stdout"], charged) == ("sun 1\n", ["a"])


async def test_a_start_with_a_key_works_when_there_is_room_again(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "order-17"}
    async with served(tmp_path) as client:
        with full_disk():
            failed = [await start(client, "print(await charge(name='a'))", headers=key) for _ in range(2)]
        ended = [await start(client, "print(await charge(name='a'))", headers=key) for _ in range(2)]

    assert [answer.status_code for answer in failed] == [503, 503]
    assert ([answer.json()["stdout"] for answer in ended], charged) == (["1\n", "1\n"], ["a"])


@pytest.mark.parametrize("path", ["/upload", "/upload/batch"])
async def test_an_upload_works_when_there_is_room_again(tmp_path: Path, path: str) -> None:
    sent = {"files": {"file": ("a.txt", b"one" * 5_000)}, "data": {"session_id": "s"}}
    async with served(tmp_path) as client:
        with full_disk():
            failed = await client.post(path, **sent)
        kept = await client.post(path, **sent)
        listed = (await client.get("/files/s")).json()

    assert (failed.status_code, failed.json()) == (503, {"error": AGAIN})
    assert (kept.status_code, [file["filename"] for file in listed]) == (200, ["a.txt"])
