async def apply(function, items):
    return [await function(item) for item in items]


[row["price"] for row in await apply(price, "AB")]

# expect value: [10, 20]
# expect calls: 2
