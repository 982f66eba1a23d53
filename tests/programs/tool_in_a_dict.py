lookups = {"sum": add, "price": price}
print(await lookups["sum"](1, 2))

# expect stdout:
# | 3
# expect calls: 1
