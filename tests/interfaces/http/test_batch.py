"""`POST /exec/batch`: many programs in one request, and a line for each as soon as it has ended."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served
from tests.interfaces.http.talk import metric, until
from tests.interfaces.http.test_gone import Host, code
from toolfold import Runtime
from toolfold.engines.base import Died, Ended
from toolfold.engines.scripted import ScriptedEngine
from toolfold.interfaces.http import Settings, create_app
from toolfold.ledger.memory import MemoryLedger


async def lines(client: httpx.AsyncClient, *programs: Any, **options: Any) -> list[dict[str, Any]]:
    answer = await client.post("/exec/batch", json={"programs": list(programs)}, **options)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_each_program_has_one_line_and_a_failure_is_one_like_any_other(client: httpx.AsyncClient) -> None:
    texts = ["print(1)\n2", "1 / 0", "x = (", "while True: pass", "await nothing()", "2**200"]

    found = await lines(
        client, *({"code": text, "id": f"t{n}", "timeout": 1000} for n, text in enumerate(texts)), {"code": "1"}
    )

    assert sorted((one["index"], one["id"], one["status"], one["value"], one["stdout"]) for one in found) == [
        (0, "t0", "finished", 2, "1\n"),
        (1, "t1", "failed", None, ""),
        (2, "t2", "rejected", None, ""),
        (3, "t3", "timeout", None, ""),
        (4, "t4", "rejected", None, ""),
        (5, "t5", "finished", 2**200, ""),
        (6, None, "finished", 1, ""),
    ]


async def test_programs_have_input_seeds_clocks_and_files_of_their_own(client: httpx.AsyncClient) -> None:
    uploaded = (await client.post("/upload", files={"file": ("n.txt", b"5")})).json()
    reference = {"id": uploaded["files"][0]["fileId"], "session_id": uploaded["session_id"]}
    drawn = "import random, time\n[random.random(), time.time()]"

    found = await lines(
        client,
        {"code": "input()", "stdin": "typed"},
        {"code": "input()"},
        {"code": "open('n.txt').read()", "files": [reference]},
        *[{"code": drawn, "seed": 7, "clock": 10}] * 2,
    )

    values = [one["value"] for one in sorted(found, key=lambda one: one["index"])]
    assert values[:3] == ["typed", None, "5"]
    assert values[3] == values[4]
    assert values[3][1] == 10.000001


async def test_lines_come_while_others_run(served: Served) -> None:
    host = Host()
    async with served(**host.options) as client:
        body = {"programs": [{"code": "1"}, {"code": code("second", hangs=True)}]}
        async with client.stream("POST", "/exec/batch", json=body) as answer:
            incoming = answer.aiter_lines()
            first = json.loads(await anext(incoming))
            await host.has_run("second")
            host.let_go.set()
            second = json.loads(await anext(incoming))

    assert [(one["index"], one["status"]) for one in (first, second)] == [(0, "finished"), (1, "finished")]


async def test_a_client_that_leaves_ends_what_runs_and_what_would_have(served: Served) -> None:
    host = Host()
    async with served(**host.options) as client:
        programs = [{"code": code(f"p{n}", hangs=True)} for n in range(20)]
        async with client.stream("POST", "/exec/batch", json={"programs": programs}):
            await host.has_run("p0")
        async with asyncio.timeout(20):
            await until(client, "running", 0)
        after = await lines(client, {"code": code("after")})

    assert host.ran == ["p0", "after"]
    assert [one["status"] for one in after] == ["finished"]


async def test_no_more_run_at_once_than_the_tenant_may_have(served: Served) -> None:
    at_once, most = 0, 0

    async def work() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    async with served(options={"tools": [work]}, running=2, waiting=1) as client:
        found = await lines(client, *[{"code": "await work()"}] * 8)

    assert {one["status"] for one in found} == {"finished"}
    assert (len(found), most <= 2) == (8, True)


async def test_a_batch_waits_for_the_rate_of_its_tenant_where_a_start_is_refused(served: Served) -> None:
    engine = ScriptedEngine(Ended(status="finished", value=1))
    async with served(starts_per_minute=600, options={"engine": engine}) as client:
        await lines(client, *[{"code": "1"}] * 599)
        found = await lines(client, *[{"code": "1"}] * 5)
        while (refused := await client.post("/exec/batch", json={"programs": [{"code": "1"}]})).status_code == 200:
            pass

    assert len(found) == 5
    assert refused.status_code == 429
    assert refused.json()["error"] == "rate_limited"


MISTAKES: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "programs: field required"),
    ({"programs": []}, 400, "programs: list should have at least 1 item after validation, not 0"),
    ({"programs": [{"code": "1"}, {}]}, 400, "programs.1.code: field required"),
    (
        {"programs": [{"code": "1", "timeout": 1}]},
        400,
        "programs.0.timeout: is 1; give 1000 to 300000 milliseconds",
    ),
    ({"programs": [{"code": "1", "lang": "r"}]}, 400, "programs.0.lang: 'r' cannot be run here; send 'py'"),
    ({"programs": [{"code": "1", "seed": -1}]}, 400, "programs.0.seed: input should be greater than or equal to 0"),
    (
        {"programs": [{"code": "1", "files": [{"id": "f"}]}]},
        400,
        "programs.0.files: a batch has no session; name the session_id of each file",
    ),
    (
        {"programs": [{"code": "1"}, {"code": "1", "files": [{"id": "f", "session_id": "s"}]}]},
        404,
        "no file 'f' in this session; it may have expired, upload it again",
    ),
]


async def test_a_mistake_is_told_before_anything_runs(client: httpx.AsyncClient) -> None:
    found = [await client.post("/exec/batch", json=body) for body, _, _ in MISTAKES]

    assert [(one.status_code, one.json()["error"]) for one in found] == [(told, text) for _, told, text in MISTAKES]
    assert 'status="finished"' not in (await client.get("/metrics")).text


async def test_tenants_have_files_and_turns_of_their_own(client: httpx.AsyncClient) -> None:
    uploaded = (await client.post("/upload", files={"file": ("n.txt", b"5")})).json()
    reference = {"id": uploaded["files"][0]["fileId"], "session_id": uploaded["session_id"]}
    body = {"programs": [{"code": "1", "files": [reference]}]}

    own = await client.post("/exec/batch", json=body)
    other = await client.post("/exec/batch", json=body, headers={"X-API-Key": KEYS["two"]})

    assert (own.status_code, other.status_code) == (200, 404)


async def test_a_sandbox_that_breaks_is_the_last_line(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    engine = ScriptedEngine(Died("gone"))
    with caplog.at_level(logging.ERROR, "toolfold"):
        async with served(options={"engine": engine}) as client:
            found = await lines(client, *[{"code": "1"}] * 3)
            left = await metric(client, "running")

    assert found[-1] == {"status": "error", "error": "the sandbox broke: gone"}
    assert left == 0
    assert "POST /exec/batch: the sandbox broke: gone" in caplog.messages


async def test_a_batch_has_as_many_lines_as_programs(served: Served) -> None:
    engine = ScriptedEngine(Ended(status="finished", value=1))
    async with served(options={"engine": engine}, starts_per_minute=10**6, running=4) as client:
        found = await lines(client, *({"code": "1", "id": n} for n in range(2000)))
        many = await client.post("/exec/batch", json={"programs": [{"code": "1"}] * 10_001})

    assert sorted(one["id"] for one in found) == list(range(2000))
    assert many.json()["error"] == "programs: 10001 are more than 10000; send them in several requests"


async def test_a_server_that_stops_tells_those_who_wait() -> None:
    host = Host()
    runtime = Runtime(ledger=(ledger := MemoryLedger()), **host.options["options"])
    app = create_app(runtime, ledger, Settings())
    sent = {"code": code("one", hangs=True), "language": "python"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        one = asyncio.create_task(client.post("/run_code", json=sent))
        batch = asyncio.create_task(client.post("/exec/batch", json={"programs": [{"code": code("two", hangs=True)}]}))
        await host.has_run("one")
        await host.has_run("two")
        app.state.suspend()
        told = (await one).json(), (await batch).json()

    text = "the server stops; send what has no answer again"
    assert (told[0]["status"], told[0]["message"]) == ("SandboxError", text)
    assert told[1] == {"status": "error", "error": text}


class Mistaken(Runtime):
    """A runtime with a mistake in it."""

    async def run(self, text: str, **options: Any) -> Any:
        raise TypeError("got multiple values for an argument")


async def test_a_mistake_of_the_server_ends_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    ledger = MemoryLedger()
    app = create_app(Mistaken(ledger=ledger, engine=ScriptedEngine()), ledger, Settings())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        found = await lines(client, {"code": "1"}, {"code": "2"})

    assert found == [{"status": "error", "error": "internal error"}]
    assert "got multiple values for an argument" in caplog.text
