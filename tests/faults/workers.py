"""Users of commands and of the library under faults that must come at an exact moment: while a program stands at a gate.

Each takes one program after the other through one of its faults, with tools and a ledger of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from tests.faults.audit import records_of
from tests.faults.disk import Disk
from tests.faults.judge import KILLED, UNKNOWN, Cause, Disturbance, Done, End, Operation, Recorded
from tests.faults.launcher import COMMAND, WallClock, environment
from tests.faults.programs import Kind, Script, Seen, script
from tests.faults.servers import TOOLS, done_in

_PATIENCE_SECONDS: Final = 90.0
_FULL_SECONDS: Final = 3.0
_SIGNALS: Final = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}


class Worker:
    """Takes one program after the other through one of its faults."""

    faults: ClassVar[tuple[str, ...]] = ()
    """What it can do, by name."""
    letter: ClassVar[str] = ""

    def __init__(self, number: int, folder: Path, wanted: frozenset[str]) -> None:
        folder.mkdir()
        (folder / "tools.py").write_text(TOOLS, "utf-8")
        self._prefix = f"{self.letter}{number}"
        self._folder = folder
        self._wanted = [name for name in self.faults if name in wanted]
        self._chance = random.Random(number)
        self.clock = WallClock(folder / "clock")
        self._pids: set[int] = set()
        """Of processes that had a program at its gate."""
        self.operations: list[Operation] = []
        self.counts: Counter[str] = Counter()
        self.disturbances: list[Disturbance] = []

    @property
    def ledger(self) -> str:
        return str(self._folder / "ledger.sqlite")

    @property
    def done(self) -> list[Done]:
        """What the tools did, in order."""
        return done_in(self._folder)

    async def records(self) -> list[Recorded]:
        """What the ledger has."""
        return await records_of(self.ledger)

    async def work(self, until: float) -> None:
        """Each fault in its turn; the last program is finished after the time."""
        for count, fault in zip(itertools.count(), itertools.cycle(self._wanted), strict=False):
            if time.monotonic() > until:
                return
            await self.suffer(fault, f"{self._prefix}x{count}")

    async def suffer(self, fault: str, name: str) -> Operation:
        """One program that is disturbed, to its end."""
        raise NotImplementedError

    async def close(self) -> None:
        """End whatever a violation left running."""
        for pid in self._pids:
            with suppress(OSError):
                if str(self._folder).encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    def begin(self, name: str, *kinds: Kind, seen: Seen = "whole") -> tuple[Operation, Script]:
        """A program, and its account."""
        made = script(name, kinds, seen)
        operation = Operation(name, made.steps, seen)
        self.operations.append(operation)
        (self._folder / f"{name}.py").write_text(made.text, "utf-8")
        return operation, made

    def _next_kinds(self) -> tuple[Kind, ...]:
        return _STANDING[len(self.operations) % len(_STANDING)]

    def disturb(self, fault: str, cause: Cause, began: float) -> None:
        """It was done, from then until now."""
        self.counts[fault] += 1
        self.disturbances.append(Disturbance(cause, began, time.monotonic()))

    async def at_gate(self, operation: Operation) -> int:
        """The process whose tool waits for the gate, as soon as it does."""
        path = self._folder / f"at-{_gate(operation)}"
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not (path.exists() and path.read_text()):
                await asyncio.sleep(0.005)
        pid = int(path.read_text())
        path.unlink()
        self._pids.add(pid)
        return pid

    def open_gate(self, operation: Operation) -> None:
        (self._folder / f"open-{_gate(operation)}").touch()

    async def toolfold(self, *words: str, variables: dict[str, str] | None = None) -> tuple[int, str]:
        """The exit code and the output of a command."""
        process = await self.launch(*words, **(variables or {}))
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def launch(self, *words: str, **variables: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *COMMAND, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=self._folder,
            env=environment(self.clock.path, XDG_STATE_HOME=str(self._folder / "state"), **variables),
        )  # fmt: skip

    def judge(self, operation: Operation, said: str) -> None:
        """The outcome in JSON, as a command printed it."""
        try:
            outcome: dict[str, Any] = json.loads(said)
        except ValueError:
            operation.end, operation.said = "lost", f"no outcome: {said!r}"
            return
        operation.execution_id, operation.stdout = outcome["execution_id"], outcome["stdout"]
        operation.said = str(outcome.get("problem") or outcome["status"])
        operation.end = _end(outcome["status"], outcome["stderr"], operation.said)


class Detacher(Worker):
    """`toolfold run --detach`, and `toolfold runs wait` until the program has ended."""

    letter = "d"
    faults = (
        *(f"{name} of a detached program" for name in _SIGNALS),
        "full disk under a detached program",
        "clock jump under a detached program",
    )
    _disk: Disk | None = None

    @property
    def ledger(self) -> str:
        """On the disk that can be full, if there is one."""
        return str((self._folder if self._disk is None else self._disk.folder) / "ledger.sqlite")

    def use(self, disk: Disk) -> None:
        """Before the first program."""
        self._disk = disk

    async def suffer(self, fault: str, name: str) -> Operation:
        operation, _ = self.begin(name, "effect", "clock", "gate", "effect", "random", "gather", "effect")
        program = ["--tools", "tools.py", "--ledger", self.ledger, f"{name}.py"]
        began = time.monotonic()
        code, said = await self.toolfold("run", "--detach", *program)
        if code != 0:
            operation.end, operation.said = "lost", f"run --detach: exit {code}"
            return operation
        operation.execution_id = said.strip()
        try:
            await self._break(fault, operation)
            waiting = ("runs", "wait", operation.execution_id, "--json", "--timeout", "45", "--ledger", self.ledger)
            self.judge(operation, (await self.toolfold(*waiting))[1])
        except TimeoutError:
            operation.said = f"'runs wait' did not return after {fault}"
        operation.in_flight.append((began, time.monotonic()))
        return operation

    async def _break(self, fault: str, operation: Operation) -> None:
        pid, began = await self.at_gate(operation), time.monotonic()
        if "disk" in fault:
            if self._disk is None:
                self.open_gate(operation)
                return
            while not self._disk.fill():
                await asyncio.sleep(0)
            self.open_gate(operation)
            await asyncio.sleep(_FULL_SECONDS)
            self._disk.clear()
            self.disturb(fault, "host", began)
        elif "clock" in fault:
            self.clock.set(self._chance.choice([61.0, -61.0, 3600.0, -3600.0]))
            self.open_gate(operation)
            self.disturb(fault, "other", began)
        else:
            os.kill(pid, _SIGNALS[fault.partition(" of ")[0]])
            await _until_gone(pid)
            self.disturb(fault, "host", began)
            self.open_gate(operation)


_STANDING: Final[tuple[tuple[Kind, ...], ...]] = (
    ("gate", "effect", "random", "effect"),
    ("effect", "clock", "gate", "effect", "gather"),
)
"""Programs that are taken over at the gate: before their first effect, and behind it."""


class Canceller(Worker):
    """`toolfold run`, and `toolfold runs wait ID --cancel` from another process."""

    letter = "w"
    faults = ("takeover by 'runs wait --cancel'",)

    async def suffer(self, fault: str, name: str) -> Operation:
        kinds = self._next_kinds()
        operation, _ = self.begin(name, *kinds)
        where = ("--ledger", self.ledger)
        running = await self.launch("run", "--json", "--tools", "tools.py", *where, f"{name}.py")
        output, began = asyncio.ensure_future(running.communicate()), time.monotonic()
        await self.at_gate(operation)
        listed = json.loads((await self.toolfold("runs", "--json", *where))[1])
        operation.execution_id = listed[0]["execution_id"]
        code, said = await self.toolfold("runs", "wait", operation.execution_id, "--cancel", "--json", *where)
        self.disturb(fault, "host", began)
        self.open_gate(operation)
        await output
        operation.in_flight.append((began, time.monotonic()))
        # Whatever it has not begun by now, it never does.
        operation.reached = kinds.index("gate")
        operation.end, operation.said = ("cancelled", "") if code == 130 else ("lost", f"exit {code}, {said!r}")
        return operation


class Resumer(Worker):
    """A program of a living process that another process resumes: `Runtime.start`, and `Runtime.resume` elsewhere."""

    letter = "t"
    faults = ("takeover by resume",)

    async def suffer(self, fault: str, name: str) -> Operation:
        operation, _ = self.begin(name, *self._next_kinds())
        began = time.monotonic()
        first = await self._host("start", name)
        output = asyncio.ensure_future(first.communicate())
        await self.at_gate(operation)
        second = await self._host("resume", name)
        ending = asyncio.ensure_future(second.communicate())
        await self.at_gate(operation)
        self.disturb(fault, "host", began)
        self.open_gate(operation)
        await output
        self.judge(operation, (await ending)[0].decode())
        operation.in_flight.append((began, time.monotonic()))
        return operation

    async def _host(self, what: str, name: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            COMMAND[0], "-m", "tests.faults.host", what, self.ledger, str(self._folder / "tools.py"),
            str(self._folder / f"{name}.py"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=environment(self.clock.path),
        )  # fmt: skip


def _gate(operation: Operation) -> str:
    return next(step.name for step in operation.steps if step.kind == "gate")


async def _until_gone(pid: int) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                return
            if state == "Z":
                return
            await asyncio.sleep(0.005)


def _end(status: str, stderr: str, said: str) -> End:
    if status == "finished":
        return "completed"
    if any(words in stderr for words in UNKNOWN):
        return "unknown"
    return "killed" if any(words in said for words in KILLED) else "lost"
