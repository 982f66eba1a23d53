"""Answers that come before the SDK is loaded: the same as the SDK's, once, in either era, and to nothing doubtful."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from tests.interfaces.mcp.test_stdio import COMMAND, environment
from toolfold.interfaces.mcp import McpServer
from toolfold.interfaces.mcp.early_handshake import EarlyAnswers, EarlyTraffic
from toolfold.interfaces.mcp.offered_tools import Offer
from toolfold.interfaces.mcp.prompt_texts import INSTRUCTIONS
from toolfold.testing import scripted

META = "io.modelcontextprotocol/"
CLIENT = {"name": "t", "title": "T", "version": "1"}
CAPABILITIES = {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}, "experimental": {"x": {}}}


def handshake(version: object, id_: object = 1, **changes: object) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": CLIENT, **changes}
    return {"jsonrpc": "2.0", "id": id_, "method": "initialize", "params": params}


def discovery(version: object = "2026-07-28", id_: object = 0, **changes: object) -> dict[str, Any]:
    told = {"protocolVersion": version, "clientInfo": CLIENT, "clientCapabilities": CAPABILITIES, **changes}
    meta = {f"{META}{key}": value for key, value in told.items() if value is not None}
    return {"jsonrpc": "2.0", "id": id_, "method": "server/discover", "params": {"_meta": meta}}


def early(data: bytes) -> tuple[EarlyTraffic, bytes]:
    """What is answered to these bytes, when they are all that is there."""
    (stdin, client_writes), (client_reads, stdout) = os.pipe(), os.pipe()
    with open(client_writes, "wb", 0) as writing, open(client_reads, "rb") as reading, open(stdin, "rb", 0):
        writing.write(data)
        with open(stdout, "wb", 0):
            answers = EarlyAnswers(INSTRUCTIONS, stdin=stdin, stdout=stdout)
            answers.start()
            done = answers.stop()
        return done, reading.read()


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def renamed(message: dict[str, Any], number: int) -> bytes:
    """A request that has its answer, as the SDK gets it."""
    return json.dumps({**message, "id": f"toolfold-answered-{number}"}, separators=(",", ":")).encode() + b"\n"


async def answer_of_the_sdk(request: dict[str, Any]) -> dict[str, Any]:
    runtime, _ = scripted()
    mcp_server = McpServer(runtime, Offer(runtime))
    to_server, server_reads = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    server_writes, from_server = anyio.create_memory_object_stream[SessionMessage](1)
    async with mcp_server, anyio.create_task_group() as group:
        group.start_soon(mcp_server.server.run, server_reads, server_writes, mcp_server.options())
        await to_server.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(request)))
        answer = await from_server.receive()
        await to_server.aclose()
    from_server.close()
    return json.loads(answer.message.model_dump_json(by_alias=True, exclude_unset=True))


@pytest.mark.parametrize(
    "request_",
    [
        handshake("2024-11-05", "abc"),
        handshake("2025-03-26"),
        handshake("2025-06-18"),
        handshake("2025-11-25", 0),
        handshake("2026-07-28"),
        handshake("1999-01-01"),
        handshake("2025-11-25", capabilities={}, _meta={"progressToken": 1}),
        discovery(),
        discovery(id_="first", clientCapabilities={}),
    ],
    ids=lambda one: f"{one['method']} {one['id']}",
)
async def test_it_is_word_for_word_the_answer_of_the_sdk(request_) -> None:
    done, written = early(line(request_))

    assert done == EarlyTraffic(data=renamed(request_, 0), answered=("toolfold-answered-0",))
    assert json.loads(written) == await answer_of_the_sdk(request_)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"not json\n",
        line([handshake("2025-11-25")]),
        line(handshake("2025-11-25"))[:-1],
        line(handshake("2025-11-25"))[:40],
        line(handshake("2025-11-25", True)),
        line(handshake("2025-11-25", None)),
        line(handshake(20251125)),
        line(handshake("2025-11-25", capabilities={"roots": 1})),
        line(handshake("2025-11-25", clientInfo={"name": "t"})),
        line({"jsonrpc": "2.0", "id": 1, "method": "initialize"}),
        line({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        line({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        line({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}),
        line(discovery("2099-01-01")),
        line(discovery(clientCapabilities=None)),
        b" " * 100_000,
    ],
)
def test_what_is_doubtful_is_left_to_the_sdk_with_every_byte(data) -> None:
    # More than a pipe holds at once would wait for a reader.
    data = data[:60_000]

    assert early(data) == (EarlyTraffic(data=data), b"")


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_each_of_many_requests_is_answered_whichever_era_it_is_of() -> None:
    handshakes = [handshake("2025-11-25"), handshake("2025-06-18", "again")]
    lines = [line(discovery()), line(PING), line(handshakes[0]), line(INITIALIZED), line(handshakes[1]), b'{"json']

    done, written = early(b"".join(lines))

    lines[0], lines[2], lines[4] = renamed(discovery(), 0), renamed(handshakes[0], 1), renamed(handshakes[1], 2)
    assert done.data == b"".join(lines)
    answers = [json.loads(one) for one in written.splitlines()]
    assert [(one["id"], one["result"].get("protocolVersion")) for one in answers] == [
        (0, None), (1, "2025-11-25"), ("again", "2025-06-18")
    ]  # fmt: skip


def test_no_more_is_read_ahead_than_is_reasonable_and_no_byte_is_lost() -> None:
    (stdin, client_writes), text = os.pipe(), line({**PING, "params": {"text": "x" * 70_000}}) * 40
    with open(stdin, "rb", 0) as rest, open(client_writes, "wb", 0) as writing:
        answers = EarlyAnswers(INSTRUCTIONS, stdin=stdin)
        answers.start()
        sending = threading.Thread(target=lambda: (writing.write(text), writing.close()))
        sending.start()
        thread = answers._thread
        assert thread is not None
        thread.join()  # it has enough
        done = answers.stop()
        left = rest.read()
        sending.join()

    assert (1024 * 1024 <= len(done.data) < 1200 * 1024, done.data + left) == (True, text)


@contextmanager
def started(config_folder, config="ledger: {where: memory}\n"):
    (config_folder / "toolfold.yaml").write_text(config)
    process = subprocess.Popen(
        COMMAND, cwd=config_folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        yield process


@pytest.mark.long
@pytest.mark.parametrize(
    "lines",
    [
        [
            handshake("2025-11-25"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        ],
        [discovery(id_=1), {**discovery(id_=2), "method": "tools/list"}, discovery(id_=1)],
    ],
    ids=["handshake", "discovery"],
)
def test_each_request_has_one_answer_also_where_an_id_is_used_again(tmp_path, lines) -> None:
    with started(tmp_path) as process:
        process.stdin.write(b"".join(map(line, lines)))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for one in lines if "id" in one]
        process.stdin.close()
        rest = process.stdout.read()

    assert sorted(one["id"] for one in answers) == sorted(one["id"] for one in lines if "id" in one)
    assert [sorted(one) for one in answers] == [["id", "jsonrpc", "result"]] * 3
    assert (rest, process.returncode) == (b"", 0)


SLOW = """
import pathlib, time
here = pathlib.Path(__file__).parent
(here / "began").touch()
while not (here / "go").exists():
    time.sleep(0.005)
