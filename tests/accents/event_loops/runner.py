import asyncio


async def one(ticker):
    return (await price(ticker))["price"]


with asyncio.Runner() as runner:
    print([runner.run(one(ticker)) for ticker in "AB"])

# expect stdout:
# | [10, 20]
# expect calls: 2
# limits: monty
