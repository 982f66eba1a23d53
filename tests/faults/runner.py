"""`toolfold run`, stopped in the middle of its calls, and `toolfold runs rerun` until one of them comes to its end."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.faults.audit import records_of
from tests.faults.judge import UNKNOWN, Disturbance, Done, Operation, Recorded
from tests.faults.launcher import COMMAND, environment
from tests.faults.programs import Kind, script
from tests.faults.servers import TOOLS, done_in

_MOST_KILLS: Final = 3
_KINDS: Final[tuple[Kind, ...]] = ("effect", "effect", "effect", "gather", "random", "cancel", "effect", "effect")
"""No clock: a rerun is a new program with a clock of its own."""
FAULTS: Final = {
    "kill -9 of a run": signal.SIGKILL,
    "SIGTERM of a run": signal.SIGTERM,
    "SIGINT of a run": signal.SIGINT,
}


class Runner:
    """One program after the other, each in a ledger of its own."""

    def __init__(self, number: int, folder: Path, faults: frozenset[str] | None = None, *, bug: str = "") -> None:
        folder.mkdir()
        (folder / "tools.py").write_text(TOOLS, "utf-8")
        self._name = f"r{number}"
        self._folder = folder
        self._bug = bug
        self._chance = random.Random(number)
        self._signals = [name for name in FAULTS if faults is None or name in faults]
        self.operations: list[Operation] = []
        self.counts: Counter[str] = Counter()
        self.disturbances: list[Disturbance] = []

    @property
    def done(self) -> list[Done]:
        """What the tools did, in order."""
        return done_in(self._folder)

    def ledger_of(self, operation: Operation) -> str:
        return str(self._folder / f"{operation.name}.sqlite")

    async def close(self) -> None:
        """Nothing is left running."""

    async def records(self) -> list[Recorded]:
        """Of all ledgers."""
        return [record for one in self.operations for record in await records_of(self.ledger_of(one))]

    async def work(self, until: float) -> None:
        for count in itertools.count():
            if time.monotonic() > until:
                return
            await self.operate(f"{self._name}x{count}", most_kills=self._chance.randint(1, _MOST_KILLS))

    async def operate(self, name: str, *, most_kills: int) -> Operation:
        """Until it ends by itself; each is the rerun of the last that was stopped and left a record."""
        made = script(name, _KINDS, "unknown")
        operation = Operation(name, made.steps, "unknown", most_executions=most_kills + 2)
        self.operations.append(operation)
        program = self._folder / f"{name}.py"
        program.write_text(made.text, "utf-8")
        ledger = ["--ledger", self.ledger_of(operation)]
        began = time.monotonic()
        for kills in itertools.count():
            earlier = (await self._toolfold("runs", "--json", *ledger))[1] if kills else "[]"
            ids = [line["execution_id"] for line in json.loads(earlier or "[]")]
            what = ["runs", "rerun", ids[0]] if ids else ["run", str(program)]
            fault = self._chance.choice(self._signals) if kills < most_kills and self._signals else ""
            command = [*what, "--json", "--tools", str(self._folder / "tools.py"), *ledger]
            code, said = await self._toolfold(*command, fault=fault)
            if said and code in (0, 1):
                self._judge(operation, said)
                break
        operation.in_flight.append((began, time.monotonic()))
        return operation

    def _judge(self, operation: Operation, said: str) -> None:
        outcome: dict[str, Any] = json.loads(said)
        operation.execution_id = outcome["execution_id"]
        operation.stdout = outcome["stdout"]
        if outcome["status"] == "finished":
            operation.end = "completed"
        else:
            is_unknown = any(words in outcome["stderr"] for words in UNKNOWN)
            operation.end, operation.said = "unknown" if is_unknown else "lost", said

    async def _toolfold(self, *words: str, fault: str = "") -> tuple[int, str]:
        """Its exit code and its output; a fault comes soon after some of its effects."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env=environment(bug=self._bug, XDG_STATE_HOME=str(self._folder)),
        )  # fmt: skip
        output = asyncio.create_task(process.communicate())
        if fault:
            wanted = len(self.done) + self._chance.randint(0, len(_KINDS))
            while not output.done() and len(self.done) < wanted:
                await asyncio.sleep(0.001)
            await asyncio.sleep(self._chance.uniform(0, 0.003))
            if not output.done():  # it was faster
                with suppress(ProcessLookupError):
                    process.send_signal(FAULTS[fault])
                self.counts[fault] += 1
                self.disturbances.append(Disturbance("host", time.monotonic(), time.monotonic()))
        said = (await output)[0].decode()
        assert process.returncode is not None
        return process.returncode, said
