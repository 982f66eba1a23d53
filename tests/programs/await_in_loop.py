total = 0
for ticker in ["A", "B", "C"]:
    row = await price(ticker)
    total += row["price"]
print(total)

# expect stdout:
# | 60
# expect calls: 3
