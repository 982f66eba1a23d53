import asyncio

task = asyncio.create_task(get_price(ticker="A"))
users = await get_users()
price = await task
[len(users), price["price"]]

# topic: async
# expect value: [3, 10]
