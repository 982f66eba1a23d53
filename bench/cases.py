"""What is measured: programs that every runner is given as they stand, and what they must answer.

Three kinds: how long one run takes, how many programs end per second, and how much memory a
program holds while it waits for a reply. A new case is one more entry in `CASES`.
"""

from dataclasses import dataclass
from typing import Any, Literal

from bench.tools import REGIONS

Unit = Literal["ms", "µs", "/s", "MB"]

ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the table."""

    name: str
    title: str
    text: str
    unit: Unit = "ms"
    expects: Any = None
    """The program's value; a runner that answers something else has not run it."""
    per: int = 1
    """Calls in the program: the figure is the time of one."""
    rounds: int = 15
    """In each pass."""
    language: Literal["python", "bash"] = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCase(Case):
    """Programs that end per second, with several on their way at a time."""

    in_flight: int = 4
    seconds: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCase(Case):
    """PSS of a program that waits for the reply to a call of `ask`, on average over `count` of them."""

    count: int = 100


def _totals() -> dict[str, float]:
    totals = dict.fromkeys(REGIONS, 0.0)
    for index in range(ROWS):
        amount = index * 7919 % 100_000 / 100
        if amount > 500:
            totals[REGIONS[index % 4]] += amount
    return {region: round(total, 2) for region, total in totals.items()}


CASES: tuple[Case, ...] = (
    Case(
        name="empty",
        title="an empty program",
        # Not the empty text: a check may skip that.
        text="pass",
        rounds=25,
    ),
    Case(
        name="sequential",
        title="100 sequential calls, each",
        text="total = 0\nfor i in range(100):\n    total += await echo(value=i)\ntotal",
        expects=4950,
        unit="µs",
        per=100,
    ),
    Case(
        name="gather-slow",
        title="gather of 100 × 50 ms",
        text="import asyncio\nsum(await asyncio.gather(*[slow(value=i) for i in range(100)]))",
        expects=4950,
        rounds=5,
    ),
    Case(
        name="gather",
        title="1,000 gathered calls, each",
        text="import asyncio\nsum(await asyncio.gather(*[echo(value=i) for i in range(1000)]))",
        expects=499_500,
        unit="µs",
        per=1000,
    ),
    Case(
        name="rows",
        title="a reply of 50,000 rows, filtered and summed",
        text=(
            f"rows = await get_rows(count={ROWS})\n"
            "totals = {}\n"
            "for row in [row for row in rows if row['amount'] > 500]:\n"
            "    totals[row['region']] = totals.get(row['region'], 0) + row['amount']\n"
            "{region: round(total, 2) for region, total in sorted(totals.items())}"
        ),
        expects=_totals(),
        rounds=7,
    ),
    Case(
        name="pandas",
        title="a pandas groupby of 100,000 rows",
        text=(
            "import numpy as np\nimport pandas as pd\n"
            "numbers = np.arange(100_000)\n"
            "frame = pd.DataFrame({'region': numbers % 12, 'amount': numbers * 7919 % 1000 / 10})\n"
            "totals = frame.groupby('region')['amount'].agg(['sum', 'mean', 'count'])\n"
            "int(totals['count'].sum())"
        ),
        expects=100_000,
    ),
    Case(
        name="pandas-small",
        title="a small program with pandas",
        text=(
            "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2, 1], 'b': [1.0, 2.0, 3.0]})\n"
            "frame.groupby('a')['b'].sum().tolist()"
        ),
        expects=[4.0, 2.0],
    ),
    Case(name="bash-empty", title="an empty bash program", text=":", language="bash"),
    Case(
        name="bash-call",
        title="a bash program with one call",
        text="""test "$(get_rows '{"count": 1}' | wc -l)" = 1""",
        language="bash",
    ),
    Case(
        name="bash-parallel",
        title="a bash program with 20 calls in jobs",
        text="""for i in {1..20}; do get_rows '{"count": 1}' > $i & done; wait; test "$(cat {1..20} | wc -l)" = 20""",
        language="bash",
        rounds=7,
    ),
    RateCase(
        name="rate",
        title="programs per second, 4 at a time",
        text="pass",
        unit="/s",
        rounds=1,
    ),
    MemoryCase(
        name="paused",
        title="memory of a paused program",
        text="await ask(question='go on?')",
        unit="MB",
        rounds=1,
    ),
    MemoryCase(
        name="paused-data",
        title="memory of a paused program with pandas",
        text="import pandas\nawait ask(question='go on?')",
        unit="MB",
        rounds=1,
    ),
)
