async def apply(tool, **arguments):
    return await tool(**arguments)

[await apply(add, a=1, b=2), (await apply(get_price, ticker="B"))["price"]]

# topic: calls
# expect value: [3, 20]
