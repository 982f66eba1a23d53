"""`toolfold runs show --follow`: lanes of calls while a program runs, in another process, and its page at the end."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from tests.ledger.made_up import begun, outcome
from toolfold.interfaces.cli.app import run_command
from toolfold.interfaces.cli.console_links import page_of
from toolfold.interfaces.cli.execution_views import Waterfall
from toolfold.ledger.base import CallEntry, DecisionEntry, Entry, Moment, ReplyEntry, Story
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Call, CallRecord, Outcome, Reply


def made(call_id: int, at: float, tool: str = "price") -> CallEntry:
    return CallEntry(Call(id=call_id, tool=tool, arguments={}), at)


def given(call_id: int, at: float, seconds: float, error: str | None = None) -> ReplyEntry:
    record = CallRecord(id=call_id, name="price", arguments={}, started_seconds=at, seconds=seconds, error=error)
    return ReplyEntry(Reply(call_id=call_id, error=error), record)


def drawn(*entries: Entry, ended: Outcome | None = None) -> list[str]:
    fall = Waterfall(begun("a", began_at=0.0))
    fall.take(Story(state="ended" if ended else "running", epoch=0, place=1, entries=entries, outcome=ended))
    paper = io.StringIO()
    Console(file=paper, width=61, force_terminal=False, color_system=None).print(fall)
    return [line.rstrip() for line in paper.getvalue().splitlines()]


def test_lanes_are_the_real_concurrency_on_one_time_axis() -> None:
    entries = (
        made(1, 0.0), made(2, 0.0), given(1, 0.0, 1.0), given(2, 0.0, 2.0), made(3, 2.0), given(3, 2.0, 2.0, "no"),
    )  # fmt: skip

    lines = drawn(*entries, ended=outcome("a", status="finished", seconds=4.0))

    assert lines == ["a  finished, 3 calls done, 1 failed, 4.0 s", "━" * 15 + " " * 15 + "━" * 30, "━" * 30]


def test_what_is_open_waits_or_was_printed_is_told_and_nothing_moves_the_cursor() -> None:
    asked = Moment(kind="asked", at=1.0, call_id=2, facts={"tool": "pay", "arguments": {}, "line": 1})
    entries = (
        made(1, 0.0, "\x1b[2Jprice"), asked, Moment(kind="asked", at=1.0, call_id=3, facts={"tool": "mail"}),
        DecisionEntry(3, True), Moment(kind="printed", at=1.0, text="one\ntwo\x1b[31m\n", facts={"stream": "stdout"}),
    )  # fmt: skip

    lines = drawn(*entries)

    assert lines[4:] == ["waiting for approval: pay #2", "in flight: \\x1b[2Jprice #1, mail #3", "one", "two\\x1b[31m"]


def test_it_goes_on_until_the_program_of_another_process_has_ended_and_shows_it(tmp_path: Path, capsys) -> None:
    path = tmp_path / "ledger.sqlite"
    is_begun = threading.Event()

    async def program() -> None:
        ledger = SqliteLedger(path)
        ledger.begin(begun("abc"))
        ledger.note("abc", made(1, 0.0))
        await ledger.flush("abc")
        is_begun.set()
        await asyncio.sleep(0.3)
        ledger.note("abc", given(1, 0.0, 0.3))
        await ledger.finish("abc", outcome("abc", stdout="done\n"), wait=True)
        await ledger.close()

    thread = threading.Thread(target=lambda: asyncio.run(program()))
    thread.start()
    is_begun.wait()
    code = run_command(["runs", "show", "ab", "--follow", "--ledger", str(path)])
    thread.join()

    out = capsys.readouterr().out
    assert (code, "done" in out, "finished" in out) == (0, True, True)


async def test_the_page_of_a_console_that_runs_is_named_and_of_one_that_was_killed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ledger, other = SqliteLedger(tmp_path / "one.sqlite"), SqliteLedger(tmp_path / "other.sqlite")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "toolfold", "console", "--port", "0", "--ledger", str(tmp_path / "one.sqlite")]
    process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    running, of_other = page_of(ledger, "a/b"), page_of(other, "a")
    process.kill()
    await process.wait()
    killed = page_of(ledger, "a")
    await ledger.close()
    await other.close()

    port = line.partition("127.0.0.1:")[2].partition("/")[0]
    assert (running, of_other, killed) == (f"http://127.0.0.1:{port}/#/runs/a%2Fb", "", "")


def test_a_console_on_a_server_is_found_by_whoever_shares_its_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    command = [sys.executable, "-m", "toolfold", "serve", "--port", "0", "--console", "--ledger", "one.sqlite"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    ledger = SqliteLedger(tmp_path / "one.sqlite")
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "console at" in line)
        port = line.partition("127.0.0.1:")[2].partition("/")[0]
        while not (page := page_of(ledger, "a")):
            assert process.poll() is None
        assert page == f"http://127.0.0.1:{port}/console/#/runs/a"
    finally:
        process.kill()
        process.communicate()
        asyncio.run(ledger.close())
