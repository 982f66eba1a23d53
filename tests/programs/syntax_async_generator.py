async def costs():
    for ticker in "AB":
        yield (await price(ticker))["price"]


print([cost async for cost in costs()])

# expect stdout:
# | [10, 20]
# expect calls: 2
# limits: monty
