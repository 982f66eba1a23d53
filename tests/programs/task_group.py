import asyncio

async with asyncio.TaskGroup() as group:
    tasks = [group.create_task(price(ticker)) for ticker in "ABC"]
print([task.result()["price"] for task in tasks])

# expect stdout:
# | [10, 20, 30]
# expect calls: 3
# limits: monty
