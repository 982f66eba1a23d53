"""What differs on macOS and Windows, in an interpreter that takes this system for one of them."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolfold
from tests.test_durability import ASK, answers
from toolfold import file_locks
from toolfold.errors import ToolError
from toolfold.interfaces.cli.outcome_output import save_files
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.sources.file_tools import file_tools
from toolfold.sources.shell_commands import shell_tool

PLATFORM = os.environ["TOOLFOLD_TEST_PLATFORM"]


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolfold", *arguments], capture_output=True, text=True, env={**os.environ, **variables},
        check=False,
    )  # fmt: skip


def test_the_outcome_says_which_engine_ran_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = command("run", "-c", "print(6 * 7)", "--json", TOOLFOLD_TEST_NOTES="1")

    outcome = json.loads(done.stdout)
    reason = f"cannot isolate here: the process engine needs Linux, this is {PLATFORM!r}"
    assert (outcome["stdout"], outcome["engine"]) == ("42\n", "wasm")
    assert outcome["hints"][0] == f"ran on the wasm engine because {reason}"


def test_a_program_with_the_line_ends_of_windows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_bytes(b"for n in range(2):\r\n    print(n)\r\nprint('''a\r\nb''')\r\n")

    done = subprocess.run([sys.executable, "-m", "toolfold", "run", "program.py"], capture_output=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"0\n1\na\nb\n", b"")


def test_a_lock_keeps_others_out_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = file_locks.open_locked(path, create=True)
    assert first is not None

    assert (file_locks.open_locked(path, create=False), file_locks.has_lost_owner(path)) == (None, False)
    os.close(first)
    assert file_locks.has_lost_owner(path)


async def test_files_of_a_folder_are_read_and_written_and_no_link_leads_out(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (folder / "link").symlink_to(outside)
    (folder / "file_link").symlink_to(outside / "secret.txt")
    tools = {tool.spec.short_name: tool.call for tool in file_tools("docs", folder, write=True)}

    written = await tools["write_file"]({"path": "a/b.txt", "content": "x\n"})
    text = await tools["read_file"]({"path": "a/b.txt"})
    listing = await tools["list_files"]({})

    assert (written, text, listing) == ({"path": "a/b.txt", "size": 2}, "x\n", [{"path": "a/b.txt", "size": 2}])
    assert (folder / "a/b.txt").read_bytes() == b"x\n"
    for path in ("link/secret.txt", "file_link", "../outside/secret.txt", "/etc/passwd"):
        with pytest.raises(ToolError):
            await tools["read_file"]({"path": path})


async def test_a_command_ends_with_what_it_was_given_and_is_killed_at_its_timeout() -> None:
    tool = shell_tool("echo", [sys.executable, "-c", "print(input())"], stdin="{text}")
    slow = shell_tool("slow", [sys.executable, "-c", "import time; time.sleep(100)"])

    assert await tool.call({"text": "hello"}) == "hello"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await slow.call({})


async def test_a_paused_program_goes_on_from_its_record_in_another_runtime(tmp_path: Path) -> None:
    calls: list[int] = []

    @toolfold.tool
    async def pay(amount: int) -> int:
        """Pay somebody."""
        calls.append(amount)
        return amount

    ledger = open_ledger(str(tmp_path / "ledger.db"))
    async with toolfold.Runtime(tools=[pay], ledger=ledger) as first:
        step = await first.start("print(await pay(amount=5), await ask(q='go on?'))", tools=[ASK])
    assert isinstance(step, toolfold.Paused)
    async with toolfold.Runtime(tools=[pay], ledger=ledger) as second:
        end = await second.resume(step.execution_id, answers(step))
    await ledger.close()

    assert isinstance(end, toolfold.Outcome)
    assert (end.status, end.stdout, calls) == ("finished", "5 re: go on?\n", [5])


if PLATFORM == "win32":

    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            (
                ["run", "-c", "1", "--detach", "--ledger", "l.db"],
                "toolfold: --detach is not available on Windows; leave it out\n",
            ),
            (
                ["mcp", "--http", "0"],
                "toolfold: toolfold does not listen on Windows; use stdio, or run it in WSL or a container\n",
            ),
        ],
    )
    def test_what_windows_does_not_have_is_told_in_one_line(
        arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("toolfold.yaml").write_text("ledger: {where: memory}\n")

        done = command(*arguments)

        assert (done.returncode, done.stdout, done.stderr) == (2, "", line)

    @pytest.mark.parametrize(
        "name", ["C:evil.txt", "a\\..\\..\\evil.txt", "con", "nul.txt", "dot.", "space ", "x:stream"]
    )
    async def test_names_that_windows_takes_for_something_else_are_refused(name: str, tmp_path: Path) -> None:
        tools = {tool.spec.short_name: tool.call for tool in file_tools("docs", tmp_path, write=True)}

        complaints = save_files([toolfold.File(name=name, data=b"")], tmp_path)

        assert complaints == [f"file {name!r} was not written: Windows does not allow this name"]
        with pytest.raises((ToolError, OSError)):
            await tools["write_file"]({"path": name, "content": ""})
        assert list(tmp_path.iterdir()) == []
