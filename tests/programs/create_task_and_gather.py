import asyncio

tasks = [asyncio.create_task(add(n, 1)) for n in range(5)]
print(await asyncio.gather(*tasks))

# expect stdout:
# | [1, 2, 3, 4, 5]
# expect calls: 5
