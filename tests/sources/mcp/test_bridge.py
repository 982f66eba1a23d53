"""Servers that behave, and servers that do not, bridged by one bridge."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.sources.mcp.support import FakeOuter, call, raw, remember, sdk, tool, until
from toolfold.errors import ToolError, ToolFailed, ToolUnreachable, UsageError
from toolfold.sources.mcp import Bridge, Server, ServerStatus
from toolfold.sources.mcp.connection import EraCache
from toolfold.tools.error_text import hide
from toolfold.tools.tool import CallContext


@pytest.fixture
def eras(tmp_path: Path) -> Path:
    return tmp_path / "eras.json"


async def test_a_servers_tools_are_there_once_it_is_settled_with_what_it_says_of_them(eras: Path) -> None:
    async with Bridge([raw("my-server")], eras=eras) as bridge:
        assert bridge.tools() == ()
        await bridge.settled(timeout_seconds=60)

        spec = tool(bridge, "mcp__my-server__echo").spec
        status = bridge.status()

    assert (spec.python_name, spec.domain, spec.short_name) == ("mcp__my_server__echo", "my_server", "echo")
    assert (spec.description, spec.source) == ("The tool echo.", "mcp:my-server")
    assert (spec.read_only, spec.idempotent, spec.destructive) == (True, True, False)
    assert status == (
        ServerStatus(name="my-server", state="ready", tools=15, era="2025-06-18", instructions="Be kind."),
    )


async def test_servers_that_cannot_work_say_why_and_delay_nobody(eras: Path) -> None:
    servers = [
        raw("silent", "--silent", connect_timeout_seconds=0.5),
        raw("dead", "--die", "no API key"),
        Server(name="missing", command="no-such-command"),
        raw("noisy", "--garbage"),
        raw("good"),
    ]
    async with Bridge(servers, eras=remember(eras, "legacy", *servers)) as bridge:
        entered = {one.state for one in bridge.status()}
        await bridge.settled(["good"], timeout_seconds=60)
        good = await call(bridge, "mcp__good__echo", text="at once")
        await bridge.settled(timeout_seconds=60)
        noisy = await call(bridge, "mcp__noisy__echo", text="heard")
        status = bridge.status()

    assert entered == {"connecting"}
    assert (good, noisy) == ("at once", "heard")
    assert [(one.name, one.state, one.detail) for one in status] == [
        ("silent", "failed", "no answer within 0.5 s"),
        ("dead", "failed", "it exited with code 1: no API key"),
        ("missing", "failed", "no command 'no-such-command'; check the path"),
        ("noisy", "ready", ""),
        ("good", "ready", ""),
    ]


async def test_settled_gives_up_when_its_time_is_up(eras: Path) -> None:
    async with Bridge([raw("silent", "--silent")], eras=eras) as bridge:
        await bridge.settled(timeout_seconds=0.2)

        assert bridge.status() == (ServerStatus(name="silent", state="connecting"),)


@pytest.mark.parametrize("probe", ["error", "ignore", "exit"])
async def test_a_server_of_the_older_era_is_found_out_and_remembered(probe: str, eras: Path, monkeypatch) -> None:
    monkeypatch.setattr("toolfold.sources.mcp.connection.PROBE_SECONDS", 0.2)
    server = raw("old", "--probe", probe)

    async with Bridge([server], eras=eras) as bridge:
        await bridge.settled(timeout_seconds=60)
        value = await call(bridge, "mcp__old__echo", text="hi")

    assert (value, EraCache(eras).get(server.identity)) == ("hi", "legacy")


async def test_a_server_of_the_new_era_is_remembered_and_one_that_starts_slowly_still_found(eras: Path) -> None:
    async with Bridge([sdk()], eras=eras) as bridge:
        await bridge.settled(timeout_seconds=60)
        status = bridge.status()

    assert (status[0].era, EraCache(eras).get(sdk().identity)) == ("2026-07-28", "modern")


async def test_a_wrong_memory_of_the_era_is_mended(eras: Path) -> None:
    server = raw("old")

    async with Bridge([server], eras=remember(eras, "modern", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        assert (bridge.status()[0].state, EraCache(eras).get(server.identity)) == ("ready", "legacy")


async def test_a_file_of_eras_that_is_broken_or_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{not json")
    folder = tmp_path / "folder.json"
    folder.mkdir()

    for path in (broken, folder):
        eras = EraCache(path)
        eras.put("x", "legacy")
        assert eras.get("x") == "legacy"
    assert EraCache(broken).get("x") == "legacy"


async def test_a_call_that_kills_its_server_is_not_repeated_and_the_next_one_finds_it_back(
    eras: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    server = raw("raw", "--log", str(log))
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        before = await call(bridge, "mcp__raw__pid")

        with pytest.raises(ToolUnreachable) as caught:
            await call(bridge, "mcp__raw__die")
        after = await call(bridge, "mcp__raw__pid")

    assert str(caught.value) == (
        "server 'raw' was lost during the call; it may have run, so it was not repeated: signal 9 ended it: out of luck"
    )
    assert before != after
    assert [line for line in log.read_text().splitlines() if "client" not in line] == ["pid", "die", "pid"]


async def test_a_call_that_may_be_made_twice_is_made_again_when_its_server_dies(eras: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = raw("raw", "--log", str(log))
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        assert await call(bridge, "mcp__raw__die_once") == "alive"

    assert [line for line in log.read_text().splitlines() if "client" not in line] == ["die_once", "die_once"]


async def test_a_server_killed_between_calls_is_back_for_any_call(eras: Path) -> None:
    server = raw()
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        pid = int(await call(bridge, "mcp__raw__pid"))

        os.kill(pid, 9)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        value = await call(bridge, "mcp__raw__variable", text="HOME")

    assert value == os.environ.get("HOME", "unset")


async def test_calls_of_a_server_that_stays_away_say_what_happened_to_it(eras: Path, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(Path(raw().args[2]).read_text())
    server = Server(name="raw", command=raw().command, args=[str(script)])
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        script.write_text("raise SystemExit('the disk is full')")

        with pytest.raises(ToolUnreachable):
            await call(bridge, "mcp__raw__die")
        with pytest.raises(ToolUnreachable) as caught:
            await call(bridge, "mcp__raw__pid")

        assert str(caught.value) == (
            "server 'raw' is not available; nothing ran: it exited with code 1: the disk is full"
        )
        assert bridge.status()[0].tools == 15


async def test_leaving_ends_every_process_also_one_that_does_not_want_to(eras: Path, monkeypatch) -> None:
    monkeypatch.setattr("toolfold.sources.mcp.transports._EXIT_SECONDS", 0.3)
    servers = [raw("one"), raw("two", "--stubborn")]
    async with Bridge(servers, eras=remember(eras, "legacy", *servers)) as bridge:
        await bridge.settled(timeout_seconds=60)
        pids = [int(await call(bridge, f"mcp__{name}__pid")) for name in ("one", "two")]

    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


async def test_a_hundred_calls_share_one_connection(eras: Path) -> None:
    server = raw()
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        values = await asyncio.gather(*(call(bridge, "mcp__raw__echo", text=str(n)) for n in range(100)))

    assert values == [str(n) for n in range(100)]


async def test_slow_calls_do_not_hold_up_others(eras: Path) -> None:
    server = raw()
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        slow = asyncio.create_task(tool(bridge, "mcp__raw__slow").call({"seconds": 3}))
        value = await call(bridge, "mcp__raw__echo", text="quick")

        assert (value, slow.done()) == ("quick", False)
        assert await slow == "done"


async def test_a_cancelled_call_is_cancelled_at_the_server_too(eras: Path) -> None:
    server = raw()
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await call(bridge, "mcp__raw__slow", seconds=5)

        assert await call(bridge, "mcp__raw__cancelled") == ["caller cancelled"]


async def test_what_a_server_says_no_to_is_its_own_answer_and_other_errors_are_failures(eras: Path) -> None:
    server = raw()
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        with pytest.raises(ToolFailed, match=r"^no such row$"):
            await call(bridge, "mcp__raw__fail", text="no such row")
        with pytest.raises(ToolError, match=r"^a teapot$") as caught:
            await call(bridge, "mcp__raw__refuse", text="a teapot")

    assert type(caught.value) is ToolError


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc": "2.0", "id": ID, "result": {"content": [',
        '{"jsonrpc": "2.0", "id": ID, "result": {"n": NaN}}',
        '{"jsonrpc": "2.0", "id": ID, "result": "no object"}',
        '{"result": {"content": [{"id": 1, "text": "}, "jsonrpc": "2.0", "id": ID}',
        '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "\\ud800"}]}}',
    ],
)
async def test_a_reply_that_cannot_be_read_ends_its_call_at_once(line: str, eras: Path) -> None:
    server = raw("raw", "--names", '["broken"]')
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        with pytest.raises(ToolError, match=r"^the server's reply could not be read, so it is unknown whether"):
            await call(bridge, "mcp__raw__broken", text=line)


async def test_what_a_server_prints_besides_its_replies_ends_no_call(eras: Path) -> None:
    server = raw("raw", "--names", '["broken"]')
    reply = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "fine"}]}}'
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        value = await call(bridge, "mcp__raw__broken", text=f'INFO request "id": ID\n{{"level": "info"}}\n{reply}')

    assert value == "fine"


async def test_a_schema_that_stands_for_too_much_is_cut_down_when_its_tool_is_listed(eras: Path) -> None:
    double = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"type": "object", "properties": {"text": {"$ref": "#/$defs/d0"}}, "$defs": {**double, "d40": {}}}
    server = raw("raw", "--names", '["echo"]', "--schema", json.dumps(schema))
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        spec = tool(bridge, "mcp__raw__echo").spec
        value = await call(bridge, "mcp__raw__echo", text="fine")

    names_only = {"type": "object", "properties": {"text": {}}, "required": []}
    assert (spec.input_schema, spec.output_schema, value) == (names_only, names_only, "fine")


@pytest.mark.parametrize("args", [("--pages", "4"), ("--pages", "1")])
async def test_all_pages_of_a_list_are_read(args: tuple[str, ...], eras: Path) -> None:
    server = raw("raw", *args)
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        assert bridge.status()[0].tools == 15


async def test_a_cursor_that_comes_again_ends_the_list(eras: Path) -> None:
    server = raw("raw", "--pages", "1", "--same-cursor")
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        assert [one.spec.name for one in bridge.tools() if one.spec.source == "mcp:raw"] == ["mcp__raw__echo"]


@pytest.mark.parametrize(("server", "era"), [(raw("s"), "legacy"), (sdk("s"), "legacy"), (sdk("s"), "modern")])
async def test_a_tool_that_comes_later_is_there_without_a_new_connection(server: Server, era, eras: Path) -> None:
    changes: list[int] = []
    async with Bridge([server], eras=remember(eras, era, server), on_change=lambda: changes.append(1)) as bridge:
        await bridge.settled(timeout_seconds=60)
        kept = tool(bridge, "mcp__s__slow")
        while len(changes) < 2:  # what changes before it listens is missed, and nothing outside tells when it does
            await call(bridge, "mcp__s__grow")
            await asyncio.sleep(0.1)

        assert any(one.spec.name.startswith("mcp__s__grown") for one in bridge.tools())
        assert tool(bridge, "mcp__s__slow") is kept


async def test_children_have_the_users_variables_and_those_of_the_config(eras: Path, monkeypatch) -> None:
    monkeypatch.setenv("FROM_THE_USER", "1")
    server = raw(env={"FROM_THE_CONFIG": "2"})
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        values = [await call(bridge, "mcp__raw__variable", text=f"FROM_THE_{one}") for one in ("USER", "CONFIG")]

    assert values == ["1", "2"]


async def test_a_result_that_breaks_its_schema_is_given_all_the_same_with_one_warning(eras: Path, caplog) -> None:
    server = raw()
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        values = [await call(bridge, "mcp__raw__mismatch") for _ in range(2)]

    assert values == [{"n": "not a number"}] * 2
    assert [record.getMessage() for record in caplog.records] == [
        'results of \'mcp__raw__mismatch\' do not match its output schema: "not a number" is not of type "integer"'
    ]


@pytest.mark.parametrize(("server", "era"), [(raw("s"), "legacy"), (sdk("s"), "legacy"), (sdk("s"), "modern")])
async def test_progress_is_passed_on_with_the_execution_it_belongs_to(server: Server, era, eras: Path) -> None:
    outer = FakeOuter()
    async with Bridge([server], outer=outer, eras=remember(eras, era, server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        counting = tool(bridge, "mcp__s__count")
        assert counting.call_within is not None

        value = await counting.call_within({"to": 2}, CallContext(execution_id="run 1"))
        await until(lambda: len(outer.reported) == 2)

    assert value == "counted"
    assert [one[:5] for one in outer.reported] == [
        ("s", "mcp__s__count", "run 1", 1.0, 2.0),
        ("s", "mcp__s__count", "run 1", 2.0, 2.0),
    ]


@pytest.mark.parametrize(("era", "name"), [("legacy", "mcp__s__greet"), ("modern", "mcp__s__greet")])
async def test_a_question_goes_out_and_its_answer_comes_back(era, name: str, eras: Path) -> None:
    outer = FakeOuter(can_elicit=True)
    async with Bridge([sdk("s")], outer=outer, eras=remember(eras, era, sdk("s"))) as bridge:
        await bridge.settled(timeout_seconds=60)
        asking = tool(bridge, name)
        assert asking.call_within is not None

        value = await asking.call_within({}, CallContext(execution_id="run 7"))

    assert value == "hello Ann"
    assert outer.asked == [("s", "run 7", "Who are you?")]


async def test_logs_and_folders_go_through_the_client_outside(eras: Path) -> None:
    outer = FakeOuter(has_roots=True)
    server = raw()
    async with Bridge([server], outer=outer, eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

        folders = await call(bridge, "mcp__raw__folders")
        await call(bridge, "mcp__raw__count", to=1)
        await until(lambda: outer.logged)

    assert folders == {"roots": [{"uri": "file:///project", "name": "project"}]}
    assert outer.logged == [("raw", "info", {"counted": 1})]


@pytest.mark.parametrize(
    ("outer", "declared"),
    [
        (None, []),
        (FakeOuter(), []),
        (FakeOuter(can_elicit=True), ["elicitation"]),
        (FakeOuter(can_elicit=True, has_roots=True), ["elicitation", "roots"]),
    ],
)
async def test_servers_are_told_only_what_the_client_outside_can_do(
    outer: FakeOuter | None, declared: list[str], eras: Path, tmp_path: Path
) -> None:
    import json

    log = tmp_path / "log"
    server = raw("raw", "--log", str(log))

    async with Bridge([server], outer=outer, eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)

    assert sorted(json.loads(log.read_text().removeprefix("client "))) == declared


async def test_resources_and_prompts_are_functions_for_all_servers_that_have_them(eras: Path) -> None:
    server = raw()
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        assert bridge.tools() == ()
        await bridge.settled(timeout_seconds=60)

        listed = await call(bridge, "list_resources", server="raw")
        text = await call(bridge, "read_resource", server="raw", uri="memo://one")
        messages = await call(bridge, "get_prompt", server="raw", name="greet", arguments={"who": "Ann"})
        with pytest.raises(ToolFailed) as caught:
            await call(bridge, "get_prompt", server="raw", name="great")

    assert listed == [{"uri": "memo://one", "name": "one", "description": "", "mime": "text/plain"}]
    assert (text, messages) == ("text of memo://one", [{"role": "user", "content": "Hello Ann"}])
    assert str(caught.value) == "no prompt great; the prompts of 'raw' are: greet"


def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^two servers are named 'raw'; rename one$"):
        Bridge([raw(), raw()])


def test_a_server_without_what_its_transport_needs_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^server 'x' has no url; transport 'http' needs one$"):
        Server(name="x", transport="http")


@pytest.mark.long
async def test_the_value_of_a_variable_in_a_command_is_not_told() -> None:
    hide(["/opt/very-secret-place"])
    async with Bridge([Server(name="gone", command="/opt/very-secret-place/run")]) as bridge:
        await bridge.settled(timeout_seconds=60)
        [status] = bridge.status()

    assert (status.state, status.detail) == ("failed", "no command '***/run'; check the path")


LOGS_THE_PROBE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if method == "server/discover":
        print("Failed to validate request: 2 validation errors for ClientRequest", file=sys.stderr)
        print("PingRequest.method: input_value='server/discover'", file=sys.stderr, flush=True)
        reply = {"error": {"code": -32602, "message": "Invalid request parameters"}}
    elif method == "initialize":
        info = {"name": "logs", "version": "1"}
        reply = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list":
        reply = {"result": {"tools": [{"name": "die", "inputSchema": {"type": "object"}}]}}
    elif method == "tools/call":
        print(*message["params"]["arguments"].get("words", []), file=sys.stderr)
        sys.exit(4)
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""


@pytest.mark.parametrize(("words", "said"), [(["out of", "disk"], ": out of disk"), ([], "")])
async def test_a_dead_server_is_quoted_with_what_it_said_of_its_end_and_not_of_our_probe(
    words: list[str], said: str, tmp_path: Path
) -> None:
    script = tmp_path / "logs.py"
    script.write_text(LOGS_THE_PROBE)
    server = Server(name="logs", command=sys.executable, args=(str(script),))
    async with Bridge([server], eras=tmp_path / "eras") as bridge:
        await bridge.settled(timeout_seconds=60)
        with pytest.raises(ToolUnreachable) as caught:
            await call(bridge, "mcp__logs__die", words=words)

    assert str(caught.value) == (
        f"server 'logs' was lost during the call; it may have run, so it was not repeated: it exited with code 4{said}"
    )
