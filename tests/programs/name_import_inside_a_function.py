async def cost():
    from tools.finance import price

    return (await price("B"))["price"]


await cost()

# expect value: 20
# expect calls: 1
