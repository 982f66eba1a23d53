"""One run of the real CLI, with a model that plays a script: what it was given, and what it showed the model."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.claude_code.model import LAST_ID, Model

ROOT = Path(__file__).parents[3]
TOOL = "mcp__toolfold__execute_program"
ENGINE = os.environ.get("ENGINES", "auto")
"""Of all cases whose config names none."""
CACHE = {name: value for name, value in os.environ.items() if name == "TOOLFOLD_WASM_CACHE"}
SEARCH = "mcp__toolfold__search_tools"
WAIT: dict[str, Any] = {"name": "mcp__toolfold__wait_program", "input": {"execution_id": LAST_ID}}
STOP: dict[str, Any] = {"name": "mcp__toolfold__wait_program", "input": {"execution_id": LAST_ID, "cancel": True}}
YES = {"hookSpecificOutput": {"hookEventName": "Elicitation", "action": "accept", "content": {"approve": True}}}
"""What a hook answers in a person's place."""
OPTIONS = ["--mcp-config", "mcp.json", "--strict-mcp-config", "--permission-mode", "bypassPermissions"]
WIRE = "wire.jsonl"
Turn = str | dict[str, Any] | list[Any]
"""A program, the arguments of one, another tool's use, or a list of those made at once."""


@dataclass(frozen=True)
class Case:
    """One run of the CLI: what the model plays, and what must be true of what it was shown."""

    name: str
    programs: list[Turn]
    expected: Callable[["Seen"], object]
    variables: tuple[tuple[str, str], ...] = ()
    config: Callable[[Path, Path], dict[str, Any]] = lambda work, packages: {"servers": []}
    """What `toolfold.yaml` says; given the work folder and that of the npm packages."""
    direct: Callable[[Path], dict[str, Any]] | None = None
    """The MCP servers of the CLI itself, given the work folder, in place of toolfold."""
    seconds: float = 90
    """For the whole of it."""
    on_turn: Callable[[int, set[int]], None] | None = None
    """Told of each turn, from 0, and of the processes below the CLI."""
    beside: Callable[[Path], AbstractContextManager[object]] = lambda work: nullcontext()
    """Entered while the CLI runs; given the work folder."""
    answers: bool = True
    """A hook says yes to forms in a person's place; without it the CLI answers `cancel` by itself."""
    delay_seconds: float = 0
    """Before `toolfold mcp` begins, as on a machine that is far too busy; what it writes is kept then."""
    before: tuple[Turn, ...] = ()
    """What the model plays in a run of the CLI before this one, in the same home folder."""
    closed_with: signal.Signals | None = None
    """How the run before ends, once its turns were played: as when its window is closed."""
    between: Callable[[Path], None] = lambda work: None
    """Called between the two runs; given the work folder."""


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
    requests: list[Any]
    """All of the conversation, as the model got them."""
    last_id: str
    """Of the program that has yielded last."""
    wire: str
    """What `toolfold mcp` wrote, where that is kept."""
    former: "Seen | None" = None
    """What the run before this one showed."""

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


def run(case: Case, packages: Path) -> Seen:
    """The last of a case's runs."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        config = case.config(work, packages)
        write_inputs(work, config, case.direct, has_hook=case.answers, delay_seconds=case.delay_seconds)
        last_id, first = "", None
        if case.before:
            first = _live(list(case.before), case, work, packages, closed_with=case.closed_with)
            assert first.left == set(), f"processes left behind by the run before: {first.left}"
            last_id = first.last_id
        case.between(work)
        seen = _live(case.programs, case, work, packages, last_id=last_id)
        seen.former = first
        return seen


def _live(
    turns: list[Turn], case: Case, work: Path, packages: Path, *, closed_with: signal.Signals | None = None,
    last_id: str = "",
) -> Seen:  # fmt: skip
    """One life of the CLI, closed with a signal after its last turn if there is one."""
    alive: list[set[int]] = []
    began: list[float] = []
    process: list[subprocess.Popen[str]] = []

    def sample(turn: int) -> None:
        began.append(time.monotonic())
        if turn:
            time.sleep(1)  # the client goes on as soon as it has sent its cancel, not once it was heard
        alive.append(_below(process[0].pid))
        if case.on_turn is not None:
            case.on_turn(turn, alive[-1])
        if turn == len(turns) and closed_with is not None:
            process[0].send_signal(closed_with)
            process[0].wait(timeout=60)

    mark = "mcp__" if case.direct is None else "Bash"
    model = Model([use_of(turn, work) for turn in turns], sample, mark, last_id)
    with model.serving() as address, case.beside(work):
        environment = {**environment_of(work, address), **dict(case.variables)}
        command = [program_of(packages, "claude"), "-p", "hello", *OPTIONS]
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
        until = time.monotonic() + case.seconds
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
    wire = (work / WIRE).read_text() if case.delay_seconds else ""
    return Seen(
        model.shown(), alive, spun, _left(set(ticks)), model.tools(), output, model.requests, model.last_id(), wire
    )


def use_of(turn: Turn, work: Path) -> Any:
    match turn:
        case list():
            return [use_of(one, work) for one in turn]
        case str():
            return {"name": TOOL, "input": {"code": turn.replace("WORK", str(work))}}
        case {"code": _}:
            return {"name": TOOL, "input": turn}
    return json.loads(json.dumps(turn).replace("WORK", str(work)))


def write_inputs(
    work: Path, config: dict[str, Any], direct: Callable[[Path], dict[str, Any]] | None = None, *, has_hook: bool,
    delay_seconds: float = 0,
) -> None:  # fmt: skip
    (work / "home" / ".claude").mkdir(parents=True)
    hook = {"type": "command", "command": f"echo {shlex.quote(json.dumps(YES))}"}
    settings = {"hooks": {"Elicitation": [{"hooks": [hook]}]}} if has_hook else {}
    (work / "home" / ".claude" / "settings.json").write_text(json.dumps(settings))
    (work / "ada.txt").write_text("wrote the first program")
    (work / "grace.txt").write_text("wrote the first compiler")
    (work / "toolfold.yaml").write_text(json.dumps({"ledger": {"where": "memory"}, "engine": ENGINE, **config}))
    command = [sys.executable, "-m", "toolfold", "mcp", "--config", str(work / "toolfold.yaml")]
    if delay_seconds:
        command = ["sh", "-c", f"sleep {delay_seconds}; {shlex.join(command)} | tee {shlex.quote(str(work / WIRE))}"]
    entry = {"command": command[0], "args": command[1:], "env": {"PYTHONPATH": str(ROOT / "src"), **CACHE}}
    servers = {"toolfold": entry} if direct is None else direct(work)
    (work / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def environment_of(work: Path, address: str) -> dict[str, str]:
    """Of a CLI that knows nothing but the work folder and the model at this address."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(work / "home"),
        "CLAUDE_CONFIG_DIR": str(work / "home" / ".claude"),
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "not-a-key",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }


def program_of(packages: Path, name: str) -> str:
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
