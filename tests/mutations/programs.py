"""Nine programs as models write them, right as they stand, and the tools they call."""

from typing import Final

from pydantic import ConfigDict
from typing_extensions import TypedDict

import toolfold


class Expense(TypedDict):
    """One row of a report."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    user: str
    amount: int
    category: str


class Budget(TypedDict):
    """What a team may spend."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    team: str
    limit: int
    is_open: bool


@toolfold.tool(read_only=True)
async def list_users(team: str) -> list[str]:
    """Ids of the people in one team."""
    return [f"{team}-{number}" for number in range(3)]


@toolfold.tool(read_only=True)
async def get_expenses(user_id: str, quarter: int = 1) -> list[Expense]:
    """Expenses of one user in one quarter."""
    # Pydantic reads that key of the class; no value has it.
    return [
        {"user": user_id, "amount": 10 * quarter + number, "category": "travel" if number else "meals"}  # type: ignore[typeddict-item]
        for number in range(2)
    ]


@toolfold.tool(read_only=True)
async def get_budget(team: str) -> Budget:
    """The budget of one team."""
    return {"team": team, "limit": 60, "is_open": True}  # type: ignore[typeddict-item]  # as above


@toolfold.tool
async def send_report(to: str, text: str, urgent: bool = False) -> str:
    """Send a report."""
    return f"sent to {to}: {text}{'!' if urgent else ''}"


TOOLS: Final = (list_users, get_expenses, get_budget, send_report)

LOOP = """\
users = await list_users(team="sales")
total = 0
for user in users:
    rows = await get_expenses(user_id=user, quarter=2)
    for row in rows:
        total += row["amount"]
print(f"{len(users)} people spent {total}")
"""
GATHER = """\
users = await list_users(team="sales")
reports = await asyncio.gather(*[get_expenses(user_id=user) for user in users])
amounts = [row["amount"] for report in reports for row in report]
print(sum(amounts), max(amounts))
"""
HELPER = """\
def over(budget, spent, slack):
    limit = budget["limit"] + slack
    return spent > limit

budget = await get_budget(team="sales")
spent = 0
for user in await list_users(team="sales"):
    rows = await get_expenses(user_id=user, quarter=3)
    spent += sum(row["amount"] for row in rows)
is_over = over(budget, spent, 5)
print("over" if is_over else "within", spent)
"""
MAIN = """\
import asyncio

async def spent_by(user):
    rows = await get_expenses(user_id=user)
    return sum(row["amount"] for row in rows)

async def main():
    users = await list_users(team="ops")
    sums = await asyncio.gather(*[spent_by(user) for user in users])
    best = max(zip(sums, users))
    print(best[1], best[0])

await main()
"""
GROUPED = """\
from collections import defaultdict

totals = defaultdict(int)
users = await list_users(team="sales")
for user in users:
    rows = await get_expenses(user_id=user)
    for row in rows:
        totals[row["category"]] += row["amount"]
lines = [f"{name}: {totals[name]}" for name in sorted(totals)]
answer = await send_report(to="boss", text=", ".join(lines), urgent=True)
print(answer)
"""
CHECKED = """\
team = "sales"
budget = await get_budget(team=team)
if budget["is_open"] is True:
    users = await list_users(team=team)
    sent = []
    for user in users:
        note = await send_report(to=user, text="open", urgent=False)
        sent.append(note)
    print(len(sent), sent[0])
else:
    print(None)
"""
CLASS = """\
import json

class Report:
    def __init__(self, user, rows):
        self.user = user
        self.rows = rows

    def total(self):
        return sum(row["amount"] for row in self.rows)

made = []
for user in await list_users(team="hr"):
    rows = await get_expenses(user_id=user, quarter=1)
    report = Report(user, rows)
    made.append(report)
print(json.dumps({report.user: report.total() for report in made}))
"""
TASKS = """\
async def describe(user, quarter):
    rows = await get_expenses(user_id=user, quarter=quarter)
    best = max(row["amount"] for row in rows)
    return f"{user}={best}"

users = await list_users(team="it")
tasks = [asyncio.create_task(describe(user, 4)) for user in users]
texts = []
for task in tasks:
    text = await task
    texts.append(text)
print(" ".join(texts))
"""
AWAITED = """\
import math

users = await list_users(team="sales")
per_user = [sum([row["amount"] for row in await get_expenses(user_id=user)]) for user in users]
mean = sum(per_user) / len(per_user)
root = math.sqrt(mean)
limits = [await get_budget(team=user) for user in users]
share = sum([limit["limit"] for limit in limits])
print(round(mean, 1), round(root, 2), share)
"""

PROGRAMS: Final = {
    "loop": LOOP,
    "gather": GATHER,
    "helper": HELPER,
    "main": MAIN,
    "grouped": GROUPED,
    "checked": CHECKED,
    "class": CLASS,
    "tasks": TASKS,
    "awaited": AWAITED,
}
