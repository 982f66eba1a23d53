import asyncio

import nest_asyncio

nest_asyncio.apply()


async def quote(ticker):
    return (await price(ticker))["price"]


print(asyncio.run(quote("A")), asyncio.get_event_loop().run_until_complete(quote("B")), await quote("C"))

# expect stdout:
# | 10 20 30
# expect calls: 3
# limits: monty