def echo(text: str) -> str:
    return text
"""


def listing(id_: object, *, is_modern: bool) -> dict[str, Any]:
    plain = {"jsonrpc": "2.0", "id": id_, "method": "tools/list", "params": {}}
    return {**discovery(id_=id_), "method": "tools/list"} if is_modern else plain


ORDERS = {
    "a discovery, then a handshake": [discovery(id_=1), handshake("2025-11-25", 2)],
    "a handshake, then a discovery": [handshake("2025-11-25", 1), discovery(id_=2)],
    "two handshakes": [handshake("2025-11-25", 1), handshake("2025-06-18", 2)],
    "both twice": [discovery(id_=1), handshake("2025-11-25", 2), discovery(id_=3), handshake("2025-11-25", 4)],
}


def told(answers: list[dict[str, Any]]) -> list[tuple[object, str]]:
    """Of each answer its id, and what kind of result it has."""
    kinds = {"protocolVersion": "handshake", "supportedVersions": "discovery", "tools": "list"}
    return [
        (one["id"], next((kinds[key] for key in one.get("result", {}) if key in kinds), str(one))) for one in answers
    ]


def expected(requests: list[dict[str, Any]]) -> list[tuple[object, str]]:
    kinds = {"initialize": "handshake", "server/discover": "discovery", "tools/list": "list"}
    return [(one["id"], kinds[one["method"]]) for one in requests]


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_slow", [True, False], ids=["during a slow start", "after the start"])
def test_both_eras_are_answered_in_any_order(tmp_path, order, is_slow) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    requests = ORDERS[order] if is_slow else [listing("first", is_modern=True), *ORDERS[order]]
    lists = [listing("older", is_modern=False), listing("newer", is_modern=True)]
    with started(tmp_path, "ledger: {where: memory}\ntools: {modules: [slow.py]}\n") as process:

        def send(*messages):
            process.stdin.write(b"".join(map(line, messages)))
            process.stdin.flush()

        while not (tmp_path / "began").exists():
            pass
        if not is_slow:
            (tmp_path / "go").touch()
        answers = []
        for one in requests:
            send(one)
            answers.append(json.loads(process.stdout.readline()))
        send(INITIALIZED, *lists)
        (tmp_path / "go").touch()
        listed = [json.loads(process.stdout.readline()) for _ in lists]
        process.stdin.close()
        rest = process.stdout.read()

    assert told(answers) == expected(requests)
    assert sorted(told(listed)) == sorted(expected(lists))
    assert [[tool["name"] for tool in one["result"]["tools"]] for one in listed] == [["execute_program"]] * 2
    assert (rest, process.returncode) == (b"", 0)


@pytest.mark.long
def test_cancels_and_answers_go_to_the_era_they_are_meant_for(tmp_path) -> None:
    (tmp_path / "slow.py").write_text("def pay(n: int) -> int:\n    'Pay.'\n    return n\n")
    config = "ledger: {where: memory}\ntools: {modules: [slow.py], ask: [pay]}\n"

    def call(id_: object, code: str, *, is_modern: bool) -> dict[str, Any]:
        request = listing(id_, is_modern=is_modern)
        params = {**request["params"], "name": "execute_program", "arguments": {"code": code}}
        return {**request, "method": "tools/call", "params": params}

    with started(tmp_path, config) as process:

        def talk(*messages):
            process.stdin.write(b"".join(map(line, messages)))
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        talk(discovery(id_=1))
        talk(handshake("2025-11-25", 2))
        asked = talk(INITIALIZED, call(3, "print(await pay(n=5))", is_modern=False))
        endless = call(4, "print(1)\nwhile True: pass", is_modern=True)
        endless["params"]["_meta"]["progressToken"] = "p"
        begun = talk(endless)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}
        yes = {"action": "accept", "content": {"approve": True}}
        paid = talk(cancel, {"jsonrpc": "2.0", "id": asked["id"], "result": yes})
        after = talk(call(5, "print('after')", is_modern=True))
        process.stdin.close()
        rest = process.stdout.read()

    assert (asked["method"], begun["params"]["message"]) == ("elicitation/create", "1")
    assert [(one["id"], one["result"]["content"][0]["text"]) for one in (paid, after)] == [
        (3, "[Script executed successfully]\n5\n"), (5, "[Script executed successfully]\nafter\n")
    ]  # fmt: skip
    assert (rest, process.returncode) == (b"", 0)


@pytest.mark.long
def test_what_the_first_answer_does_not_need_is_not_loaded_before_it() -> None:
    slow = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn", "httpx2", "jsonschema_rs", "numpy", "toolfold.runtime")
    code = f"import sys, toolfold.interfaces.cli.commands.mcp_options; print([name for name in {slow} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
