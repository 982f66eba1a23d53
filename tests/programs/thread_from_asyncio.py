import asyncio


def cost(ticker):
    return tools.price(ticker)["price"]


print(await asyncio.gather(asyncio.to_thread(cost, "A"), asyncio.to_thread(cost, "B")))

# expect stdout:
# | [10, 20]
# expect calls: 2
# limits: monty
