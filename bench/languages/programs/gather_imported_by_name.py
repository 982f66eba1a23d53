from asyncio import gather

one, two = await gather(add(a=1, b=1), add(a=2, b=2))
one + two

# topic: async
# expect value: 6
