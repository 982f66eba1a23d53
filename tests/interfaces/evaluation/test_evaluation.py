"""`toolfold eval` with a scripted endpoint, on the files of its guide."""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.ports import reserved_port
from toolfold.errors import ToolFailed, ToolUnreachable, UsageError
from toolfold.interfaces.cli.app import run_command
from toolfold.interfaces.cli.commands.evaluate import _select
from toolfold.interfaces.evaluation.report import Share, compare, comparison_lines, report_page, summary_of, verdict
from toolfold.interfaces.evaluation.tasks import TaskResult, change_failure, differences, read_tasks
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.sources.model_endpoint import (
    Endpoint,
    ModelClient,
    ModelConversation,
    ModelTool,
    ModelUsage,
    calls_in_text,
)

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
CANCEL_OPEN = (
    "for i in await list_orders():\n    if (await get_order(i))['status'] == 'open':\n        await cancel_order(i)"
)

Answer = str | tuple[str, dict[str, Any]] | int
"""Text, a tool call, or a status of HTTP."""
Script = Callable[[dict[str, Any]], Answer]


@contextmanager
def endpoint(script: Script) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An endpoint of both families on loopback, and the requests it was sent."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            answer = script(body)
            status = answer if isinstance(answer, int) else 200
            if status != 200:
                reply: Any = {"error": {"message": f"no luck with {self.headers.get('Authorization')}"}}
            else:
                reply = openai_reply(answer) if self.path.endswith("/chat/completions") else anthropic_reply(answer)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def openai_reply(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer if isinstance(answer, str) else None}
    if isinstance(answer, tuple):
        function = {"name": answer[0], "arguments": json.dumps(answer[1])}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": 110,
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    choice = {"index": 0, "finish_reason": "stop" if isinstance(answer, str) else "tool_calls", "message": message}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": usage,
    }


def anthropic_reply(answer: Answer) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": answer}
    if isinstance(answer, tuple):
        block = {"type": "tool_use", "id": "toolu_1", "name": answer[0], "input": answer[1]}
    usage = {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 10}
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [block],
        "stop_reason": "end_turn" if isinstance(answer, str) else "tool_use",
        "usage": usage,
    }


def tool_names(body: dict[str, Any]) -> set[str]:
    return {(tool.get("function") or tool)["name"] for tool in body["tools"]}


