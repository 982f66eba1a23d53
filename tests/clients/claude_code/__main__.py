"""Runs the cases and prints a table: `python -m tests.clients.claude_code FOLDER`, with the npm packages in FOLDER.

Each case is one run of the real CLI with `toolfold mcp`, mostly over two real servers, `server-filesystem` and
`server-memory`. The model only plays a script, so no key and no network is needed. Exit 1: a case failed.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.claude_code.model import Model
from toolfold.doors.mcp.questions import CLIENT_ROUNDS, NO_MORE_QUESTIONS

ROOT = Path(__file__).parents[3]
TOOL = "mcp__toolfold__execute_program"
SEARCH = "mcp__toolfold__search_tools"
KEPT_CHARACTERS = 4_096
"""Claude Code cuts a description there."""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TWO_SERVERS = """\
import asyncio
names = ["ada.txt", "grace.txt"]
notes = await asyncio.gather(*(mcp__files__read_text_file(path=f"WORK/{name}") for name in names))
people = [{"name": name[:-4], "entityType": "person", "observations": [note["content"]]}
          for name, note in zip(names, notes)]
await mcp__memory__create_entities(entities=people)
found = await mcp__memory__search_nodes(query="compiler")
print([one["name"] for one in found["entities"]])
"""


ELEVEN = """\
for n in range(11):
    try:
        print(await mcp__memory__read_graph() is not None, end=" ")
    except ToolError as error:
        print(error)
"""
YES = {"hookSpecificOutput": {"hookEventName": "Elicitation", "action": "accept", "content": {"approve": True}}}
"""What a hook answers in a person's place."""
Turn = str | dict[str, Any] | list[Any]
"""A program, the arguments of one, another tool's use, or a list of those made at once."""


def two_real_servers(work: Path, packages: Path) -> dict[str, Any]:
    memory = {"command": _bin(packages, "mcp-server-memory"), "env": {"MEMORY_FILE_PATH": str(work / "memory.jsonl")}}
    return {"servers": [*filesystem_alone(work, packages)["servers"], {"name": "memory", **memory}]}


def filesystem_alone(work: Path, packages: Path) -> dict[str, Any]:
    return {"servers": [{"name": "files", "command": _bin(packages, "mcp-server-filesystem"), "args": [str(work)]}]}


def memory_that_asks(work: Path, packages: Path) -> dict[str, Any]:
    # Alone: server-filesystem asks for the client's folders, which takes one of the rounds.
    return {"servers": two_real_servers(work, packages)["servers"][1:], "tools": {"ask": ["mcp__memory__*"]}}


def late_server(work: Path, packages: Path) -> dict[str, Any]:
    script = ROOT / "tests" / "sources" / "mcp" / "raw_server.py"
    return {"servers": [{"name": "late", "command": sys.executable, "args": [str(script), "--start-seconds", "5"]}]}


@dataclass(frozen=True)
class Case:
    """One run of the CLI: what the model plays, and what must be true of what it was shown."""

    name: str
    programs: list[Turn]
    expected: Callable[["Seen"], object]
    variables: tuple[tuple[str, str], ...] = ()
    config: Callable[[Path, Path], dict[str, Any]] = two_real_servers
    before: tuple[Turn, ...] = ()
    """What the model plays in a run of the CLI before this one, in the same home folder."""


@dataclass
class Seen:
    """What one run showed."""

    shown: list[tuple[bool, Any]]
    alive: list[set[int]]
    """Processes below the CLI before each turn, one second after the one before it ended."""
    spun: set[int]
    """Those that were busy once the first program was under way."""
    left: set[int]
    """Processes below the CLI that outlived it."""
    tools: dict[str, str]
    """Descriptions by name, as the model was shown them."""
    output: str

    @property
    def description(self) -> str:
        return self.tools.get(TOOL, "")

    @property
    def texts(self) -> list[tuple[bool, Any]]:
        return [(failed, text(content)) for failed, content in self.shown]


def text(content: Any) -> Any:
    """A tool result's content where it is one text."""
    if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text":
        return content[0]["text"]
    return content


def two_servers(seen: Seen) -> object:
    said = "[Script executed successfully]\n['grace']\n"
    assert [(failed, text(content)) for failed, content in seen.shown] == [(False, said)], seen.shown
    assert "- files: " in seen.description, seen.description
    return said.splitlines()[1]


def traceback(seen: Seen) -> object:
    said = (
        "[Script execution failed]\nTraceback (most recent call last):\n"
        '  File "<program>", line 2, in __main__\n    print(rows["b"])\nKeyError: \'b\''
    )
    assert [(failed, text(content)) for failed, content in seen.shown] == [(True, said)], seen.shown
    return "traceback shown as an error"


def rejected(seen: Seen) -> object:
    [(failed, content)] = seen.shown
    assert failed, content
    assert text(content).startswith("[Script execution failed]\nline 1: no tool 'mcp__files__read_txt_file'"), content
    assert text(content).endswith("no tool was called. Correct it and send it again."), content
    return "problem shown, nothing called"


