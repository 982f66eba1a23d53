"""Programs over a catalog of tools: `python examples/programmatic_execution`.

The catalog says what there is, workers do it, and a program as a language model writes it calls
them. Only what it prints goes back to the model; the calls are tracked beside it.
"""

import asyncio
from typing import Any

from toolfold.orchestrator import ProgrammaticToolExecutor, ToolCatalog, ToolDefinition, ToolParameter, tool_map

PROGRAM = """
from tools.hr import get_users
from tools.finance import get_expenses
import asyncio

users = await get_users(dept="engineering")
expenses = await asyncio.gather(*[get_expenses(u["id"]) for u in users])

total = sum(e["amount"] for user_exp in expenses for e in user_exp)
print(f"Total expenses: ${total}")

spent = {u["name"]: sum(e["amount"] for e in rows) for u, rows in zip(users, expenses)}
print("Over 300:", sorted(name for name, amount in spent.items() if amount > 300))
"""

FAILING_PROGRAM = """
from tools.finance import get_expenses

try:
    await get_expenses(user_id="nobody")
except Exception as e:
    print(f"Failed: {e}")
"""


async def get_users(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The worker of the tool of that name: one payload in, any value out."""
    await asyncio.sleep(0.01)
    return [{"id": f"{payload['dept']}-{number}", "name": f"Person {number}"} for number in range(1, 21)]


def get_expenses(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """A worker need not be async: then it runs in a thread."""
    _, _, number = payload["user_id"].rpartition("-")
    if not number.isdigit():
        raise ValueError(f"no user {payload['user_id']!r}")
    return [{"amount": int(number) * 10}, {"amount": int(number) * 7}]


def make_catalog() -> ToolCatalog:
    """What programs may call."""
    catalog = ToolCatalog(source="demo", version="1.0")
    catalog.add_tool(
        ToolDefinition(
            name="get_users",
            type="mcp",
            domain="hr",
            description="People of one department.",
            parameters=[ToolParameter(name="dept", type="string", required=True)],
        )
    )
    catalog.add_tool(
        ToolDefinition(
            name="get_expenses",
            type="mcp",
            domain="finance",
            description="Expenses of one person.",
            parameters=[ToolParameter(name="user_id", type="string", required=True)],
        )
    )
    return catalog


async def main() -> None:
    """Run both programs and show what became of them."""
    tool_map["get_users"] = get_users
    tool_map["get_expenses"] = get_expenses

    async with ProgrammaticToolExecutor(make_catalog()) as executor:
        for program in (PROGRAM, FAILING_PROGRAM):
            result = await executor.execute(program)
            print(result["output"], end="")
            failed = [call["tool"] for call in result["tool_calls"] if call["error"]]
            print(f"-- {len(result['tool_calls'])} tool calls, {len(failed)} failed, error: {result['error']}")


if __name__ == "__main__":
    asyncio.run(main())
