"""Tasks of our own: examples of this repository, one with large replies, and some that programs lose."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import toolfold
from bench.savings.task import GoldCall, Task, Turn, logged
from examples.demo.tools import get_budget, get_expenses, list_people
from toolfold.models import ToolSpec
from toolfold.sources.function_tools import as_tool
from toolfold.tools.tool import Tool

ROOT = Path(__file__).parents[2]
SERVERS = {
    "crm": "customer", "billing": "invoice", "orders": "order", "tickets": "ticket", "wiki": "page",
    "calendar": "event", "mail": "message", "hr": "employee", "stock": "article", "projects": "milestone",
}  # fmt: skip
CUSTOMERS = 50
REPLY_BYTES = 20_000


async def examples() -> list[Task]:
    """All of them; the calls of a program that is written by hand are found by running it."""
    large = _servers()
    ids = [f"C-{number:03}" for number in range(1, CUSTOMERS + 1)]
    said = f"Which three of the customers {', '.join(ids)} have the most open orders, and how much do they owe?"
    return [
        await _task(
            "expenses of 52 people", "Who of sales, engineering, support and research is over budget in quarter 3?",
            (ROOT / "examples/demo/program.py").read_text("utf-8"), [as_tool(one) for one in _DEMO],
        ),
        await _task(
            "revenues of 3 companies", "How did AMZN, MSFT and GOOG do in the last 4 quarters?", FINANCE,
            [as_tool(query_financials), as_tool(stock_quote)],
        ),
        await _task("50 replies of 20 KB, tools of 10 servers", said, LARGE, large),
        await _task(
            "the same, tools found by search", said, LARGE, large, finds="list the open orders of one customer"
        ),
        await _task("one small call", "What is ACME at?", 'print(await price(ticker="ACME"))', [as_tool(price)]),
        await _task("three small calls", "What are ACME, EMCA and MACE at?", THREE, [as_tool(price)]),
    ]  # fmt: skip


_DEMO = (list_people, get_expenses, get_budget)

FINANCE = """\
for t in ["AMZN", "MSFT", "GOOG"]:
    data = await query_financials(ticker=t, statement="income", period="quarter", limit=4)
    print(t, " → ".join(f"${q['revenue'] / 1e9:.1f}B" for q in data))
"""

LARGE = """\
ids = [f"C-{n:03}" for n in range(1, 51)]
orders = await asyncio.gather(*[orders__list_orders(customer_id=i, status="open") for i in ids])
top = sorted(zip(ids, orders), key=lambda pair: -len(pair[1]))[:3]
for i, rows in top:
    print(i, len(rows), round(sum(row["total"] for row in rows), 2))
"""

THREE = """\
for ticker in ["ACME", "EMCA", "MACE"]:
    print(ticker, await price(ticker=ticker))
"""


def price(ticker: str) -> float:
    """The last price of one share."""
    return {"ACME": 12.5, "EMCA": 99.25}.get(ticker, 7.0)


def query_financials(ticker: str, statement: str = "income", period: str = "quarter", limit: int = 4) -> list[dict]:
    """Statements of one company, newest first, each with its revenue in dollars."""
    row = {"ticker": ticker, "statement": statement, "currency": "USD"}
    return [{**row, "period": f"2024, {period} {4 - n}", "revenue": 65e9 - n * 3e9} for n in range(limit)]


def stock_quote(ticker: str) -> dict:
    """The latest price of one company's share."""
    return {"ticker": ticker, "price": price(ticker), "currency": "USD"}


# --- ten servers ----------------------------------------------------------------------------


def _servers() -> list[Tool]:
    return [_tool(server, noun, verb) for server, noun in SERVERS.items() for verb in _VERBS]


_VERBS: dict[str, tuple[str, dict[str, str]]] = {
    "list_{}s": ("All {}s of one customer, with every field.", {"customer_id": "C-000", "status": "open"}),
    "get_{}": ("One {} by its id, with every field.", {"id": "Its id, as in a list."}),
    "search_{}s": ("Find {}s by words in their text.", {"query": "Words.", "limit": "How many at most."}),
    "create_{}": ("Make a new {}.", {"title": "One line.", "body": "Markdown.", "owner": "An employee's id."}),
    "update_{}": ("Change fields of one {}.", {"id": "Its id.", "fields": "Names and new values, as JSON."}),
    "delete_{}": ("Delete one {} for good.", {"id": "Its id.", "reason": "For the audit log."}),
    "comment_on_{}": ("Add a comment to one {}.", {"id": "Its id.", "text": "Markdown; @name notifies."}),
    "assign_{}": ("Give one {} to somebody.", {"id": "Its id.", "employee_id": "The new owner."}),
    "export_{}s": ("A table of {}s as CSV.", {"since": "ISO date.", "until": "ISO date.", "columns": "By comma."}),
    "history_of_{}": ("Who changed one {}, when and how.", {"id": "Its id.", "limit": "How many changes."}),
}  # fmt: skip


def _tool(server: str, noun: str, verb: str) -> Tool:
    words, arguments = _VERBS[verb]
    name = f"{server}__{verb.format(noun)}"
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in arguments.items()},
        "required": [next(iter(arguments))],
    }
    spec = ToolSpec(
        name=name, python_name=name, domain=server, description=words.format(noun), input_schema=schema,
        source=f"mcp:{server}",
    )  # fmt: skip

    async def call(given: Any) -> Any:
        return _orders(given["customer_id"]) if name == "orders__list_orders" else {"done": True}

    return Tool(spec=spec, call=call)


def _orders(customer: str) -> list[dict[str, Any]]:
    """Rows until they are 20 KB of JSON; how long the notes are differs, so the number of rows does, too."""
    seed = int(customer.removeprefix("C-"))
    rows: list[dict[str, Any]] = []
    while len(json.dumps(rows)) < REPLY_BYTES:
        number = len(rows)
        rows.append(
            {
                "id": f"O-{seed:03}-{number:04}",
                "customer": customer,
                "status": "open",
                "total": round((seed * 7919 + number * 104_729) % 50_000 / 100, 2),
                "placed": f"2026-{1 + number % 12:02}-{1 + (seed + number) % 28:02}",
                "note": f"Call before delivery, ask for desk {seed * number % 97}. " * (1 + seed * 31 % 7),
            }
        )
    return rows


# --- from a program to a task ---------------------------------------------------------------


class Functions:
    """Tools that change nothing."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.log: list[tuple[str, dict[str, Any], Any]] = []
        self._tools = tools

    def tools(self) -> list[Tool]:
        return [logged(tool, self.log) for tool in self._tools]

    def state(self) -> Any:
        return None


async def _task(name: str, said: str, program: str, tools: Sequence[Tool], *, finds: str = "") -> Task:
    async with toolfold.Runtime(tools, engine="process") as runtime:
        outcome = await runtime.run(program)
    if outcome.status != "finished":
        raise RuntimeError(f"{name}: {outcome.problem}")
    calls = [GoldCall(call.name, call.arguments) for call in outcome.calls]
    world: Callable[[], Functions] = lambda: Functions(tools)  # noqa: E731
    turn = Turn(said=said, calls=calls, programs=[program])
    specs = [tool.spec for tool in tools]
    return Task(name=name, group="examples", turns=[turn], specs=specs, world=world, has_order=False, finds=finds)
