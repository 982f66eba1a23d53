lookup = price
row = await lookup("B")
row["price"]

# expect value: 20
# expect calls: 1
