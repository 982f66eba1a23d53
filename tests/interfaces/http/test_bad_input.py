"""Whatever is sent, the answer is a clear 4xx or the contract's error: never a 500, never a hang."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.interfaces.http.conftest import Served
from tests.interfaces.http.talk import WEATHER, finish, start
from toolfold.interfaces.http import request_models
from toolfold.interfaces.http.body_reader import decode_object, validate_body
from toolfold.interfaces.http.outcome_bodies import OF_ERROR, Refusal, to_http
from toolfold.interfaces.http.request_models import replies_of, specs_of
from toolfold.ledger import base  # noqa: F401 - its errors are part of the tree

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the body is not JSON; send one object as application/json"),
        (b"{", "the body is not JSON; send one object as application/json"),
        (b"[1]", "the body is not a JSON object; send one object"),
        (b'{"code": "\\ud800", "tools": []}', "the body is not JSON; send one object as application/json"),
        (b'{"code": NaN}', "the body is not JSON; send one object as application/json"),
        (b'{"code": ' + b"[" * 100_000, "the body is not JSON; send one object as application/json"),
        (b"\xff\xfe", "the body is not JSON; send one object as application/json"),
        (b"{}", "code is missing; send 'code' and 'tools', or 'continuation_token' and 'tool_results'"),
        (b'{"code": 5}', "code: input should be a valid string"),
        (b'{"code": "1", "tools": {}}', "tools: input should be a valid list"),
        (b'{"code": "1", "tools": [{}]}', "tools.0.name: field required"),
        (b'{"code": "1", "timeout": -1}', "timeout is -1; give 1000 to 300000 milliseconds"),
        (b'{"code": "1", "timeout": 1e99}', "timeout is 1e+99; give 1000 to 300000 milliseconds"),
        (b'{"code": "1", "timeout": "60000"}', "timeout: input should be a valid number"),
        (b'{"code": "1", "session_id": "../x"}', "session_id: string should match pattern '^[A-Za-z0-9_.:-]{1,100}$'"),
        (
            b'{"code": "1", "lang": "bash"}',
            "lang 'bash' is turned off here; set execution.languages: [python, bash], or send 'py'",
        ),
        (b'{"code": "1", "tools": [{"name": "a"}, {"name": "a"}]}', "tool 'a' is given twice; give each tool once"),
        (
            b'{"code": "1", "tools": [{"name": "a", "parameters": {"properties": 5}}]}',
            "the parameters of tool 'a' are no JSON Schema of an object",
        ),
        (
            b'{"code": "1", "tools": [{"name": "a", "parameters": {"type": 5}}]}',
            "the parameters of tool 'a' are no JSON Schema of an object",
        ),
    ],
)
async def test_a_wrong_body_is_told_in_one_line(client: httpx.AsyncClient, body: bytes, text: str) -> None:
    answer = await client.post("/exec/programmatic", content=body, headers=JSON)

    assert (answer.status_code, answer.json()["error"], answer.json()["stderr"]) == (400, text, f"{text}\n")


async def test_unknown_fields_pass(client: httpx.AsyncClient) -> None:
    tool = {**WEATHER, "allowed_callers": ["code_execution"], "toolType": "mcp", "responseFormat": None}

    answer = await start(client, "print(1)", tool, runtime_session_hint="x", user_id=5)

    assert answer.json()["stdout"] == "1\n"


async def test_a_body_beyond_the_limit_is_refused_while_it_comes(served: Served) -> None:
    async def endless() -> Any:
        for _ in range(2000):
            yield b"x" * 10_000

    async with served(max_body_bytes=100_000, max_upload_bytes=200_000) as client:
        large = await client.post("/exec/programmatic", content=endless(), headers=JSON)
        upload = await client.post("/upload", files={"file": ("a", b"x" * 300_000)})
        after = await start(client, "print(1)")

    assert (large.status_code, large.json()) == (413, {"error": "the body is larger than 100000 bytes; send less"})
    assert upload.status_code == 413
    assert after.json()["stdout"] == "1\n"


@pytest.mark.long
@pytest.mark.parametrize("path", ["/exec/programmatic", "/exec", "/exec/programmatic/cancel", "/upload"])
async def test_a_body_of_100_megabytes_is_refused(client: httpx.AsyncClient, path: str) -> None:
    async def hundred() -> Any:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(100):
            yield b" " * 1_000_000

    limit = 67_108_864 if path == "/upload" else 33_554_432
    headers = {"Content-Type": "multipart/form-data; boundary=x"} if path == "/upload" else JSON
    answer = await client.post(path, content=hundred(), headers=headers)
    after = await start(client, "print(1)")

    assert (answer.status_code, answer.json()) == (413, {"error": f"the body is larger than {limit} bytes; send less"})
    assert after.json()["stdout"] == "1\n"


@pytest.mark.parametrize(
    "name", ["__import__", "print", "../../etc/passwd", "über", "日本", "a" * 256, "tools", "\u202e"]
)
async def test_a_strange_tool_name_is_callable_or_harmless(client: httpx.AsyncClient, name: str) -> None:
    from toolfold.tools.tool import unique_names

    identifier = unique_names([name])[name]
    code = f"import json as j\nprint(await {identifier}(x=1), j.dumps(1))"

    body, _ = await finish(client, await start(client, code, {"name": name}), lambda got, _: got == name)

    assert body["stdout"] == "True 1\n"


@pytest.mark.long
async def test_ten_thousand_tools_are_taken(client: httpx.AsyncClient) -> None:
    tools = [{**WEATHER, "name": f"tool_{number}"} for number in range(10_000)]

    body, _ = await finish(client, await start(client, 'print(await tool_9999(city="a"))', *tools), lambda *_: 5)
    more = await start(client, "print(1)", *tools, {"name": "one_more"})

    assert body["stdout"] == "5\n"
    assert more.json()["error"] == "10001 tools are more than 10000; send those that the program calls"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from([*request_models.ProgrammaticRequest.model_fields, *request_models.ToolDefinition.model_fields])


@pytest.mark.long
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(body=st.dictionaries(names, values, max_size=6), tool=st.dictionaries(names, values), item=values)
def test_any_json_becomes_a_request_or_a_refusal(body: dict[str, Any], tool: dict[str, Any], item: Any) -> None:
    result = {"call_id": "call_001", "result": item}
    statuses = []
    for one in (body, {**body, "tools": [{"name": "a", **tool}]}, {**body, "tool_results": [result, item]}):
        try:
            request = validate_body(decode_object(json.dumps(one).encode()), request_models.ProgrammaticRequest)
            specs_of(request.tools or [], reserved_names=frozenset(), most=10)
            replies_of(request.tool_results or [])
        except Refusal as refusal:
            statuses.append(refusal.status)

    assert set(statuses) <= {400}


@pytest.mark.long
async def test_a_fuzz_over_http_gives_no_500(client: httpx.AsyncClient) -> None:
    import random

    chance = random.Random(11)
    odd: list[Any] = [None, True, -1, 1e308, "", "x" * 1000, [], [[]], {}, {"a": {}}, "call_001", "\0", "é", "/../"]
    fields = [*request_models.ProgrammaticRequest.model_fields, "request_id", "detail", "name"]
    fields += [*request_models.BatchRequest.model_fields, *request_models.RunCodeRequest.model_fields]
    paths = ["/exec/programmatic", "/exec", "/exec/programmatic/cancel", "/upload", "/upload/batch"]
    paths += ["/exec/batch", "/run_code"]
    statuses = set()
    for _ in range(400):
        body = {chance.choice(fields): chance.choice(odd) for _ in range(chance.randrange(5))}
        answer = await client.post(chance.choice(paths), json=body)
        statuses.add(answer.status_code)
        path = f"/{chance.choice(['files', 'download', 'sessions'])}/{chance.choice('.%é0')}/{chance.choice('.%é0')}"
        statuses.add((await client.request(chance.choice(["GET", "DELETE", "PUT"]), path)).status_code)

    assert statuses <= {200, 202, 400, 404, 405, 408, 415}


def test_each_error_of_the_package_has_its_status_and_text() -> None:
    refusals = {kind.__name__: to_http(kind("why")) for kind in OF_ERROR}

    assert {name: (one.status, one.text, one.is_contract) for name, one in refusals.items()} == {
        name: answer
        for answer, names in {
            (400, "why", True): "UsageError SealBroken",
            (409, "why", True): "Fenced",
            (413, "why", True): "LedgerFull",
            (500, "the sandbox broke: why", True): "EngineError EngineCrashed",
            (503, "why", False): "EngineUnavailable LedgerFailed",
            (500, "why", True): "ToolfoldError ReplayDiverged ToolError ToolNotFound ToolRefused ToolArgumentsInvalid "
            "ToolTimedOut ToolFailed ToolUnreachable ServerHungUp AgentUnreachable ReplyUnfit",
        }.items()
        for name in names.split()
    }


async def test_the_openapi_document_names_the_parts_of_each_path(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]

    described = {
        path: {
            method: [one["name"] for one in said["parameters"] if one["in"] == "path"] for method, said in item.items()
        }
        for path, item in paths.items()
        if "{" in path
    }

    assert described == {
        "/executions/{execution_id}": {"get": ["execution_id"], "delete": ["execution_id"]},
        "/executions/{execution_id}/output": {"get": ["execution_id"]},
        "/files/{session}": {"get": ["session"]},
        "/download/{session}/{file}": {"get": ["session", "file"]},
        "/sessions/{session}/objects/{file}": {"get": ["session", "file"], "delete": ["session", "file"]},
    }


async def test_the_openapi_document_has_every_path_and_status(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    assert sorted(document["paths"]) == [
        "/download/{session}/{file}", "/exec", "/exec/batch", "/exec/programmatic", "/exec/programmatic/cancel",
        "/executions/{execution_id}", "/executions/{execution_id}/output", "/files/{session}",
        "/health", "/metrics", "/ready", "/run_code", "/sessions/{session}/objects/{file}", "/upload", "/upload/batch",
    ]  # fmt: skip
    operation = document["paths"]["/exec/programmatic"]["post"]
    body = document["components"]["schemas"]["ProgrammaticRequest"]
    statuses = ["200", "202", "400", "401", "403", "404", "408", "409", "413", "415", "422", "429", "500", "503"]
    assert sorted(operation["responses"]) == statuses
    assert sorted(body["properties"]) == sorted(request_models.ProgrammaticRequest.model_fields)
