"""A console over a runtime with a tool that asks, and one that fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interfaces.console.served import NASTY, Console, Till, served
from toolfold import Runtime, tool
from toolfold.ledger.remote_approval import LedgerApproval
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.runtime import RuntimeSettings
from toolfold.tools.policy import Policy


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "ledger.sqlite")
    yield opened
    await opened.close()


@pytest.fixture
def runtime(ledger: SqliteLedger, till: Till) -> Runtime:
    @tool
    async def pay(amount: int) -> str:
        """Pays somebody."""
        till.paid.append(amount)
        return f"paid {amount}"

    @tool
    async def price(name: str) -> int:
        """The price of a thing."""
        if name == "broken":
            raise ValueError(NASTY)
        return len(name)

    approve = LedgerApproval(ledger, wait_seconds=60)
    return Runtime(
        [pay, price],
        ledger=ledger,
        policy=Policy(ask=["pay"]),
        approve=approve,
        settings=RuntimeSettings(interface="library"),
    )


@pytest.fixture
async def console(runtime: Runtime, ledger: SqliteLedger) -> AsyncIterator[Console]:
    async with served(runtime, ledger) as opened:
        yield opened
