import asyncio

users, price, total = await asyncio.gather(get_users(), get_price(ticker="B"), add(a=1, b=1))
[len(users), price["price"], total]

# topic: async
# expect value: [3, 20, 2]
