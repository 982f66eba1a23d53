"""The console's API, through a real server: what it shows, what it lets people do, and whom it turns away."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.doors.console.served import KEY, Console, served
from tests.ledger.made_up import begun, given, made, outcome
from toolfold import Runtime, tool
from toolfold.doors.console.access import COOKIE, Access
from toolfold.doors.http.auth import Auth
from toolfold.doors.http.settings import Settings
from toolfold.ledger.decisions import LedgerApproval
from toolfold.ledger.sqlite import SqliteLedger
from toolfold.models import File, Program
from toolfold.tools.policy import Policy

NASTY = "<script>alert(1)</script>\x1b[31m\u202e"


class Till:
    """Counts what really reached the tool."""

    def __init__(self) -> None:
        self.paid: list[int] = []


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "ledger.sqlite")
    yield opened
    await opened.close()


@pytest.fixture
def runtime(ledger: SqliteLedger, till: Till) -> Runtime:
    @tool
    async def pay(amount: int) -> str:
        """Pays somebody."""
        till.paid.append(amount)
        return f"paid {amount}"

    @tool
    async def price(name: str) -> int:
        """The price of a thing."""
        if name == "broken":
            raise ValueError(NASTY)
        return len(name)

    approve = LedgerApproval(ledger, wait_seconds=60)
    return Runtime([pay, price], ledger=ledger, policy=Policy(ask=["pay"]), approve=approve, door="library")


@pytest.fixture
async def console(runtime: Runtime, ledger: SqliteLedger) -> AsyncIterator[Console]:
    async with served(runtime, ledger) as opened:
        yield opened


async def questions(console: Console, count: int) -> list[dict[str, Any]]:
    while True:
        found = (await console.get("approvals"))["approvals"]
        if len(found) == count:
            return found
        await asyncio.sleep(0.02)


def choice(question: dict[str, Any], **more: Any) -> dict[str, Any]:
    shown = {name: question[name] for name in ("execution_id", "epoch", "call_id", "digest")}
    return {**shown, "approved": True, **more}


async def test_a_run_is_listed_shown_and_its_calls_can_be_opened(console: Console, runtime: Runtime) -> None:
    text = "total = sum([await price('ab'), await price('abc')])\nprint(total)\n"
    ended = await runtime.run(text, files=[File(name="in.txt", data=b"x")])

    (row,) = (await console.get("executions", tool="price"))["executions"]
    run = await console.get(f"executions/{ended.execution_id}")
    call = await console.get(f"executions/{ended.execution_id}/calls/2")
    file = await console.client.get(f"/api/executions/{ended.execution_id}/files/in.txt")

    assert (row["execution_id"], row["status"], row["calls"], row["door"]) == (
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
        ({"digest": "0" * 32}, "its arguments are not the ones that were shown"),
        ({"epoch": 7}, "another process has the program now; look again"),
        ({"call_id": 99}, "it does not wait any more"),
        ({"execution_id": "../x"}, "it has ended, or never waited"),
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
    first = asyncio.create_task(runtime.run("await pay(amount=1)\nawait price('broken')\n"))
    (question,) = await questions(console, 1)
    await console.post("approvals", {"decisions": [choice(question)]})
    failed = await first
    fixed = "print(await pay(amount=1), await price('fine'))\n"

    checked = await console.post("check", {"text": "print(await prise('x'))"})
    started = (await console.post(f"executions/{failed.execution_id}/rerun", {"text": fixed})).json()["execution_id"]
    while (run := await console.get(f"executions/{started}"))["state"] != "ended":
        (again,) = await questions(console, 1)
        await console.post("approvals", {"decisions": [choice(again)]})
        await asyncio.sleep(0.02)

    assert checked.json()["problem"]["message"] == "no tool 'prise'; did you mean 'price'?"
    assert (run["outcome"]["stdout"], run["rerun_of"]) == ("paid 1 4\n", failed.execution_id)
    assert till.paid == [1]


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


async def test_figures_and_savings_are_given(console: Console, runtime: Runtime) -> None:
    await runtime.run("print(await price('abc'))")

    overview = await console.get("overview")
    savings = await console.get("savings", days=1)

    assert (overview["running"], overview["recent"], overview["failed"]) == (0, 1, 0)
    assert [(one["door"], one["executions"]) for one in savings["buckets"]] == [("library", 1)]
    assert [(one["tool"], one["calls"]) for one in savings["tools"]] == [("price", 1)]


async def test_the_api_is_described(console: Console) -> None:
    document = (await console.client.get("/api/openapi.json")).json()

    assert {"/api/executions", "/api/approvals", "/api/check", "/api/savings", "/api/tools"} <= set(document["paths"])
    assert document["paths"]["/api/executions"]["get"]["summary"] == "List executions, newest first."


# attacks


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api/executions", {"host": "evil.example:80"}, 403),
        ("GET", "/api/executions", {"origin": "https://evil.example"}, 403),
        ("POST", "/api/check", {"origin": "http://127.0.0.1:1"}, 403),
        ("POST", "/api/check", {"sec-fetch-site": "cross-site"}, 403),
        ("POST", "/api/check", {"content-type": "text/plain"}, 415),
        ("GET", "/api/executions/..%2f..%2fetc%2fpasswd", {}, 404),
        ("GET", "/api/executions/0000000000000000", {}, 404),
        ("GET", "/static/..%2fapp.py", {}, 404),
        ("GET", "/static/app.py", {}, 404),
        ("GET", "/login?token=guessed", {}, 403),
    ],
)
async def test_requests_that_should_not_be_are_turned_away_in_one_line(
    console: Console, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await console.client.request(
        method, path, headers=headers, content=b'{"text": ""}' if method == "POST" else None
    )

    assert answer.status_code == status
    assert "\n" not in answer.json()["error"]
    assert "Traceback" not in answer.text


async def test_nobody_gets_in_without_a_cookie_and_a_link_works_once(runtime: Runtime, ledger: SqliteLedger) -> None:
    async with served(runtime, ledger, signs_in=False) as console:
        token = console.access.new_token()
        before = await console.client.get("/api/executions")
        first = await console.client.get("/login", params={"token": token})
        second = await console.client.get("/login", params={"token": token})
        forged = await console.client.get("/api/executions", headers={"cookie": f"{COOKIE}=W251bGwsdHJ1ZSw5ZTldCg.x"})

    cookie = first.headers["set-cookie"].lower()
    assert (before.status_code, first.status_code, second.status_code, forged.status_code) == (401, 303, 403, 401)
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


async def test_a_cookie_outlives_a_restart_of_the_console(runtime: Runtime, ledger: SqliteLedger) -> None:
    first = Access(KEY)
    cookie = first.admit(first.new_token())

    async with served(runtime, ledger, signs_in=False) as console:
        answer = await console.client.get("/api/overview", headers={"cookie": f"{COOKIE}={cookie}"})

    assert answer.status_code == 200


async def test_a_reader_may_not_act(runtime: Runtime, ledger: SqliteLedger) -> None:
    async with served(runtime, ledger, may_act=False) as console:
        overview = await console.get("overview")
        refused = [
            (await console.post(path, {})).status_code
            for path in ("approvals", "check", "executions/a/cancel", "executions/a/rerun", "tools/price/call")
        ]

    assert overview["may_act"] is False
    assert refused == [403] * 5


async def test_a_tenant_sees_its_own_and_nothing_else(runtime: Runtime, ledger: SqliteLedger) -> None:
    ledger.begin(begun("a", tenant="acme"))
    ledger.begin(begun("b", tenant="other"))
    auth = Auth(Settings(keys={"acme": "secret-1", "other": "secret-2"}))

    async with served(runtime, ledger, signs_in=False, auth=auth) as console:
        console.client.headers["x-api-key"] = "secret-1"
        rows = (await console.get("executions", tenant="other"))["executions"]
        foreign = [
            (await console.client.get(f"/api/executions/b{path}")).status_code for path in ("", "/events", "/calls/1")
        ]
        acted = [(await console.post(f"executions/b/{path}", {"text": ""})).status_code for path in ("cancel", "rerun")]
        wrong = await console.client.get("/api/executions", headers={"x-api-key": "guess"})

    assert [row["execution_id"] for row in rows] == ["a"]
    assert (foreign, acted, wrong.status_code) == ([404, 404, 404], [404, 404], 401)


async def test_every_answer_forbids_inline_code_and_frames(console: Console, ledger: SqliteLedger) -> None:
    ledger.begin(
        begun("a", program=Program(text=f"# {NASTY}"), files=(File(name="x.html", data=b"<b>", mime="text/html"),))
    )
    await ledger.flush("a")

    answers = [
        await console.client.get(path)
        for path in ("/", "/api/executions", "/api/executions/a/files/x.html", "/nothing")
    ]
    row = answers[1].json()["executions"][0]

    assert {answer.headers["content-security-policy"].partition(";")[0] for answer in answers} == {"default-src 'none'"}
    assert all("unsafe" not in answer.headers["content-security-policy"] for answer in answers)
    assert answers[2].headers["content-type"] == "application/octet-stream"
    assert answers[2].headers["content-disposition"].startswith("attachment")
    assert row["first_line"].startswith("# <script>")


async def test_arguments_can_be_hidden_and_large_replies_are_folded(runtime: Runtime, ledger: SqliteLedger) -> None:
    ledger.begin(begun("a"))
    ledger.note("a", made(1, key="s3cret"), given(1, "x" * 9_000_000, key="s3cret"))
    await ledger.finish("a", outcome("a", value="s3cret"), wait=True)

    async with served(runtime, ledger) as console:
        shown = await console.client.get("/api/executions/a/calls/1")
    async with served(Runtime([], ledger=ledger), ledger, hide_arguments=True) as console:
        hidden = [(await console.client.get(f"/api/executions/a{path}")).text for path in ("", "/calls/1")]

    assert (len(shown.content) < 50_000, shown.json()["reply"]["bytes"]) == (True, 9_000_002)
    assert not any("s3cret" in text for text in hidden)
