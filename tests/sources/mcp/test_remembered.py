"""The tools that a server had last time: there before it is, and never more than a hint."""

import asyncio
import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.sources.mcp.support import HERE, call, raw, remember, tool, until
from toolfold.errors import ToolUnreachable
from toolfold.sources.mcp import Bridge, Server


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "toolfold" / "mcp-tools"


def gated(gate: Path) -> Server:
    command = [sys.executable, "-S", "-E", str(HERE / "gated_server.py"), str(gate)]
    return Server(name="slow", command=command[0], args=command[1:])


async def seen_once(server: Server, tmp_path: Path) -> None:
    async with Bridge([server], eras=remember(tmp_path / "eras", "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        assert bridge.status()[0].state == "ready"


async def test_tools_are_there_before_the_server_and_a_call_waits_for_it(tmp_path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    await seen_once(gated(gate), tmp_path)
    gate.unlink()

    changes: list[int] = []
    async with Bridge([gated(gate)], eras=tmp_path / "eras", on_change=lambda: changes.append(1)) as bridge:
        known = bridge.tools()
        before = bridge.status()[0]
        answer = asyncio.create_task(call(bridge, "mcp__slow__echo", text="hello"))
        gate.touch()
        said = await answer
        after = bridge.status()[0]
        confirmed = bridge.tools()

    assert (before.state, before.tools) == ("connecting", 15)
    assert said == "hello"
    assert (after.state, after.tools) == ("ready", 15)
    assert [one.spec for one in confirmed] == [one.spec for one in known]
    assert all(one is other for one, other in zip(confirmed[:15], known[:15], strict=True))
    assert len(changes) == 1


async def test_what_the_server_lists_now_replaces_what_it_listed_last_time(tmp_path, state) -> None:
    server = raw("raw", "--names", '["now"]')
    await seen_once(server, tmp_path)
    [file] = state.iterdir()
    file.write_text(file.read_text().replace('"now"', '"before"'))

    async with Bridge([server], eras=tmp_path / "eras") as bridge:
        before = bridge.tools()[0].spec.name
        await bridge.settled(timeout_seconds=60)
        after = bridge.tools()[0].spec.name

    assert (before, after) == ("mcp__raw__before", "mcp__raw__now")
    assert '"before"' not in file.read_text()


async def test_a_tool_of_last_time_whose_server_is_gone_says_so(tmp_path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    script = tmp_path / "server.py"
    script.write_text((HERE / "raw_server.py").read_text())
    server = Server(name="raw", command=sys.executable, args=["-S", str(script)])
    await seen_once(server, tmp_path)
    script.unlink()

    async with Bridge([server], eras=tmp_path / "eras") as bridge:
        with pytest.raises(ToolUnreachable, match="server 'raw' is not available; nothing ran"):
            await call(bridge, "mcp__raw__echo", text="hello")


async def test_another_definition_remembers_nothing_of_this_one(tmp_path) -> None:
    await seen_once(raw("raw"), tmp_path)

    others = [raw("other"), raw("raw", "--garbage"), raw("raw", env={"MODE": "b"}), raw("raw", cwd=str(tmp_path))]
    assert [Bridge([one], eras=tmp_path / "eras").tools() for one in others] == [()] * 4
    assert tool(Bridge([raw("raw")], eras=tmp_path / "eras"), "mcp__raw__echo").spec.short_name == "echo"


def as_text(file: Path, **changed: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))


def into_link(file: Path) -> None:
    file.rename(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved"))


def into_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda file: file.write_bytes(b"{"), "it is not in the form that this version writes"),
        (lambda file: file.write_bytes(b"\xff" * 100), "it is not in the form that this version writes"),
        (lambda file: file.write_bytes(b"[" * 100_000), "it is not in the form that this version writes"),
        (lambda file: as_text(file, version=0), "it is not in the form that this version writes"),
        (lambda file: as_text(file, tools=[{"name": 1}]), "it is not in the form that this version writes"),
        (lambda file: as_text(file, tools={"name": "x"}), "it is not in the form that this version writes"),
        (lambda file: as_text(file, at=time.time() - 40 * 86400), "it is older than 30 days"),
        (lambda file: as_text(file, at=time.time() + 86400), "it is from the future"),
        (lambda file: file.write_bytes(b" " * (8 * 1024 * 1024 + 1)), "it has more than 8388608 bytes"),
        (lambda file: file.chmod(0o666), "other users can write to it"),
        (into_link, "it is no plain file"),
        (into_pipe, "it is no plain file"),
    ],
)
async def test_a_file_that_is_not_ours_is_ignored_with_one_line(tmp_path, state, caplog, spoil, why) -> None:
    await seen_once(raw("raw"), tmp_path)
    [file] = state.iterdir()
    spoil(file)

    bridge = Bridge([raw("raw")], eras=tmp_path / "eras")

    assert bridge.tools() == ()
    assert caplog.messages == [f"the cached tools of server 'raw' are ignored: {why}"]


async def test_a_file_that_was_ignored_is_written_anew(tmp_path, state) -> None:
    await seen_once(raw("raw"), tmp_path)
    [file] = state.iterdir()
    file.write_bytes(b"{")
    await seen_once(raw("raw"), tmp_path)

    assert tool(Bridge([raw("raw")], eras=tmp_path / "eras"), "mcp__raw__echo").spec.short_name == "echo"


async def test_the_file_is_for_the_user_alone_and_holds_no_secret(tmp_path, state) -> None:
    await seen_once(raw("raw", env={"API_TOKEN": "hunter2-hunter2"}), tmp_path)

    [file] = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert "hunter2" not in file.read_text()
    assert "API_TOKEN" not in file.read_text()


@pytest.mark.parametrize("where", ["env", "argument", "part of an argument"])
async def test_tools_that_repeat_a_secret_of_the_config_are_not_remembered(tmp_path, state, where) -> None:
    names = ("--names", '["use_hunter2-hunter2"]')
    server = {
        "env": raw("raw", *names, env={"API_TOKEN": "hunter2-hunter2"}),
        "argument": raw("raw", *names, "--log", "hunter2-hunter2", cwd=str(tmp_path)),
        "part of an argument": raw("raw", *names, "--log=hunter2-hunter2", cwd=str(tmp_path)),
    }[where]
    await seen_once(server, tmp_path)

    assert not state.exists() or list(state.iterdir()) == []


async def test_a_state_folder_that_cannot_be_written_stops_nobody(tmp_path, state) -> None:
    state.parent.mkdir(parents=True)
    state.write_text("a file where the folder should be")

    await seen_once(raw("raw"), tmp_path)

    assert state.read_text() == "a file where the folder should be"


async def test_a_tool_that_a_server_adds_is_remembered_too(tmp_path) -> None:
    server = raw("raw")
    async with Bridge([server], eras=remember(tmp_path / "eras", "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        await call(bridge, "mcp__raw__grow")
        await until(lambda: any(one.spec.short_name == "grown_0" for one in bridge.tools()))
        names = [one.spec.name for one in bridge.tools()]

    assert [one.spec.name for one in Bridge([server], eras=tmp_path / "eras").tools()] == names
