from collections.abc import AsyncIterator

import pytest

import toolfold


@toolfold.tool
async def get_expenses(user_id: str, quarter: int = 1) -> list[dict[str, object]]:
    """Expenses of one user in one quarter."""
    return [{"user": user_id, "amount": 10 * quarter}]


@toolfold.tool(allowed_callers="direct")
async def pay(order: int) -> dict[str, int]:
    """Pay one order."""
    return {"paid": order}


@toolfold.tool(allowed_callers="code")
async def count(text: str) -> int:
    """Letters of a text."""
    return len(text)


@pytest.fixture
def idle() -> toolfold.Runtime:
    """The same, not entered: for what needs no program."""
    return toolfold.Runtime(tools=[get_expenses, pay, count])


@pytest.fixture
async def runtime() -> AsyncIterator[toolfold.Runtime]:
    async with toolfold.Runtime(tools=[get_expenses, pay, count], engine_options={"warm": 1}) as runtime:
        yield runtime