def image(seen: Seen) -> object:
    [(failed, content)] = seen.shown
    assert not failed
    assert content[0] == {"type": "text", "text": "[Script executed successfully]\ndrawn\n"}, content
    pictures = [block for block in content if block["type"] == "image"]
    assert [(one["source"]["media_type"], one["source"]["type"]) for one in pictures] == [("image/png", "base64")]
    return f"{len(pictures)} image block"


def killed(seen: Seen) -> object:
    assert seen.shown[0][0], seen.shown
    assert seen.shown[1] == (False, [{"type": "text", "text": "[Script executed successfully]\nafter\n"}]), seen.shown
    assert seen.spun, "no process ran the endless program"
    assert not seen.spun & seen.alive[1], f"still there after the client's timeout: {seen.spun & seen.alive[1]}"
    return str(text(seen.shown[0][1]))[:60]


def late(seen: Seen) -> object:
    assert SEARCH in seen.tools, sorted(seen.tools)
    assert "- late: connecting" in seen.description, seen.description
    (found_failed, found), called = seen.texts
    assert not found_failed, found
    assert "async def mcp__late__echo(" in found, found
    assert called == (False, "[Script executed successfully]\nmcp__late__echo\nat last\n"), called
    return "found by search, then called"


def late_again(seen: Seen) -> object:
    assert SEARCH in seen.tools, sorted(seen.tools)
    assert "- late: 15 tools when last connected; connecting now" in seen.description, seen.description
    assert "async def mcp__late__echo(" in seen.description, seen.description
    assert seen.texts == [(False, "[Script executed successfully]\nat once\n")], seen.texts
    return "signatures in the first request"


def filesystem(seen: Seen) -> object:
    assert SEARCH in seen.tools, sorted(seen.tools)
    assert len(seen.description) <= KEPT_CHARACTERS, len(seen.description)
    assert seen.description.endswith('`print(await search_tools("what you need"))`.'), seen.description[-200:]
    written = seen.description.count("async def mcp__files__")
    named = len(set(re.findall(r"mcp__files__\w+", seen.description)))
    [(failed, found)] = seen.texts
    assert (failed, named) == (False, 14), (failed, named, found)
    assert "async def mcp__files__edit_file(" in found, found
    return f"{written} signatures and {named - written} names in {len(seen.description)} characters"


def eleven_questions(seen: Seen) -> object:
    refused = f"'mcp__memory__read_graph' was denied: {NO_MORE_QUESTIONS}"
    said = f"[Script executed successfully]\n{'True ' * CLIENT_ROUNDS}{refused}\n"
    assert seen.texts == [(False, said), (False, "[Script executed successfully]\nnext\n")], seen.texts
    return "10 answered, the 11th refused, the session free"


def two_programs(seen: Seen) -> object:
    said = [(False, f"[Script executed successfully]\n{word}\n") for word in ("41", "42", "43")]
    assert seen.texts == said, seen.texts
    return "one session, in turn and at once"


CASES = [
    Case("a program over two servers", [TWO_SERVERS], two_servers),
    Case("a failing program", ['rows = {"a": 1}\nprint(rows["b"])'], traceback),
    Case("a rejected program", ["await mcp__files__read_txt_file(path='x')"], rejected),
    Case(
        "an image",
        [f"import base64\nopen('dot.png', 'wb').write(base64.b64decode('{DOT}'))\nprint('drawn')"],
        image,
    ),
    Case(
        "killed by the client's timeout",
        ["while True: pass", "print('after')"],
        killed,
        (("MCP_TOOL_TIMEOUT", "3000"),),
    ),
    Case(
        "a server that takes 5 s to start",
        [
            {"name": SEARCH, "input": {"query": "echo"}},
            "[found, *_] = await search_tools('echo')\nprint(found['name'])\n"
            "print(await mcp__late__echo(text='at last'))",
        ],
        late,
        config=late_server,
    ),
    Case(
        "the same server, the next time",
        ["print(await mcp__late__echo(text='at once'))"],
        late_again,
        config=late_server,
        before=("print(await mcp__late__echo(text='before'))",),
    ),
    Case(
        "server-filesystem alone",
        [{"name": SEARCH, "input": {"query": "edit a file"}}],
        filesystem,
        config=filesystem_alone,
        # On a busy machine it may take longer to start than the first list waits for it.
        before=("print(await mcp__files__list_allowed_directories())",),
    ),
    Case(
        "eleven questions in a row",
        [{"code": ELEVEN, "session": "work"}, {"code": "print('next')", "session": "work"}],
        eleven_questions,
        config=memory_that_asks,
    ),
    Case(
        "two programs in one session",
        [
            {"code": "x = 41\nprint(x)", "session": "work"},
            [{"code": "x += 1\nprint(x)", "session": "work"}, {"code": "x += 1\nprint(x)", "session": "work"}],
        ],
        two_programs,
    ),
]


