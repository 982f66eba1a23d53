steps = {"sum": add, "price": get_price}
found = await steps["price"](ticker="C")
await steps["sum"](a=found["price"], b=1)

# topic: calls
# expect value: 31
