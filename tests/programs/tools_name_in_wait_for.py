import asyncio

row = await asyncio.wait_for(tools.price("C"), timeout=5)
print(row["price"])

# expect stdout:
# | 30
# expect calls: 1