def main() -> int:
    """Run every case, or those that have the words after the folder in their names; exit 1 if one failed."""
    packages = Path(sys.argv[1]).resolve()
    cases = [case for case in CASES if all(word in case.name for word in sys.argv[2:])]
    version = subprocess.run([_bin(packages, "claude"), "--version"], capture_output=True, text=True, check=True)
    print(f"Claude Code {version.stdout.split()[0]}, server-filesystem, server-memory")
    failures = 0
    for case in cases:
        began = time.perf_counter()
        try:
            seen = run(case, packages)
            said = case.expected(seen)
            assert seen.left == set(), f"processes left behind: {seen.left}"
        except AssertionError as error:
            failures += 1
            said = f"FAILED {error}"
        print(f"  {case.name:<34}{time.perf_counter() - began:5.1f} s  {said}", flush=True)
    print(f"{len(cases) - failures} of {len(cases)} as they should be")
    return 1 if failures else 0


def run(case: Case, packages: Path) -> Seen:
    """The last of a case's runs."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _write_inputs(work, case.config(work, packages))
        if case.before:
            _live(list(case.before), case, work, packages)
        return _live(case.programs, case, work, packages)


def _live(turns: list[Turn], case: Case, work: Path, packages: Path) -> Seen:
    """One life of the CLI."""
    alive: list[set[int]] = []
    began: list[float] = []
    process: list[subprocess.Popen[str]] = []

    def sample(turn: int) -> None:
        began.append(time.monotonic())
        if turn:
            time.sleep(1)  # the client goes on as soon as it has sent its cancel, not once it was heard
        alive.append(_below(process[0].pid))

    model = Model([_use(turn, work) for turn in turns], sample)
    with model.serving() as address:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(work / "home"),
            "CLAUDE_CONFIG_DIR": str(work / "home" / ".claude"),
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "not-a-key",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
            **dict(case.variables),
        }
        command = [_bin(packages, "claude"), "-p", "hello", "--mcp-config", "mcp.json", "--strict-mcp-config",
                   "--permission-mode", "bypassPermissions"]  # fmt: skip
        process.append(
            subprocess.Popen(
                command,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        ticks: dict[int, int] = {}
        early: dict[int, int] = {}
        until = time.monotonic() + 90
        while process[0].poll() is None and time.monotonic() < until:
            ticks |= {pid: _ticks(pid) or ticks.get(pid, 0) for pid in _below(process[0].pid)}
            # What is used up to here is the servers' start.
            if not began or time.monotonic() - began[0] < 1.5:
                early = dict(ticks)
            time.sleep(0.1)
        if process[0].poll() is None:
            process[0].kill()
        output = process[0].communicate()[0]
    spun = {pid for pid, used in ticks.items() if used - early.get(pid, 0) > 20}
    return Seen(model.shown(), alive, spun, _left(set(ticks)), model.tools(), output)


def _use(turn: Turn, work: Path) -> Any:
    match turn:
        case list():
            return [_use(one, work) for one in turn]
        case str():
            return {"name": TOOL, "input": {"code": turn.replace("WORK", str(work))}}
        case {"code": _}:
            return {"name": TOOL, "input": turn}
    return turn


def _write_inputs(work: Path, config: dict[str, Any]) -> None:
    (work / "home" / ".claude").mkdir(parents=True)
    hook = {"type": "command", "command": f"echo {shlex.quote(json.dumps(YES))}"}
    settings = {"hooks": {"Elicitation": [{"hooks": [hook]}]}}
    (work / "home" / ".claude" / "settings.json").write_text(json.dumps(settings))
    (work / "ada.txt").write_text("wrote the first program")
    (work / "grace.txt").write_text("wrote the first compiler")
    (work / "toolfold.yaml").write_text(json.dumps({**config, "ledger": {"where": "memory"}}))
    arguments = ["-m", "toolfold", "mcp", "--config", str(work / "toolfold.yaml")]
    entry = {"command": sys.executable, "args": arguments, "env": {"PYTHONPATH": str(ROOT / "src")}}
    (work / "mcp.json").write_text(json.dumps({"mcpServers": {"toolfold": entry}}))


def _bin(packages: Path, name: str) -> str:
    return str(packages / "node_modules" / ".bin" / name)


def _below(pid: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in {pid, *found}} - found:
        found |= more
    return found


def _ticks(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _stat(pid: int) -> list[str]:
    """The fields after the name; none once it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] in "ZX" else fields


def _left(pids: set[int]) -> set[int]:
    until = time.monotonic() + 10
    while (left := {pid for pid in pids if _stat(pid)}) and time.monotonic() < until:
        time.sleep(0.1)
    return left


if __name__ == "__main__":
    sys.exit(main())
