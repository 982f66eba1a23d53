"""Watch a program live: `python -m examples.observer`."""

import asyncio

import toolfold
from examples.observer.observer import LivePrinter

PROGRAM = """\
prices = await asyncio.gather(*[price(ticker=one) for one in ("ACME", "INIT")])
print("total", sum(prices))
sum(prices)
"""


async def price(ticker: str) -> float:
    """The last price of one share."""
    return {"ACME": 12.5, "INIT": 7.5}[ticker]


async def main() -> None:
    """Runs it once."""
    async with toolfold.Runtime([price], listeners=[LivePrinter()]) as runtime:
        await runtime.run(PROGRAM)


if __name__ == "__main__":
    asyncio.run(main())