def replies(body: dict[str, Any]) -> list[Any]:
    """Contents of the tool results in a request, of either family."""
    blocks = [
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    own = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    return [*own, *(block["content"] for block in blocks if block.get("type") == "tool_result")]


def clever(body: dict[str, Any]) -> Answer:
    """Does both tasks of the guide: as programs where it can, else call by call."""
    names, done, asks_item = tool_names(body), replies(body), "Which item" in json.dumps(body["messages"])
    if "execute_program" in names:
        code = "print((await get_order(2))['item'])" if asks_item else CANCEL_OPEN
        return (
            ("Order 2 is a desk." if asks_item else "Cancelled order 1.")
            if done
            else ("execute_program", {"code": code})
        )
    if asks_item:
        return "Order 2 is a desk." if done else ("get_order", {"order_id": 2})
    return "Cancelled order 1." if done else ("cancel_order", {"order_id": 1})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with the files of the guide."""
    monkeypatch.chdir(tmp_path)
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for name, text in re.findall(r"^```\S+ file=(\S+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def evaluate(url: str, *more: str) -> int:
    common = ("--model", "scripted", "--url", url, "--ledger", "ledger.db")
    return run_command(["eval", "tasks.yaml", *common, *more])


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_the_guides_tasks_are_run_in_three_modes_and_reported(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes], api: str
) -> None:
    with endpoint(clever) as (url, requests):
        base = f"{url}/v1" if api == "openai" else url
        code = evaluate(base, "--api", api, "--price", "1,0.1,10", "--html", "report.html", "--json")

    shown = json.loads(capfdbinary.readouterr().out)
    rows = {mode: (row["passed"], row["runs"], row["calls"], row["programs"]) for mode, row in shown["modes"].items()}
    assert code == 0
    assert rows == {"direct": (2, 2, 1.0, 0), "programs": (2, 2, 2.5, 2), "both": (2, 2, 2.5, 2)}
    assert {frozenset(tool_names(body)) for body in requests} == {
        frozenset({"list_orders", "get_order", "cancel_order"}), frozenset({"execute_program"}),
        frozenset({"execute_program", "list_orders", "get_order", "cancel_order"}),
    }  # fmt: skip
    figures = shown["modes"]["programs"]
    assert [figures[name] for name in ("requests", "input_tokens", "cached_tokens", "output_tokens", "price")] == [
        2, 200, 80, 20, pytest.approx(2 * (60 * 1 + 40 * 0.1 + 10 * 10) / 1e6)
    ]  # fmt: skip
    assert "cancel-open, programs" in (folder / "report.html").read_text("utf-8")
    assert len(json.loads((folder / "report.json").read_text("utf-8"))["runs"]) == 6


def test_runs_with_a_result_are_not_made_again_and_a_half_written_line_is(folder: Path, capfd: Any) -> None:
    with endpoint(clever) as (url, requests):
        assert evaluate(url, "--modes", "direct") == 0
        first = len(requests)
        lines = (folder / "eval.jsonl").read_text("utf-8").splitlines()
        (folder / "eval.jsonl").write_text("\n".join([*lines[:2], lines[2][:40]]), encoding="utf-8")
        assert evaluate(url, "--modes", "direct") == 0

    assert (first, len(requests)) == (4, 6)
    assert len((folder / "eval.jsonl").read_text("utf-8").splitlines()) == 3
    assert "all         direct  2/2 (34% to 100%)" in capfd.readouterr().out


def test_programs_and_direct_calls_are_in_the_ledger_as_conversations(folder: Path) -> None:
    with endpoint(clever) as (url, _):
        assert evaluate(url, "--modes", "direct,programs", "--only", "item") == 0

    async def entries() -> list[tuple[str, str, str, str]]:
        ledger = open_ledger("ledger.db")
        try:
            listing = await ledger.list()
            return [(entry.interface, entry.conversation, entry.title, entry.model) for entry in listing]
        finally:
            await ledger.close()

    assert sorted(asyncio.run(entries())) == [
        ("eval", "eval-eval-item-direct-1", "item, direct", "scripted"),
        ("eval", "eval-eval-item-programs-1", "item, programs", "scripted"),
    ]


def test_a_model_that_invents_an_answer_or_loops_fails_with_that_reason(folder: Path) -> None:
    def lazy(body: dict[str, Any]) -> Answer:
        is_item = "Which item" in json.dumps(body["messages"])
        return "It is a desk, surely a chair." if is_item else ("execute_program", {"code": "1 +"})

    tasks = (folder / "tasks.yaml").read_text("utf-8").replace("contains: [desk]", "contains: [lamp]")
    (folder / "tasks.yaml").write_text(tasks, encoding="utf-8")
    with endpoint(lazy) as (url, _):
        assert evaluate(url, "--modes", "programs") == 0

    lines = [json.loads(line) for line in (folder / "eval.jsonl").read_text("utf-8").splitlines()[1:]]
    assert [(line["failure"], line["reason"], line["failed_programs"]) for line in lines] == [
        ("no call", "the answer does not say 'lamp'", 0), ("requests", "no answer after 12 requests", 12)
    ]  # fmt: skip


def test_a_wrong_url_does_not_bind_the_file_of_results(folder: Path, capfd: Any) -> None:
    assert evaluate(f"http://127.0.0.1:{reserved_port()}", "--modes", "direct", "--only", "item") == 1
    assert len(capfd.readouterr().err.splitlines()) == 1
    with endpoint(clever) as (url, _):
        assert evaluate(url, "--modes", "direct", "--only", "item") == 0
        assert evaluate(f"{url}/other", "--modes", "direct", "--only", "item") == 2

    assert f"has results with url '{url}', not '{url}/other'; give another --out" in capfd.readouterr().err


def test_a_part_of_the_tasks_has_every_kind_and_as_many_tool_sets_as_it_can() -> None:
    tasks = read_tasks(sorted((ROOT / "evals").glob("*.yaml")))

    part = [(task.kind, task.tools) for task in _select(tasks, "report", [], 2)]

    assert Counter(kind for kind, _ in part) == dict.fromkeys(dict.fromkeys(task.kind for task in tasks), 2)
    assert len({str(tools) for _, tools in part}) == 6


def test_a_direct_call_where_only_programs_are_offered_is_served_and_counted(folder: Path) -> None:
    def eager(body: dict[str, Any]) -> Answer:
        return "It is a desk." if replies(body) else ("get_order", {"order_id": 2})

    with endpoint(eager) as (url, _):
        assert evaluate(url, "--modes", "programs", "--only", "item") == 0

    line = json.loads((folder / "eval.jsonl").read_text("utf-8").splitlines()[1])
    assert (line["passed"], line["direct_calls"], line["programs"]) == (True, 1, 0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["eval"], "no tasks; name a file with tasks, YAML or JSON Lines"),
        (["eval", "tasks.yaml"], "no model to ask; give --model, and --url for an endpoint of your own"),
        (["eval", "tasks.yaml", "--model", "m"],
         "no API key for 'the openai API': the environment variable 'OPENAI_API_KEY' is not set"),
        (["eval", "none.yaml", "--model", "m"], "tasks 'none.yaml' cannot be read: no such file or directory"),
        (["eval", "bad.yaml", "--model", "m"], "'bad.yaml': task 'x' has no check; add answer, calls, state or changes to its checks"),
        (["eval", "key.yaml", "--model", "m"], "'key.yaml': unknown key 'cheks' at 'tasks[0]' (task 'x')"),
        (["eval", "broken.yaml", "--model", "m"], "'broken.yaml' line 1: expected the node content, but found '<stream end>'"),
        (["eval", "twice.jsonl", "--model", "m"], "'twice.jsonl' line 2: the id 'x' is already used; ids must be unique"),
        (["eval", "tasks.yaml", "--model", "m", "--modes", "fast"],
         "--modes 'fast': no mode 'fast'; there are direct, programs, both"),
        (["eval", "tasks.yaml", "--model", "m", "--price", "3"], "--price '3' must be three numbers, such as 3,0.3,15"),
        (["eval", "tasks.yaml", "--model", "m", "--only", "z"], "no task is left; check --half and --only"),
        (["eval", "bare.jsonl", "--model", "m", "--url", "http://127.0.0.1:1"],
         "task 'x' has no tools; name them in the task file, or with --tools or --config"),
        (["eval", "tasks.yaml", "--model", "m", "--price", "1,nan,1"], "--price '1,nan,1' must be three numbers, such as 3,0.3,15"),
        (["eval", "tasks.yaml", "--model", "m", "--modes", ","], "--modes ',': no mode ''; there are direct, programs, both"),
        (["eval", "tasks.yaml", "--model", "m", "--html", "x/y.html"],
         "no folder 'x' for the report; make it, or name another"),
        (["eval", "empty.yaml", "--model", "m"], "'empty.yaml' has no tasks; add one"),
        (["eval", "vacuous.jsonl", "--model", "m"],
         "'vacuous.jsonl' line 1: task 'x' has no check; add answer, calls, state or changes to its checks"),
        (["eval", "unknown.jsonl", "--model", "m", "--url", "http://127.0.0.1:1"],
         "task 'x' checks calls of 'refund_order', which is no tool of 'orders.py'"),
        (["eval", "--compare", "tasks.yaml", "tasks.yaml"], "'tasks.yaml' line 1 is not a result; name another file"),
        (["eval", "--compare", "a.jsonl", "b.jsonl"], "no results 'a.jsonl'; check the path"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(folder: Path, capfd: Any, arguments: list[str], error: str) -> None:
    task = {"id": "x", "prompt": "p", "checks": {"answer": {"contains": ["y"]}}}
    (folder / "bad.yaml").write_text("tasks: [{id: x, prompt: p, checks: {}}]")
    (folder / "key.yaml").write_text("tasks: [{id: x, prompt: p, checks: {}, cheks: {}}]")
    (folder / "broken.yaml").write_text("tasks: [")
    (folder / "bare.jsonl").write_text(json.dumps(task))
    (folder / "empty.yaml").write_text("tasks: []")
    (folder / "vacuous.jsonl").write_text(json.dumps({**task, "checks": {"answer": {}, "calls": {}}}))
    checks = {"calls": {"exclude": [{"tool": "refund_order"}]}}
    (folder / "unknown.jsonl").write_text(json.dumps({**task, "tools": "orders.py", "checks": checks}))
    (folder / "twice.jsonl").write_text(f"{json.dumps(task)}\n{json.dumps(task)}")

    code = run_command(arguments)

    captured = capfd.readouterr()
    assert (code, captured.out, captured.err) == (2, "", f"toolfold: {error}\n")


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (401, UsageError, "endpoint '{url}' refused the key in KEY (401); set the right one"),
        (
            404,
            UsageError,
            "endpoint '{url}' knows no model 'm' (404: no luck with Bearer ***); check the model and the URL",
        ),
        (503, ToolUnreachable, "endpoint '{url}' answered 503 after 3 tries: no luck with Bearer ***; try again later"),
        (400, UsageError, "endpoint '{url}' refused the request (400: no luck with Bearer ***)"),
    ],
)
async def test_a_refusal_is_one_line_without_the_key(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: type[Exception], text: str
) -> None:
    monkeypatch.setenv("KEY", "sk-secret")
    with endpoint(lambda _body: status) as (url, requests):
        talk = ModelConversation(ModelClient(Endpoint(model="m", url=url, key_variable="KEY", retries=2)))
        talk.say("hello")
        with pytest.raises(kind) as raised:
            await talk.request()

    assert str(raised.value) == text.format(url=url)
    assert len(requests) == (3 if status == 503 else 1)


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        ("this model does not support tools", UsageError, "model 'm' takes no tools at "),
        (
            "the request exceeds the available context size",
            ToolFailed,
            "the conversation is longer than the context of 'm'",
        ),
    ],
)
async def test_a_model_without_tools_or_with_a_full_context_says_so(
    message: str, kind: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", message)  # the scripted endpoint repeats it
    with endpoint(lambda _body: 400) as (url, _):
        client = ModelClient(Endpoint(model="m", url=url, key_variable="KEY"))
        client._key = ""
        talk = ModelConversation(client, tools=[ModelTool(name="t", description="d", schema={"type": "object"})])
        talk.say("hello")
        with pytest.raises(kind) as raised:
            await talk.request()

    assert str(raised.value).startswith(text)


async def test_an_endpoint_that_is_not_there_is_told() -> None:
    talk = ModelConversation(ModelClient(Endpoint(model="m", url=f"http://127.0.0.1:{reserved_port()}", retries=0)))
    talk.say("hello")

    with pytest.raises(ToolUnreachable, match=r"did not answer: .*; check its URL, and that it runs"):
        await talk.request()


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "a", "arguments": {"x": 1}}', [("a", {"x": 1})]),
        ('<tool_call>\n{"name": "a", "arguments": {"code": "x\ny"}}\n</tool_call>', [("a", {"code": "x\ny"})]),
        ('```json\n{"name": "a", "arguments": {}}\n{"name": "b", "arguments": {}}\n```', [("a", {}), ("b", {})]),
        ('{"name": "a", "arguments": {"x": True, "y": "is None"}}', [("a", {"x": True, "y": "is None"})]),
        ('{"name": "c", "arguments": {}}', []),
        ('Here it is: {"name": "a", "arguments": {}}', []),
        ('{"name": "a"}', []),
        ("", []),
    ],
)  # fmt: skip
def test_calls_that_a_model_writes_as_text_are_read(text: str, calls: list[tuple[str, Any]]) -> None:
    assert [(part.tool_name, part.args) for part in calls_in_text(text, {"a", "b"})] == calls


@pytest.mark.parametrize("mode", ["direct", "programs"])
def test_calls_in_text_are_served_and_counted(folder: Path, mode: str) -> None:
    def small(body: dict[str, Any]) -> Answer:
        call = json.dumps({"name": "get_order", "arguments": {"order_id": 2}})
        return "It is a desk." if replies(body) else call

    with endpoint(small) as (url, _):
        assert evaluate(url, "--modes", mode, "--only", "item") == 0

    line = json.loads((folder / "eval.jsonl").read_text("utf-8").splitlines()[1])
    assert (line["passed"], line["calls_in_text"], line["direct_calls"]) == (True, 1, 1)


def test_changes_are_exact_and_name_what_is_wrong() -> None:
    before = {"orders": {"1": {"status": "open"}, "2": {"status": "sent"}}, "log": []}
    after = {"orders": {"1": {"status": "cancelled"}}, "log": [7]}

    actual = differences(before, after)

    assert actual == {"orders.1.status": "cancelled", "log.0": 7, "orders.2.status": None, "log": None}
    assert change_failure(actual, actual) == ""
    assert (
        change_failure({**actual, "orders.1.status": "open"}, actual)
        == "state orders.1.status is 'cancelled', not 'open'"
    )
    assert change_failure({}, {"a": 1}) == "state a became 1"
    assert change_failure({"a": None}, {}) == "state a is unchanged, not None"


def made_result(task: str, mode: Any, calls: int, *, passed: bool, tokens: int) -> TaskResult:
    return TaskResult(
        task=task, mode=mode, run=1, kind="k", tools="shop", half="report", passed=passed, calls=calls,
        failure="" if passed else "state", input_tokens=tokens, reason="" if passed else "<b>",
        transcript=[{"role": "user", "text": "<script>"}],
    )  # fmt: skip


def test_the_verdict_says_from_how_many_calls_programs_pay() -> None:
    results = [
        made_result(f"task{calls}", mode, calls, passed=True, tokens=tokens)
        for calls, direct, programs in ((1, 100, 150), (3, 300, 310), (5, 500, 300), (12, 1200, 400))
        for mode, tokens in (("direct", direct), ("programs", programs))
    ]

    assert verdict(results) == (
        "programs pay from 4 calls: there they cost 0.41 times as much, and 2/2 succeed, direct 2/2"
    )
    assert verdict(results[:1]) == "no verdict: run the modes direct and programs"
    assert summary_of(results)["modes"]["direct"]["failures"] == {}


def test_a_report_escapes_what_models_wrote() -> None:
    results = [made_result("t", "direct", 1, passed=False, tokens=1)]

    page = report_page(summary_of(results), results, "a & b")

    assert ("<script>" in page, "&lt;script&gt;" in page, "<b>" in page, "a &amp; b" in page) == (
        False,
        True,
        False,
        True,
    )


def test_two_evaluations_are_compared_task_by_task() -> None:
    first = [made_result(f"t{n}", "programs", 1, passed=n < 2, tokens=100) for n in range(6)]
    second = [made_result(f"t{n}", "programs", 1, passed=True, tokens=50) for n in range(6)]

    rows = compare(first, second)

    assert comparison_lines(rows, ("a", "b")) == [
        "A = a, B = b",
        "programs  6 tasks, success 33% → 100% (+67%, 95 % interval +25% to +100%; 4 better, 0 worse, "
        "by chance with 0.12), cost of B 0.50 times that of A",
    ]
    assert str(Share(passed=9, total=10)) == "9/10 (60% to 98%)"


def test_usage_without_a_price_has_no_price() -> None:
    assert (ModelUsage(price=1.0) + ModelUsage(price=None)).price is None
