"""`toolfold run`, killed in the middle of its calls, and `toolfold runs rerun` until one of them comes to its end."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.faults.judge import UNKNOWN, Operation

_MOST_KILLS: Final = 3
_EFFECTS: Final = 20
_PROGRAM: Final = """
import asyncio
for number in range(1, {effects} + 1):
    print(await effect(name=f"{name}-{{number}}"))
    await asyncio.sleep(0.002)
"""


class Runner:
    """One program after the other, each in a ledger of its own."""

    def __init__(self, number: int, folder: Path, tools: str) -> None:
        folder.mkdir()
        (folder / "tools.py").write_text(tools, "utf-8")
        self._name = f"r{number}"
        self._folder = folder
        self._done = folder / "done.txt"
        self._chance = random.Random(number)
        self.operations: list[Operation] = []
        self.faults: Counter[str] = Counter()

    @property
    def done(self) -> list[str]:
        """What the tools did, in order."""
        return self._done.read_text("utf-8").split() if self._done.exists() else []

    async def work(self, until: float) -> None:
        for count in itertools.count():
            if time.monotonic() > until:
                return
            one = Operation(f"{self._name}x{count}", effects=_EFFECTS)
            self.operations.append(one)
            program = self._folder / f"{one.name}.py"
            program.write_text(_PROGRAM.format(name=one.name, effects=_EFFECTS), "utf-8")
            await self._run(one, program)

    async def _run(self, one: Operation, program: Path) -> None:
        """Until it ends by itself; each is the rerun of the last that was killed and left a record."""
        ledger = ["--ledger", str(self._folder / f"{one.name}.sqlite")]
        for kills in itertools.count():
            earlier = await self._toolfold("runs", "--json", *ledger) if kills else "[]"
            ids = [line["execution_id"] for line in json.loads(earlier or "[]")]
            what = ["runs", "rerun", ids[0]] if ids else ["run", str(program)]
            is_killed = kills < self._chance.randint(1, _MOST_KILLS)
            command = [*what, "--json", "--tools", str(self._folder / "tools.py"), *ledger]
            said = await self._toolfold(*command, is_killed=is_killed)
            if said is not None:
                self._judge(one, said)
                return
            self.faults["kill -9 of a rerun" if ids else "kill -9 of a run"] += 1

    def _judge(self, one: Operation, said: str) -> None:
        outcome: dict[str, Any] = json.loads(said)
        if outcome["status"] == "finished":
            one.end, one.stdout = "completed", outcome["stdout"]
        else:
            is_unknown = any(words in outcome["stderr"] for words in UNKNOWN)
            one.end, one.said = "unknown" if is_unknown else "lost", said

    async def _toolfold(self, *words: str, is_killed: bool = False) -> str | None:
        """Its output; `None` where it was killed, soon after some of its effects."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "toolfold", *words, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, env={**os.environ, "XDG_STATE_HOME": str(self._folder)},
        )  # fmt: skip
        output = asyncio.create_task(process.communicate())
        if is_killed:
            wanted = len(self.done) + self._chance.randint(0, _EFFECTS)
            while not output.done() and len(self.done) < wanted:
                await asyncio.sleep(0.001)
            await asyncio.sleep(self._chance.uniform(0, 0.003))
            with suppress(ProcessLookupError):  # it was faster
                process.kill()
        said = (await output)[0].decode()
        return said if process.returncode is not None and process.returncode >= 0 else None
