"""Attacks on the console's API: nothing leaks, nothing counts twice, and each gets one clear answer."""

import asyncio
import re
from urllib.parse import quote

import httpx2
import pytest

from tests.interfaces.console.served import KEY, NASTY, Console, Till, choice, questions, served
from tests.ledger.made_up import begun, given, made, outcome
from toolfold import Runtime, tool
from toolfold.interfaces.console.access import COOKIE, Access
from toolfold.interfaces.http.access.auth import Authenticator
from toolfold.interfaces.http.settings import ApiKey, Role, Settings
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import File, Problem, Program
from toolfold.tools.router_steps import Retry, wrappers

AUTH = Authenticator(Settings(keys={"acme": "secret-1", "other": "secret-2"}))
AUTH_OF_OTHERS = Authenticator(Settings(keys={"other": "secret-2"}))


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

    async with served(runtime, ledger, signs_in=False, auth=AUTH) as console:
        console.client.headers["x-api-key"] = "secret-1"
        rows = (await console.get("executions", tenant="other"))["executions"]
        foreign = [
            (await console.client.get(f"/api/executions/b{path}")).status_code
            for path in ("", "/events", "/calls/1", "/download", "/download?format=html")
        ]
        acted = [(await console.post(f"executions/b/{path}", {"text": ""})).status_code for path in ("cancel", "rerun")]
        wrong = await console.client.get("/api/executions", headers={"x-api-key": "guess"})

    assert [row["execution_id"] for row in rows] == ["a"]
    assert (foreign, acted, wrong.status_code) == ([404] * 5, [404, 404], 401)


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


async def test_hidden_arguments_are_in_no_error_text_of_any_route(ledger: SqliteLedger) -> None:
    @tool(read_only=True)
    async def look_up(account: str) -> str:
        """Fails with its argument in the text."""
        raise ConnectionRefusedError(f"no account {account}")

    runtime = Runtime([look_up], ledger=ledger, steps=wrappers(retry=Retry(attempts=2, first_wait_seconds=0)))
    async with served(runtime, ledger, hide_arguments=True) as console:
        ended = await runtime.run("account = 's3' + 'cret'\nawait look_up(account=account)")
        await runtime.call("look_up", {"account": "s3cret"})
        (direct,) = [
            row["execution_id"]
            for row in (await console.get("executions"))["executions"]
            if row["execution_id"] != ended.execution_id
        ]
        paths = ["executions", "tools", "approvals", "overview", "savings"]
        for execution_id in (ended.execution_id, direct):
            paths += [
                f"executions/{execution_id}{more}"
                for more in ("", "/calls/1", "/events", "/download", "/download?format=html")
            ]
        answers = {path: (await console.client.get(f"/api/{path}")).text for path in paths}
        shown = (await console.get(f"executions/{ended.execution_id}"))["outcome"]
        program = (await console.get(f"executions/{direct}"))["program"]

    assert [path for path, text in answers.items() if "s3cret" in text] == []
    assert (shown["problem"], shown["stderr"]) == (
        {"kind": "exception", "message": "hidden by console.hide_arguments", "line": 2, "column": None},
        "hidden by console.hide_arguments",
    )
    assert program == "await look_up(…)"


async def test_a_tenant_decides_on_nothing_of_another_and_tries_no_tools(
    runtime: Runtime, ledger: SqliteLedger, till: Till
) -> None:
    async with served(runtime, ledger, auth=AUTH) as console:
        running = asyncio.create_task(runtime.run("print(await pay(amount=5))", tenant="other"))
        (question,) = await questions(console, 1)
        async with httpx2.AsyncClient(base_url=console.url, headers={"x-api-key": "secret-1"}) as acme:
            seen = (await acme.get("/api/approvals")).json()["approvals"]
            decided = await acme.post("/api/approvals", json={"decisions": [choice(question)]})
            tried = await acme.post("/api/tools/pay/call", json={"arguments": {"amount": 1}})
            overview = (await acme.get("/api/overview")).json()
        paid_by_then = list(till.paid)
        await console.post("approvals", {"decisions": [choice(question)]})
        await running

    assert (seen, overview["waiting"], overview["running"], paid_by_then) == ([], 0, 0, [])
    assert decided.json()["results"][0]["why"] == "the execution has ended or does not exist"
    assert (tried.status_code, tried.json()) == (
        403,
        {"error": "only the operator of this console can try tools; call the tool in a program"},
    )


async def test_a_decision_that_is_sent_again_or_after_the_end_counts_for_nothing(
    console: Console, runtime: Runtime, till: Till
) -> None:
    running = asyncio.create_task(runtime.run("print(await pay(amount=1), await pay(amount=1))"))
    (first,) = await questions(console, 1)
    await console.post("approvals", {"decisions": [choice(first)]})
    while (second := (await questions(console, 1))[0])["call_id"] == first["call_id"]:
        await asyncio.sleep(0.01)
    replayed = await console.post("approvals", {"decisions": [choice(first)]})
    paid_by_then = list(till.paid)
    await console.post("approvals", {"decisions": [choice(second)]})
    ended = await running
    late = await console.post("approvals", {"decisions": [choice(second)]})

    assert (paid_by_then, ended.stdout, till.paid) == ([1], "paid 1 paid 1\n", [1, 1])
    assert replayed.json()["results"][0] == {
        "execution_id": first["execution_id"], "call_id": 1, "counts": False, "why": "the call is no longer pending",
    }  # fmt: skip
    assert late.json()["results"][0]["counts"] is False


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "%2e%2e%2f", "a/b", "a\\b", "';DROP TABLE executions;--", "%00", "*", "x" * 4000]
)
async def test_an_id_with_path_characters_is_an_id_that_nobody_has(console: Console, name: str) -> None:
    path = f"/api/executions/{quote(name, safe='%')}"
    asked = [("GET", ""), ("GET", "/events"), ("GET", "/calls/1"), ("GET", "/files/x"), ("POST", "/cancel")]
    answers = [await console.client.request(method, path + more, json={}) for method, more in asked]
    decided = await console.post(
        "approvals",
        {"decisions": [{"execution_id": name, "epoch": 0, "call_id": 1, "digest": "0", "approved": True}]},
    )

    assert {answer.status_code for answer in answers} <= {404, 405}
    assert all(len(answer.text) < 300 and "\n" not in answer.text for answer in answers)
    assert decided.json()["results"][0]["counts"] is False


