"""The answer that comes before the SDK is loaded: the same as the SDK's, once, and to nothing doubtful."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from tests.doors.mcp.test_stdio import COMMAND, environment
from toolfold.doors.mcp import Door
from toolfold.doors.mcp.early import Early, answer_early
from toolfold.doors.mcp.offer import Offer
from toolfold.doors.mcp.texts import INSTRUCTIONS
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


def early(data: bytes) -> tuple[Early, bytes]:
    """What is answered to these bytes, when they are all that is there."""
    (stdin, client_writes), (client_reads, stdout) = os.pipe(), os.pipe()
    with open(client_writes, "wb", 0) as writing, open(client_reads, "rb") as reading, open(stdin, "rb", 0):
        writing.write(data)
        with open(stdout, "wb", 0):
            done = answer_early(INSTRUCTIONS, stdin=stdin, stdout=stdout)
        return done, reading.read()


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def answer_of_the_sdk(request: dict[str, Any]) -> dict[str, Any]:
    runtime, _ = scripted()
    door = Door(runtime, Offer(runtime))
    to_server, server_reads = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    server_writes, from_server = anyio.create_memory_object_stream[SessionMessage](1)
    async with door, anyio.create_task_group() as group:
        group.start_soon(door.server.run, server_reads, server_writes, door.options())
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

    assert done == Early(data=line(request_), answered=request_["id"])
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

    assert early(data) == (Early(data=data), b"")


@contextmanager
def started(config_folder):
    (config_folder / "toolfold.yaml").write_text("ledger: {where: memory}\n")
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


@pytest.mark.long
def test_what_the_first_answer_does_not_need_is_not_loaded_before_it() -> None:
    slow = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn", "httpx2", "jsonschema_rs", "numpy", "toolfold.runtime")
    code = f"import sys, toolfold.doors.cli.mcp; print([name for name in {slow} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
