import asyncio

total = 0
for done in asyncio.as_completed([tools.price(ticker) for ticker in "AB"]):
    total += (await done)["price"]
print(total)

# expect stdout:
# | 30
# expect calls: 2
# limits: monty
