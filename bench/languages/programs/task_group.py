import asyncio

async with asyncio.TaskGroup() as group:
    tasks = [group.create_task(get_price(ticker=ticker)) for ticker in "ABC"]
[task.result()["price"] for task in tasks]

# topic: async
# expect value: [10, 20, 30]
