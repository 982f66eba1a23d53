"""The console's API, through a real server: what it shows, what it lets people do, and whom it turns away."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.interfaces.console.served import Console, Till, choice, questions, served
from tests.ledger.made_up import begun, given, made, outcome
from toolfold import Runtime, tool
from toolfold.config.model import Config
from toolfold.engines.base import EngineWrapper, Order, Run
from toolfold.engines.registry import engine_named
from toolfold.interfaces.config_runtime import open_runtime
from toolfold.interfaces.http.access.auth import Authenticator
from toolfold.interfaces.http.settings import Settings
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import File, Prices
from toolfold.runtime import RuntimeSettings
from toolfold.tools.router_steps import Breaker, Retry, wrappers


async def test_a_run_is_listed_shown_and_its_calls_can_be_opened(console: Console, runtime: Runtime) -> None:
    text = "total = sum([await price('ab'), await price('abc')])\nprint(total)\n"
    ended = await runtime.run(text, files=[File(name="in.txt", data=b"x")])

    (row,) = (await console.get("executions", tool="price"))["executions"]
    run = await console.get(f"executions/{ended.execution_id}")
    call = await console.get(f"executions/{ended.execution_id}/calls/2")
    file = await console.client.get(f"/api/executions/{ended.execution_id}/files/in.txt")

    assert (row["execution_id"], row["status"], row["calls"], row["interface"]) == (
        ended.execution_id,
        "finished",
        2,
        "library",
    )
    assert (run["program"], run["outcome"]["stdout"], run["missing_tools"]) == (text, "5\n", [])
    assert [(one["type"], one["id"], one["line"]) for one in run["events"] if one["type"] == "replied"] == [
        ("replied", 1, 1),
        ("replied", 2, 1),
    ]
    assert (call["arguments"]["json"], call["reply"]["json"]) == ({"name": "abc"}, 3)
    assert (file.content, file.headers["content-type"]) == (b"x", "application/octet-stream")


async def test_the_events_of_calls_begin_their_arguments_and_a_call_has_the_name_that_programs_use(
    console: Console, ledger: SqliteLedger
) -> None:
    rows = [{"a": [1, [2, [3]]], "b": None}, *range(9)]
    calls = [
        made(1, key="x" * 500), made(2, n=2**300, ok=True, rows=rows), made(3, half="\ud800é"),
        made(4, **{f"name{n}": n for n in range(40)}),
    ]  # fmt: skip
    ledger.begin(begun("a"))
    ledger.note("a", *calls)
    await ledger.flush("a")

    events = (await console.get("executions/a"))["events"]
    call = await console.get("executions/a/calls/1")

    assert [event["preview"][:80] for event in events] == [
        'key="' + "x" * 75,
        "n=…, ok=True, rows=[{a: …, b: None}, 0, 1, 2, …]",
        'half="\\\\ud800é"',
        ", ".join(f"name{n}={n}" for n in range(9))[:79] + ",",
    ]
    assert max(len(event["preview"]) for event in events) == 120
    assert call["python_name"] == call["tool"]


async def test_rejected_programs_and_direct_calls_are_there(console: Console, runtime: Runtime) -> None:
    await runtime.run("print(await prise('a'))")
    await runtime.call("price", {"name": "abc"})

    rows = (await console.get("executions"))["executions"]
    direct = await console.get(f"executions/{rows[0]['execution_id']}")

    assert [(row["status"], row["first_line"]) for row in rows] == [
        ("finished", "await price(name='abc')"),
        ("rejected", "print(await prise('a'))"),
    ]
    assert direct["is_direct"] is True


async def test_events_come_live_and_go_on_after_the_last_one_that_was_seen(
    console: Console, ledger: SqliteLedger
) -> None:
    ledger.begin(begun("a"))
    ledger.note("a", made(1))
    await ledger.flush("a")
    path = "/api/executions/a/events"

    async def messages(headers: dict[str, str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        async with console.client.stream("GET", path, headers=headers) as answer:
            last = ""
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    last = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    yield last, json.loads(line.removeprefix("data: "))

    stream = messages({})
    first_id, first = await anext(stream)
    ledger.note("a", given(1, "x"))
    second_id, second = await anext(stream)
    await stream.aclose()
    ledger.note("a", made(2))
    await ledger.finish("a", outcome("a", stdout="done"), wait=True)
    again = [body async for _, body in messages({"Last-Event-ID": second_id})]

    assert ([one["type"] for one in first["events"]], first["state"]) == (["called"], "running")
    assert [(one["type"], one["id"]) for one in second["events"]] == [("replied", 1)]
    assert int(first_id) < int(second_id)
    assert [one["id"] for body in again for one in body["events"]] == [2]
    assert again[-1]["outcome"]["stdout"] == "done"


async def test_people_approve_edit_and_deny_and_the_program_goes_on(
    console: Console, runtime: Runtime, till: Till
) -> None:
    text = "got = await asyncio.gather(*(pay(amount=n) for n in (1, 2, 3)), return_exceptions=True)\nprint(got)\n"
    running = asyncio.create_task(runtime.run(text))
    one, two, three = await questions(console, 3)

    decisions = [choice(one), choice(two, arguments={"amount": 20}), choice(three, approved=False, reason="too much")]
    answer = await console.post("approvals", {"decisions": decisions})
    ended = await running
    replayed = await console.post("approvals", {"decisions": [choice(one)]})

    assert [result["counts"] for result in answer.json()["results"]] == [True, True, True]
    assert ended.stdout == "['paid 1', 'paid 20', ToolError(\"'pay' was denied: too much\")]\n"
    assert sorted(till.paid) == [1, 20]
    assert replayed.json()["results"][0]["counts"] is False
    assert await questions(console, 0) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"digest": "0" * 32}, "the arguments are not the ones that were shown"),
        ({"epoch": 7}, "another process has taken over the program; reload and decide again"),
        ({"call_id": 99}, "the call is no longer pending"),
        ({"execution_id": "../x"}, "the execution has ended or does not exist"),
    ],
)
async def test_a_decision_that_does_not_fit_counts_for_nothing(
    console: Console, runtime: Runtime, till: Till, change: dict[str, Any], why: str
) -> None:
    running = asyncio.create_task(runtime.run("print(await pay(amount=5))"))
    (question,) = await questions(console, 1)

    answer = await console.post("approvals", {"decisions": [{**choice(question), **change}]})
    paid_by_then = list(till.paid)
    await console.post("approvals", {"decisions": [choice(question, covers="tool")]})
    await running

    assert (answer.json()["results"][0]["why"], paid_by_then, till.paid) == (why, [], [5])


async def test_a_corrected_program_runs_without_making_its_calls_again(
    console: Console, runtime: Runtime, till: Till
) -> None:
    first = asyncio.create_task(runtime.run("await pay(amount=1)\nawait price('broken')\n", stdin="Ann\n"))
    (question,) = await questions(console, 1)
    await console.post("approvals", {"decisions": [choice(question)]})
    failed = await first
    fixed = "print(input(), await pay(amount=1), await price('fine'))\n"

    checked = await console.post("check", {"text": "print(await prise('x'))"})
    started = (await console.post(f"executions/{failed.execution_id}/rerun", {"text": fixed})).json()["execution_id"]
    while (run := await console.get(f"executions/{started}"))["state"] != "ended":
        (again,) = await questions(console, 1)
        await console.post("approvals", {"decisions": [choice(again)]})
        await asyncio.sleep(0.02)

    assert checked.json()["problem"]["message"] == "no tool 'prise'; did you mean 'price'?"
    assert (run["outcome"]["stdout"], run["rerun_of"]) == ("Ann paid 1 4\n", failed.execution_id)
    assert till.paid == [1]


async def test_a_rerun_is_named_once_it_can_be_shown(ledger: SqliteLedger) -> None:
    opened = asyncio.Event()
    opened.set()

    class Slow(EngineWrapper):
        @asynccontextmanager
        async def open(self, order: Order) -> AsyncIterator[Run]:
            await opened.wait()
            async with self.inner.open(order) as run:
                yield run

    runtime = Runtime(ledger=ledger, engine=Slow(engine_named("process")))

    async def rerun(console: Console, execution_id: str) -> str:
        answer = await console.post(f"executions/{execution_id}/rerun", {"text": "print(2)"})
        return (await console.get(f"executions/{answer.json()['execution_id']}"))["program"]

    async with served(runtime, ledger) as console:
        ended = await runtime.run("print(1)")
        opened.clear()
        shown = asyncio.create_task(rerun(console, ended.execution_id))
        await asyncio.wait([shown], timeout=1)
        opened.set()

        assert await shown == "print(2)"


async def test_a_bash_program_is_shown_checked_and_rerun_as_bash(console: Console, runtime: Runtime) -> None:
    text = 'echo begun\nprice \'{"name":"abc"}\' |\n  jq \'. + 1\'\nprice \'{"name":"broken"}\''
    await runtime.run(f': &\nwait "$!"\n#!/bin/bash\n{text}', language="bash")  # as LibreChat sends it
    ended = await runtime.run(text, language="bash")
    path = f"executions/{ended.execution_id}"

    rows = (await console.get("executions"))["executions"]
    run = await console.get(path)
    checked = [
        (await console.post("check", {"text": text.replace("price", "prise"), "language": language})).json()["problem"]
        for language in ("bash", "python")
    ]
    rerun = (await console.post(f"{path}/rerun", {"text": text.replace("broken", "mended")})).json()["execution_id"]
    again = await console.get(f"executions/{rerun}")

    assert [row["first_line"] for row in rows] == ["echo begun", "echo begun"]
    assert (run["language"], run["program"], run["isolation"]) == ("bash", text, "namespace, shell profile")
    assert [(event["id"], event["line"]) for event in run["events"] if event["type"] == "replied"] == [(1, 2), (2, 4)]
    assert [(problem["line"], problem["kind"]) for problem in checked] == [(2, "unknown_tool"), (1, "syntax")]
    assert (again["language"], again["outcome"]["stdout"]) == ("bash", "begun\n4\n6\n")
    replies = [event for event in again["events"] if event["type"] == "replied"]
    assert [(event["line"], event["from_record"]) for event in replies] == [(2, True), (4, False)]


@pytest.mark.parametrize("amount", [2**64, -(2**63) - 1, 2**70 + 1])
async def test_calls_with_integers_of_any_size_are_rerun_and_edited_exactly(
    console: Console, runtime: Runtime, till: Till, amount: int
) -> None:
    text = f"print(await pay(amount={amount}))"
    first = asyncio.create_task(runtime.run(text))
    (question,) = await questions(console, 1)
    await console.post("approvals", {"decisions": [choice(question, arguments={"amount": amount + 1})]})
    ended = await first
    answer = await console.post(f"executions/{ended.execution_id}/rerun", {"text": text})
    started = answer.json()["execution_id"]
    (again,) = await questions(console, 1)
    await console.post("approvals", {"decisions": [choice(again)]})
    while (run := await console.get(f"executions/{started}"))["state"] != "ended":
        await asyncio.sleep(0.02)

    assert (question["arguments"]["json"], ended.stdout) == ({"amount": amount}, f"paid {amount + 1}\n")
    assert (answer.status_code, run["outcome"]["stdout"], till.paid) == (202, f"paid {amount + 1}\n", [amount + 1])


async def test_a_place_in_the_events_that_no_ledger_can_have_is_refused(console: Console, runtime: Runtime) -> None:
    ended = await runtime.run("print(1)")

    answer = await console.client.get(f"/api/executions/{ended.execution_id}/events", params={"after": 2**70})

    assert answer.status_code == 422


async def test_an_execution_of_another_process_is_cancelled_through_its_record(
    console: Console, ledger: SqliteLedger
) -> None:
    ledger.begin(begun("a"))
    await ledger.flush("a")

    answer = await console.post("executions/a/cancel", {})
    twice = await console.post("executions/a/cancel", {})

    assert (answer.status_code, twice.status_code) == (202, 409)
    assert (await console.get("executions/a"))["outcome"]["status"] == "cancelled"


async def test_tools_have_statistics_and_can_be_tried(console: Console) -> None:
    tried = await console.post("tools/price/call", {"arguments": {"name": "abcd"}})
    wrong = await console.post("tools/price/call", {"arguments": {}})

    found = (await console.get("tools", q="what does a thing cost: price"))["tools"]

    assert tried.json() == {"error": None, "reply": {"json": 4, "bytes": 1}}
    assert "name" in wrong.json()["error"]
    assert (found[0]["name"], found[0]["calls"], found[0]["failed"]) == ("price", 2, 1)
    assert found[0]["signature"].startswith("async def price(*, name: str) -> int:")


async def test_retries_and_an_open_breaker_are_told(ledger: SqliteLedger) -> None:
    @tool(read_only=True)
    async def flaky() -> int:
        """Fails."""
        raise ConnectionRefusedError

    steps = wrappers(breaker=Breaker(failures=1), retry=Retry(attempts=2, first_wait_seconds=0))
    runtime = Runtime([flaky], ledger=ledger, steps=steps)
    async with served(runtime, ledger) as console:
        ended = await runtime.run("await flaky()")
        run = await console.get(f"executions/{ended.execution_id}")
        (shown,) = (await console.get("tools", q="flaky"))["tools"][:1]

    retried = [(one["id"], one["attempt"]) for one in run["events"] if one["type"] == "retried"]
    assert (retried, shown["breaker"]["did"]) == ([(1, 2)], "opened")


async def test_servers_have_a_state_that_only_the_operator_sees(tmp_path: Path, ledger: SqliteLedger) -> None:
    servers = [{"name": "gone", "command": "/nonexistent/server"}]
    config = Config.model_validate({"servers": servers, "ledger": {"where": "memory"}})
    runtime = open_runtime(config, [], RuntimeSettings(ledger=ledger))
    auth = Authenticator(Settings(keys={"acme": "secret-1"}))
    async with served(runtime, ledger, auth=auth) as console:
        while (status := (await console.get("tools"))["servers"][0])["state"] == "connecting":
            await asyncio.sleep(0.02)
        async with httpx2.AsyncClient(base_url=console.url, headers={"x-api-key": "secret-1"}) as acme:
            told = (await acme.get("/api/tools")).json()["servers"]

    assert (status["name"], status["state"], told) == ("gone", "failed", [])


async def test_figures_and_savings_are_given(console: Console, runtime: Runtime) -> None:
    await runtime.run("print(await price('abc'))")

    overview = await console.get("overview")
    savings = await console.get("savings", days=1)

    assert (overview["running"], overview["recent"], overview["failed"]) == (0, 1, 0)
    assert [(one["interface"], one["executions"]) for one in savings["buckets"]] == [("library", 1)]
    assert [(one["tool"], one["calls"]) for one in savings["tools"]] == [("price", 1)]


async def test_programs_have_a_cost_where_the_model_has_prices(ledger: SqliteLedger) -> None:
    @tool(read_only=True)
    async def page_text() -> str:
        """Long."""
        return "x" * 40_000

    prices = {"model-*": Prices(input=3, output=15)}
    runtime = Runtime([page_text], ledger=ledger)
    async with served(runtime, ledger, price_table=prices) as console:
        for model in ("model-1", "other"):
            await runtime.run("print(len(await page_text()))", model=model, conversation="c")
        await runtime.run("await page_text()\n1 / 0", model="model-2", conversation="c")
        rows = (await console.get("executions", conversation="c", cost=True))["executions"]
        plain = (await console.get("executions", conversation="c"))["executions"]
        run = await console.get(f"executions/{rows[2]['execution_id']}")

    failed, unpriced, priced = (row["cost"] for row in rows)
    assert priced == run["cost"]
    assert (priced["written_tokens"], priced["read_tokens"]) == (14, 2)
    assert priced["dollars"] == pytest.approx((14 * 15 + 2 * 3) / 1e6)
    assert priced["saved_dollars"] == pytest.approx((10_000 * 3 + 3 * 15) / 1e6 - priced["dollars"], rel=0.01)
    assert (unpriced["dollars"], unpriced["saved_dollars"]) == (None, None)
    assert failed["saved_dollars"] == -failed["dollars"]
    assert not any("cost" in row for row in plain)


async def test_the_api_is_described(console: Console) -> None:
    document = (await console.client.get("/api/openapi.json")).json()

    assert {"/api/executions", "/api/approvals", "/api/check", "/api/savings", "/api/tools"} <= set(document["paths"])
    assert document["paths"]["/api/executions"]["get"]["summary"] == "List executions, newest first."