async def test_a_reply_of_100_mb_is_never_given_whole(ledger: SqliteLedger) -> None:
    @tool
    async def big() -> str:
        """Much."""
        return "<script>" * (100_000_000 // 8)

    runtime = Runtime([big], ledger=ledger)
    async with served(runtime, ledger) as console:
        ended = await runtime.run("print(len(await big()))")
        tried = await console.post("tools/big/call", {"arguments": {}})
        answers = []
        for row in (await console.get("executions"))["executions"]:
            path = f"/api/executions/{row['execution_id']}"
            answers.append(await console.client.get(path))
            (call,) = [one["id"] for one in answers[-1].json()["events"] if one["type"] == "replied"]
            answers += [await console.client.get(f"{path}{more}") for more in (f"/calls/{call}", "/events")]

    assert ended.status == "failed"
    assert tried.json()["reply"]["bytes"] == 100_000_002
    assert [answer.status_code for answer in answers] == [200] * 6
    assert max(len(answer.content) for answer in (tried, *answers)) < 50_000


async def test_a_body_that_is_too_large_or_no_json_gets_one_line(console: Console) -> None:
    large = await console.client.post(
        "/api/check", content=b"x" * 3_000_000, headers={"content-type": "application/json"}
    )
    wrong = await console.client.post("/api/check", content=b"{", headers={"content-type": "application/json"})
    deep = await console.client.post("/api/check", content=b"[" * 100_000, headers={"content-type": "application/json"})

    assert (large.status_code, wrong.status_code, deep.status_code) == (413, 400, 400)
    assert all("\n" not in answer.json()["error"] for answer in (large, wrong, deep))


def keys(*roles: Role, name: str = "") -> Authenticator:
    return Authenticator(Settings(keys={"acme": (ApiKey(secret="secret-1", roles=frozenset(roles), name=name),)}))


async def test_a_key_that_loses_a_role_loses_it_in_browsers_that_are_signed_in(
    runtime: Runtime, ledger: SqliteLedger, till: Till
) -> None:
    async with served(runtime, ledger, signs_in=False, auth=keys("run", "approve")) as console:
        answer = await console.client.post("/login", content=b"secret-1")
    cookie = {"cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}
    seen = {}
    for what, auth in (("lowered", keys("read")), ("removed", AUTH_OF_OTHERS), ("without keys", None)):
        async with served(runtime, ledger, signs_in=False, auth=auth) as console:
            console.client.headers.update(cookie)
            decided = await console.post("approvals", {"decisions": []})
            seen[what] = (decided.status_code, (await console.client.get("/api/executions")).status_code)
    async with served(runtime, ledger, signs_in=False, auth=keys("approve", name="ann")) as console:
        console.client.headers.update(cookie)
        running = asyncio.create_task(runtime.run("print(await pay(amount=5))", tenant="acme"))
        (question,) = await questions(console, 1)
        checked = await console.post("check", {"text": "1"})
        decided = await console.post("approvals", {"decisions": [choice(question)]})
        ended = await running
        events = (await console.get(f"executions/{ended.execution_id}"))["events"]

    assert seen == {"lowered": (403, 200), "removed": (401, 401), "without keys": (401, 401)}
    assert (checked.status_code, decided.json()["results"][0]["counts"], till.paid) == (403, True, [5])
    assert question["expires"] - question["at"] == 60
    assert [event["by"] for event in events if event["type"] == "decided"] == ["console (acme, ann)"]


async def test_a_downloaded_run_is_complete_and_has_no_markup_of_programs(
    console: Console, ledger: SqliteLedger
) -> None:
    hostile = f"</pre></style><svg onload=alert(1)>{NASTY}"
    arguments = {hostile: hostile, "rows": [1, None]}
    ledger.begin(begun("a", title=hostile, tags=(hostile,), program=Program(text=f"# {hostile}"), user=hostile))
    ledger.note("a", made(1, **arguments), given(1, "x" * 300_000, **arguments), made(2))
    problem = Problem(kind="exception", message=hostile, line=1)
    ended = outcome("a", status="failed", stdout=hostile, stderr=hostile, value=hostile, problem=problem)
    await ledger.finish("a", ended, wait=True)

    body = await console.get("executions/a/download")
    page = await console.client.get("/api/executions/a/download", params={"format": "html"})
    tags = set(re.findall(r"<(/?[a-zA-Z!]+)", page.text))

    assert [(call["id"], call["arguments"]["json"], call.get("reply")) for call in body["calls"]] == [
        (1, arguments, {"head": '"' + "x" * 32_767, "bytes": 300_002}),
        (2, {}, None),
    ]
    assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''toolfold-a.html"
    assert {"script", "img", "iframe", "link", "a"} & tags == set()
    assert (page.text.count("<svg"), page.text.count("</style>"), "\x1b" in page.text, "\u202e" in page.text) == (
        0, 1, False, False,
    )  # fmt: skip
    assert "default-src 'none'; style-src 'sha256-" in page.text
