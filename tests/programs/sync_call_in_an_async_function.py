async def total():
    return tools.add(1, 2) + await add(3, 4)


print(await total())

# expect stdout:
# | 10
# expect calls: 2
