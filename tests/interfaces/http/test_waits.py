"""Executions that are waited for later: 202, `GET /executions/{id}?wait=`, live output, and what is refused."""

import asyncio
import json
import tracemalloc
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gate import Gate
from tests.interfaces.http.conftest import KEYS, serve
from tests.interfaces.http.talk import go_on, result, start
from toolfold.interfaces.http import Settings
from toolfold.ledger.sqlite.store import SqliteLedger

ASYNC = {"Prefer": "respond-async"}


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def merged(told: list[tuple[str, Any]]) -> tuple[str, str, list[Any]]:
    texts = {kind: "".join(text for one, text in told if one == kind) for kind in ("stdout", "stderr")}
    return texts["stdout"], texts["stderr"], [text for kind, text in told if kind == "end"]


@pytest.mark.parametrize("path", ["/exec", "/exec/programmatic"])
async def test_who_prefers_not_to_wait_gets_an_id_and_waits_for_the_answer_later(path: str, tmp_path: Path) -> None:
    gate = Gate()
    async with serve(Settings(), tmp_path, tools=[gate.tool()]) as client:
        body = {"code": "print('one')\nprint(await gate())"}
        started = await client.post(path, json=body, headers=ASYNC)
        url = started.headers["location"]
        still = await client.get(url)
        waiting = asyncio.create_task(client.get(url, params={"wait": 60}))
        other = asyncio.create_task(client.get(url, params={"wait": 60}))
        await gate.entered.wait()
        gate.opened.set()
        ended, same, again = await waiting, await other, await client.get(url)

    assert (started.status_code, started.json()["status"]) == (202, "running")
    assert (still.status_code, still.json()) == (202, started.json())
    assert url == f"/executions/{started.json()['execution_id']}"
    assert (ended.status_code, ended.json()["status"], ended.json()["stdout"]) == (200, "completed", "one\nopen\n")
    assert ended.json() == same.json() == again.json()


async def test_a_quick_program_is_answered_within_the_wait_that_was_preferred(tmp_path: Path) -> None:
    async with serve(Settings(), tmp_path) as client:
        answer = await client.post("/exec", json={"code": "print(1)"}, headers={"Prefer": "respond-async, wait=30"})
        plain = await client.post("/exec", json={"code": "print(1)"}, headers={"Prefer": "return=minimal"})

    assert (answer.status_code, answer.json()["stdout"]) == (200, "1\n")
    assert (plain.status_code, plain.json()["stdout"]) == (200, "1\n")


async def test_a_program_with_tools_of_the_client_pauses_and_goes_on_in_the_background(tmp_path: Path) -> None:
    async with serve(Settings(), tmp_path) as client:
        started = await start(client, "print(await get_weather(city='Paris'))", headers=ASYNC)
        url = started.headers["location"]
        paused = (await client.get(url, params={"wait": 60})).json()
        token, [call] = paused["continuation_token"], paused["tool_calls"]
        again = await go_on(client, token, result(call, "sunny"), headers=ASYNC)
        ended = await client.get(url, params={"wait": 60})

    assert (call["name"], call["input"]) == ("get_weather", {"city": "Paris"})
    assert (again.status_code, again.headers["location"]) == (202, url)
    assert (ended.json()["status"], ended.json()["stdout"]) == ("completed", "sunny\n")


async def test_output_comes_live_as_events_each_part_once_and_from_where_a_reader_left(tmp_path: Path) -> None:
    gate = Gate()
    code = "import sys\nprint('one')\nprint('oops', file=sys.stderr)\nawait gate()\nprint('two')"
    async with serve(Settings(), tmp_path, tools=[gate.tool()]) as client:
        started = await client.post("/exec", json={"code": code}, headers=ASYNC)
        url = started.headers["location"]
        async with client.stream("GET", f"{url}/output") as stream:
            lines = stream.aiter_lines()
            kind = stream.headers["content-type"]
            first = [await anext(lines) for _ in range(3)]
        gate.opened.set()
        place = {"Last-Event-ID": first[0].removeprefix("id: ")}
        rest = await client.get(f"{url}/output", headers=place)
        whole = await client.get(f"{url}/output")

    assert kind == "text/event-stream; charset=utf-8"
    assert first[1:] == ["event: stdout", 'data: "one\\n"']
    assert merged(events(rest.text)) == ("two\n", "oops\n", ["finished"])
    assert merged(events(whole.text)) == ("one\ntwo\n", "oops\n", ["finished"])


async def test_a_delete_ends_the_program_and_its_calls(tmp_path: Path) -> None:
    gate = Gate()
    async with serve(Settings(), tmp_path, tools=[gate.tool()]) as client:
        started = await client.post("/exec/programmatic", json={"code": "print(1)\nawait gate()"}, headers=ASYNC)
        url = started.headers["location"]
        await gate.entered.wait()
        deleted = await client.delete(url)
        ended = await client.get(url, params={"wait": 60})

    assert (deleted.status_code, deleted.json()) == (202, {"status": "cancellation_requested"})
    assert (ended.status_code, ended.json()["error"], gate.left) == (400, "Execution cancelled", 1)


async def test_a_client_that_gives_up_waiting_leaves_the_program_alone(tmp_path: Path) -> None:
    gate = Gate()
    async with serve(Settings(), tmp_path, tools=[gate.tool()]) as client:
        started = await client.post("/exec", json={"code": "print(await gate())"}, headers=ASYNC)
        url = started.headers["location"]
        with pytest.raises(httpx.ReadTimeout):
            await client.get(url, params={"wait": 60}, timeout=httpx.Timeout(60, read=0.2))
        gate.opened.set()
        ended = await client.get(url, params={"wait": 60})

    assert (ended.json()["stdout"], gate.left) == ("open\n", 0)


