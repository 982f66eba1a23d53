import asyncio
import json
import socket

import pytest

import toolfold
from tests.sources.openapi.serving import Answer, Serving
from toolfold.config import parse_config
from toolfold.config.build import declared_tools
from toolfold.errors import ToolFailed, ToolRefused, UsageError
from toolfold.sources.web.client import fetch_tool
from toolfold.sources.web.credentials import ApiAuth
from toolfold.sources.web.guarded_network import host_entry


def fetched(tool, **arguments):
    async def call():
        try:
            return await tool.call(arguments)
        finally:
            await tool.close()

    return asyncio.run(call())


def test_a_program_fetches_from_a_named_host_with_the_hosts_secret():
    def answer(asked):
        told = {
            "auth": asked.headers.get("authorization"),
            "body": asked.body.decode(),
            "type": asked.headers.get("content-type"),
        }
        return Answer(body=json.dumps(told).encode())

    with Serving(answer) as server:
        host = f"127.0.0.1:{server.port}"
        auth = ApiAuth(type="bearer", secret="tok-12345678")
        tool = fetch_tool([host], methods=["GET", "POST"], secrets={host: auth})
        program = f"reply = await fetch(url='http://{host}/x', method='POST', body={{'a': 1}})\nprint(reply['status'], reply['body'])"
        outcome = toolfold.run_sync(program, tools=[tool])

    assert outcome.stdout == "200 {'auth': 'Bearer ***', 'body': '{\"a\":1}', 'type': 'application/json'}\n"
    assert server.asked[0].headers["authorization"] == "Bearer tok-12345678"
    assert [record.name for record in outcome.calls] == ["fetch"]


def test_only_named_hosts_methods_and_headers_are_fetched():
    with Serving(lambda _: Answer(404, b'{"message": "gone"}')) as server:
        tool = fetch_tool([f"127.0.0.1:{server.port}"])
        with pytest.raises(ToolFailed, match="404 Not Found: gone"):
            fetched(tool, url=f"{server.url}/x")
        with pytest.raises(ToolRefused, match="'localhost' is not among the hosts"):
            fetched(tool, url=f"http://localhost:{server.port}/x")
        with pytest.raises(ToolRefused, match="the header 'Host' cannot be sent"):
            fetched(tool, url=f"{server.url}/x", headers={"Host": "evil.example"})
        refused = toolfold.run_sync(f"await fetch(url='{server.url}', method='DELETE')", tools=[tool])

    assert (refused.status, tool.spec.read_only, tool.spec.parameters) == ("rejected", True, ("url", "headers"))


def test_the_config_has_the_tool_and_says_what_is_wrong_with_it():
    good = parse_config(
        "tools: {fetch: {hosts: [api.example.com], methods: [GET, POST], max_bytes: 1MB, timeout_seconds: 5}}"
    )
    bad = parse_config("tools: {fetch: {hosts: ['a b']}}")

    [tool] = declared_tools(good)

    assert (tool.spec.name, tool.spec.timeout_seconds, tool.spec.source) == ("fetch", 5.0, "fetch")
    with pytest.raises(UsageError, match=r"toolfold\.yaml:1: tools\.fetch: 'a b' is not a host"):
        declared_tools(bad)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tools: {fetch: {hosts: []}}", "tools.fetch.hosts: must be a list that is not empty, got an empty list"),
        ("tools: {apis: [{name: a, spec: b, auth: {type: bearer, secret: x}}]}", "tools.apis[0].base_url: is missing; auth is sent nowhere else, so it must be said here"),
        ("tools: {apis: [{name: a, spec: b, base_url: 'http://x', auth: {type: basic, secret: x}}]}", "tools.apis[0].auth.username: is missing; auth of type 'basic' needs it"),
        ("tools: {apis: [{name: a, spec: b, base_url: 'http://x', auth: {type: bearer}}]}", "tools.apis[0].auth.secret: or command must be given, and not both"),
        ("tools: {apis: [{name: a, spec: b}, {name: a, spec: c}]}", "tools.apis[1].name: is taken by apis[0] 'a'; take another name"),
        ("tools: {apis: [{name: a, spec: b, base_url: 'http://x', auth: {type: bearer, secret: [tok-12345678]}}]}", "tools.apis[0].auth.secret: must be text, got something else"),
    ],
)  # fmt: skip
def test_mistakes_in_the_config_are_told_with_their_key_and_no_secret(text, complaint):
    with pytest.raises(UsageError) as caught:
        parse_config(text)

    assert str(caught.value) == f"toolfold.yaml:1: {complaint}"


@pytest.mark.parametrize("entry", ["localhost:{}", "127.0.0.1:{}", "[::ffff:127.0.0.1]:{}"])
@pytest.mark.parametrize("spelling", ["localhost", "127.0.0.1", "127.8.9.1"])
def test_a_port_in_hosts_opens_that_port_and_no_other_of_the_machine(entry, spelling):
    other_host = "127.8.9.1" if spelling == "127.8.9.1" else "127.0.0.1"
    with Serving(lambda _: Answer()) as named, Serving(lambda _: Answer(), other_host) as other:
        tool = fetch_tool([entry.format(named.port)])
        with pytest.raises(ToolRefused, match=f"{spelling!r} is not among the hosts"):
            fetched(tool, url=f"http://{spelling}:{other.port}/")

    assert other.asked == []


@pytest.mark.parametrize("spelling", ["localhost", "127.0.0.1", "other.test"])
def test_a_redirect_reaches_no_other_port_than_the_one_in_hosts(spelling, monkeypatch):
    system = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, port, *rest, **named: system("127.0.0.1", port, *rest, **named)
    )
    with Serving(lambda _: Answer(body=b'"other"')) as other:
        location = f"http://{spelling}:{other.port}/secret"
        with Serving(lambda _: Answer(302, b"", {"Location": location})) as named:
            # A name that leads to this machine is no way in, either.
            tool = fetch_tool([f"localhost:{named.port}", "*.test"])
            program = f"await fetch(url='http://localhost:{named.port}/')"
            outcome = toolfold.run_sync(program, tools=[tool])
            opened = fetch_tool(
                [f"localhost:{named.port}", f"127.0.0.1:{other.port}", f"localhost:{other.port}", "*.test"]
            )
            control = toolfold.run_sync(f"(await fetch(url='http://localhost:{named.port}/'))['body']", tools=[opened])

    refusals = {
        "other.test": "'other.test' leads to the private address 127.0.0.1; if that is meant, name the address in 'hosts'"
    }
    refusal = f"the API redirected to {spelling!r}, which is not followed; name it in 'hosts' if it is meant"
    assert outcome.problem.message == f"ToolError: {refusals.get(spelling, refusal)}"
    assert (control.value, len(other.asked)) == ("other", 1)


def test_a_url_of_this_machine_without_a_port_names_the_usual_one_only():
    urls = ["http://localhost/v1", "https://10.0.0.5/", "http://[::1]/", "http://127.0.0.1:81/", "http://api.test/v1"]

    entries = [host_entry(url) for url in urls]

    assert entries == ["localhost:80", "10.0.0.5:443", "[::1]:80", "127.0.0.1:81", "api.test"]
