"""Kill -9 in the middle of a saved program with approvals: it goes on in another process, and nothing happens twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Outcome, Paused
from toolfold.programs.proof import ProgramLibrary
from toolfold.runtime import Runtime, RuntimeSettings
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

SHOP = '''
import asyncio, os, signal, sys
from pathlib import Path

MADE = Path(__file__).with_name("made.txt")


def made(what: str) -> None:
    with MADE.open("a") as file:
        file.write(what + "\\n")


async def look(item: str) -> int:
    """Price of an item."""
    made(f"look {item}")
    return len(item)


async def pay(item: str) -> str:
    """Pay for an item."""
    made(f"pay {item}")
    if os.environ.get("DIES_AT") == item:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {item}"
'''
RUN = """
import asyncio, sys
import shop
from toolfold import programs
from toolfold.execution.request import RuntimeSettings
from toolfold.runtime import Runtime
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision


async def main() -> None:
    settings = RuntimeSettings(
        programs=programs.ProgramLibrary("programs"), ledger="ledger.db", policy=Policy(ask=["pay"])
    )
    async with Runtime([shop.look, shop.pay], settings=settings) as runtime:
        step = await runtime.start("[await buy(item='tea'), await buy(item='milk')]", execution_id="e" * 16, durable=True)
        while True:
            decisions = {call.id: Decision(approved=True) for call in step.approvals}
            step = await runtime.resume(step.execution_id, decisions=decisions)


asyncio.run(main())
"""
SAVE = """
import asyncio
import shop
from toolfold import programs
from toolfold.execution.request import RuntimeSettings
from toolfold.runtime import Runtime


async def main() -> None:
    settings = RuntimeSettings(programs=programs.ProgramLibrary("programs"), ledger="ledger.db")
    async with Runtime([shop.look, shop.pay], settings=settings) as runtime:
        outcome = await runtime.run("price = await look(item='x')\\n[price, await pay(item='x')]")
        await programs.save(runtime, outcome.execution_id, "buy", parameters={"item": "x"})


asyncio.run(main())
shop.MADE.unlink()
"""


@pytest.mark.long
async def test_a_saved_program_that_was_killed_goes_on_and_nothing_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    for text, environment, code in ((SAVE, {}, 0), (RUN, {"DIES_AT": "milk"}, -signal.SIGKILL)):
        (tmp_path / "script.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            check=False,
        )
        assert done.returncode == code, done.stderr.decode()
    monkeypatch.syspath_prepend(str(tmp_path))
    import shop  # type: ignore[import-not-found]  # it is written above

    ledger = SqliteLedger(tmp_path / "ledger.db")
    settings = RuntimeSettings(
        programs=ProgramLibrary(tmp_path / "programs"), ledger=ledger, policy=Policy(ask=["pay"])
    )
    async with Runtime([shop.look, shop.pay], settings=settings) as runtime:
        step = await runtime.resume("e" * 16)
        if isinstance(step, Paused):
            step = await runtime.resume(
                "e" * 16, decisions={call.id: Decision(approved=True) for call in step.approvals}
            )
    await ledger.close()

    assert isinstance(step, Outcome)
    assert (tmp_path / "made.txt").read_text().split("\n")[:-1] == ["look tea", "pay tea", "look milk", "pay milk"]
    # Whether the payment that it died in came through is not known: the program is told so, and it is not made again.
    assert step.problem is not None
    assert step.problem.message == (
        "ToolError: 'buy' failed: 'pay' was called before the host stopped; whether it ran is not known (at its line 2)"
    )
    assert [(call.name, call.within) for call in step.calls] == [
        ("buy", 0), ("look", 1), ("pay", 1), ("buy", 0), ("look", 4), ("pay", 4),
    ]  # fmt: skip