async def test_after_a_restart_it_goes_on_from_its_record(tmp_path: Path) -> None:
    gate, ledger = Gate(), tmp_path / "ledger.sqlite"
    settings = Settings(token_key=b"k" * 32)
    body = {"code": "print('one')\nprint(await gate())"}
    before, after = SqliteLedger(ledger), SqliteLedger(ledger)
    async with serve(settings, tmp_path / "files", ledger=before, tools=[gate.tool()]) as client:
        started = await client.post("/exec", json=body, headers=ASYNC)
        await gate.entered.wait()
    gate.opened.set()
    async with serve(settings, tmp_path / "files", ledger=after, tools=[gate.tool()]) as client:
        ended = await client.get(started.headers["location"], params={"wait": 60})
    await before.close()
    await after.close()

    assert (ended.status_code, ended.json()["stdout"]) == (200, "one\nopen\n")


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/executions/0000000000000000", 404, "no execution '0000000000000000'; it may be too old"),
        ("/executions/nonsense", 404, "no execution 'nonsense'; it may be too old"),
        ("/executions/ID?wait=-1", 400, "wait is '-1'; give 0 to 300 seconds"),
        ("/executions/ID?wait=1e99", 400, "wait is '1e99'; give 0 to 300 seconds"),
        ("/executions/ID?wait=nan", 400, "wait is 'nan'; give 0 to 300 seconds"),
        ("/executions/ID?wait=soon", 400, "wait is 'soon'; give 0 to 300 seconds"),
    ],
)
async def test_bad_input_gets_one_clear_answer(path: str, status: int, says: str, tmp_path: Path) -> None:
    async with serve(Settings(), tmp_path) as client:
        started = await client.post("/exec", json={"code": "1"}, headers=ASYNC)
        answer = await client.get(path.replace("ID", started.json()["execution_id"]))

    assert (answer.status_code, answer.json()) == (status, {"error": says})


@pytest.mark.parametrize("execution_id", ["0" * 16, "nonsense", "..%2F..%2Fetc", "A" * 16, "0" * 65])
async def test_what_is_no_execution_is_neither_shown_nor_ended(execution_id: str, tmp_path: Path) -> None:
    async with serve(Settings(), tmp_path) as client:
        url = f"/executions/{execution_id}"
        answers = [await client.get(url), await client.get(f"{url}/output"), await client.delete(url)]

    assert [one.status_code for one in answers] == [404] * 3


@pytest.mark.parametrize("place", ["-1,0", "1", "nonsense", "9" * 10 + ",0"])
async def test_a_place_in_the_output_that_no_event_had_is_refused(place: str, tmp_path: Path) -> None:
    async with serve(Settings(), tmp_path) as client:
        url = (await client.post("/exec", json={"code": "print(1)"}, headers=ASYNC)).headers["location"]
        answer = await client.get(f"{url}/output", headers={"Last-Event-ID": place})

    says = f"Last-Event-ID is {place!r}; send the id of an event, or none"
    assert (answer.status_code, answer.json()) == (400, {"error": says})


async def test_an_execution_of_another_tenant_is_as_unknown_as_none(tmp_path: Path) -> None:
    gate = Gate()
    async with serve(Settings(keys=KEYS), tmp_path, tools=[gate.tool()]) as client:
        started = await client.post("/exec", json={"code": "await gate()"}, headers=ASYNC)
        url, other = started.headers["location"], {"X-API-Key": KEYS["two"]}
        execution_id = started.json()["execution_id"]
        foreign = [
            await client.get(url, headers=other), await client.get(f"{url}/output", headers=other),
            await client.delete(url, headers=other),
        ]  # fmt: skip
        gate.opened.set()
        await client.get(url, params={"wait": 60})

    said = (404, {"error": f"no execution '{execution_id}'; it may be too old"})
    assert [(one.status_code, one.json()) for one in foreign] == [said] * 3
    assert gate.left == 0


async def test_megabytes_come_live_in_order_and_once_to_a_slow_reader_and_not_to_one_that_left(tmp_path: Path) -> None:
    gate = Gate()
    code = "for n in range(60_000):\n    print(n, 'x' * 40)\nawait gate()"
    tracemalloc.start()
    async with serve(Settings(), tmp_path, tools=[gate.tool()]) as client:
        url = (await client.post("/exec", json={"code": code}, headers=ASYNC)).headers["location"]
        async with client.stream("GET", f"{url}/output") as gone:
            await anext(gone.aiter_lines())
        told: list[tuple[str, Any]] = []
        async with client.stream("GET", f"{url}/output") as slow:
            async for line in slow.aiter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    told.append((kind, json.loads(line.removeprefix("data: "))))
                    await asyncio.sleep(0)  # others go first
                    if sum(len(text) for _, text in told) == WHOLE_CHARACTERS:
                        gate.opened.set()
        ended = (await client.get(url, params={"wait": 60})).json()
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    stdout, stderr, ends = merged(told)
    assert stdout == "".join(f"{n} {'x' * 40}\n" for n in range(60_000))
    assert (stderr, ends) == ("", ["finished"])
    assert max(len(text) for _, text in told) <= 64 * 1024
    assert len(ended["stdout"]) < 70_000
    assert most_bytes < 60_000_000  # the output, its copies on the way, and both ends of the connection


WHOLE_CHARACTERS = sum(len(f"{n} ") + 41 for n in range(60_000))
