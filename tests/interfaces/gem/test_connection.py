"""The child's life: HTTP, and a parent or child that dies."""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.gem.conftest import NAME, Programs
from tests.ports import reserved_port
from toolfold.errors import UsageError
from toolfold.gem import create_programmatic_tool_calling_tool_http, create_programmatic_tool_calling_tool_stdio


def executor(name, args, call_id):
    return True, False, json.dumps(args), name, call_id


def is_open(number: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", number)) == 0


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    number = reserved_port()
    source = Path(__file__).parents[3] / "src"
    server = subprocess.Popen(
        [sys.executable, "-m", "toolfold.interfaces.callback", "--transport", "streamable-http", "--port", str(number)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    try:
        while not is_open(number):
            assert server.poll() is None, "it ended instead of listening"
            time.sleep(0.05)
        yield number
    finally:
        server.terminate()
        server.wait()


def test_a_child_over_http_calls_back(port: int, tmp_path: Path) -> None:
    tool = create_programmatic_tool_calling_tool_http(port=port, tool_executor=executor)
    try:
        answer = Programs(tool, tmp_path).run(
            "import asyncio\nresult = [tools.x(i=0), *await asyncio.gather(tools.x(i=1), tools.x(i=2))]", filename="web"
        )
    finally:
        tool.close()

    assert answer["return_value"] == [{"i": 0}, {"i": 1}, {"i": 2}]
    assert (tmp_path / answer["file_path"]).is_file()


def test_a_server_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        create_programmatic_tool_calling_tool_http(port=reserved_port())

    assert str(caught.value).startswith("the connection to the child failed: ")


def test_a_child_that_died_is_started_again_for_the_next_program(tmp_path: Path) -> None:
    tool = create_programmatic_tool_calling_tool_stdio(tmp_path)
    programs = Programs(tool, tmp_path)
    try:
        programs.run("1")
        (child,) = children(os.getpid(), "toolfold.interfaces.callback")

        def kill(name, args, call_id):
            os.kill(child, signal.SIGKILL)
            return True, False, "", name, call_id

        tool.set_tool_executor(kill)
        died = tool.execute_tool(NAME, {"code": "tools.kill()"}, "c")
        after = programs.run("result = tools.x(a=1)", executor)
    finally:
        tool.close()

    assert died[:2] == (True, True)
    assert died[2].startswith("the connection to the child failed: ")
    assert died[2].endswith("; tools may have been called")
    assert after["return_value"] == {"a": 1}


def test_closing_leaves_no_process(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    tool = create_programmatic_tool_calling_tool_stdio(tmp_path)
    Programs(tool, tmp_path).run("1")
    during = descendants(os.getpid()) - before

    tool.close()

    assert during
    assert gone(during)


def test_a_tool_that_is_dropped_ends_its_child_even_if_its_executor_holds_it(tmp_path: Path) -> None:
    before = descendants(os.getpid())

    class Environment:
        def __init__(self) -> None:
            self.tool = create_programmatic_tool_calling_tool_stdio(tmp_path, self.execute)

        def execute(self, name, args, call_id):
            return executor(name, args, call_id)

    environment = Environment()
    Programs(environment.tool, tmp_path).run("tools.x()")
    during = descendants(os.getpid()) - before

    del environment
    gc.collect()

    assert during
    assert gone(during)


PARENT = """
import sys, time
from toolfold.gem import create_programmatic_tool_calling_tool_stdio

def executor(name, args, call_id):
    print("called", flush=True)
    time.sleep(100)

tool = create_programmatic_tool_calling_tool_stdio(sys.argv[1], executor)
tool.execute_tool("programmatic_tool_calling", {"code": "tools.x()", "timeout": 100}, "c")
"""


def test_the_child_and_its_guests_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "src"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "called\n"
    family = descendants(parent.pid)

    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert len(family) >= 2
    assert gone(family)


def test_a_stuck_executor_does_not_keep_python_from_ending(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "src"

    for seconds in (
        0.3,
        5,
        50,
    ):  # the next where a busy machine had not begun with the program before its time was over
        done = subprocess.run(
            [sys.executable, "-c", PARENT.replace('"timeout": 100', f'"timeout": {seconds}'), str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.stdout:
            break

    assert (done.returncode, done.stdout, done.stderr) == (0, "called\n", "")


def test_importing_the_interface_needs_no_gem() -> None:
    source = Path(__file__).parents[3] / "src"
    text = "import sys, toolfold.gem; print('gem' in sys.modules, toolfold.gem.ProgrammaticToolCallingTool.name)"

    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"False {NAME}\n"


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Python has no handler of its own where whoever started the tests ignores SIGINT, as shells do for `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
def test_ctrl_c_ends_the_program_and_keeps_the_child(tmp_path: Path) -> None:
    release = threading.Event()

    def interrupting(name, args, call_id):
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(100)
        return executor(name, args, call_id)

    tool = create_programmatic_tool_calling_tool_stdio(tmp_path, interrupting)
    try:
        with pytest.raises(KeyboardInterrupt):
            tool.execute_tool(NAME, {"code": "tools.x()"}, "c")
        release.set()
        (child,) = children(os.getpid(), "toolfold.interfaces.callback")
        after = Programs(tool, tmp_path).run("result = tools.x(a=1)", executor)
        (same,) = children(os.getpid(), "toolfold.interfaces.callback")
    finally:
        tool.close()

    assert after["return_value"] == {"a": 1}
    assert child == same


def test_threads_of_finished_calls_do_not_pile_up(tmp_path: Path) -> None:
    tool = create_programmatic_tool_calling_tool_stdio(tmp_path, executor)
    try:
        Programs(tool, tmp_path).run("for i in range(50): tools.x(i=i)")
        # One that has given its answer may still be on its way out.
        while len([thread for thread in threading.enumerate() if thread.name.startswith("toolfold-x")]) > 1:
            time.sleep(0.01)
    finally:
        tool.close()


def stats() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                after = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if after[0] != "Z":
                parents[int(entry.name)] = int(after[1])
    return parents


def descendants(pid: int) -> set[int]:
    parents = stats()
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


def children(pid: int, words: str) -> list[int]:
    found = []
    for child in [child for child, parent in stats().items() if parent == pid]:
        with contextlib.suppress(OSError):  # gone since
            if words in Path(f"/proc/{child}/cmdline").read_text().replace("\0", " "):
                found.append(child)
    return found


def gone(pids: set[int]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not pids & stats().keys():
            return True
        time.sleep(0.05)
    return False
