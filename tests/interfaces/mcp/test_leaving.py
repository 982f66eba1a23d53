"""An orderly exit: programs that have yielded go on in the next process, and all others are ended."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.interfaces.mcp.conftest import descendants, left_of, run, texts
from tests.interfaces.mcp.test_http import served
from tests.interfaces.mcp.test_stdio import COMMAND, environment
from tests.interfaces.mcp.test_yielding import CONFIG, DONE, RUNNING, TOOLS

pytestmark = pytest.mark.long

WAYS = ("SIGTERM", "SIGINT", "closed stdin")
CODE = "await write(row=1)\nprint('one')\nprint(await gate())\nawait write(row=2)\nprint('two')"
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
META = "io.modelcontextprotocol/"
CLIENT = {"name": "t", "version": "1"}
Json = Any
STOPPED = "[Script execution failed]\nCancelled: the program was stopped"


class Window:
    """A client's window: one `toolfold mcp` process, spoken to in lines of JSON and ended in any way.

    Args:
        is_modern: Requests carry what the newer era needs; else there is a handshake first.
        capabilities: Of the client.
    """

    def __init__(self, folder: Path, *, is_modern: bool = False, capabilities: Json = None) -> None:
        self._process = subprocess.Popen(
            COMMAND, cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ids = count(1)
        self._is_modern = is_modern
        self._capabilities = capabilities or {}
        self.asked: list[Json] = []
        """Requests of the server."""
        if not is_modern:
            told = {"protocolVersion": "2025-11-25", "capabilities": self._capabilities, "clientInfo": CLIENT}
            self.request("initialize", **told)
            self.send({"method": "notifications/initialized"})

    def send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def begin(self, method: str, **params: Json) -> int:
        """A request that nobody waits for yet."""
        id_ = next(self._ids)
        if self._is_modern:
            told = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT, "clientCapabilities": self._capabilities}
            params["_meta"] = {f"{META}{key}": value for key, value in told.items()}
        self.send({"id": id_, "method": method, "params": params})
        return id_

    def request(self, method: str, **params: Json) -> Json:
        """The result of a request."""
        id_ = self.begin(method, **params)
        return self.read(lambda message: message.get("id") == id_ and "method" not in message)["result"]

    def read(self, is_wanted: Any) -> Json:
        """The next message of a kind; what the server asks meanwhile is kept."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "method" in message and "id" in message:
                self.asked.append(message)
            if is_wanted(message):
                return message
        raise AssertionError("the server has ended")

    def call(self, name: str, **arguments: Json) -> Json:
        """The result of a tool."""
        return self.request("tools/call", name=name, arguments=arguments)

    def texts(self, name: str, **arguments: Json) -> list[str]:
        """The texts in the result of a tool."""
        return [part["text"] for part in self.call(name, **arguments)["content"]]

    def waited(self, execution_id: str) -> list[str]:
        """The texts of a program's end, after as many waits as it takes."""
        while (texts := self.texts("wait_program", execution_id=execution_id))[0].startswith("[Script still running]"):
            pass
        return texts

    def leave(self, way: str) -> int:
        """End it as a client or a machine does; the exit code, once no process is left."""
        below = descendants(self._process.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if way == "closed stdin":
            self._process.stdin.close()
        else:
            self._process.send_signal(signal.Signals[way])
        code = self._process.wait(60)
        assert left_of(below) == set()
        self._process.stdin.close()
        self._process.stdout.close()
        return code

    @property
    def has_ended(self) -> bool:
        """Whether its process is gone."""
        return self._process.poll() is not None


@contextmanager
def window(folder: Path, **options: Any) -> Iterator[Window]:
    """A window that is closed in the end, if the test has not done so."""
    opened = Window(folder, **options)
    try:
        yield opened
    finally:
        if not opened.has_ended:
            opened.leave("closed stdin")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toolfold.yaml").write_text(CONFIG)
    (tmp_path / "tools_here.py").write_text(TOOLS)
    return tmp_path


def id_of(texts: list[str]) -> str:
    found = re.search(r"execution_id '([0-9a-f]{32})'", texts[1])
    assert found is not None
    return found[1]


def held(folder: Path) -> list[str]:
    """Programs that a process may go on with."""
    return [path.name for path in (folder / "ledger.sqlite.running").iterdir()]


@pytest.mark.parametrize("way", WAYS)
def test_the_next_process_goes_on_with_a_program_that_has_yielded(folder: Path, way: str) -> None:
    with window(folder) as first:
        yielded = first.texts("execute_program", code=CODE)
        code = first.leave(way)
    left = held(folder)
    (folder / "open").touch()
    with window(folder) as second:
        last = second.waited(id_of(yielded))

    assert (yielded[0], code, left) == (f"{RUNNING}one\n", 0, [id_of(yielded)])
    assert last == [f"{DONE}one\nopen\ntwo\n"]
    assert ((folder / "rows").read_text(), held(folder)) == ("1\n2\n", [])


@pytest.mark.parametrize("way", ["SIGTERM", "closed stdin"])
def test_a_wait_that_the_exit_interrupts_leaves_the_program_alone(folder: Path, way: str) -> None:
    with window(folder) as first:
        yielded = first.texts("execute_program", code=CODE)
        first.begin("tools/call", name="wait_program", arguments={"execution_id": id_of(yielded)})
        first.request("tools/list")  # by its answer the server has heard of the wait
        first.leave(way)
    with window(folder) as second:
        again = second.texts("wait_program", execution_id=id_of(yielded))
        second.leave("SIGTERM")
    (folder / "open").touch()
    with window(folder) as third:
        last = third.waited(id_of(yielded))

    assert again[0] == f"{RUNNING}one\n"
    assert last == [f"{DONE}one\nopen\ntwo\n"]
    assert (folder / "rows").read_text() == "1\n2\n"


def test_a_program_that_waits_for_a_yes_asks_again_in_the_next_process(folder: Path) -> None:
    (folder / "toolfold.yaml").write_text(CONFIG.replace("tools:", "tools:\n  ask: [write]"))
    (folder / "open").touch()
    code = "print(await gate())\nawait write(row=1)\nprint('written')"
    form = {"elicitation": {"form": {}}}

    def asks(at: Window, **arguments: Any) -> dict[str, Any]:
        at.begin("tools/call", **arguments)
        return at.read(lambda message: message.get("method") == "elicitation/create")

    with window(folder, capabilities=form) as first:
        yielded = first.texts("execute_program", code=code)
        asks(first, name="wait_program", arguments={"execution_id": id_of(yielded)})
        first.leave("SIGTERM")
    with window(folder, capabilities=form) as second:
        question = asks(second, name="wait_program", arguments={"execution_id": id_of(yielded)})
        second.send({"id": question["id"], "result": {"action": "accept", "content": {"approve": True}}})
        answer = second.read(lambda message: "result" in message)
        last = [part["text"] for part in answer["result"]["content"]]

    assert question["params"]["message"] == 'A program wants to call write with {"row": 1}'
    assert last == [f"{DONE}open\nwritten\n"]
    assert (folder / "rows").read_text() == "1\n"


def test_a_task_is_continued_too(folder: Path) -> None:
    with window(folder, is_modern=True, capabilities=TASKS) as first:
        task = first.call("execute_program", code=CODE)
        first.leave("SIGTERM")
    (folder / "open").touch()
    with window(folder, is_modern=True, capabilities=TASKS) as second:
        while (state := second.request("tasks/get", taskId=task["taskId"]))["status"] == "working":
            pass

    assert task["status"] == "working"
    assert state["result"]["content"] == [{"type": "text", "text": f"{DONE}one\nopen\ntwo\n"}]
    assert (folder / "rows").read_text() == "1\n2\n"


def test_a_call_that_the_exit_interrupts_is_not_made_twice(folder: Path) -> None:
    (folder / "tools_here.py").write_text(TOOLS.replace("@tool(read_only=True)", "@tool"))
    code = (
        "await write(row=1)\ntry:\n    await gate()\nexcept ToolError as error:\n    print(error)\nawait write(row=2)"
    )
    with window(folder) as first:
        yielded = first.texts("execute_program", code=code)
        first.leave("SIGTERM")
    with window(folder) as second:
        last = second.waited(id_of(yielded))

    assert last == [f"{DONE}'gate' was called before the host stopped; whether it ran is not known\n"]
    assert (folder / "rows").read_text() == "1\n2\n"


async def test_a_server_of_many_clients_leaves_their_programs_to_the_next(folder: Path) -> None:
    with served(folder, config=CONFIG) as address:
        async with Client(address) as client:
            yielded = texts(await run(client, CODE))
    (folder / "open").touch()
    with served(folder, config=CONFIG) as address:
        async with Client(address) as client:
            last = await client.call_tool("wait_program", {"execution_id": id_of(yielded), "yield_after_seconds": 60})

    assert texts(last) == [f"{DONE}one\nopen\ntwo\n"]
    assert (folder / "rows").read_text() == "1\n2\n"


def test_a_program_of_a_session_ends_with_its_server(folder: Path) -> None:
    with window(folder) as first:
        execution_id = id_of(first.texts("execute_program", code=CODE, session="work"))
        first.leave("SIGTERM")
    (folder / "open").touch()
    with window(folder) as second:
        last = second.waited(execution_id)

    assert last == [STOPPED, "Output before the failure:\none\n"]
    assert ((folder / "rows").read_text(), held(folder)) == ("1\n", [])
